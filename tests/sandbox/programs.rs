//! What works inside, and how a program that cannot be started is told.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use repltool::sandbox::{Exit, Limits, SpawnError};
use repltool_protocol::rest::SandboxMode;

use crate::world::{LIMITS, Run, World, python};

pub fn useful_things_work(world: &World) {
    let code = r#"
import os, threading, multiprocessing, tempfile, subprocess, asyncio, socket, time
assert os.getuid() == 1000 and os.getcwd() == "/workspace", (os.getuid(), os.getcwd())
open("/workspace/a", "w").write("x"); os.rename("/workspace/a", "/workspace/b"); os.mkdir("/workspace/d"); os.rename("/workspace/b", "/workspace/d/c")
assert os.listdir("/workspace/d") == ["c"]; os.unlink("/workspace/d/c"); os.rmdir("/workspace/d")
os.mkfifo("/tmp/f"); os.symlink("x", "/tmp/l"); os.unlink("/tmp/l")
t = threading.Thread(target=lambda: None); t.start(); t.join()
q = multiprocessing.Queue(); p = multiprocessing.Process(target=q.put, args=(7,)); p.start(); assert q.get(timeout=10) == 7; p.join()
assert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]
tempfile.TemporaryFile().write(b"x")
found = os.listdir("/")
assert set(found) <= set("bin dev etc lib lib64 proc run sbin tmp usr workspace".split()), found
asyncio.run(asyncio.sleep(0.01))
open("/dev/null", "w").write("x"); open("/dev/stdout", "w").write("via dev\n"); assert open("/dev/urandom", "rb").read(1)
assert os.path.expanduser("~") == "/workspace"
import pwd; assert pwd.getpwuid(os.getuid()).pw_name == "user"
assert socket.gethostname() == "sandbox"
assert time.tzname[0] == "UTC"
assert open("/run/repltool/driver.py").read() == "print('driver')"
print("fine")
"#;
    for mode in [SandboxMode::Standard, SandboxMode::Relaxed] {
        let (text, exit) = world.python(mode, code);
        assert!(text.contains("fine") && text.contains("via dev") && exit == Exit::Code(0), "{text} {exit:?}");
    }
    let code = r#"
import asyncio, socket, subprocess
assert subprocess.run(["/usr/bin/env"], capture_output=True).returncode == 0
assert subprocess.run("ls /", shell=True, capture_output=True, text=True).stdout.split()
async def main():
    p = await asyncio.create_subprocess_exec("/usr/bin/true"); return await p.wait()
assert asyncio.run(main()) == 0
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((host, 8080)); s.listen()
    c = socket.create_connection((host, 8080)); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    a, _ = s.accept(); c.send(b"x"); assert a.recv(1) == b"x"
assert socket.getaddrinfo("localhost", 80)
print("fine")
"#;
    let (text, _) = world.python(SandboxMode::Relaxed, code);
    assert!(text.contains("fine"), "{text}");
}

/// Addresses and hashes come out differently each time.
pub fn no_two_sandboxes_are_alike(world: &World) {
    let code =
        "print(id(object()), hash('text'), [l for l in open('/proc/self/maps') if 'stack' in l][0].split('-')[0])";
    let seen: Vec<_> = (0..3).map(|_| world.python(SandboxMode::Standard, code).0).collect();
    let parts = |index: usize| -> Vec<_> { seen.iter().map(|text| text.split(' ').nth(index).unwrap()).collect() };
    for index in 0..3 {
        let parts = parts(index);
        assert!(parts[0] != parts[1] && parts[1] != parts[2] && parts[0] != parts[2], "{seen:?}");
    }
}

pub fn other_programs_start(world: &World) {
    let shell = "echo $(ls /usr | head -1 | wc -l); cat <(echo psub); [[ -t 0 ]] || echo notty";
    let perl = "my $pid = fork; if (!$pid) { print qq(child\n); exit } waitpid $pid, 0; print qq(parent\n)";
    for (program, expected) in
        [(["/usr/bin/bash", "-c", shell], "1\npsub\nnotty\n"), (["/usr/bin/perl", "-e", perl], "child\nparent\n")]
    {
        let limits =
            Limits { memory_bytes: if world.plan.has_memory_cgroup() { 256 << 20 } else { 4 << 30 }, ..LIMITS };
        let (text, exit) = world.output(&Run { program: &program, limits, ..Run::default() });
        assert_eq!((text.as_str(), exit), (expected, Exit::Code(0)));
    }
}

pub fn binds_are_seen_read_only(world: &World) {
    // The folder around it is closed to everybody else: as root, the uid of the program could not come here on the host.
    let closed = tempfile::Builder::new().prefix("repltool-test-").tempdir_in("/var/tmp").unwrap();
    let prefix = closed.path().join("prefix");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::copy("/usr/bin/true", prefix.join("bin/true")).unwrap();
    std::fs::set_permissions(&prefix, std::fs::Permissions::from_mode(0o755)).unwrap();
    let code = format!(
        "import os, subprocess
prefix = {prefix:?}
print(os.listdir(prefix), subprocess.run(prefix + '/bin/true').returncode)
try: open(prefix + '/x', 'w')
except OSError as e: print(e)"
    );
    let (text, _) = world.output(&Run { binds: &[prefix], program: &python(&code), ..Run::default() });
    assert!(text.starts_with("['bin'] 0\n[Errno 30]"), "{text}");
}

pub fn failures_name_their_step(world: &World) {
    let error = world.spawn(&Run { program: &["/usr/bin/no-such-program"], ..Run::default() }).unwrap_err();
    assert!(matches!(&error, SpawnError::Exec(e) if e.raw_os_error() == Some(libc::ENOENT)), "{error:?}");
    let error = world.spawn(&Run { program: &["/etc/passwd"], ..Run::default() }).unwrap_err();
    assert!(matches!(error, SpawnError::Exec(_)), "{error:?}");
    let binds = [PathBuf::from("/no/such/prefix")];
    let error = world.spawn(&Run { binds: &binds, program: &["/usr/bin/true"], ..Run::default() }).unwrap_err();
    assert!(matches!(error, SpawnError::Tree { .. }), "{error:?}");
    let stop = std::sync::Arc::new(std::sync::Barrier::new(2));
    let other = std::thread::spawn({
        let stop = stop.clone();
        move || stop.wait()
    });
    let error = world.spawn(&Run { program: &["/usr/bin/true"], ..Run::default() }).unwrap_err();
    assert!(matches!(error, SpawnError::Threads), "{error:?}");
    stop.wait();
    other.join().unwrap();
}
