//! The keeper of a container: a copy of the supervisor that is pid 1 of a pid namespace around the container's own. It
//! prepares what the runtime needs, has it make the container, and waits for the end of everything.

#![allow(unsafe_code, reason = "forks and moves descriptors")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::fs::{CWD, MemfdFlags, Mode, memfd_create, mkdir, mkdirat};
use rustix::io::Errno;
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};
use rustix::net::{SendFlags, send};
use rustix::process::{DumpableBehavior, Signal, WaitOptions, set_dumpable_behavior, wait, waitpid};
use rustix::thread::{CapabilitySet, set_no_new_privs};

use super::inside::{FIRST, Passed};
use super::{BUNDLE, MAX_SAID, ROOT, Runtime, STAGE, STATE, note, read_whole};
use crate::sandbox::Identity;
use crate::sandbox::enter;
use crate::sandbox::error::{At as _, Failure, Step};
use crate::sandbox::rights;
use crate::sandbox::root::{self, Parts};
use crate::sandbox::spawn::Theirs;
use crate::sandbox::sys::{self, Forked, mount_setattr};
use crate::sandbox::workdir::{Tmpfs, tmpfs};

/// The one container of a keeper.
const NAME: &CStr = c"sandbox";

/// All that a keeper needs, made before the fork.
pub(super) struct Keeper<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) config: Vec<u8>,
    pub(super) identity: Identity,
    pub(super) parts: &'a Parts<'a>,
    pub(super) wires: &'a Theirs,
    pub(super) order: &'a OwnedFd,
    /// The number of the supervisor's end of `sync`, of which the keeper has a copy.
    pub(super) supervisors_sync: RawFd,
}

/// Why there is no container.
enum Trouble {
    /// A step of ours failed.
    Step(Failure),
    /// The runtime failed, and said this.
    Runtime(Vec<u8>),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Step(failure)
    }
}

impl Keeper<'_> {
    /// Starts it. Returns pid and pidfd.
    pub(super) fn start(&self) -> io::Result<(i32, OwnedFd)> {
        // SAFETY: `spawn` has asked Linux that this process has one thread, and `run` never returns.
        match unsafe { sys::clone_process(libc::CLONE_NEWNS | libc::CLONE_NEWPID) }? {
            Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
            Forked::Child => self.run(),
        }
    }

    fn run(&self) -> ! {
        let report = match catch_unwind(AssertUnwindSafe(|| self.make())) {
            Ok(Ok(())) => self.keep(),
            Ok(Err(Trouble::Step(failure))) => failure.encode().to_vec(),
            Ok(Err(Trouble::Runtime(said))) => [&[note::FAILED], said.as_slice()].concat(),
            Err(_) => Failure { step: Step::Panic, errno: libc::EFAULT }.encode().to_vec(),
        };
        // If the supervisor is gone, nobody wants to know.
        let _ = send(&self.wires.sync, &report, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        sys::exit_now(1)
    }

    fn make(&self) -> Result<(), Trouble> {
        let _ = rustix::thread::set_name(c"sandbox-keeper");
        enter::forget_supervisors_end(self.supervisors_sync).at(Step::Start)?;
        enter::die_with_supervisor(&self.wires.sync, Signal::KILL).at(Step::DeathSignal)?;
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", private).at(Step::Propagation)?;
        root::cover_proc().at(Step::Propagation)?;
        self.prepare_stage()?;
        hide_cgroups();
        let said = memfd_create("said", MemfdFlags::CLOEXEC).at(Step::Start)?;
        let count = CString::new(self.passed().in_order().len().to_string()).unwrap_or_default();
        let bundle = CString::new(BUNDLE).unwrap_or_default();
        let create = [c"create", c"--preserve-fds", &count, c"--bundle", &bundle, NAME];
        self.call(&create, &said, true)?;
        self.call(&[c"start", NAME], &said, false)
    }

    fn passed(&self) -> Passed<BorrowedFd<'_>> {
        let Theirs { sync, stdout, stderr, control, init } = self.wires;
        Passed {
            sync: sync.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            control: control.as_fd(),
            init: init.as_fd(),
            workdir: self.parts.workdir(),
            order: self.order.as_fd(),
        }
    }

    /// A tmpfs with the root, the bundle and a place for the runtime's notes.
    fn prepare_stage(&self) -> Result<(), Failure> {
        let stage = tmpfs(&Tmpfs { bytes: 4 << 20, inodes: 1024, mode: "0755", owner: None }).at(Step::RootMount)?;
        move_mount(&stage, "", CWD, STAGE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).at(Step::RootMount)?;
        for (path, mode) in [(ROOT, 0o755), (BUNDLE, 0o700), (STATE, 0o711)] {
            mkdir(path, Mode::from_raw_mode(mode)).at(Step::RootMount)?;
        }
        std::fs::write(Path::new(BUNDLE).join("config.json"), &self.config).at(Step::RootFiles)?;
        // What is made belongs to who makes it, and the root is to be that of init.
        let owner = if let Identity::Mapped { init, .. } = self.identity { Some(init) } else { None };
        as_owner_of_files(owner);
        let built = self.parts.build(ROOT);
        if let Ok(root) = &built {
            match mkdirat(root, "proc", Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).at(Step::RootFiles),
            }
        }
        as_owner_of_files(owner.map(|_| 0));
        root::close_to_writers(&built?).at(Step::ReadOnlyRoot)
    }

    /// Gives up all that a keeper does not need any more, and waits until nothing is left. Its end is that of the container.
    fn keep(&self) -> ! {
        if self.give_up().is_err() {
            sys::exit_now(1);
        }
        let mut code = 0;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    let signal = status.terminating_signal().map(|signal| 128 + signal);
                    code = status.exit_status().or(signal).unwrap_or(1);
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => sys::exit_now(code),
            }
        }
    }

    fn give_up(&self) -> io::Result<()> {
        if let Identity::Mapped { init, .. } = self.identity {
            rights::take_identity(self.identity, init)?;
        }
        rights::keep_capabilities(CapabilitySet::empty())?;
        set_no_new_privs(true)?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        // A change of the uid has cleared the death signal.
        enter::die_with_supervisor(&self.wires.sync, Signal::KILL)?;
        // SAFETY: this copy of the supervisor uses none of the owners that it was copied with, and drops none.
        unsafe { sys::close_range(0, RawFd::MAX) }
    }

    /// Has the runtime do something, and waits for it. Only a container that is to be made gets descriptors.
    fn call(&self, command: &[&CStr], said: &OwnedFd, with_descriptors: bool) -> Result<(), Trouble> {
        let path = self.runtime.c_path();
        let state = CString::new(STATE).unwrap_or_default();
        let mut argv = vec![path.as_c_str()];
        argv.extend(self.runtime.flags());
        argv.extend([c"--root", &state]);
        argv.extend(command);
        let pid = sys::fork(|| {
            let passed = if with_descriptors { self.passed().in_order().to_vec() } else { Vec::new() };
            match arrange(said, &passed) {
                Ok(()) => execute(&path, &argv),
                Err(_) => 126,
            }
        });
        match waitpid(Some(pid.at(Step::Fork)?), WaitOptions::empty()).at(Step::Fork)? {
            Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
            _ => Err(Trouble::Runtime(what_was_said(said, &self.runtime.path().to_string_lossy()))),
        }
    }
}

