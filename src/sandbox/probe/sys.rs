//! The unsafe step of a trial: becoming two processes.

#![allow(unsafe_code, reason = "a throw-away child is made by fork or a raw clone")]

use std::{
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
};

use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::sys::{Forked, clone_process, exit_now};

/// Runs `body` in a child, which ends with it. Returns the child's pid and its descriptor.
///
/// Not by `clone3`, which containers refuse altogether because their filters cannot look into its arguments.
pub(super) fn child(body: impl FnOnce()) -> io::Result<(i32, OwnedFd)> {
    // SAFETY: with several threads a child may call only what is safe in a signal handler. One thread is the contract
    // of `probe`, and holds in its children; broken, a lock may never be released, which the child's deadline ends.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            let pid = Pid::from_raw(child.as_raw()).expect("the pid of a child is positive");
            Ok((child.as_raw(), pidfd_open(pid, PidfdFlags::empty())?))
        }
        ForkResult::Child => end_with(body),
    }
}

/// As [`child`], but in new namespaces (`CLONE_NEW*`), in the very way that a sandbox is started.
pub(super) fn child_in(namespaces: libc::c_int, body: impl FnOnce()) -> io::Result<(i32, OwnedFd)> {
    // SAFETY: one thread, as above; and the child does not return into its caller.
    match unsafe { clone_process(namespaces) }? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => end_with(body),
    }
}

/// Neither a return nor a panic of `body` gets back into the code that believes it exists once.
fn end_with(body: impl FnOnce()) -> ! {
    let ended = catch_unwind(AssertUnwindSafe(body));
    exit_now(i32::from(ended.is_err()))
}
