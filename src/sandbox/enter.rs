//! Inside the clone: how a copy of the supervisor becomes init, and how init starts the program.
//!
//! Nothing here returns to the caller of `spawn`: a copy ends as init, as the program, or by `_exit`.

#![allow(unsafe_code, reason = "forks and moves descriptors; the rest of our unsafe code is in sys.rs")]

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use landlock::ABI;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, set_child_subreaper, set_parent_process_death_signal, umask};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::cgroup::Entrance;
use super::error::{At, Failure, Step};
use super::init::{self, Held, stdin};
use super::place::{Place, Root};
use super::policy::{self, Network};
use super::rights::{INIT_ID, keep_capabilities, lock_capabilities, take_identity};
use super::spawn::{Theirs, note};
use super::sys::{self, Forked, Parent};
use super::zygote::vacant;
use super::{Identity, Interrupt, Kind, Limits, Request, payload};

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// All that a child needs, made before the fork.
pub(super) struct Entry<'a> {
    pub(super) request: &'a Request<'a>,
    /// Those of the request, as far as the level grants them.
    pub(super) limits: Limits,
    pub(super) filter: &'a [libc::sock_filter],
    pub(super) policy: &'static policy::Level,
    pub(super) landlock: ABI,
    /// A cgroup holds memory to its limit.
    pub(super) memory_is_counted: bool,
    /// A cgroup holds the number of processes to its limit.
    pub(super) processes_are_counted: bool,
    pub(super) place: Place<'a>,
    /// The ways into its cgroup, if it has one.
    pub(super) entrance: Option<Entrance>,
    pub(super) wires: &'a Theirs,
    /// The program comes from elsewhere: see [`super::zygote`].
    pub(super) is_vacant: bool,
}

/// Clones the caller into new namespaces; the copy waits for a packet on its `sync` socket. Returns pid and pidfd.
/// `supervisors_sync` is the number of the supervisor's end of that socket, of which the copy has one, too.
pub(super) fn start(
    entry: &Entry<'_>,
    root: &Root<'_>,
    supervisors_sync: RawFd,
    parent: Parent,
) -> io::Result<(i32, OwnedFd)> {
    let (namespaces, cgroup) = match root {
        Root::Own(_) => (NAMESPACES, entry.entrance.as_ref().and_then(Entrance::unified)),
        Root::Hosts(_) => (0, None),
    };
    // SAFETY: `spawn` has asked Linux that this process has one thread, and `stay` never returns.
    match unsafe { sys::clone_process_into(namespaces, cgroup, parent) }? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => stay(entry, |entry| become_init(entry, root, supervisors_sync)),
    }
}

/// Clones the caller into new namespaces and has the copy do `part`, which reports on `sync` if it fails. Returns pid and
/// pidfd. The caller has asked Linux whether it has one thread.
pub(super) fn clone_for(
    namespaces: libc::c_int,
    sync: &OwnedFd,
    part: impl FnOnce() -> Result<Infallible, Failure>,
) -> io::Result<(i32, OwnedFd)> {
    // SAFETY: it has one thread, and `stay_with` never returns.
    match unsafe { sys::clone_process_into(namespaces, None, Parent::Caller) }? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => stay_with(sync, part),
    }
}

/// Runs a part in a copy of this process, reports how it failed, and ends the copy. A panic must not unwind into code
/// that would go on as a second supervisor.
pub(super) fn stay(entry: &Entry<'_>, part: impl FnOnce(&Entry<'_>) -> Result<Infallible, Failure>) -> ! {
    stay_with(&entry.wires.sync, || part(entry))
}