/// Files that this process makes belong to this user from now on; to the process's own where it has but one.
fn as_owner_of_files(user: Option<u32>) {
    if let Some(user) = user {
        nix::unistd::setfsgid(nix::unistd::Gid::from_raw(user));
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(user));
    }
}

/// A runtime that cannot write there leaves cgroups to us. crun does not even begin where both kinds are mounted, so the
/// newer one is covered. Where there are none, there is nothing to be hidden.
fn hide_cgroups() {
    const ALL: &str = "/sys/fs/cgroup";
    const NEWER: &str = "/sys/fs/cgroup/unified";
    let cover = Tmpfs { bytes: 0, inodes: 0, mode: "0755", owner: None };
    if let (true, Ok(cover)) = (Path::new(NEWER).exists(), tmpfs(&cover)) {
        let _ = move_mount(&cover, "", CWD, NEWER, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    }
    if let Ok(all) = open_tree(CWD, ALL, OpenTreeFlags::OPEN_TREE_CLOEXEC) {
        let _ = mount_setattr(all.as_fd(), MountAttrFlags::MOUNT_ATTR_RDONLY, true);
    }
}

/// The runtime's standard streams are a file in memory: whatever they are, it gives them to the user of the container.
fn arrange(said: &OwnedFd, passed: &[BorrowedFd<'_>]) -> io::Result<()> {
    let said = enter::high(said.as_fd())?;
    let sources = passed.iter().map(|fd| enter::high(*fd)).collect::<io::Result<Vec<_>>>()?;
    let mut number = FIRST;
    for standard in 0..FIRST {
        // SAFETY: this copy uses none of the owners that it was copied with but those in `sources`, which have high
        // numbers, and drops none: it executes the runtime, or exits.
        unsafe { sys::place(said.as_fd(), standard) }?;
    }
    for source in &sources {
        // SAFETY: as above.
        unsafe { sys::place(source.as_fd(), number) }?;
        number += 1;
    }
    std::mem::forget((said, sources));
    // SAFETY: as above.
    unsafe { sys::close_range(number, RawFd::MAX) }
}

/// Gives the exit code of one that could not be executed.
fn execute(path: &CStr, argv: &[&CStr]) -> i32 {
    sys::default_signals();
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let Err(error) = nix::unistd::execve(path, argv, &[] as &[&CStr]);
    let text = format!("cannot be executed: {}", error.desc());
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    127
}

/// What a runtime said, or the beginning of it.
fn what_was_said(said: &OwnedFd, runtime: &str) -> Vec<u8> {
    let said = read_whole(said).unwrap_or_default();
    let text = said.trim_ascii();
    let room = MAX_SAID.saturating_sub(runtime.len() + 2);
    [runtime.as_bytes(), b": ", &text[..text.len().min(room)]].concat()
}
