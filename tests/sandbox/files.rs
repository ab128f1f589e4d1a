//! Files of the working directory, opened, listed and put in place for the outside while the program runs.

use std::fs::File;
use std::io::{Read as _, Write as _};

use repltool::sandbox::init_link::{Entry, EntryKind, FileAsk};
use repltool_protocol::rest::SandboxMode;
use tokio::time::Instant;

use crate::driven::{Answer, Driven};
use crate::world::{Run, WORKDIR_BYTES, WORKDIR_INODES, World, line, wait};

pub const TEMPORARY: &str = ".repltool-1.part";

pub fn read(driven: &Driven, path: &str) -> Answer {
    driven.file(FileAsk::Read { path: path.to_owned() })
}

pub fn create(driven: &Driven, path: &str) -> Answer {
    driven.file(FileAsk::Create { path: path.to_owned(), temporary: TEMPORARY.to_owned() })
}

pub fn commit(driven: &Driven, path: &str) -> i32 {
    driven.file(FileAsk::Commit { path: path.to_owned(), temporary: TEMPORARY.to_owned() }).errno
}

pub fn discard(driven: &Driven, path: &str) -> i32 {
    driven.file(FileAsk::Discard { path: path.to_owned(), temporary: TEMPORARY.to_owned() }).errno
}

pub fn remove(driven: &Driven, path: &str) -> i32 {
    driven.file(FileAsk::Remove { path: path.to_owned() }).errno
}

