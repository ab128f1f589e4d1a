//! Removes the folders of dead servers, after killing what is left in them. Knows nothing of controllers: it is given
//! the folders in which server folders may lie, for v1 one in each hierarchy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process},
};
use tokio::time::Instant;

use super::{SERVER_LEAF, is_gone, server_of, server_of_side, sub_folders};

/// Three rounds, since a process may fork between being listed and being killed; cgroup.kill needs only one.
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(300);

/// Sweeps all `bases` for the server with pid `own`: dead servers' folders go entirely, its own is emptied of groups.
pub(super) fn sweep(bases: &[&Path], own: u32) {
    for (server, folders) in servers(bases) {
        if server != own && is_alive(server) {
            continue;
        }
        let groups: Vec<PathBuf> =
            folders.iter().flat_map(|folder| sub_folders(folder)).filter(|g| server != own || !is_leaf(g)).collect();
        if groups.iter().any(|group| members(group).foreign) {
            // These processes live in another pid namespace, so the pid says nothing about their server.
            continue;
        }
        kill_all(&groups);
        let gone = groups.iter().filter(|group| is_gone(group)).count();
        let emptied = gone == groups.len();
        let removed = server == own || folders.iter().filter(|folder| is_gone(folder)).count() == folders.len();
        if !(emptied && removed) {
            tracing::warn!(server, "cgroups of a dead server could not be removed");
        }
    }
}

fn is_leaf(group: &Path) -> bool {
    group.ends_with(SERVER_LEAF)
}

/// All server folders by pid.
fn servers(bases: &[&Path]) -> BTreeMap<u32, Vec<PathBuf>> {
    let mut found: BTreeMap<u32, Vec<PathBuf>> = BTreeMap::new();
    for folder in bases.iter().flat_map(|base| sub_folders(base)) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(pid) = server_of(name).or_else(|| server_of_side(name)) {
            found.entry(pid).or_default().push(folder);
        }
    }
    found
}

/// Asks by signal 0 and not by `/proc`, which may hide the processes of other users.
fn is_alive(server: u32) -> bool {
    match i32::try_from(server).ok().and_then(Pid::from_raw) {
        Some(pid) => test_kill_process(pid) != Err(Errno::SRCH),
        None => false,
    }
}

struct Members {
    pids: BTreeSet<i32>,
    /// A process of another pid namespace is listed as 0.
    foreign: bool,
}

fn members(group: &Path) -> Members {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: BTreeSet<i32> = listed.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let foreign = pids.remove(&0);
    Members { pids, foreign }
}

fn all_members(groups: &[PathBuf]) -> BTreeSet<i32> {
    groups.iter().flat_map(|group| members(group).pids).collect()
}

fn kill_all(groups: &[PathBuf]) {
    for _ in 0..ROUNDS {
        let pids = all_members(groups);
        if pids.is_empty() {
            return;
        }
        let held: Vec<(i32, OwnedFd)> = pids
            .into_iter()
            .filter_map(|pid| Some((pid, pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?)))
            .collect();
        // A pid that is still listed now is the one that the descriptor holds, so no stranger is hit.
        let still = all_members(groups);
        let held: Vec<OwnedFd> = held.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, fd)| fd).collect();
        for group in groups {
            // Absent in v1; the signals below do it there.
            if group.join("cgroup.kill").exists() {
                let _ = fs::write(group.join("cgroup.kill"), "1");
            }
        }
        for pidfd in &held {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
        wait_for_death(held, Instant::now() + ROUND);
    }
}

fn wait_for_death(mut alive: Vec<OwnedFd>, deadline: Instant) {
    while !alive.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return };
        let mut fds: Vec<PollFd<'_>> =
            alive.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let dead: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut dead = dead.into_iter();
        alive.retain(|_| !dead.next().unwrap_or(true));
    }
}
