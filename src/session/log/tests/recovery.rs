//! What a new process makes of the files that an old one, or a machine that went down, left behind.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const LIMITS: LogLimits = LogLimits { session_bytes: 1 << 30, segment_bytes: 1 << 20 };

/// A log with every kind of record in one segment.
fn sample(dir: &Path) -> Vec<Item> {
    let (mut log, reader) = Log::create(dir, LIMITS).unwrap();
    let pipes = Pipes::new();
    let e1 = id("e1");
    log.accept(&command("e1", 30)).unwrap();
    log.append(&started(&e1, 1)).unwrap();
    pipes.print(&mut log, StreamName::Stdout, "one", Some(&e1));
    log.accept(&command("e2", 30)).unwrap();
    pipes.print(&mut log, StreamName::Stderr, "two", Some(&e1));
    log.append(&result(&e1)).unwrap();
    log.accept(&command("e3", 30)).unwrap();
    since(&reader, 0)
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn index(dir: &Path) -> PathBuf {
    dir.join("index.000000")
}

#[test]
fn torn_end_of_any_length_is_cut_and_nothing_before_it() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let before = sample(dir.path());
    let copied = copied.path().join("log");
    let whole = fs::read(index(dir.path())).unwrap();
    let mut most = 0;
    for len in 0..=whole.len() {
        copy(dir.path(), &copied);
        fs::write(index(&copied), &whole[..len]).unwrap();
        let (mut log, reader, found) = match Log::open(&copied, LIMITS, Tail::Trusted) {
            // There is output, so the header was once whole.
            Err(LogError::Damaged(_)) if len < 70 => continue,
            opened => opened.unwrap(),
        };
        let kept = since(&reader, 0);
        assert_eq!(kept, before[..kept.len()]);
        assert!(kept.len() >= most && found.last_seq.0 == kept.len() as u64);
        most = kept.len();
        // A command counts once its event is whole; e1 has its result at 6.
        let pending: Vec<_> = found.pending.iter().map(|it| it.command.id.as_str()).collect();
        let expected = [(1..6, "e1"), (4..9, "e2"), (7..9, "e3")];
        let expected: Vec<_> = expected.iter().filter(|(at, _)| at.contains(&most)).map(|(_, id)| *id).collect();
        assert_eq!(pending, expected, "{most} events");
        assert_eq!(found.pending.iter().any(|it| it.begun.is_some()), (2..6).contains(&most));
        // Output without its event is told by the new process.
        let (stdout, stderr) = (if most < 3 { 3 } else { 0 }, if most < 5 { 3 } else { 0 });
        assert_eq!((found.unannounced_stdout, found.unannounced_stderr), (stdout, stderr));
        for stream in STREAMS {
            log.announce(stream, None, Edge::Flush).unwrap();
        }
        log.append(&status()).unwrap();
        let after = since(&reader, 0);
        assert_eq!(after[..most], kept);
        assert_eq!(output(&after), ["one".to_owned(), "two".to_owned()]);
        drop(log);
        let (_log, reader, _) = Log::open(&copied, LIMITS, Tail::Trusted).unwrap();
        assert_eq!(since(&reader, 0), after);
    }
    assert_eq!(most, before.len());
}

#[test]
fn wrong_byte_never_becomes_an_event_and_numbers_are_not_given_out_again() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let before = sample(dir.path());
    let copied = copied.path().join("log");
    let whole = fs::read(index(dir.path())).unwrap();
    for at in 0..whole.len() {
        copy(dir.path(), &copied);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        fs::write(index(&copied), &bytes).unwrap();
        let (mut log, reader) = match Log::open(&copied, LIMITS, Tail::Doubtful) {
            Ok((log, reader, _)) => (log, reader),
            Err(LogError::Damaged(_) | LogError::Format(_)) if at < 70 => continue,
            Err(error) => panic!("{error} at {at}"),
        };
        let fresh = log.append(&status()).unwrap();
        let after = since(&reader, 0);
        let kept = after.iter().take_while(|item| matches!(item, Item::Event(_))).count();
        assert_eq!(after[..kept], before[..kept]);
        let (from, to) = (Seq(kept as u64 + 1), Seq(fresh.0 - 1));
        assert_eq!(after[kept], Item::Gap { from, to });
        assert!(fresh.0 >= DOUBT && kept < before.len());
        assert_eq!(after.len(), kept + 2);
    }
}

