//! A program that does what it can against those who look at its files: nothing outside of the working directory is
//! reached, and nobody hangs.

use std::time::Duration;

use repltool::sandbox::init_link::{Ask, EntryKind, FileAsk, Outcome, Tell};
use rustix::process::{Signal, kill_process};
use tokio::time::Instant;

use crate::driven::{Answer, Driven};
use crate::files::{commit, content, create, discard, list, paths, read, remove};
use crate::remains::children;
use crate::world::World;

pub fn no_link_is_followed(world: &World) {
    let driven = Driven::start(world);
    let make = "os.makedirs('real/inner'); open('real/file', 'w').write('x'); os.symlink('real', 'middle'); \
                os.symlink('real/file', 'end'); os.symlink('/etc/passwd', 'out'); os.symlink('nothing', 'dangling'); \
                os.symlink('loop', 'loop'); os.symlink('/proc/self/fd', 'magic'); os.symlink('..', 'real/up'); say('made')";
    assert_eq!(driven.get(make), "made");
    for path in ["end", "out", "dangling", "loop", "middle/file", "magic/3", "real/up/real/file"] {
        assert_eq!(read(&driven, path).errno, libc::ELOOP, "{path}");
    }
    for path in ["middle/new", "out/new", "dangling/new", "loop/new", "real/up/new"] {
        assert_eq!(create(&driven, path).errno, libc::ELOOP, "{path}");
        assert_eq!((commit(&driven, path), remove(&driven, path)), (libc::ELOOP, libc::ELOOP), "{path}");
    }
    for path in ["middle", "real/up", "middle/inner"] {
        assert_eq!(driven.file(FileAsk::List { path: path.to_owned(), limit: 9 }).errno, libc::ELOOP, "{path}");
    }
    // At the end, a link is replaced or removed itself.
    for path in ["end", "out", "dangling"] {
        let answer = create(&driven, path);
        assert!(answer.errno == 0 && answer.existed);
        assert_eq!(commit(&driven, path), 0);
        assert_eq!(content(read(&driven, path)), "");
    }
    assert_eq!(content(read(&driven, "real/file")), "x");
    assert_eq!(remove(&driven, "middle"), 0);
    assert_eq!(driven.get("say(os.path.exists('real/file'), os.path.exists('nothing'))"), "True False");
    // A hard link is a file like any other, and there is none to what lies outside.
    let hard = "os.link('real/file', 'hard'); say(attempt(lambda: os.link('/etc/passwd', 'passwd')))";
    assert!(["EXDEV", "EACCES", "EPERM"].contains(&driven.get(hard).as_str()));
    assert_eq!(content(read(&driven, "hard")), "x");
}

pub fn nothing_but_files_is_opened(world: &World) {
    let driven = Driven::start(world);
    let make = "os.mkdir('d'); os.mkfifo('p'); s = socket.socket(socket.AF_UNIX); s.bind('s'); \
                say(*[attempt(lambda: os.mknod(k, t | 0o600, os.makedev(1, 3))) for k, t in (('c', 0o20000), ('b', 0o60000))])";
    assert_eq!(driven.get(make), "ENOSYS ENOSYS");
    // Who waits for a reader of the FIFO still waits after it was looked at.
    driven.run("threading.Thread(target=lambda: (os.open('p', os.O_WRONLY), say('opened')), daemon=True).start()");
    assert_eq!(driven.get("time.sleep(0.05); say('up')"), "up");
    for (path, errno) in [("d", libc::EISDIR), ("p", libc::ENXIO), ("s", libc::ENXIO), ("no", libc::ENOENT)] {
        assert_eq!(read(&driven, path).errno, errno, "{path}");
    }
    assert_eq!(read(&driven, "p/x").errno, libc::ENOTDIR);
    assert!(driven.is_silent());
    // They may be replaced.
    for path in ["p", "s"] {
        assert!(create(&driven, path).existed);
        assert_eq!(commit(&driven, path), 0);
        assert_eq!(content(read(&driven, path)), "");
    }
}

