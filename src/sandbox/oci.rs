//! Sandboxes whose namespaces a container runtime makes: runc, crun, or one that takes the same commands.
//!
//! What it refuses to know: which level is made in this way, and why.
//!
//! ```text
//!  supervisor                       keeper (a copy, pid 1 of an outer pid namespace)        runtime
//!  pipes, sockets, detached binds
//!  cgroup with limits
//!  clone3: mount, pid ────────────▶ death signal, own /proc, the root (`root`), config.json
//!                                   create, start ────────────────────────────────────────▶ namespaces, uid map,
//!                                                                                             root, capabilities
//!                                   gives up everything, closes everything, reaps             execs our init (`inside`)
//!  cgroup attach, oom score ◀─────────────────── ready ──────────────────────────────────────┘
//!  go ───────────────────────────────────────────────────────────────────────────────────▶ from here on as in any
//!  waits until the program runs                                                              sandbox: locks itself, forks
//! ```
//!
//! All that is mounted or written for a container lies in the mount namespace of its keeper, on a tmpfs, and all its
//! processes are in the pid namespace of its keeper. So nothing is left of it once the keeper is gone, whoever killed it,
//! and the keeper goes with the supervisor.

mod config;
mod inside;
mod keeper;
mod order;
mod runtime;

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

use super::error::{Failure, SpawnError};
use super::plan::Plan;
use super::root::Parts;
use super::spawn::{self, SILENCE_S};
use super::{Limits, Request, Sandbox};
pub use inside::main;
use keeper::Keeper;
use order::Order;
pub use runtime::{Runtime, RuntimeError};

/// What is said over `sync` before [`spawn::note`] has its turn.
mod note {
    /// By init: it runs, and waits to be let go on.
    pub(super) const READY: u8 = b'i';
    /// By the keeper: the runtime failed. With what it said.
    pub(super) const FAILED: u8 = b'r';
}

/// The most that is told of what a runtime said, in bytes.
const MAX_SAID: usize = 1024;

/// As [`super::spawn`], by a runtime. The request is checked, and the caller has one thread.
pub(super) fn spawn(plan: &Plan, runtime: &Runtime, request: &Request<'_>) -> Result<Sandbox, SpawnError> {
    let level = plan.level(request.mode, request.kind);
    let (ours, theirs) = spawn::wires(request.identity).map_err(SpawnError::Descriptors)?;
    let mut parts = Parts::prepare(plan, level.policy, request)?;
    let arguments = runtime.show_init(&mut parts)?;
    let memory_bytes = request.limits.memory_bytes.min(level.policy.max_memory_bytes);
    let limits = Limits { memory_bytes, ..request.limits };
    let group = spawn::create_group(&plan.host, request.name, limits)?;
    let order = Order::new(plan, request, limits, &level.filter).seal().map_err(SpawnError::Descriptors)?;
    let keeper = Keeper {
        runtime,
        config: config::describe(request.identity, level.policy.files, arguments).map_err(SpawnError::Descriptors)?,
        identity: request.identity,
        parts: &parts,
        wires: &theirs,
        order: &order,
        supervisors_sync: ours.sync.as_raw_fd(),
    };
    let (pid, pidfd) = spawn::with_signals_blocked(|| keeper.start()).map_err(SpawnError::Namespaces)?;
    drop(theirs);

    let spawn::Ours { sync, stdout, stderr, control, init } = ours;
    // From here on, dropping the sandbox undoes everything.
    let mut sandbox = Sandbox {
        pid,
        pidfd,
        stdout,
        stderr,
        control,
        init,
        listener: None,
        has_proc: true,
        group,
        user: None,
        exit: None,
    };
    let first = wait_for_init(&sync)?;
    if let Some(group) = &sandbox.group {
        group.attach(first)?;
    }
    // Where this fails, an exhausted host merely chooses its victims less well.
    let _ = std::fs::write(format!("/proc/{first}/oom_score_adj"), "1000");
    send(&sync, b"g", SendFlags::NOSIGNAL).map_err(|_| SpawnError::Died)?;
    let (has_proc, listener) = spawn::wait_for_program(&sync, &level.reported, spawn::Way::Exec)?;
    (sandbox.has_proc, sandbox.listener) = (has_proc, Some(listener));
    Ok(sandbox)
}

/// Waits until init runs. Its pid comes from Linux.
fn wait_for_init(sync: &std::os::fd::OwnedFd) -> Result<i32, SpawnError> {
    let failed = |error: Errno| SpawnError::Descriptors(error.into());
    set_socket_passcred(sync, true).map_err(failed)?;
    let timeout = Timespec { tv_sec: SILENCE_S, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(sync, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(SpawnError::Timeout),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let mut packet = [0; 1 + MAX_SAID];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = match recvmsg(sync, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, flags) {
        Ok(received) => received.bytes,
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(failed(error)),
    };
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid.as_raw_nonzero().get()),
        _ => None,
    });
    // What comes later has descriptors, for which there would be too little room beside this.
    set_socket_passcred(sync, false).map_err(failed)?;
    match (packet.get(..length), sender) {
        (Some([note::READY]), Some(pid)) => Ok(pid),
        (Some([note::FAILED, said @ ..]), _) => {
            Err(SpawnError::Runtime(String::from_utf8_lossy(said).trim().replace(char::is_control, " ")))
        }
        (Some(report), _) => Err(Failure::decode(report).map_or(SpawnError::Died, SpawnError::inside)),
        (None, _) => Err(SpawnError::Died),
    }
}

/// Where a runtime finds what it needs, in the mount namespace of the keeper. Everybody may go there, and nothing that a
/// runtime needs lies there.
const STAGE: &str = "/dev/shm";
/// The root, below [`STAGE`].
const ROOT: &str = "/dev/shm/root";
/// The directory of `config.json`.
const BUNDLE: &str = "/dev/shm/bundle";
/// Where the runtime keeps notes.
const STATE: &str = "/dev/shm/state";

/// Opens a part of the answer for reading only.
fn read_whole(file: &std::os::fd::OwnedFd) -> io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _};
    let mut file = std::fs::File::from(file.try_clone()?);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