/// Records whose sums are right and whose numbers no writer can have written.
#[test]
fn offsets_that_no_stream_can_have_are_damage() {
    let header = |announced| recover::Header { segment_bytes: 4097, base: Seq(0), announced, execution_count: 0 };
    let written = |announced, ranges: &[record::Range]| {
        let mut bytes = header(announced).to_record().unwrap();
        for (seq, range) in (1..).zip(ranges) {
            let tag = record::Tag::Event(Kind::Stream(StreamName::Stdout));
            record::encode(&mut bytes, tag, Seq(seq), None, &[&range.to_bytes()]).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(index(dir.path()), bytes).unwrap();
        fs::write(dir.path().join("stdout.000000"), [b'x'; 40]).unwrap();
        let opened = Log::open(dir.path(), LIMITS, Tail::Trusted).map(|(mut log, _, found)| {
            log.append(&status()).unwrap();
            found.last_seq
        });
        opened.map_err(|error| assert!(matches!(error, LogError::Damaged(_)), "{error}"))
    };
    let range = |offset, len| record::Range { offset, len };
    assert_eq!(written([0, 0], &[range(0, 20), range(20, 20)]), Ok(Seq(2)));
    assert_eq!(written([u64::MAX - 1, 0], &[]), Err(()));
    assert_eq!(written([record::MAX_OFFSET, 0], &[]), Err(()), "nothing fits behind it");
    for wrong in [range(10, 5), range(20, 1 << 20), range(u64::MAX - 7, 7)] {
        let last = written([0, 0], &[range(0, 20), wrong]).unwrap();
        assert_eq!(last, Seq(DOUBT), "{wrong:?}");
    }
}

#[test]
fn whole_record_that_is_wrong_makes_even_a_trusted_end_doubtful() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let mut bytes = fs::read(index(dir.path())).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(index(dir.path()), &bytes).unwrap();
    let (_, _, found) = Log::open(dir.path(), LIMITS, Tail::Trusted).unwrap();
    assert_eq!(found.last_seq, Seq(6 + DOUBT - 1));
}

#[test]
fn doubtful_end_jumps_and_tells_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let before = sample(dir.path());
    let (mut log, reader, found) = Log::open(dir.path(), LIMITS, Tail::Doubtful).unwrap();
    assert_eq!(log.append(&status()).unwrap(), Seq(7 + DOUBT));
    assert_eq!(found.last_seq, Seq(6 + DOUBT));
    assert_eq!(found.pending.len(), 2);
    let gap = |from| Item::Gap { from: Seq(from), to: Seq(6 + DOUBT) };
    let after = since(&reader, 0);
    assert_eq!((&after[..7], &after[7], after.len()), (&before[..], &gap(8), 9));
    // A client that saw more than the disk did.
    assert_eq!(since(&reader, 5000)[0], gap(5001));
    drop(log);
    let (_log, reader, _) = Log::open(dir.path(), LIMITS, Tail::Trusted).unwrap();
    assert_eq!(since(&reader, 0), after);
}

#[test]
fn lost_output_is_a_gap_and_never_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let limits = limits(1 << 30, 4096);
    let (mut log, _reader) = Log::create(dir.path(), limits).unwrap();
    let pipes = Pipes::new();
    for n in 0..6 {
        pipes.print(&mut log, StreamName::Stdout, &n.to_string().repeat(10), None);
    }
    drop(log);
    let file = fs::OpenOptions::new().write(true).open(dir.path().join("stdout.000000")).unwrap();
    file.set_len(35).unwrap();
    let (mut log, reader, found) = Log::open(dir.path(), limits, Tail::Trusted).unwrap();
    assert_eq!((found.last_seq, found.unannounced_stdout), (Seq(6 + DOUBT - 1), 0));
    pipes.print(&mut log, StreamName::Stdout, "new", None);
    for _ in 0..2 {
        let items = since(&reader, 0);
        let gaps: Vec<_> = items.iter().filter(|item| matches!(item, Item::Gap { .. })).collect();
        let gap = |from, to| Item::Gap { from: Seq(from), to: Seq(to) };
        assert_eq!(gaps, [&gap(4, 4), &gap(5, 5), &gap(6, 6), &gap(7, 5 + DOUBT)]);
        assert_eq!(output(&items)[0], "000000000011111111112222222222new");
    }
    drop((log, reader));
    let (mut log, reader, found) = Log::open(dir.path(), limits, Tail::Trusted).unwrap();
    assert_eq!((found.last_seq, found.unannounced_stdout), (Seq(6 + DOUBT), 0));
    pipes.print(&mut log, StreamName::Stdout, "er", None);
    assert_eq!(output(&since(&reader, 0))[0], "000000000011111111112222222222newer");
}

