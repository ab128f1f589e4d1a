//! What the levels give to each kind of program, and what they refuse by name.

use std::path::PathBuf;
use std::process::Command;

use repltool::sandbox::{Kind, Limits};
use repltool_protocol::rest::SandboxMode;

use crate::world::{LIMITS, Run, World, python};

const UTILITIES: Kind = Kind::Shell { utilities: true };
const BUILTINS: Kind = Kind::Shell { utilities: false };

pub fn bash(code: &str) -> [&str; 5] {
    ["/usr/bin/bash", "--norc", "--noprofile", "-c", code]
}

pub fn library() -> Vec<PathBuf> {
    let ask = ["-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))"];
    let answer = Command::new("/usr/bin/python3").args(ask).output().unwrap();
    vec![String::from_utf8(answer.stdout).unwrap().trim().into()]
}

pub fn strict_python_has_nothing_but_itself(world: &World) {
    let code = r#"
import os, _thread, json, sqlite3, ssl, hashlib, asyncio, time, socket
lock = _thread.allocate_lock(); lock.acquire(); _thread.start_new_thread(lock.release, ()); lock.acquire()
assert asyncio.run(asyncio.sleep(0, 7)) == 7
assert json.loads("[1]") == [1] and hashlib.sha256(b"x").hexdigest()
def attempt(what, *arguments):
    try: print("ESCAPED", what.__name__, arguments, what(*arguments))
    except OSError as error: print("refused", error.errno)
for path in ("/etc/passwd", "/proc/self/status", "/usr/bin/id", "/usr/share/doc", "/sys/kernel", "/bin/sh"):
    assert not os.path.exists(path), path
attempt(os.listdir, "/")
attempt(open, "/tmp/x", "w"); attempt(open, "/workspace/x", "w"); attempt(open, "/x", "w"); attempt(open, "/run/repltool/x", "w")
attempt(os.fork)
attempt(os.execv, "/usr/bin/python3", ["python3"])
attempt(socket.socket, socket.AF_INET, socket.SOCK_STREAM)
print("fine", os.getcwd())
"#;
    let own = library();
    let run = Run { mode: SandboxMode::Strict, own: &own, program: &python(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.contains("fine /\n") && !text.contains("ESCAPED"), "{text}");
    assert_eq!(told, ["process: clone", "exec: execve /usr/bin/python3", "network: socket"], "{text}");
}

pub fn strict_bash_forks_and_executes_nothing(world: &World) {
    let code =
        "echo $(echo forked) | { read x; echo $x; }; ls; /usr/bin/bash -c 'echo ESCAPED'; echo x > /tmp/y; echo $?
        cat /etc/passwd; for f in /*; do echo $f; done; [[ -e /usr/bin/ls ]] || echo fine";
    let run = Run { mode: SandboxMode::Strict, kind: UTILITIES, program: &bash(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.starts_with("forked\n") && text.contains("fine") && !text.contains("ESCAPED"), "{text}");
    assert_eq!(told, ["exec: execve /usr/bin/bash"], "{text}");
}

pub fn strict_node_runs(world: &World) {
    let code = "const {Worker} = require('worker_threads');
        new Worker('1', {eval: true}).on('exit', () => {
            try { require('fs').readFileSync('/etc/passwd'); console.log('ESCAPED') } catch (e) { console.log(e.code) }
            const r = require('child_process').spawnSync('/usr/bin/id'); console.log(r.error.code, 'fine') })";
    let limits = Limits { memory_rlimit: repltool::sandbox::MemoryRlimit::Data, ..LIMITS };
    let node = Run { mode: SandboxMode::Strict, limits, program: &["/usr/bin/node", "-e", code], ..Run::default() };
    let (text, told) = world.refused(&node);
    assert_eq!((text.as_str(), told.as_slice()), ("ENOENT\nEACCES fine\n", ["process: clone".to_owned()].as_slice()));
}

pub fn standard_python_executes_nothing(world: &World) {
    let code = r#"
import os, subprocess, multiprocessing
pid = os.fork()
if not pid: os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
open("/workspace/script", "w").write('#!/bin/sh\necho ESCAPED\n'); os.chmod("/workspace/script", 0o755)
os.symlink("/root/no-such-file", "/workspace/link")
for argv in (["/usr/bin/id"], ["/workspace/script"], ["no-such-program"], ["./link"], ["uname"]):
    try: subprocess.run(argv); print("ESCAPED")
    except OSError as error: print(error.errno)
print(os.system("id"), "fine")
"#;
    let run = Run { mode: SandboxMode::Standard, program: &python(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.starts_with("13\n13\n2\n2\n13\n") && text.contains("fine") && !text.contains("ESCAPED"), "{text}");
    let expected = ["exec: execve /usr/bin/id", "exec: execve /workspace/script", "exec: execve /bin/sh"];
    assert_eq!(told, expected, "what is not there, and what libraries try, is not told");
}

pub fn standard_bash_has_the_basic_utilities(world: &World) {
    let code = r#"set -e
cd /workspace; seq 3 | sort -r | tr '\n' ' '; echo hello > a; cp a b; diff a b; grep -c l a; sed s/h/j/ a; awk '{print $1}' b
find . -name a | xargs cat; tar cf x.tar a; gzip x.tar; zcat x.tar.gz | tar t; sha256sum a | cut -c1-8; date -u +%Z; sh -c 'echo sh'
egrep -c hello a; bash -c 'echo bash'; cat <(echo substituted); ls /usr/bin/python3 /usr/bin/perl /usr/bin/node 2>&1 | grep -c 'No such'
id -un; LC_ALL=C.UTF-8; x=é中😀; echo ${#x} $(TZ=Asia/Tokyo date -d @0 +%H); echo '#!/bin/sh' > s; chmod +x s; ./s 2> /tmp/told || echo noexec
echo $(ls /usr/bin | wc -l)"#;
    let run = Run { mode: SandboxMode::Standard, kind: UTILITIES, program: &bash(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    let (head, count) = text.trim_end().rsplit_once('\n').unwrap();
    let expected = "3 2 1 1\njello\nhello\nhello\na\n5891b5b5\nUTC\nsh\n1\nbash\nsubstituted\n3\nuser\n3 09\nnoexec";
    assert!(head.starts_with(expected), "{text}");
    let count: usize = count.parse().unwrap_or_else(|_| panic!("{text}"));
    assert!((100..160).contains(&count), "{count} programs");
    assert!(told.is_empty(), "{told:?}");
}

pub fn standard_bash_may_have_builtins_alone(world: &World) {
    let code =
        "cd /workspace; echo kept > a; read x < a; echo $x $(echo forked); ls; for f in /usr/bin/*; do echo $f; done";
    let run = Run { mode: SandboxMode::Standard, kind: BUILTINS, program: &bash(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert!(text.starts_with("kept forked\n/usr/bin/bash\n") && text.contains("ls: command not found"), "{text}");
    assert!(told.is_empty(), "{told:?}");
}

/// Numbers of calls are those of x86-64.
pub fn refused_calls_are_told_by_rule_and_name(world: &World) {
    let code = r#"
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    r = libc.syscall(*(ctypes.c_long(a) for a in arguments))
    print(r, errno.errorcode.get(ctypes.get_errno()))
call(101, 16, 1, 0, 0); call(165, 0, 0, 0, 0, 0); call(425, 8, 0); call(308, 0, 0); call(56, 0x10000000, 0, 0, 0, 0)
call(105, 0); call(169, 0, 0, 0, 0); call(304, 0, 0, 0); call(16, 0, 0x5412, 0); call(317, 0, 0, 0)
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError as e: print(-1, errno.errorcode[e.errno])
"#;
    let run = Run { program: &python(code), ..Run::default() };
    let (text, told) = world.refused(&run);
    assert_eq!(text, format!("{}-1 EACCES\n", "-1 EPERM\n".repeat(10)));
    let expected = [
        "trace: ptrace",
        "mount: mount",
        "kernel: io_uring_setup",
        "namespace: setns",
        "namespace: clone",
        "identity: setuid",
        "machine: reboot",
        "handle: open_by_handle_at",
        "device: ioctl",
        "network: socket",
    ];
    assert_eq!(told, expected, "{text}");
}

pub fn without_an_answerer_calls_are_refused(world: &World) {
    let code = "import os\ntry: os.setuid(0); print('ESCAPED')\nexcept OSError as e: print(e.errno)";
    let (text, _) = world.output(&Run { program: &python(code), ..Run::default() });
    assert_eq!(text, format!("{}\n", libc::ENOSYS));
}
