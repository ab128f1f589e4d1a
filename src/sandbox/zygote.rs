//! A zygote: one interpreter that is booted once, has loaded what every session loads, and forks into sandboxes that wait
//! for a program. It runs no code of any client, ever: an order is a few numbers and descriptors, from the supervisor.
//!
//! ```text
//!  supervisor                        zygote (a user, a root and namespaces of its own)     sandbox
//!  clone3 ─────────────────────────▶ boots, preloads, says "r"
//!  spawn: clone3 beside it ────────────────────────────────────────────────────────────▶ init: as always, but waits for
//!  namespaces, rules, ends of pipes ◀──────────────────────────────────────────────────── who comes in place of the program
//!  order with all of them ─────────▶ fork ─────────────────────────────────────────────▶ the interpreter: enters the
//!                                                                                          namespaces, locks itself down
//!  listener, then it runs ◀────────────────────────────────────────────────────────────── (`native.c`), goes on
//! ```
//!
//! Where the supervisor is root, the zygote has a user namespace between that of the supervisor and those of the sandboxes
//! that it fills: there, and nowhere else, it may enter namespaces. It holds no capability over the host. An ordinary
//! user's supervisor lives in such a namespace itself.

pub(super) mod order;
pub(super) mod vacant;

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, umask, waitid};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::enter::{self, Entry};
use super::error::{At as _, Failure, SpawnError, Step};
use super::plan::Plan;
use super::root::Parts;
use super::spawn::{self, Theirs};
use super::sys;
use super::workdir::{Tmpfs, executable_tmpfs};
use super::{Identity, Request, rights};
use vacant::Vacancy;

/// Its native half, as the build made it.
const NATIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/native.so"));
/// Where it lies in the zygote's root.
const PLACE: &str = "/run/zygote";
/// Descriptors of the zygote: its orders, and after it the filter of those that it forks.
const ORDERS: i32 = 3;

/// A zygote. Dropping it ends it; what it has forked lives on.
#[derive(Debug)]
pub struct Zygote {
    pidfd: OwnedFd,
    orders: OwnedFd,
    /// The user namespace that sandboxes for it are to be made in, where that is not the caller's.
    pub(super) namespace: Option<OwnedFd>,
}

impl Zygote {
    /// Starts one for the level of a request. It is usable when [`Zygote::is_ready`] says so.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing is left behind then.
    pub fn start(plan: &Plan, request: &Request<'_>) -> Result<Self, SpawnError> {
        sys::must_be_single_threaded().map_err(|_| SpawnError::Threads)?;
        let level = plan.level(request.mode, request.kind);
        let mut root = Parts::prepare(plan, level.policy, request)?;
        root.attach_also(native().map_err(SpawnError::Descriptors)?, Path::new(PLACE));
        let filter = filter_file(&level.filter).map_err(SpawnError::Descriptors)?;
        let flags = SocketFlags::CLOEXEC;
        let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(io::Error::from);
        let (orders, theirs) = pair().map_err(SpawnError::Descriptors)?;
        let (sync, their_sync) = pair().map_err(SpawnError::Descriptors)?;
        let sync_above = enter::high(their_sync.as_fd()).map_err(SpawnError::Descriptors)?;
        drop(their_sync);
        rustix::io::ioctl_fionbio(&orders, true).map_err(|error| SpawnError::Descriptors(error.into()))?;
        let namespaces = match request.identity {
            Identity::Mapped { .. } => libc::CLONE_NEWUSER,
            Identity::Plain { .. } | Identity::Single => 0,
        };
        let namespaces = namespaces | libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        let child = Child { request, root: &root, sync: &sync_above, orders: &theirs, filter: &filter };
        let start = || enter::clone_for(namespaces, &sync_above, || child.become_zygote(sync.as_raw_fd()));
        let (pid, pidfd) = spawn::with_signals_blocked(start).map_err(SpawnError::Namespaces)?;
        drop((sync_above, theirs));
        let mut zygote = Self { pidfd, orders, namespace: None };
        if namespaces & libc::CLONE_NEWUSER != 0 {
            map_all(pid).map_err(SpawnError::Identity)?;
        }
        // What it forks is to be the first that Linux kills for memory, and has this from it.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
        send(&sync, b"g", SendFlags::NOSIGNAL).map_err(|_| SpawnError::Died)?;
        let mut fds = vacant::wait(&sync, |packet| packet == [vacant::note::ZYGOTE])?;
        if namespaces & libc::CLONE_NEWUSER != 0 {
            zygote.namespace = fds.pop();
        }
        Ok(zygote)
    }