#[test]
fn segment_that_is_lost_or_wrong_in_the_middle_is_a_gap() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let limits = limits(1 << 30, 300);
    let (mut log, reader) = Log::create(dir.path(), limits).unwrap();
    for _ in 0..40 {
        log.append(&status()).unwrap();
    }
    let before = since(&reader, 0);
    let copied = copied.path().join("log");
    for wrong in [0, 30, 90, usize::MAX] {
        copy(dir.path(), &copied);
        let path = copied.join("index.000003");
        let mut bytes = fs::read(&path).unwrap();
        match bytes.get_mut(wrong) {
            Some(byte) => *byte ^= 1,
            None => bytes.clear(),
        }
        fs::write(&path, &bytes).unwrap();
        let (_log, reader, _) = Log::open(&copied, limits, Tail::Trusted).unwrap();
        let after = since(&reader, 0);
        let Some(Item::Gap { from, to }) = after.iter().find(|item| matches!(item, Item::Gap { .. })) else {
            panic!("a gap is due for {wrong}");
        };
        let (head, rest) = (from.0 as usize - 1, to.0 as usize);
        assert!(to.0 - from.0 < 5);
        assert_eq!((&after[..head], &after[head + 1..head + 1 + 40 - rest]), (&before[..head], &before[rest..]));
    }
}

#[test]
fn nothing_to_open_is_told_apart_from_damage() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Log::open(dir.path(), LIMITS, Tail::Trusted), Err(LogError::Directory(_))));
    fs::write(index(dir.path()), b"\x40\0\0").unwrap();
    let (mut log, ..) = Log::open(dir.path(), LIMITS, Tail::Trusted).unwrap();
    assert_eq!(log.append(&status()).unwrap(), Seq(1));
    assert!(matches!(Log::open(&dir.path().join("none"), LIMITS, Tail::Trusted), Err(LogError::File { .. })));
    fs::write(index(dir.path()), [0xff; 500]).unwrap();
    assert!(matches!(Log::open(dir.path(), LIMITS, Tail::Trusted), Err(LogError::Damaged(_))));
}

#[test]
fn segment_size_of_a_log_outlives_a_changed_setting() {
    let dir = tempfile::tempdir().unwrap();
    let pipes = Pipes::new();
    let (mut log, _) = Log::create(dir.path(), limits(1 << 30, 500)).unwrap();
    pipes.print(&mut log, StreamName::Stdout, &"a".repeat(1200), None);
    drop(log);
    let (mut log, reader, _) = Log::open(dir.path(), limits(1 << 30, 9000), Tail::Trusted).unwrap();
    pipes.print(&mut log, StreamName::Stdout, &"b".repeat(1200), None);
    assert_eq!(output(&since(&reader, 0))[0], "a".repeat(1200) + &"b".repeat(1200));
}

#[test]
fn a_drivers_message_is_known_again_when_its_event_is_whole() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copied = copied.path().join("log");
    let (mut log, reader) = Log::create(dir.path(), LIMITS).unwrap();
    log.append(&status()).unwrap();
    let display =
        |n: u64| Event::Display { id: None, data: [("text/plain".into(), n.into())].into(), metadata: [].into() };
    let message = |number| Message { sandbox: 7, number };
    log.append_message(message(3), &display(1)).unwrap();
    log.append_message(message(5), &display(2)).unwrap();
    let before = since(&reader, 0);
    assert_eq!(before.len(), 3, "readers do not meet the numbers");
    drop(log);
    let whole = fs::read(index(dir.path())).unwrap();
    for len in 0..=whole.len() {
        copy(dir.path(), &copied);
        fs::write(index(&copied), &whole[..len]).unwrap();
        let (mut log, reader, found) = Log::open(&copied, LIMITS, Tail::Trusted).unwrap();
        let kept = since(&reader, 0);
        assert_eq!(kept, before[..kept.len()]);
        let expected = [None, None, Some(message(3)), Some(message(5))][kept.len()];
        assert_eq!(found.message, expected, "{len} bytes");
        log.append_message(message(6), &display(3)).unwrap();
        assert_eq!(since(&reader, kept.len() as u64).len(), 1);
    }
}
