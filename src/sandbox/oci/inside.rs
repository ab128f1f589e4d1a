//! Pid 1 of a container, when the runtime has executed it: becomes init as any other, but with what was passed to it
//! instead of what a copy of the supervisor has.

#![allow(unsafe_code, reason = "takes over descriptors by their number")]

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};

use landlock::ABI;
use nix::sys::signal::SigSet;
use rustix::fs::Mode;
use rustix::net::{SendFlags, send};
use rustix::process::umask;

use super::note;
use super::order::Order;
use crate::sandbox::enter::{self, Entry};
use crate::sandbox::error::{At as _, Failure, Step};
use crate::sandbox::place::Place;
use crate::sandbox::spawn::{self, Theirs};
use crate::sandbox::workdir::Workdir;
use crate::sandbox::{Request, policy, root, sys};

/// The hidden command of the program that comes here.
pub(super) const COMMAND: &str = "sandbox-init";

/// The first descriptor that the runtime passes on.
pub(super) const FIRST: RawFd = 3;

/// What is passed on, in this order.
pub(super) struct Passed<T> {
    pub(super) sync: T,
    pub(super) stdout: T,
    pub(super) stderr: T,
    pub(super) control: T,
    pub(super) init: T,
    pub(super) workdir: T,
    pub(super) order: T,
}

impl<T> Passed<T> {
    pub(super) fn in_order(self) -> [T; 7] {
        let Self { sync, stdout, stderr, control, init, workdir, order } = self;
        [sync, stdout, stderr, control, init, workdir, order]
    }
}

impl Passed<OwnedFd> {
    fn take() -> io::Result<Self> {
        let mut next = FIRST;
        let mut take = || {
            // SAFETY: the program has just begun, and owns nothing but what it was started with.
            let taken = unsafe { sys::take(next) };
            next += 1;
            taken
        };
        Ok(Self {
            sync: take()?,
            stdout: take()?,
            stderr: take()?,
            control: take()?,
            init: take()?,
            workdir: take()?,
            order: take()?,
        })
    }
}

/// Serves as init for good. Returns only if it was not started by a runtime as it should be.
///
/// # Errors
/// What is missing.
pub fn main() -> io::Error {
    match prepare() {
        Err(error) => error,
        Ok((passed, order)) => become_init(passed, &order),
    }
}

fn prepare() -> io::Result<(Passed<OwnedFd>, Order)> {
    SigSet::all().thread_block()?;
    umask(Mode::from_raw_mode(0o022));
    let mut passed = Passed::take()?;
    // Out of the way of what the program gets.
    passed.sync = enter::high(passed.sync.as_fd())?;
    let order = Order::read(&passed.order)?;
    Ok((passed, order))
}

fn become_init(passed: Passed<OwnedFd>, order: &Order) -> ! {
    let Passed { sync, stdout, stderr, control, init, workdir, order: _ } = passed;
    let wires = Theirs { sync, stdout, stderr, control, init };
    let workdir = Workdir::of_root(workdir);
    let request = Request {
        name: "",
        mode: order.mode,
        kind: order.kind,
        own: &[],
        identity: order.identity,
        workdir: &workdir,
        argv: &order.argv,
        environment: &order.environment,
        cwd: &order.cwd,
        files: &[],
        binds: &order.binds,
        interrupt: order.interrupt,
        limits: order.limits,
    };
    let level = policy::level(order.mode, order.kind);
    let entry = Entry {
        request: &request,
        limits: order.limits,
        filter: &order.filter(),
        policy: level,
        landlock: ABI::from(sys::landlock_version()),
        memory_is_counted: order.memory_is_counted,
        processes_are_counted: order.processes_are_counted,
        place: Place::in_tree(workdir.root().as_fd(), level, &request),
        entrance: None,
        wires: &wires,
        is_vacant: false,
    };
    enter::stay(&entry, go_on)
}

fn go_on(entry: &Entry<'_>) -> Result<Infallible, Failure> {
    let wires = entry.wires;
    // By this, the supervisor learns the pid.
    send(&wires.sync, &[note::READY], SendFlags::NOSIGNAL).at(Step::Start)?;
    enter::wait_for_go(&wires.sync).at(Step::Start)?;
    let inside = root::exchange_proc(entry.policy.files).at(Step::Binds)?;
    if !inside.has_proc {
        send(&wires.sync, &[spawn::note::NO_PROC], SendFlags::NOSIGNAL).at(Step::Start)?;
    }
    enter::lock_and_serve(entry, inside.proc, None)
}