/// As [`stay`], with the socket to report on.
pub(super) fn stay_with(sync: &OwnedFd, part: impl FnOnce() -> Result<Infallible, Failure>) -> ! {
    let failure = match catch_unwind(AssertUnwindSafe(part)) {
        Ok(Ok(never)) => match never {},
        Ok(Err(failure)) => failure,
        Err(_) => Failure { step: Step::Panic, errno: libc::EFAULT },
    };
    // If the supervisor is gone, nobody wants to know.
    let _ = send(sync, &failure.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    sys::exit_now(1)
}

fn become_init(entry: &Entry<'_>, root: &Root<'_>, supervisors_sync: RawFd) -> Result<Infallible, Failure> {
    umask(Mode::from_raw_mode(0o022));
    forget_supervisors_end(supervisors_sync).at(Step::Start)?;
    entry.entrance.as_ref().map_or(Ok(()), Entrance::enter).at(Step::Cgroup)?;
    wait_for_go(&entry.wires.sync).at(Step::Start)?;
    let parts = match root {
        Root::Own(parts) => parts,
        Root::Hosts(_) => return become_plain_init(entry),
    };
    take_identity(entry.request.identity, INIT_ID).at(Step::InitIdentity)?;
    die_with_supervisor(&entry.wires.sync, Signal::KILL).at(Step::DeathSignal)?;
    let namespaces = if entry.is_vacant { Some(open_ways_in()?) } else { None };
    let inside = parts.enter()?;
    if !inside.has_proc {
        send(&entry.wires.sync, &[note::NO_PROC], SendFlags::NOSIGNAL).at(Step::Start)?;
    }
    nix::unistd::sethostname("sandbox").at(Step::Hostname)?;
    if entry.policy.network == Network::Loopback {
        sys::raise_loopback().at(Step::Loopback)?;
    }
    lock_and_serve(entry, inside.proc, namespaces)
}

/// Takes the last of its namespaces and opens all of them for a program that is to come.
fn open_ways_in() -> Result<Vec<OwnedFd>, Failure> {
    sys::unshare(UnshareFlags::NEWCGROUP).at(Step::CgroupNamespace)?;
    vacant::open_namespaces().at(Step::CgroupNamespace)
}

/// Locks init, starts the program and serves as init for good. `proc` is a complete `/proc`; `namespaces` are open for a
/// program that is to come.
pub(super) fn lock_and_serve(
    entry: &Entry<'_>,
    proc: Option<OwnedFd>,
    namespaces: Option<Vec<OwnedFd>>,
) -> Result<Infallible, Failure> {
    if namespaces.is_none() {
        sys::unshare(UnshareFlags::NEWCGROUP).at(Step::CgroupNamespace)?;
    }
    sys::set_domain_name("(none)").at(Step::Hostname)?;
    if let Some(proc) = &proc {
        // One wall of several, and a host may hide these files: best effort.
        let _ = forbid_user_namespaces(proc);
        let _ = limit_watchers(proc);
    }
    lock_capabilities().at(Step::Capabilities)?;
    start_program(entry, proc, namespaces)
}

/// Where there are no namespaces: what is left of the steps. Init is told to end, since nothing ends with it by itself.
fn become_plain_init(entry: &Entry<'_>) -> Result<Infallible, Failure> {
    lock_capabilities().at(Step::Capabilities)?;
    take_identity(entry.request.identity, INIT_ID).at(Step::InitIdentity)?;
    keep_capabilities(CapabilitySet::empty()).at(Step::Capabilities)?;
    die_with_supervisor(&entry.wires.sync, Signal::TERM).at(Step::DeathSignal)?;
    rustix::process::setsid().at(Step::NewSession)?;
    set_child_subreaper(Some(getpid())).at(Step::DeathSignal)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open("/proc", flags, Mode::empty()).ok();
    start_program(entry, proc, None)
}

fn start_program(
    entry: &Entry<'_>,
    proc: Option<OwnedFd>,
    namespaces: Option<Vec<OwnedFd>>,
) -> Result<Infallible, Failure> {
    let (held, theirs) = make_ends(entry, proc).at(Step::Stdio)?;
    let leader = match namespaces {
        Some(namespaces) => vacant::wait_for_program(entry, namespaces, theirs)?,
        // SAFETY: this process has one thread, being itself the child of a clone, and `stay` never returns.
        None => match unsafe { sys::clone_process(0) }.at(Step::Fork)? {
            Forked::Child => stay(entry, |entry| payload::run(entry, &theirs)),
            Forked::Parent { pid, .. } => Pid::from_raw(pid).ok_or(Failure { step: Step::Fork, errno: libc::ESRCH })?,
        },
    };
    if let Some(entrance) = &entry.entrance {
        // The program does not come along. It must not be able to keep init from serving, as busy as it may be.
        entrance.favour();
    }
    serve(entry, leader, held)
}

/// While a child holds it, too, the death of the supervisor does not close it, and the child would wait for ever.
pub(super) fn forget_supervisors_end(sync: RawFd) -> io::Result<()> {
    // SAFETY: its owner is one of those that this copy of the supervisor was copied with, which it neither uses nor drops.
    unsafe { sys::close_range(sync, sync) }
}

pub(super) fn wait_for_go(sync: &OwnedFd) -> io::Result<()> {
    let mut go = [0; 1];
    let (length, _) = recv(sync, &mut go, RecvFlags::empty())?;
    if length == 1 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPIPE)) }
}

/// Ends of pipes between init and the program.
pub(super) struct Ends {
    /// Of standard input.
    pub(super) stdin: OwnedFd,
    /// Of the pipe by which it is interrupted, if it is.
    pub(super) bell: Option<OwnedFd>,
    /// Both ends of a pipe of a shell's own: without `/proc` it cannot make one.
    pub(super) own_pipe: Option<(OwnedFd, OwnedFd)>,
}

/// Makes these pipes, and all that init is to hold of them and beside them.
fn make_ends(entry: &Entry<'_>, proc: Option<OwnedFd>) -> io::Result<(Held, Ends)> {
    let (their_bell, bell) = match entry.request.interrupt {
        Interrupt::Program | Interrupt::Group => (None, None),
        Interrupt::Byte => {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            (Some(read), Some(write))
        }
    };
    let socket = entry.wires.init.try_clone()?;
    let workdir = entry.place.workdir.try_clone_to_owned()?;
    let held = Held { socket, workdir, stdin: stdin::Ends::open(entry.place.stdin)?, proc, bell };
    let own_pipe = match entry.request.kind {
        Kind::Interpreter => None,
        Kind::Shell { .. } => Some(pipe_with(PipeFlags::CLOEXEC)?),
    };
    Ok((held, Ends { stdin: stdin::open_for_program(entry.place.stdin)?, bell: their_bell, own_pipe }))
}

