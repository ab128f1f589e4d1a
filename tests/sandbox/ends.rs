//! Signals, and the end of a sandbox in all its ways.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use repltool::sandbox::Exit;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::time::Instant;

use crate::world::{World, end, kill, line, packet, release, wait};

pub fn interrupt_reaches_the_program_alone(world: &World) {
    let sandbox = world.start(
        "
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted\\n'))
print('up', flush=True)
while True: time.sleep(60)",
    );
    assert_eq!(packet(&sandbox.init), r#"{"hello":{"version":2}}"#);
    assert_eq!(line(&sandbox.stdout), "up");
    for junk in [&b"junk"[..], b"{}", b"{\"op\":\"reboot\",\"id\":1}", &[b'x'; 10_000]] {
        send(&sandbox.init, junk, SendFlags::empty()).unwrap();
    }
    for id in [7, 8] {
        let started = Instant::now();
        send(&sandbox.init, format!(r#"{{"op":"interrupt","id":{id}}}"#).as_bytes(), SendFlags::empty()).unwrap();
        assert_eq!(packet(&sandbox.init), format!(r#"{{"id":{id},"outcome":"delivered"}}"#));
        assert_eq!(line(&sandbox.stdout), "interrupted");
        println!("interrupt {:?}", started.elapsed());
    }
    kill(sandbox);
}

pub fn kill_rest_spares_the_program(world: &World) {
    let code = r#"
import os, signal, sys, time
for kind in range(4):
    if os.fork() == 0:
        if kind == 1:
            os.setsid()
            if os.fork(): os._exit(0)
        for s in (signal.SIGTERM, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
        if kind == 2: os.kill(os.getpid(), signal.SIGSTOP)
        while kind == 3: pass
        while True: time.sleep(60)
def count(): return len([p for p in os.listdir("/proc") if p.isdigit()])
time.sleep(0.2)
print("up", count(), flush=True)
os.read(3, 1)
try:
    while True: os.waitpid(-1, 0)
except ChildProcessError: pass
end = time.time() + 5
while count() > 1 and time.time() < end: time.sleep(0.01)
print("left", count(), flush=True)
os.read(3, 1)
sys.exit(3)
"#;
    let mut sandbox = world.start(code);
    packet(&sandbox.init);
    let up = line(&sandbox.stdout);
    assert!(up == "up 5" || up == "up 6", "{up}");
    let started = Instant::now();
    send(&sandbox.init, br#"{"op":"kill_rest","id":9}"#, SendFlags::empty()).unwrap();
    assert_eq!(packet(&sandbox.init), r#"{"id":9,"outcome":"delivered"}"#);
    println!("kill_rest {:?}", started.elapsed());
    send(&sandbox.control, b"x", SendFlags::empty()).unwrap();
    assert_eq!(line(&sandbox.stdout), "left 1");
    send(&sandbox.control, b"x", SendFlags::empty()).unwrap();
    assert_eq!(packet(&sandbox.init), r#"{"exit":{"code":3}}"#);
    assert_eq!(end(&mut sandbox), Exit::Code(3));
    release(sandbox);
}

pub fn kill_rest_beats_a_forker(world: &World) {
    let code = r#"
import os, time
if os.fork() == 0:
    while True:
        try:
            if os.fork() == 0: continue
            os.waitpid(-1, os.WNOHANG)
        except OSError: pass
print("up", flush=True)
time.sleep(0.3)
os.read(3, 1)
time.sleep(0.3)
try:
    while True: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: pass
print("left", len([p for p in os.listdir("/proc") if p.isdigit()]), flush=True)
"#;
    let mut sandbox = world.start(code);
    packet(&sandbox.init);
    assert_eq!(line(&sandbox.stdout), "up");
    let started = Instant::now();
    send(&sandbox.init, br#"{"op":"kill_rest","id":9}"#, SendFlags::empty()).unwrap();
    assert_eq!(packet(&sandbox.init), r#"{"id":9,"outcome":"delivered"}"#);
    println!("kill_rest of a fork bomb {:?}", started.elapsed());
    send(&sandbox.control, b"x", SendFlags::empty()).unwrap();
    assert_eq!(line(&sandbox.stdout), "left 1");
    end(&mut sandbox);
    release(sandbox);
}

pub fn the_end_is_told(world: &World) {
    let parting = "import os\nif os.fork(): os._exit(0)\nimport time; time.sleep(100)";
    for (code, told, exit) in [
        ("import os; os._exit(5)", r#"{"exit":{"code":5}}"#, Exit::Code(5)),
        ("import os; os.kill(os.getpid(), 9)", r#"{"exit":{"signal":9}}"#, Exit::Code(137)),
        (parting, r#"{"exit":{"code":0}}"#, Exit::Code(0)),
    ] {
        let mut sandbox = world.start(code);
        packet(&sandbox.init);
        assert_eq!(packet(&sandbox.init), told);
        assert_eq!(end(&mut sandbox), exit);
        release(sandbox);
    }
}

pub fn init_ends_though_nobody_reads(world: &World) {
    let mut sandbox = world.start("import time; time.sleep(1.5)");
    let mut asked = 0;
    let ask = |id: u32| format!(r#"{{"op":"kill_rest","id":{id}}}"#);
    while asked < 5000 && send(&sandbox.init, ask(asked).as_bytes(), SendFlags::DONTWAIT).is_ok() {
        asked += 1;
        if asked % 100 == 0 {
            wait(&sandbox.pidfd, 5);
        }
    }
    end(&mut sandbox);
    release(sandbox);
}

/// Set for the copy of this test that plays the supervisor.
const PLAYS: &str = "REPLTOOL_TEST_SUPERVISOR";

pub fn dies_with_the_supervisor(world: &World) {
    if std::env::var_os(PLAYS).is_some() {
        let sandbox = world.start("import time; time.sleep(600)");
        println!("pid {}", sandbox.pid);
        wait(&sandbox.pidfd, 600_000);
        return;
    }
    let mut again = Command::new("/proc/self/exe");
    // Killed, it cannot remove what it made.
    again.args(std::env::args_os().skip(1)).env(PLAYS, "1").env("TMPDIR", world.dir.path()).stdout(Stdio::piped());
    let mut supervisor = again.spawn().unwrap();
    let mut told = BufReader::new(supervisor.stdout.take().unwrap()).lines();
    let pid = told.find_map(|line| line.unwrap().strip_prefix("pid ")?.parse().ok()).expect("it makes a sandbox");
    let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    assert!(!wait(&pidfd, 0));
    supervisor.kill().unwrap();
    assert!(wait(&pidfd, 5000), "the sandbox outlives its supervisor");
    supervisor.wait().unwrap();
}