pub fn content(answer: Answer) -> String {
    assert_eq!(answer.errno, 0, "{answer:?}");
    let mut text = String::new();
    File::from(answer.fd.unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn put(driven: &Driven, path: &str, text: &str) -> bool {
    let Answer { errno, existed, fd } = create(driven, path);
    assert_eq!(errno, 0, "{path}");
    File::from(fd.unwrap()).write_all(text.as_bytes()).unwrap();
    assert_eq!(commit(driven, path), 0);
    existed
}

/// A whole list, and whether there is more.
pub fn list(driven: &Driven, path: &str, limit: u32) -> (Vec<Entry>, bool) {
    let answer = driven.file(FileAsk::List { path: path.to_owned(), limit });
    assert_eq!(answer.errno, 0, "{path}");
    let (fd, mut bytes) = (answer.fd.unwrap(), Vec::new());
    let mut pipe = File::from(fd.try_clone().unwrap());
    loop {
        assert!(wait(&fd, 20_000), "the list does not end");
        let mut chunk = [0; 65536];
        match pipe.read(&mut chunk).unwrap() {
            0 => break,
            length => bytes.extend_from_slice(&chunk[..length]),
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let more = lines.pop_if(|line| *line == r#"{"more":true}"#).is_some();
    (lines.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect(), more)
}

pub fn paths(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

pub fn files_are_read(world: &World) {
    let driven = Driven::with(world, &Run { mode: SandboxMode::Relaxed, ..Run::default() });
    driven.run("os.makedirs('a/b'); open('a/b/c', 'w').write('deep'); open('top', 'w').write('high'); say('made')");
    assert_eq!(line(&driven.stdout), "made");
    assert_eq!(content(read(&driven, "top")), "high");
    assert_eq!(content(read(&driven, "a/b/c")), "deep");
    // A sparse file is read like any other, without being stored.
    assert_eq!(driven.get("f = open('sparse', 'wb'); f.truncate(1 << 29); f.close(); say('made')"), "made");
    let file = File::from(read(&driven, "sparse").fd.unwrap());
    assert_eq!(file.metadata().unwrap().len(), 1 << 29);
    // What was opened stays what it was, whatever becomes of the name, and of the program.
    let kept = read(&driven, "top");
    assert_eq!(driven.get("os.unlink('top'); say('gone')"), "gone");
    assert_eq!(read(&driven, "top").errno, libc::ENOENT);
    drop(driven);
    assert_eq!(content(kept), "high");
    let driven = Driven::start(world);
    assert_eq!(content(read(&driven, "a/b/c")), "deep");
}

pub fn files_are_written(world: &World) {
    let driven = Driven::start(world);
    assert!(!put(&driven, "new/folder/file", "first"));
    assert!(put(&driven, "new/folder/file", "second"));
    let modes =
        "say(*[oct(os.stat(p).st_mode) for p in ('new', 'new/folder', 'new/folder/file')], os.stat('new').st_uid)";
    assert_eq!(driven.get(modes), "0o40755 0o40755 0o100644 1000");
    assert_eq!(driven.get("say(open('new/folder/file').read(), os.listdir('new/folder'))"), "second ['file']");
    // The program may go on with it.
    assert_eq!(
        driven.get("open('new/folder/file', 'a').write('!'); os.unlink('new/folder/file'); say('mine')"),
        "mine"
    );
    // Until it is put in its place, the old one is there, and nothing of the new one is shown.
    put(&driven, "kept", "old");
    let Answer { fd, existed, .. } = create(&driven, "kept");
    assert!(existed);
    File::from(fd.unwrap()).write_all(b"new").unwrap();
    assert_eq!(content(read(&driven, "kept")), "old");
    assert_eq!(paths(&list(&driven, "", 100).0), ["kept", "new", "new/folder"]);
    assert_eq!(create(&driven, "kept").errno, libc::EEXIST, "the temporary is there");
    assert_eq!(discard(&driven, "kept"), 0);
    assert_eq!((discard(&driven, "kept"), commit(&driven, "kept")), (libc::ENOENT, libc::ENOENT));
    assert_eq!(content(read(&driven, "kept")), "old");
    // Directories are not replaced, and files are no folders.
    assert_eq!((create(&driven, "new").errno, create(&driven, "kept/below").errno), (libc::EISDIR, libc::ENOTDIR));
    assert_eq!(create(&driven, "later").errno, 0);
    assert_eq!(driven.get("os.mkdir('later'); say('made')"), "made");
    assert_eq!((commit(&driven, "later"), discard(&driven, "later")), (libc::EISDIR, 0));
}

pub fn files_are_removed(world: &World) {
    let driven = Driven::start(world);
    let make =
        "os.mkdir('d'); open('d/f', 'w'); os.mkfifo('p'); os.symlink('d', 'l'); os.symlink('/etc', 'e'); say('made')";
    assert_eq!(driven.get(make), "made");
    assert_eq!(remove(&driven, "d"), libc::ENOTEMPTY);
    for path in ["d/f", "d", "p", "l", "e"] {
        assert_eq!(remove(&driven, path), 0, "{path}");
    }
    assert_eq!((remove(&driven, "d"), remove(&driven, "d/f")), (libc::ENOENT, libc::ENOENT));
    assert_eq!(driven.get("say(os.listdir('.'))"), "[]");
}

pub fn files_are_listed(world: &World) {
    let driven = Driven::start(world);
    let make = "os.makedirs('b/inner'); open('b/x', 'w').write('12345'); os.utime('b/x', (7, 1234567)); open('a', 'w'); \
                open('b-', 'w'); open('b/.repltool-2.part', 'w'); open('B', 'w'); open('.hidden', 'w'); os.mkfifo('p'); \
                os.symlink('b', 'link'); say('made')";
    assert_eq!(driven.get(make), "made");
    let (entries, more) = list(&driven, "", 100);
    assert!(!more);
    assert_eq!(paths(&entries), [".hidden", "B", "a", "b", "b/inner", "b/x", "b-", "link", "p"]);
    let of = |path: &str| entries.iter().find(|entry| entry.path == path).unwrap();
    let file = Entry { path: "b/x".to_owned(), size: 5, modified: 1_234_567, kind: EntryKind::File };
    assert_eq!(*of("b/x"), file);
    for (path, kind) in
        [("b", EntryKind::Directory), ("link", EntryKind::Link), ("p", EntryKind::Other), ("a", EntryKind::File)]
    {
        assert_eq!((of(path).kind, of(path).size), (kind, 0), "{path}");
    }
    assert_eq!(paths(&list(&driven, "b", 100).0), ["b/inner", "b/x"]);
    assert_eq!(list(&driven, "b/inner", 100), (Vec::new(), false));
    for (path, errno) in [("a", libc::ENOTDIR), ("no", libc::ENOENT), ("link", libc::ELOOP), ("p", libc::ENOTDIR)] {
        assert_eq!(driven.file(FileAsk::List { path: path.to_owned(), limit: 1 }).errno, errno, "{path}");
    }
}

pub fn a_long_list_is_cut(world: &World) {
    let driven = Driven::start(world);
    let many = WORKDIR_INODES - 200;
    driven.run(&format!("[open(f'{{n:05}}' + 'x' * 100, 'w').close() for n in range({many})]; say('made')"));
    assert_eq!(line(&driven.stdout), "made");
    let started = Instant::now();
    let (entries, more) = list(&driven, "", 10_000);
    println!("a list of {many}: {:?}", started.elapsed());
    assert!(!more && entries.len() as u64 == many && entries.is_sorted_by_key(|entry| entry.path.clone()));
    let (entries, more) = list(&driven, "", 1000);
    assert!(more && entries.len() == 1000 && entries[999].path.starts_with("00999"), "{:?}", entries.last());
    let (entries, more) = list(&driven, "", u32::try_from(many).unwrap());
    assert!(!more && entries.len() as u64 == many);
    assert_eq!(list(&driven, "", 0), (Vec::new(), true));
    let deep = "here = os.getcwd(); [(os.mkdir('d' * 200), os.chdir('d' * 200)) for _ in range(90)]; os.chdir(here); say('deep')";
    assert_eq!(driven.get(deep), "deep");
    let (entries, more) = list(&driven, "", 10_000);
    let longest = entries.iter().map(|entry| entry.path.len()).max().unwrap();
    assert!(!more && (3800..4400).contains(&longest), "{longest}");
}

pub fn paths_are_checked(world: &World) {
    let driven = Driven::start(world);
    let deep = ["d"; 65].join("/");
    let long = ["x".repeat(200).as_str(); 21].join("/");
    let bad = ["", "/", "/etc/passwd", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\0b", &deep, &long];
    for path in bad {
        let errno = if path.len() > 100 { libc::ENAMETOOLONG } else { libc::EINVAL };
        assert_eq!(read(&driven, path).errno, errno, "{path}");
        assert_eq!(create(&driven, path).errno, errno, "{path}");
        assert_eq!(
            (commit(&driven, path), discard(&driven, path), remove(&driven, path)),
            (errno, errno, errno),
            "{path}"
        );
        if !path.is_empty() {
            assert_eq!(driven.file(FileAsk::List { path: path.to_owned(), limit: 1 }).errno, errno, "{path}");
        }
    }
    for temporary in ["", "..", "a/b", "/tmp/x"] {
        let (path, temporary) = ("a".to_owned(), temporary.to_owned());
        assert_eq!(
            driven.file(FileAsk::Create { path: path.clone(), temporary: temporary.clone() }).errno,
            libc::EINVAL
        );
        assert_eq!(driven.file(FileAsk::Discard { path, temporary }).errno, libc::EINVAL);
    }
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    assert!(!put(&driven, &longest, "x"));
    assert_eq!(
        (create(&driven, &longer).errno, read(&driven, &longer).errno),
        (libc::ENAMETOOLONG, libc::ENAMETOOLONG)
    );
    let strange = "line\nbreak/\u{1}\"\\ tab\t ü 漢 \u{202e}";
    assert!(!put(&driven, strange, "x"));
    assert!(paths(&list(&driven, "", 9).0).contains(&strange));
    assert_eq!(content(read(&driven, strange)), "x");
    let deepest = ["d"; 64].join("/");
    assert!(!put(&driven, &deepest, "x"));
    assert_eq!(list(&driven, "", 100).0.len(), 1 + 2 + 64);
}

pub fn a_full_disk_is_told(world: &World) {
    let driven = Driven::start(world);
    assert_eq!(driven.get(&format!("open('large', 'wb').write(bytes({WORKDIR_BYTES})); say('full')")), "full");
    let file = create(&driven, "more");
    assert_eq!(file.errno, 0);
    let error = File::from(file.fd.unwrap()).write_all(b"x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!((discard(&driven, "more"), remove(&driven, "large")), (0, 0));
    driven.run(&format!("[open(str(n), 'w').close() for n in range({})]; say('full')", WORKDIR_INODES - 1));
    assert_eq!(line(&driven.stdout), "full");
    assert_eq!((create(&driven, "more").errno, create(&driven, "a/b").errno), (libc::ENOSPC, libc::ENOSPC));
    assert_eq!(remove(&driven, "7"), 0);
    assert!(!put(&driven, "more", "fits"));
    let left = driven.get("say(attempt(lambda: open('8000', 'w')), open('more').read())");
    assert_eq!(left, "ENOSPC fits");
}

pub fn files_cost_little(world: &World) {
    const ROUNDS: usize = 300;
    let driven = Driven::start(world);
    assert_eq!(driven.get("open('f', 'w').write('x' * 1000); say('made')"), "made");
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(content(read(&driven, "f")).len(), 1000);
            started.elapsed()
        })
        .collect();
    times.sort();
    println!("a file read: median {:?}, p95 {:?}", times[ROUNDS / 2], times[ROUNDS * 95 / 100]);
}
