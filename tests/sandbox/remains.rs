//! Nothing is left of a sandbox: no descriptor, process, mount or cgroup.

use std::path::Path;

use tokio::time::Instant;

use crate::world::{Run, World, end, release};

const ROUNDS: usize = 60;

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Folders in this server's own folder, in every hierarchy.
fn cgroups() -> usize {
    fn count(path: &Path, own: &str, inside: bool) -> usize {
        let folders = std::fs::read_dir(path).into_iter().flatten().flatten().filter(|e| e.path().is_dir());
        folders.map(|e| usize::from(inside) + count(&e.path(), own, inside || e.file_name() == own)).sum()
    }
    count("/sys/fs/cgroup".as_ref(), &format!("repltool-{}", std::process::id()), false)
}

/// Children of this process, in the numbers of its pid namespace.
fn children() -> usize {
    let own = std::process::id().to_string();
    let parent = |stat: String| stat.rsplit(')').next().unwrap().split(' ').nth(2).map(str::to_owned);
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| parent(stat.clone()).as_ref() == Some(&own)).count()
}

pub fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}

pub fn nothing_is_left_after_many_rounds(world: &World) {
    let sleep = Run { program: &["/usr/bin/sleep", "600"], ..Run::default() };
    // The first start opens what stays open.
    drop(world.spawn(&sleep).unwrap());
    let before = (fds(), children(), mounts(), cgroups());
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
    assert_eq!((fds(), children(), mounts(), cgroups()), before);
    for (what, times) in [("spawn to exec", &mut spawned), ("kill to gone", &mut killed)] {
        times.sort();
        println!("{what}: median {:?}, p95 {:?}", times[ROUNDS / 2], times[ROUNDS * 95 / 100]);
    }
}