    /// Whether it has booted. Once it has, it stays so.
    pub fn is_ready(&self) -> bool {
        // What it said is left where it lies.
        recv(&self.orders, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK).is_ok_and(|(length, _)| length == 1)
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.pidfd.as_fd()), options).map_or(true, |status| status.is_some())
    }

    /// Has it fork into a sandbox that waits.
    pub(super) fn fill(&self, entry: &Entry<'_>, vacancy: &Vacancy, wires: &Theirs) -> Result<(), SpawnError> {
        order::send(self.orders.as_fd(), entry, vacancy, wires).map_err(SpawnError::Descriptors)
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        while matches!(waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED), Err(rustix::io::Errno::INTR)) {
        }
    }
}

/// Every id is itself there. What it may do with that is what its capabilities, in a root of its own, leave it.
fn map_all(pid: i32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let own = std::fs::read_to_string(format!("/proc/self/{map}"))?;
        let same: String = own.lines().filter_map(same_ids).collect();
        std::fs::write(format!("/proc/{pid}/{map}"), same)?;
    }
    Ok(())
}

/// A line of the caller's own map, as one in which ids stay what they are.
fn same_ids(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (first, _, count) = (fields.next()?, fields.next()?, fields.next()?);
    Some(format!("{first} {first} {count}\n"))
}

/// A mount with the native half in it, attached nowhere.
fn native() -> io::Result<OwnedFd> {
    let bytes = NATIVE.len() as u64;
    let mount = executable_tmpfs(&Tmpfs { bytes: bytes + (64 << 10), inodes: 8, mode: "0755", owner: None })?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&mount, "native.so", flags, Mode::from_raw_mode(0o555))?;
    io::Write::write_all(&mut std::fs::File::from(file), NATIVE)?;
    Ok(mount)
}

fn filter_file(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let file = memfd_create("filter", MemfdFlags::CLOEXEC)?;
    let bytes: Vec<u8> = filter.iter().flat_map(instruction).collect();
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, &bytes)?;
    Ok(file.into())
}

fn instruction(it: &libc::sock_filter) -> [u8; 8] {
    let ([a, b], [e, f, g, h]) = (it.code.to_ne_bytes(), it.k.to_ne_bytes());
    [a, b, it.jt, it.jf, e, f, g, h]
}

/// What the child of [`Zygote::start`] needs.
struct Child<'a> {
    request: &'a Request<'a>,
    root: &'a Parts<'a>,
    sync: &'a OwnedFd,
    orders: &'a OwnedFd,
    filter: &'a OwnedFd,
}

impl Child<'_> {
    fn become_zygote(&self, supervisors_sync: i32) -> Result<Infallible, Failure> {
        umask(Mode::from_raw_mode(0o022));
        enter::forget_supervisors_end(supervisors_sync).at(Step::Start)?;
        enter::wait_for_go(self.sync).at(Step::Start)?;
        let own = vacant::open_namespace("user").at(Step::Start)?;
        self.take_identity().at(Step::PayloadIdentity)?;
        enter::die_with_supervisor(self.sync, Signal::KILL).at(Step::DeathSignal)?;
        self.root.enter()?;
        vacant::tell(self.sync, vacant::note::ZYGOTE, &[own.as_fd()]).at(Step::Start)?;
        enter::arrange(&[self.orders, self.filter], ORDERS, self.sync).at(Step::Stdio)?;
        keep_what_is_needed().at(Step::Capabilities)?;
        sys::default_signals();
        nix::sys::signal::SigSet::empty().thread_set_mask().at(Step::Exec)?;
        let program = self.request.argv.first().ok_or(Failure { step: Step::Exec, errno: libc::EINVAL })?;
        nix::unistd::execve(program, self.request.argv, self.request.environment).at(Step::Exec)
    }

    /// A user of its own, with all capabilities of the namespace for the moment.
    fn take_identity(&self) -> io::Result<()> {
        let Identity::Mapped { payload, .. } = self.request.identity else { return Ok(()) };
        rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
        rights::become_ids(payload)
    }
}

/// Entering namespaces, and the cgroups of sandboxes, which are files of root. They outlive exec as ambient ones.
fn keep_what_is_needed() -> io::Result<()> {
    let kept = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE;
    rustix::thread::set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    for one in kept.iter() {
        rustix::thread::configure_capability_in_ambient_set(one, true)?;
    }
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Descriptors in the order of `native.c`.
pub(super) fn borrowed<'a>(fds: impl IntoIterator<Item = &'a OwnedFd>) -> Vec<BorrowedFd<'a>> {
    fds.into_iter().map(|fd| fd.as_fd()).collect()
}
