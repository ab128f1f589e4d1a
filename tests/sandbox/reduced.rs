//! Without namespaces: what levels show at its real place, and the end of all processes of a user.

use std::path::PathBuf;
use std::time::Duration;

use repltool::sandbox::{Identity, Kind};
use repltool_protocol::rest::SandboxMode;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::time::Instant;

use crate::levels::{bash, library};
use crate::world::{Run, World, end, kill, line, python, release};

const UTILITIES: Kind = Kind::Shell { utilities: true };

fn user(world: &World) -> u32 {
    match world.identity {
        Identity::Plain { payload, .. } => payload,
        other => panic!("{other:?}"),
    }
}

/// Processes of the program's user that are not dead.
fn living(world: &World) -> usize {
    let is_ours = |status: &str| {
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let dead = ["State:\tZ", "State:\tX"].iter().any(|state| status.contains(state));
        !dead && uid.split_whitespace().next() == Some(user(world).to_string().as_str())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|it| std::fs::read_to_string(it.path().join("status")).is_ok_and(|it| is_ours(&it))).count()
}

pub fn strict_has_nothing_but_itself_at_its_place(world: &World) {
    std::fs::write(world.dir.path().join("open"), "to all").unwrap();
    let code = r#"
import os, json, sqlite3, hashlib, asyncio, socket
assert asyncio.run(asyncio.sleep(0, 7)) == 7
def attempt(what, *arguments):
    try: print("ESCAPED", what.__name__, arguments, what(*arguments))
    except OSError as error: print("refused", error.errno)
for path in ("/etc/passwd", "/proc/self/status", "/usr/bin/id", "/usr/share/common-licenses/GPL-3", "/etc/ld.so.cache", os.environ["OPEN"]):
    attempt(open, path)
for path in ("/", "/usr", "/tmp", os.environ["HOME"], os.path.dirname(os.environ["HOME"])): attempt(os.listdir, path)
for path in ("/tmp/x", os.environ["HOME"] + "/x", "/dev/shm/x"): attempt(open, path, "w")
attempt(os.fork)
attempt(os.execv, "/usr/bin/python3", ["python3"])
attempt(os.kill, os.getppid(), 9)
attempt(os.kill, 1, 0)
for family in (socket.AF_INET, socket.AF_UNIX): attempt(socket.socket, family, socket.SOCK_STREAM)
open("/dev/null", "w").write("x")
print("fine", os.getcwd(), os.getuid())
"#;
    let own = library();
    let run = Run { mode: SandboxMode::Strict, own: &own, program: &python(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.contains(&format!("fine / {}\n", user(world))) && !text.contains("ESCAPED"), "{text}");
    assert_eq!(told[..2], ["process: clone", "exec: execve /usr/bin/python3"], "{text}");
    assert_eq!(told[2..], ["network: socket"], "{text}");
}

pub fn shells_have_their_programs_and_no_others(world: &World) {
    let code = "echo $(echo forked); seq 3 | sort -r | tr '\\n' ' '; cat <(echo substituted); echo x > a; cp a b; cat b
        ls /usr/bin; /usr/bin/python3 -c 'print(\"ESCAPED\")'; cat /etc/passwd; cp /usr/bin/seq own; ./own 1; echo fine";
    let run = Run { mode: SandboxMode::Standard, kind: UTILITIES, program: &bash(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.starts_with("forked\n3 2 1 substituted\nx\nfine\n"), "{text}");
    assert_eq!(text.matches("ermission denied").count(), 4, "{text}");
    assert!(told.is_empty(), "{told:?}");
    let code = "echo $(echo forked); ls; /usr/bin/bash -c 'echo ESCAPED'; echo x > a; for f in /*; do echo $f; done";
    let run = Run { mode: SandboxMode::Strict, kind: UTILITIES, program: &bash(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.starts_with("forked\n/*\n") && !text.contains("ESCAPED"), "{text}");
    assert!(told.contains(&"exec: execve /usr/bin/bash".to_owned()), "{told:?}");
}

/// Forks on and on, in sessions of its own.
const FORKER: &str = "
import os, signal
for number in set(range(1, 32)) - {signal.SIGCHLD}:
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        while True:
            if os.fork() == 0: os._exit(0)
            os.wait()
print('up', flush=True)
while True: signal.pause()";

/// The program and the four that it left.
fn until_all_live(world: &World) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while living(world) < 5 {
        assert!(Instant::now() < deadline, "{} live", living(world));
    }
}

pub fn all_processes_of_a_user_end(world: &World) {
    for _ in 0..5 {
        let sandbox = world.start(FORKER);
        assert_eq!(line(&sandbox.stdout), "up");
        until_all_live(world);
        kill(sandbox);
        assert_eq!(living(world), 0, "killed");
    }
    for _ in 0..5 {
        let mut sandbox = world.start(FORKER);
        assert_eq!(line(&sandbox.stdout), "up");
        pidfd_send_signal(&sandbox.pidfd, Signal::KILL).unwrap();
        end(&mut sandbox);
        assert_eq!(living(world), 0, "whose init was killed");
        release(sandbox);
    }
    let dropped = world.start(FORKER);
    assert_eq!(line(&dropped.stdout), "up");
    drop(dropped);
    assert_eq!(living(world), 0, "dropped");
    let (text, _) = world.python(SandboxMode::Relaxed, &FORKER.replace("while True: signal.pause()", ""));
    assert_eq!((text.as_str(), living(world)), ("up\n", 0), "the program has ended by itself");
}

pub fn ids_must_fit_the_host(world: &World) {
    let home = PathBuf::from(world.workdir.locate("/workspace/x"));
    assert!(home.starts_with(world.dir.path()) && home.ends_with("workspace/x"), "{}", home.display());
    assert_eq!(world.workdir.locate("/usr/bin"), "/usr/bin");
    let mapped = Identity::Mapped { payload: user(world), init: user(world) + 1 };
    let error = world.spawn_as(mapped, &Run { program: &python("1"), ..Run::default() }).unwrap_err();
    assert!(error.to_string().contains("these ids do not fit"), "{error}");
}