pub fn what_is_closed_stays_closed(world: &World) {
    let driven = Driven::start(world);
    let make = "os.mkdir('d'); open('d/f', 'w'); open('f', 'w'); os.chmod('f', 0); os.chmod('d', 0); say('closed')";
    assert_eq!(driven.get(make), "closed");
    let listed = || driven.file(FileAsk::List { path: String::new(), limit: 9 }).errno;
    assert_eq!(read(&driven, "f").errno, libc::EACCES);
    assert_eq!((read(&driven, "d/f").errno, create(&driven, "d/g").errno), (libc::EACCES, libc::EACCES));
    assert_eq!(driven.file(FileAsk::List { path: "d".to_owned(), limit: 9 }).errno, libc::EACCES);
    assert_eq!(paths(&list(&driven, "", 9).0), ["d", "f"], "what can be seen is shown");
    assert_eq!(driven.get("os.chmod('/workspace', 0); say('closed')"), "closed");
    let all =
        [read(&driven, "f").errno, create(&driven, "g").errno, remove(&driven, "f"), discard(&driven, "f"), listed()];
    assert_eq!(all, [libc::EACCES; 5]);
    assert_eq!(driven.get("os.chmod('/workspace', 0o500); say('read-only')"), "read-only");
    assert_eq!((create(&driven, "g").errno, remove(&driven, "f"), listed()), (libc::EACCES, libc::EACCES, 0));
    assert_eq!(driven.get("os.chmod('/workspace', 0o700); os.chmod('d', 0o700); say('open')"), "open");
}

pub fn strange_names_are_shown(world: &World) {
    let driven = Driven::start(world);
    let make = r"[open(n, 'w').close() for n in (b'\xff', b'a\xc3', b'\xed\xa0\x80', b'\n', b'-rf', b'\\', b'z' * 255)]; os.mkdir(b'\xfe'); open(b'\xfe/in', 'w').close(); say('made')";
    assert_eq!(driven.get(make), "made");
    let (entries, _) = list(&driven, "", 100);
    let longest = "z".repeat(255);
    let expected = [
        "\n",
        "-rf",
        "\\",
        "a\u{fffd}",
        longest.as_str(),
        "\u{fffd}\u{fffd}\u{fffd}",
        "\u{fffd}",
        "\u{fffd}/in",
        "\u{fffd}",
    ];
    assert_eq!(paths(&entries), expected);
    assert_eq!(entries[6].kind, EntryKind::Directory);
    assert_eq!(read(&driven, "\u{fffd}").errno, libc::ENOENT);
}

pub fn a_tree_that_changes_hangs_nobody(world: &World) {
    let driven = Driven::start(world);
    let change = "import random
def change():
 while True:
  for n in range(20):
   a, b = random.choice('abcdef'), random.choice('abcdef')
   for f in (lambda: os.mkdir(a), lambda: os.rename(a, a + '/' + b), lambda: os.rename(a + '/' + b, b), lambda: os.symlink('/etc', a), lambda: os.unlink(a), lambda: os.rmdir(a), lambda: open(a + '/f', 'w').close(), lambda: os.mkfifo(b)):
    try: f()
    except OSError: pass
for _ in range(2):
 if os.fork() == 0: change()
say('up')";
    assert_eq!(driven.get(&format!("exec({change:?})")), "up");
    let until = Instant::now() + Duration::from_secs(2);
    let mut asked = 0;
    while Instant::now() < until {
        for path in ["a", "b/f", "c/d/f"] {
            if let Some(fd) = read(&driven, path).fd {
                let metadata = std::fs::File::from(fd).metadata().unwrap();
                assert!(metadata.is_file() && metadata.len() == 0, "{metadata:?}");
            }
            if create(&driven, path).errno == 0 && commit(&driven, path) != 0 {
                discard(&driven, path);
            }
            remove(&driven, path);
        }
        let (entries, _) = list(&driven, "", 1000);
        assert!(entries.iter().all(|entry| !entry.path.contains("passwd")));
        asked += 1;
    }
    println!("{asked} rounds");
}

pub fn a_leased_file_hangs_nobody(world: &World) {
    let driven = Driven::start(world);
    let lease = "import fcntl; signal.signal(signal.SIGIO, signal.SIG_IGN); f = open('f', 'w+'); \
                 fcntl.lockf(f, fcntl.LOCK_EX); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); say('held')";
    let said = driven.get(lease);
    assert!(said == "held" || said.starts_with("OSError"), "{said}");
    let started = Instant::now();
    let errno = read(&driven, "f").errno;
    assert!(errno == libc::EAGAIN || said != "held", "{errno}");
    assert!(create(&driven, "f").existed);
    assert_eq!((commit(&driven, "f"), read(&driven, "f").errno, remove(&driven, "f")), (0, 0, 0));
    assert!(started.elapsed() < Duration::from_secs(2));
}

