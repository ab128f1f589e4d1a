//! The end of every process of a user.

use std::io;

use rustix::event::{Timespec, poll};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, test_kill_process, waitpid};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::sandbox::sys;

/// How often, a millisecond apart, it is looked whether anybody is left.
const ROUNDS: usize = 200;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Kills every process of a user and waits, a fraction of a second at most, until they are gone. Linux signals all of them
/// in one step, so that none can fork in answer. A child does it that has become this user: it may signal nobody else.
pub(in crate::sandbox) fn kill_all_of(user: u32) {
    let done = sys::fork(|| i32::from(kill_as(user).is_err()));
    match done {
        Ok(pid) => while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {},
        Err(error) => tracing::error!(%error, user, "processes of a session may be left"),
    }
}

fn kill_as(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    // Takes every capability, too.
    set_thread_res_uid(uid, uid, uid)?;
    for _ in 0..ROUNDS {
        // It succeeds also where there is nobody whom it may signal.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::Signal::SIGKILL)?;
        if !is_anybody_left()? {
            break;
        }
        let _ = poll(&mut [], Some(&PAUSE));
    }
    Ok(())
}

/// The dead that nobody has waited for yet do not count.
fn is_anybody_left() -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = Dir::new(openat(CWD, "/proc", flags, Mode::empty())?)?;
    let names = proc.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok());
    let mut ours = names
        .filter_map(Pid::from_raw)
        .filter(|pid| *pid != getpid() && test_kill_process(*pid).is_ok())
        .filter(|pid| state(*pid).is_some_and(|state| !matches!(state, b'Z' | b'X')));
    Ok(ours.next().is_some())
}

fn state(pid: Pid) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may hold anything.
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(after + 2).copied()
}
