//! Nothing is left of a sandbox: no descriptor, process, mount or cgroup. And nothing of the server gets into one.

use std::path::Path;

use repltool::sandbox::Exit;
use repltool_protocol::rest::SandboxMode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::Instant;

use crate::world::{LIMITS, Run, World, end, release};

const ROUNDS: usize = 60;

pub fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Folders in this server's own folder, in every hierarchy.
pub fn cgroups() -> usize {
    fn count(path: &Path, own: &str, inside: bool) -> usize {
        let folders = std::fs::read_dir(path).into_iter().flatten().flatten().filter(|e| e.path().is_dir());
        folders.map(|e| usize::from(inside) + count(&e.path(), own, inside || e.file_name() == own)).sum()
    }
    count("/sys/fs/cgroup".as_ref(), &format!("repltool-{}", std::process::id()), false)
}

/// Children of a process, in the numbers of this pid namespace.
pub fn children(of: i32) -> Vec<i32> {
    let own = of.to_string();
    let parent = |stat: String| stat.rsplit(')').next().unwrap().split(' ').nth(2).map(str::to_owned);
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let stats = stats.filter(|stat| parent(stat.clone()).as_ref() == Some(&own));
    stats.map(|stat| stat.split(' ').next().unwrap().parse().unwrap()).collect()
}

pub fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}

pub fn nothing_is_left_after_many_rounds(world: &World) {
    let sleep = Run { program: &["/usr/bin/sleep", "600"], ..Run::default() };
    // The first start opens what stays open.
    drop(world.spawn(&sleep).unwrap());
    let own = std::process::id().cast_signed();
    let before = (fds(), children(own), mounts(), cgroups());
    let (mut spawned, mut killed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = Instant::now();
        let mut sandbox = world.spawn(&sleep).unwrap();
        spawned.push(started.elapsed());
        let started = Instant::now();
        if round % 4 == 3 {
            drop(sandbox);
        } else {
            sandbox.kill();
            end(&mut sandbox);
            release(sandbox);
        }
        killed.push(started.elapsed());
    }
    for _ in 0..20 {
        assert!(world.spawn(&Run { program: &["/no-such"], ..Run::default() }).is_err());
    }
    assert_eq!((fds(), children(own), mounts(), cgroups()), before);
    for (what, times) in [("spawn to exec", &mut spawned), ("kill to gone", &mut killed)] {
        times.sort();
        println!("{what}: median {:?}, p95 {:?}", times[ROUNDS / 2], times[ROUNDS * 95 / 100]);
    }
}

pub fn a_server_with_many_descriptors_passes_none_on(world: &World) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    // More than the program itself may have.
    let open = || std::fs::File::open("/dev/null").expect("this test needs a hard limit of some 2000 open files");
    let many: Vec<_> = (0..usize::try_from(LIMITS.open_files).unwrap() + 1000).map(|_| open()).collect();
    let code = "
import os
print([n for n in range(4096) if n != 4 and os.path.exists(f'/proc/self/fd/{n}')], len(os.listdir('/proc/self/fd')))
files = []
try:
    while True: files.append(open('/dev/null'))
except OSError as error: print(error.errno, len(files))
";
    let (text, exit) = world.python(SandboxMode::Standard, code);
    // The fifth is the directory that is listed.
    let expected = format!("[0, 1, 2, 3] 5\n24 {}\n", LIMITS.open_files - 4);
    assert_eq!((text, exit), (expected, Exit::Code(0)));
    drop(many);
}