pub fn a_forker_hangs_nobody(world: &World) {
    let driven = Driven::start(world);
    let bomb = "def bomb():
 while True:
  try: os.fork()
  except OSError: pass
if os.fork() == 0: bomb()
open('f', 'w').write('x'); time.sleep(0.5); say('up')";
    assert_eq!(driven.get(&format!("exec({bomb:?})")), "up");
    let (started, mut opened) = (Instant::now(), 0);
    for _ in 0..20 {
        let answer = read(&driven, "f");
        assert!(matches!(answer.errno, 0 | libc::EAGAIN), "{answer:?}");
        opened += i32::from(answer.errno == 0);
    }
    println!("{opened} of 20 opened, {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(15));
}

pub fn a_killer_hangs_nobody(world: &World) {
    let driven = Driven::start(world);
    for signal in ["SIGKILL", "SIGSTOP"] {
        let kill = format!(
            "def kill():
 signal.alarm(20)
 while True:
  try: os.kill(-1, signal.{signal})
  except OSError: pass
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
threading.Thread(target=kill, daemon=True).start(); say('up')"
        );
        let driven = if signal == "SIGKILL" { &driven } else { &Driven::start(world) };
        assert_eq!(driven.get(&format!("exec({kill:?})")), "up");
        let mut errnos = Vec::new();
        // More than may live at once, asked one after the other without waiting.
        for id in 100..140 {
            driven.ask(&Ask::File { id, what: FileAsk::Read { path: "no".to_owned() } });
        }
        let mut unanswered: std::collections::BTreeSet<u64> = (100..140).collect();
        while !unanswered.is_empty() {
            // One that answered before it died is answered for once more.
            let (Tell::File { id, errno, .. }, _) = driven.hear() else { panic!("no answer about files") };
            if unanswered.remove(&id) {
                errnos.push(errno);
            }
        }
        assert!(errnos.iter().all(|errno| matches!(*errno, libc::ENOENT | libc::EINTR | libc::EAGAIN)), "{errnos:?}");
        let count = |errno: i32| errnos.iter().filter(|e| **e == errno).count();
        println!("{signal}: {} done, {} interrupted", count(libc::ENOENT), count(libc::EINTR));
    }
}

/// Lists that nobody reads, each with a copy of init that waits for its reader.
fn unread_lists(driven: &Driven, ids: std::ops::Range<u64>) -> Vec<Answer> {
    let list = |id| {
        driven.ask(&Ask::File { id, what: FileAsk::List { path: String::new(), limit: 10_000 } });
        let answer = driven.answer(id);
        assert_eq!(answer.errno, 0);
        answer
    };
    ids.map(list).collect()
}

pub fn lists_that_nobody_reads_go_in_the_end(world: &World) {
    let driven = Driven::start(world);
    assert_eq!(driven.get("[open(str(n) * 40, 'w').close() for n in range(1000, 3000)]; say('made')"), "made");
    let mut unread = unread_lists(&driven, 10..18);
    // The ninth takes the place of the oldest, whose second answer says nothing.
    driven.ask(&Ask::File { id: 77, what: FileAsk::Read { path: "no".to_owned() } });
    assert_eq!((driven.answer(10).errno, driven.answer(77).errno), (libc::EINTR, libc::ENOENT));
    // A reader that leaves ends its writer.
    unread.drain(..2);
    while children(driven.pid).len() > 7 {
        assert_eq!(driven.get("time.sleep(0.01); say('slept')"), "slept");
    }
    // Killing the rest spares those that work for the outside, and the end of the program ends them.
    driven.ask(&Ask::KillRest { id: 5 });
    assert_eq!(driven.outcome(5), Outcome::Delivered);
    assert_eq!(children(driven.pid).len(), 7);
    driven.run("os._exit(3)");
    assert!(matches!(driven.hear().0, Tell::Exit(_)));
}

/// As the program could do where Linux lets it: where they have its uid, and Landlock scopes no signals.
pub fn a_copy_that_is_killed_is_answered_for(world: &World) {
    let driven = Driven::start(world);
    assert_eq!(driven.get("[open(str(n) * 40, 'w').close() for n in range(1000, 3000)]; say('made')"), "made");
    let leader = children(driven.pid);
    let copy = |before: &[i32]| {
        let new = children(driven.pid).into_iter().find(|pid| !leader.contains(pid) && !before.contains(pid));
        rustix::process::Pid::from_raw(new.unwrap()).unwrap()
    };
    let _first = unread_lists(&driven, 10..11);
    let stopped = copy(&[]);
    kill_process(stopped, Signal::STOP).unwrap();
    let _second = unread_lists(&driven, 11..12);
    kill_process(copy(&[stopped.as_raw_nonzero().get()]), Signal::KILL).unwrap();
    assert_eq!(driven.answer(11).errno, libc::EINTR);
    assert_eq!(read(&driven, "no").errno, libc::ENOENT);
    // The one that is stopped goes when its place is needed.
    let _more = unread_lists(&driven, 12..19);
    driven.ask(&Ask::File { id: 77, what: FileAsk::Read { path: "no".to_owned() } });
    assert_eq!((driven.answer(10).errno, driven.answer(77).errno), (libc::EINTR, libc::ENOENT));
}
