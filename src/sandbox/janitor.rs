//! Takes away what Linux does not take away by itself when a server is killed: its cgroups.
//!
//! A copy of the supervisor, made at start, that waits for the end of a pipe whose other end only the supervisor holds.
//! It opens nothing and listens to nobody. Everything else a supervisor has, its processes, mounts and descriptors, ends
//! with it by death signals and namespaces.

#![allow(unsafe_code, reason = "it is a fork, like init")]

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::event::{Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::Plan;
use super::cgroup::Host;
use super::sys::{self, Forked};

/// How often, [`PAUSE`] apart, it tries to remove the cgroups: their processes die at the same moment.
const ROUNDS: usize = 100;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A running janitor. Dropping it ends it, after it has looked whether anything is left.
#[derive(Debug)]
pub struct Janitor {
    lifeline: Option<OwnedFd>,
    pidfd: OwnedFd,
}

impl Janitor {
    /// Starts one, where there are cgroups to take away.
    ///
    /// # Errors
    /// Those of pipe(2) and clone(2).
    pub fn start(plan: &Plan) -> io::Result<Option<Self>> {
        if matches!(plan.host, Host::None) {
            return Ok(None);
        }
        let (reading, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the supervisor has one thread when it starts its janitor, and the child never returns from `tidy_up`.
        match unsafe { sys::clone_process(0) }? {
            Forked::Child => tidy_up(&plan.host, &reading),
            Forked::Parent { pidfd, .. } => Ok(Some(Self { lifeline: Some(lifeline), pidfd })),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.lifeline = None;
        // With the cgroups gone already, it ends within a moment.
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

fn tidy_up(host: &Host, lifeline: &OwnedFd) -> ! {
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"janitor");
    if let Ok(mut lifeline) = keep_only(lifeline) {
        // Nobody writes: the pipe's end is the supervisor's.
        let _ = lifeline.read_to_end(&mut Vec::new());
        for _ in 0..ROUNDS {
            host.shutdown();
            if host.is_gone() {
                break;
            }
            let _ = poll(&mut [], Some(&PAUSE));
        }
    }
    sys::exit_now(0)
}

/// Closes every other descriptor, whatever the supervisor had open: the lock of the data directory and the listening
/// socket must end with it.
fn keep_only(lifeline: &OwnedFd) -> io::Result<File> {
    const KEPT: RawFd = 0;
    // SAFETY: this copy of the supervisor uses none of the owners that it was copied with, and drops none: it ends in
    // `exit_now`.
    unsafe {
        if lifeline.as_raw_fd() != KEPT {
            sys::place(lifeline.as_fd(), KEPT)?;
        }
        sys::close_range(KEPT + 1, RawFd::MAX)?;
        Ok(File::from_raw_fd(KEPT))
    }
}
