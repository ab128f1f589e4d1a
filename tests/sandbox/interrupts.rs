//! Interrupts of the other two kinds: of the whole process group, and by a byte. `ends` has that of the program alone.

use repltool::sandbox::Interrupt;
use repltool::sandbox::init_link::{Ask, Outcome};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::driven::Driven;
use crate::files::{content, read};
use crate::world::{World, line};

/// Tells of the interrupts that a copy of the program gets.
const FORK: &str = "def fork(name, start=lambda: 0):
 if os.fork() == 0:
  start(); signal.signal(signal.SIGINT, lambda *_: say(name)); say('up')
  while True: time.sleep(60)
";

fn fork(driven: &Driven, arguments: &str) {
    driven.run(&format!("exec({FORK:?})"));
    assert_eq!(driven.get(&format!("fork({arguments})")), "up");
}

/// What is said next, in order of the alphabet.
fn said(driven: &Driven, lines: usize) -> Vec<String> {
    let mut said: Vec<_> = (0..lines).map(|_| line(&driven.stdout)).collect();
    said.sort();
    assert!(driven.is_silent(), "after {said:?}");
    said
}

const NO_FOURTH: &str = "say(attempt(lambda: os.fstat(4)) if 4 != lines.fileno() else lines.fileno())";

pub fn an_interrupt_reaches_the_group(world: &World) {
    for kind in [Interrupt::Group, Interrupt::Program] {
        let driven = Driven::interrupted_by(world, kind);
        // The first free number is the program's own.
        assert_eq!(driven.get(NO_FOURTH), "4");
        fork(&driven, "'child'");
        fork(&driven, "'stranger', os.setsid");
        fork(&driven, "'job', lambda: os.setpgid(0, 0)");
        driven.run("signal.signal(signal.SIGINT, lambda *_: say('program'))");
        assert_eq!(driven.get("say('up')"), "up");
        driven.interrupt();
        match kind {
            Interrupt::Group => assert_eq!(said(&driven, 2), ["child", "program"]),
            _ => assert_eq!(said(&driven, 1), ["program"]),
        }
    }
}

pub fn an_interrupt_is_a_byte(world: &World) {
    let driven = Driven::interrupted_by(world, Interrupt::Byte);
    assert_eq!(driven.get("say(lines.fileno())"), "5");
    driven.run("threading.Thread(target=lambda: [say(len(os.read(4, 1))) for _ in range(2)], daemon=True).start()");
    fork(&driven, "'child'");
    fork(&driven, "'stranger', os.setsid");
    driven.run("signal.signal(signal.SIGINT, lambda *_: say('program'))");
    assert_eq!(driven.get("say('up')"), "up");
    for _ in 0..2 {
        driven.interrupt();
        if driven.has_proc {
            assert_eq!(said(&driven, 2), ["1", "child"]);
        } else {
            assert_eq!(said(&driven, 1), ["1"]);
        }
    }
    // Nothing ends it: a read waits for the next byte.
    driven.run("say(os.read(4, 1))");
    assert!(driven.is_silent());
    driven.interrupt();
    assert!(said(&driven, if driven.has_proc { 2 } else { 1 }).contains(&"b'!'".to_owned()));
}

pub fn many_interrupts_are_one(world: &World) {
    let driven = Driven::interrupted_by(world, Interrupt::Byte);
    // More than the pipe holds.
    driven.run("import fcntl; fcntl.fcntl(4, 1031, 4096); say('small')");
    assert_eq!(line(&driven.stdout), "small");
    for _ in 0..5000 {
        driven.interrupt();
    }
    assert_eq!(driven.get("say(len(os.read(4, 1 << 16)))"), "4096");
}

/// Where a host hides parts of its own `/proc`, there is none inside.
pub fn init_serves_without_proc(world: &World) {
    if world.setting.is_root() {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
    }
    mount("tmpfs", "/proc/sys", "tmpfs", MountFlags::empty(), Some(c"size=4k")).unwrap();
    let driven = Driven::interrupted_by(world, Interrupt::Byte);
    assert!(!driven.has_proc);
    driven.run("threading.Thread(target=lambda: say(os.read(0, 10)), daemon=True).start()");
    driven.wait_for_readers(1);
    driven.begin_stdin_anew();
    assert_eq!(line(&driven.stdout), "b''");
    driven.feed("new", false);
    assert_eq!(driven.get("say(os.read(0, 10))"), "b'new'");
    driven.interrupt();
    assert_eq!(driven.get("say(os.read(4, 10))"), "b'!'");
    assert_eq!(driven.get("open('f', 'w').write('x'); say('made')"), "made");
    assert_eq!(content(read(&driven, "f")), "x");
    driven.ask(&Ask::KillRest { id: 9 });
    assert_eq!(driven.outcome(9), Outcome::Void);
}
