//! A kill is complete: whatever runs in a sandbox, and however it hides, a moment later nothing is left of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::remains::{cgroups, children, mounts};
use crate::world::{Setting, World, end, line, packet, release};

/// Whatever is hard to get rid of.
const FAMILY: &str = include_str!("family.py");

/// Processes of the family: the first, one of each kind, and the children of three of them; a dead one counts.
const MEMBERS: usize = 1 + 9 + 3;
/// Within which time a kill is complete. It is some milliseconds; the rest is for a machine with much else to do.
const PROMPT: Duration = Duration::from_secs(5);
const ROUNDS: usize = 6;

fn descendants(of: i32) -> Vec<i32> {
    children(of).into_iter().flat_map(|pid| [vec![pid], descendants(pid)].concat()).collect()
}

/// Processes of the sandboxes' own uid, where they have one.
fn of_identity(world: &World) -> Vec<String> {
    let (payload, _) = world.identity.payload_owner();
    if !world.setting.is_root() {
        return Vec::new();
    }
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let status = processes.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
    status.filter(|it| it.lines().any(|line| line.starts_with(&format!("Uid:\t{payload}\t")))).collect()
}

/// Bytes in memory files that are charged to this server, in whatever group; 0 where nobody counts them.
fn shared_memory() -> u64 {
    let folder = server_folders().into_iter().find(|it| it.join("memory.limit_in_bytes").exists());
    let text = folder.and_then(|it| std::fs::read_to_string(it.join("memory.stat")).ok()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("total_shmem "));
    line.map_or(0, |it| it.parse().unwrap())
}

/// This server's own folder in every hierarchy.
fn server_folders() -> Vec<PathBuf> {
    fn find(path: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten().filter(|it| it.path().is_dir()) {
            if entry.file_name() == name {
                found.push(entry.path());
            } else {
                find(&entry.path(), name, found);
            }
        }
    }
    let mut found = Vec::new();
    find("/sys/fs/cgroup".as_ref(), &format!("repltool-{}", std::process::id()), &mut found);
    found
}

pub fn nothing_outlives_a_kill(world: &World) {
    let own = std::process::id().cast_signed();
    let held = || (children(own), mounts(), cgroups(), of_identity(world));
    let (before, memory) = (held(), shared_memory());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let mut sandbox = world.start(FAMILY);
        packet(&sandbox.init);
        assert_eq!(line(&sandbox.stdout), "all");
        let family = descendants(sandbox.pid);
        assert_eq!(family.len(), MEMBERS, "as the host sees them");
        if world.plan.has_memory_cgroup() && shared_memory() > 0 {
            assert!(shared_memory() >= memory + (12 << 20), "what is hoarded is seen");
        }
        let started = Instant::now();
        sandbox.kill();
        end(&mut sandbox);
        release(sandbox);
        times.push(started.elapsed());
        assert!(!family.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()), "all of them are gone");
        assert_eq!(held(), before);
        let left = shared_memory().saturating_sub(memory);
        assert!(left < 1 << 20, "{left} bytes are left");
    }
    times.sort();
    println!("kill of {MEMBERS} to gone: median {:?}, at most {:?}", times[ROUNDS / 2], times[ROUNDS - 1]);
    assert!(times[ROUNDS - 1] < PROMPT, "{times:?}");
}

pub fn frozen_and_moved_processes_die_too(world: &World) {
    assert_eq!(world.setting, Setting::Root);
    for trick in ["frozen", "moved"] {
        let mut sandbox = world.start(FAMILY);
        packet(&sandbox.init);
        assert_eq!(line(&sandbox.stdout), "all");
        let family = descendants(sandbox.pid);
        for folder in server_folders() {
            if trick == "frozen" {
                freeze(&folder);
            } else {
                // Out of the group of their sandbox, so that no switch of a group reaches them.
                let moved = |pid: &i32| std::fs::write(folder.join("cgroup.procs"), pid.to_string());
                // On v2, a group that hands controllers down takes nobody.
                let _ = family.iter().try_for_each(moved);
            }
        }
        sandbox.kill();
        end(&mut sandbox);
        release(sandbox);
        assert!(!family.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()), "{trick}");
    }
}

/// Stops every group below a folder, where the hierarchy can.
fn freeze(folder: &Path) {
    for group in std::fs::read_dir(folder).unwrap().flatten().filter(|it| it.path().is_dir()) {
        let switch = group.path().join("cgroup.freeze");
        if switch.exists() {
            std::fs::write(&switch, "1").unwrap();
            let deadline = Instant::now() + PROMPT;
            let is_frozen =
                || std::fs::read_to_string(group.path().join("cgroup.events")).unwrap().contains("frozen 1");
            while !is_frozen() {
                assert!(Instant::now() < deadline, "it does not freeze");
                std::thread::yield_now();
            }
        }
    }
}
