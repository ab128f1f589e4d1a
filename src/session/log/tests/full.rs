//! A full disk: the test runs itself again on a small file system of its own.

use std::fs;
use std::process::Command as Process;

use super::*;

const PLACE: &str = "LOG_TEST_FULL_DISK";
const NAME: &str = "full_disk_refuses_and_leaves_the_log_as_it_was";

#[test]
fn full_disk_refuses_and_leaves_the_log_as_it_was() {
    if let Some(dir) = std::env::var_os(PLACE) {
        return on_small_disk(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let name = std::thread::current().name().map(str::to_owned).unwrap();
    assert!(name.ends_with(NAME));
    let script =
        r#"mount -t tmpfs -o size=256k none "$LOG_TEST_FULL_DISK" || exit 77; exec "$0" --exact "$1" --test-threads 1"#;
    let status = Process::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(PLACE, dir.path())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(1 | 77)) | Err(_) => eprintln!("skipped: no file system can be mounted here"),
        other => panic!("{other:?}"),
    }
}

fn on_small_disk(disk: &Path) {
    let dir = disk.join("log");
    let limits = LogLimits::new(1 << 30);
    let (mut log, reader) = Log::create(&dir, limits).unwrap();
    let pipes = Pipes::new();
    let (mut wanted, mut cursor) = (String::new(), reader.cursor(None));
    let mut seen = Vec::new();
    for round in 0..6 {
        // Takes all the room but a few pages, then what fits.
        let filler = disk.join("filler");
        fs::write(&filler, vec![1; 4096 * (3 + round)]).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
        file.set_len(file.metadata().unwrap().len() - 4096 * (round as u64 % 3)).unwrap();

        let text = format!("{round}é").repeat(6000);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            rest = &rest[pipes.write(StreamName::Stdout, rest)..];
            if let Err(error) = log.splice(StreamName::Stdout, pipes.reading(StreamName::Stdout), usize::MAX) {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                break;
            }
        }
        let before = (log.last_seq(), log.bytes());
        let refused = (0..2000).find_map(|_| log.append(&status()).err()).expect("the disk is full");
        assert!(matches!(refused, LogError::Full(_)), "{refused}");
        assert!(matches!(log.accept(&command("big", 100_000)), Err(LogError::Full(_))));
        assert!(log.last_seq() >= before.0);
        seen.extend(all(&mut cursor));
        // The next process finds what this one told.
        drop(log);
        let found;
        let reader;
        (log, reader, found) = Log::open(&dir, limits, Tail::Trusted).unwrap();
        assert!(found.pending.is_empty());
        assert_eq!(since(&reader, 0), seen);
        cursor = reader.cursor(Some(cursor.position()));

        drop(file);
        fs::remove_file(&filler).unwrap();
        loop {
            pipes.drain(&mut log, StreamName::Stdout);
            match rest {
                [] => break,
                _ => rest = &rest[pipes.write(StreamName::Stdout, rest)..],
            }
        }
        log.announce(StreamName::Stdout, None, Edge::Hold).unwrap();
        log.append(&status()).unwrap();
        wanted.push_str(&text);
        seen.extend(all(&mut cursor));
        assert_eq!(output(&seen)[0], wanted);
        assert_eq!(seen.len() as u64, log.last_seq().0);
    }
}