/// A change of the uid clears the death signal, so this comes after it. A supervisor that died before leaves only its
/// closed socket to be seen: in here the parent's pid is 0 either way.
pub(super) fn die_with_supervisor(sync: &OwnedFd, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    let mut closed = [PollFd::new(sync, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut closed, Some(&now))?;
    let [closed] = &closed;
    if closed.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::Error::from_raw_os_error(libc::EPIPE));
    }
    Ok(())
}

/// The program could otherwise, should it ever get past the filter, be root in a namespace of its own.
fn forbid_user_namespaces(proc: &OwnedFd) -> io::Result<()> {
    set_of_namespace(proc, "sys/user/max_user_namespaces", b"0")
}

/// Watchers of files count for the owner of the namespace, too, who may be the owner of all sandboxes, and has 128.
fn limit_watchers(proc: &OwnedFd) -> io::Result<()> {
    set_of_namespace(proc, "sys/user/max_inotify_instances", b"16")
}

fn set_of_namespace(proc: &OwnedFd, setting: &str, value: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    File::from(openat(proc, setting, flags, Mode::empty())?).write_all(value)
}

/// Gives up all that init does not need, and serves as init for good.
fn serve(entry: &Entry<'_>, leader: Pid, mut held: Held) -> Result<Infallible, Failure> {
    let kept = match entry.request.identity {
        Identity::Mapped { .. } => CapabilitySet::KILL | CapabilitySet::SETUID | CapabilitySet::SETGID,
        Identity::Plain { .. } | Identity::Single => CapabilitySet::empty(),
    };
    keep_capabilities(kept).at(Step::Capabilities)?;
    let _ = rustix::thread::set_name(c"sandbox-init");
    keep_descriptors(&mut held).at(Step::Stdio)?;
    init::run(held, leader, entry.request.identity, entry.request.interrupt)
}

/// Gives these the lowest numbers and closes every other descriptor, whatever the supervisor had open. Thereby the
/// supervisor sees the end of `sync` when the program is executed.
fn keep_descriptors(held: &mut Held) -> io::Result<()> {
    const FIRST: RawFd = 3;
    let null = high(open_null()?.as_fd())?;
    let kept = held.descriptors();
    let sources = kept.iter().map(|fd| high(fd.as_fd())).collect::<io::Result<Vec<_>>>()?;
    for number in 0..FIRST {
        // SAFETY: this copy of the supervisor uses none of the owners that it was copied with, and drops none: it ends in
        // `init::run`, which never returns.
        unsafe { sys::place(null.as_fd(), number) }?;
    }
    let mut number = FIRST;
    for (own, source) in kept.into_iter().zip(&sources) {
        // SAFETY: as above; those in `held` are forgotten before they are used again.
        unsafe { sys::place(source.as_fd(), number) }?;
        // SAFETY: it was placed there, and has no other owner.
        std::mem::forget(std::mem::replace(own, unsafe { OwnedFd::from_raw_fd(number) }));
        number += 1;
    }
    std::mem::forget((null, sources));
    // SAFETY: as above; the owners made here are forgotten.
    unsafe { sys::close_range(number, RawFd::MAX) }
}

/// Puts the program's descriptors where it expects them and closes all others but `sync`, which exec closes. Whatever the
/// supervisor had open would else use up the program's own limit before it starts.
pub(super) fn arrange_stdio(wires: &Theirs, ends: &Ends) -> io::Result<()> {
    let mut sources = vec![&ends.stdin, &wires.stdout, &wires.stderr, &wires.control];
    sources.extend(&ends.bell);
    sources.extend(ends.own_pipe.iter().flat_map(|(read, write)| [read, write]));
    arrange(&sources, 0, &wires.sync)
}

/// Gives these the numbers from `first` on, `/dev/null` those below, and closes all others but `sync`, which is above them.
pub(super) fn arrange(sources: &[&OwnedFd], first: RawFd, sync: &OwnedFd) -> io::Result<()> {
    let null = open_null()?;
    let below = (0..first).map(|_| &null);
    // Their present numbers may be among those that are to be filled.
    let sources = below.chain(sources.iter().copied()).map(|fd| high(fd.as_fd())).collect::<io::Result<Vec<_>>>()?;
    drop(null);
    let mut number = 0;
    for source in &sources {
        // SAFETY: the only owners of these numbers are those that this copy of the supervisor was copied with. It neither
        // uses nor drops them but for `sync`, which was given a high number.
        unsafe { sys::place(source.as_fd(), number) }?;
        number += 1;
    }
    drop(sources);
    let sync = sync.as_raw_fd();
    // SAFETY: as above; what this function owned is dropped.
    unsafe { sys::close_range(number, sync - 1) }?;
    // SAFETY: as above.
    unsafe { sys::close_range(sync + 1, RawFd::MAX) }
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// A duplicate with a number above all that are placed.
pub(super) fn high(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 16)?)
}
