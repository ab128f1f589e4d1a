//! The working directory: kept from one sandbox to the next, bounded, nobody else's, and gone in the end.

use repltool::sandbox::{Exit, SpawnError};
use repltool_protocol::rest::SandboxMode;

use crate::remains::mounts;
use crate::world::{Run, WORKDIR_BYTES, WORKDIR_INODES, World, kill, line, python};

pub fn workdir_outlives_a_sandbox(world: &World) {
    world.python(SandboxMode::Standard, "open('/workspace/kept', 'w').write('still here')");
    // However the one before ended.
    kill(world.start("open('/workspace/more', 'w').write('!'); import os; os.kill(os.getpid(), 19)"));
    let (text, _) = world.python(SandboxMode::Relaxed, "print(open('kept').read()); import os; os.unlink('kept')");
    assert_eq!(text, "still here\n");
}

pub fn workdir_is_no_larger_than_told(world: &World) {
    let code = "
import errno, os
chunk, size = b'x' * (1 << 16), 0
with open('large', 'wb', buffering=0) as file:
    try:
        while True: size += file.write(chunk)
    except OSError as error: print(errno.errorcode[error.errno], size)
os.unlink('large')
files = 0
try:
    while True: open(str(files), 'w').close(); files += 1
except OSError as error: print(errno.errorcode[error.errno], files)
for n in range(files): os.unlink(str(n))
";
    for mode in [SandboxMode::Standard, SandboxMode::Relaxed] {
        let (text, exit) = world.python(mode, code);
        // The root takes an inode.
        let expected = format!("ENOSPC {WORKDIR_BYTES}\nENOSPC {}\n", WORKDIR_INODES - 1);
        assert_eq!((text, exit), (expected, Exit::Code(0)));
    }
}

pub fn workdirs_are_apart_and_leave_nothing(world: &World) {
    let before = (mounts(), places(world));
    let several: Vec<_> =
        (0..3).map(|_| world.workdirs.borrow_mut().create(1 << 20, 64, world.identity).unwrap()).collect();
    let run = |index: usize, code: &str| {
        let (text, exit) = world.output(&Run { workdir: several.get(index), program: &python(code), ..Run::default() });
        assert_eq!(exit, Exit::Code(0), "{text}");
        text
    };
    for index in 0..3 {
        run(index, &format!("open('mine', 'w').write('{index}')"));
    }
    for index in 0..3 {
        let code = "import os; print(open('mine').read(), os.listdir('/workspace'), os.path.exists('/homes'))";
        assert_eq!(run(index, code), format!("{index} ['mine'] False\n"));
    }
    // Let go while a sandbox has it: that one still sees its files, and nothing else is left of it.
    let code = "print('up', flush=True)\nimport os; os.read(3, 1)\nprint(open('mine').read(), flush=True)";
    let sandbox = world.spawn(&Run { workdir: several.first(), program: &python(code), ..Run::default() }).unwrap();
    assert_eq!(line(&sandbox.stdout), "up");
    drop(several);
    assert_eq!((mounts(), places(world)), before);
    rustix::net::send(&sandbox.control, b"x", rustix::net::SendFlags::empty()).unwrap();
    assert_eq!(line(&sandbox.stdout), "0");
    kill(sandbox);
    assert_eq!((mounts(), places(world)), before);
}

/// What lies where working directories are attached, as this process sees it.
fn places(world: &World) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(&world.place).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

pub fn attached_workdirs_are_nobody_elses(world: &World) {
    assert_eq!(places(world).len(), 1);
    let ours = |mounts: &str| mounts.lines().filter(|line| line.contains(world.place.to_str().unwrap())).count();
    assert_eq!(ours(&mounts()), 2, "the place and what is attached there: {}", mounts());
    // Neither who started this process nor the sandbox sees any of it.
    let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero();
    let outside = std::fs::read_to_string(format!("/proc/{parent}/mountinfo")).unwrap();
    assert_eq!(ours(&outside), 0, "{outside}");
    let sandbox = world.start("print(open('/proc/self/mountinfo').read().replace('\\n', ';'), flush=True)");
    let inside = line(&sandbox.stdout).replace(';', "\n");
    assert!(inside.contains(" /workspace ") && ours(&inside) == 0, "{inside}");
    let init = std::fs::read_to_string(format!("/proc/{}/mountinfo", sandbox.pid));
    assert!(init.is_err() || init.is_ok_and(|init| ours(&init) == 0 && !init.contains("homes")));
    kill(sandbox);
}

pub fn cwd_is_made_and_never_leaves(world: &World) {
    let pwd = python("import os; print(os.getcwd())");
    let (text, _) = world.output(&Run { cwd: "a/b", program: &pwd, ..Run::default() });
    assert_eq!(text, "/workspace/a/b\n");
    for cwd in ["../etc", "/etc", "a/../../etc"] {
        assert!(matches!(world.spawn(&Run { cwd, program: &pwd, ..Run::default() }), Err(SpawnError::Request(_))));
    }
    let links = "import os; os.symlink('/etc', 'link'); os.symlink('/usr', 'a/u'); open('file','w')";
    world.python(SandboxMode::Standard, links);
    for cwd in ["link/made", "file"] {
        let error = world.spawn(&Run { cwd, program: &pwd, ..Run::default() }).unwrap_err();
        assert!(matches!(error, SpawnError::Cwd(_)), "{error:?}");
    }
    // A program that closes the directory to itself does not end its session by that.
    world.python(SandboxMode::Standard, "import os; os.chmod('/workspace', 0)");
    let (text, _) = world.output(&Run { program: &pwd, ..Run::default() });
    assert_eq!(text, "/\n");
    let (text, _) =
        world.python(SandboxMode::Standard, "import os; os.chmod('/workspace', 0o700); os.chdir('/workspace')");
    assert_eq!(text, "");
}
