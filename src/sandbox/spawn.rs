//! The supervisor's side of a start: descriptors, cgroup, clone, uid map, and waiting until the program runs.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::{Component, Path};
use std::sync::Arc;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::UnshareFlags;

use super::cgroup::{self, Group, Host};
use super::enter::{self, Entry};
use super::error::{Failure, SpawnError};
use super::notify::{Listener, Next, Reported};
use super::place::Root;
use super::plan::Plan;
use super::sys::Parent;
use super::zygote::{Zygote, vacant};
use super::{Identity, Limits, Request, Sandbox, oci, rights, sys};

/// How long a child may be silent while it sets up, in seconds. It needs some milliseconds; a host that swaps, more.
pub(super) const SILENCE_S: i64 = 10;

/// What a child says before it executes the program, beside failures.
pub(super) mod note {
    /// There is no `/proc` in this sandbox.
    pub(in crate::sandbox) const NO_PROC: u8 = b'p';
    /// All is set up; the next thing is the program. With the descriptor on which Linux asks about its calls.
    pub(in crate::sandbox) const EXEC: u8 = b'x';
}

/// Starts a program in a sandbox of its own and waits until it is executed, some milliseconds. The caller must have one
/// thread, and must live on it: the sandbox dies with the thread.
///
/// # Errors
/// [`SpawnError`] tells the step. Nothing is left behind then.
pub fn spawn(plan: &Plan, request: &Request<'_>) -> Result<Sandbox, SpawnError> {
    spawn_with(plan, request, None)
}

/// As [`spawn`], but nothing is executed: the program is a fork of a zygote, which was started for this level.
///
/// # Errors
/// As there.
pub fn spawn_from(plan: &Plan, request: &Request<'_>, zygote: &Zygote) -> Result<Sandbox, SpawnError> {
    spawn_with(plan, request, Some(zygote))
}

fn spawn_with(plan: &Plan, request: &Request<'_>, zygote: Option<&Zygote>) -> Result<Sandbox, SpawnError> {
    check(request)?;
    let user = user_of(plan, request)?;
    let level = plan.level(request.mode, request.kind);
    sys::must_be_single_threaded().map_err(|_| SpawnError::Threads)?;
    if let Some(runtime) = plan.runtime(request.mode) {
        return oci::spawn(plan, runtime, request);
    }

    let (ours, theirs) = wires(request.identity).map_err(SpawnError::Descriptors)?;
    let root = Root::prepare(plan, level.policy, request)?;
    let memory_bytes = request.limits.memory_bytes.min(level.policy.max_memory_bytes);
    let limits = Limits { memory_bytes, ..request.limits };
    let group = create_group(&plan.host, request.name, limits)?;
    let entry = Entry {
        request,
        limits,
        filter: &level.filter,
        policy: level.policy,
        landlock: plan.landlock,
        memory_is_counted: plan.host.has_memory(),
        processes_are_counted: plan.host.has_processes(),
        place: root.place(level.policy, request),
        entrance: group.as_ref().map(Group::entrance).transpose()?,
        wires: &theirs,
        is_vacant: zygote.is_some(),
    };
    let Begun { pid, pidfd, mapped } = begin(&entry, &root, ours.sync.as_raw_fd(), zygote)?;
    let Ours { sync, stdout, stderr, control, init } = ours;
    // From here on, dropping the sandbox undoes everything.
    let mut sandbox =
        Sandbox { pid, pidfd, stdout, stderr, control, init, listener: None, has_proc: true, group, user, exit: None };
    if let (Root::Hosts(_), Some(group)) = (&root, &sandbox.group) {
        // It could not be born there: `clone3` may be refused, where namespaces are.
        group.attach(pid)?;
    }
    mapped.map_err(SpawnError::Identity)?;
    // Where this fails, an exhausted host merely chooses its victims less well.
    let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
    send(&sync, b"g", SendFlags::NOSIGNAL).map_err(|_| SpawnError::Died)?;
    if let Some(zygote) = zygote {
        let vacancy = vacant::wait_for_vacancy(&sync, |note| sandbox.has_proc &= note != note::NO_PROC)?;
        zygote.fill(&entry, &vacancy, &theirs)?;
    }
    let way = if zygote.is_some() { Way::Fork } else { Way::Exec };
    drop(theirs);
    let (has_proc, listener) = wait_for_program(&sync, &level.reported, way)?;
    sandbox.has_proc &= has_proc;
    sandbox.listener = Some(listener);
    Ok(sandbox)
}

/// Init, waiting.
struct Begun {
    pid: i32,
    pidfd: OwnedFd,
    /// Whether its ids could be mapped.
    mapped: io::Result<()>,
}

/// Clones init, in the user namespace of the zygote if there is one.
fn begin(entry: &Entry<'_>, root: &Root<'_>, sync: RawFd, zygote: Option<&Zygote>) -> Result<Begun, SpawnError> {
    let identity = entry.request.identity;
    let start = |parent| {
        let (pid, pidfd) = owned_by(identity, || enter::start(entry, root, sync, parent))?;
        Ok(Begun { pid, pidfd, mapped: map_ids(pid, identity) })
    };
    let started = || match zygote.and_then(|zygote| zygote.namespace.as_ref()) {
        Some(namespace) => sys::inside_user_namespace(namespace.as_fd(), || start(Parent::Callers)),
        None => start(Parent::Caller),
    };
    with_signals_blocked(started).map_err(SpawnError::Namespaces)
}

/// Takes an unprivileged process into a user and mount namespace of its own, in which it may make sandboxes with
/// [`Identity::Single`]. Once, at start, with one thread. The uid stays the same.
///
/// # Errors
/// What Linux says: `EPERM` or `ENOSPC` where user namespaces are switched off, `EINVAL` with several threads.
pub fn enter_outer_namespace() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    // What the host unmounts must not stay mounted because of us.
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?)
}

/// The caller's ends.
pub(super) struct Ours {
    pub(super) sync: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) init: OwnedFd,
}

/// The sandbox's ends.
pub(super) struct Theirs {
    /// To the supervisor, until the program runs.
    pub(super) sync: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) init: OwnedFd,
}

fn check(request: &Request<'_>) -> Result<(), SpawnError> {
    let refuse = |why| Err(SpawnError::Request(why));
    if let Identity::Mapped { payload, init } | Identity::Plain { payload, init } = request.identity
        && (payload == 0 || init == 0 || payload == init)
    {
        return refuse("a sandbox needs two host ids, neither of them root");
    }
    if !request.argv.first().is_some_and(|program| program.as_bytes().starts_with(b"/")) {
        return refuse("the program is no absolute path");
    }
    let normal = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    if !normal(Path::new(request.cwd)) {
        return refuse("the working directory leads out of the workspace");
    }
    if !request.files.iter().all(|(path, _)| Path::new(path).strip_prefix("/run").is_ok_and(normal)) {
        return refuse("an extra file is not below /run");
    }
    if !request.binds.iter().all(|path| may_bind(path)) {
        return refuse("a directory to bind is not absolute or lies where the sandbox has its own");
    }
    Ok(())
}

/// Whose processes are those of the program, where they do not end with init by themselves.
fn user_of(plan: &Plan, request: &Request<'_>) -> Result<Option<u32>, SpawnError> {
    match (request.identity, &plan.reduced) {
        (Identity::Plain { payload, .. }, Some(_)) => Ok(Some(payload)),
        (Identity::Mapped { .. } | Identity::Single, None) => Ok(None),
        _ => Err(SpawnError::Request("these ids do not fit the namespaces of this host")),
    }
}

fn may_bind(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("/") else { return false };
    let mut parts = below.components();
    let own = ["dev", "etc", "proc", "run", "tmp", "workspace"];
    let first = parts.clone().next().and_then(|part| part.as_os_str().to_str());
    first.is_some_and(|first| !own.contains(&first)) && parts.all(|part| matches!(part, Component::Normal(_)))
}

pub(super) fn wires(identity: Identity) -> io::Result<(Ours, Theirs)> {
    let (stdout, their_stdout) = output_pipe(identity)?;
    let (stderr, their_stderr) = output_pipe(identity)?;
    let (sync, their_sync) = pair(SocketType::SEQPACKET)?;
    let (control, their_control) = pair(SocketType::STREAM)?;
    let (init, their_init) = pair(SocketType::SEQPACKET)?;
    for ours in [&stdout, &stderr, &control, &init, &their_init] {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    let theirs = Theirs {
        sync: enter::high(their_sync.as_fd())?,
        stdout: their_stdout,
        stderr: their_stderr,
        control: their_control,
        init: their_init,
    };
    Ok((Ours { sync, stdout, stderr, control, init }, theirs))
}

/// A pipe whose inode belongs to the program, so that it can open `/dev/stdout`.
fn output_pipe(identity: Identity) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Identity::Mapped { payload, .. } | Identity::Plain { payload, .. } = identity {
        let (uid, gid) = (rustix::fs::Uid::from_raw(payload), rustix::fs::Gid::from_raw(payload));
        rustix::fs::fchown(&write, Some(uid), Some(gid))?;
    }
    Ok((read, write))
}

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

pub(super) fn create_group(host: &Host, name: &str, limits: Limits) -> Result<Option<Group>, SpawnError> {
    if matches!(host, Host::None) {
        return Ok(None);
    }
    // Init counts, too. Its copies, which live for moments, take of what the program may have.
    let max_processes = limits.max_processes.saturating_add(1);
    Ok(Some(host.create(name, &cgroup::Limits { memory_bytes: limits.memory_bytes, max_processes })?))
}

/// A handler that runs in the child, before it is reset there, would act on what it shares with the parent.
pub(super) fn with_signals_blocked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = work();
    before.thread_set_mask()?;
    result
}

/// Who clones owns the user namespace, and Linux counts some of what is used in it for the owner: watches of files, signals
/// that wait. Each sandbox has an owner of its own, so that none uses up what is there for all.
fn owned_by<T>(identity: Identity, clone: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Identity::Mapped { payload, .. } = identity else { return clone() };
    let own = rustix::process::geteuid();
    let kept = rustix::thread::capabilities(None)?;
    nix::unistd::seteuid(payload.into())?;
    // The change took them away for the time being; a host may let only who has them make namespaces.
    let cloned = rustix::thread::set_capabilities(None, kept).map_err(io::Error::from).and_then(|()| clone());
    nix::unistd::seteuid(own.as_raw().into())?;
    rustix::thread::set_capabilities(None, kept)?;
    cloned
}

fn map_ids(pid: i32, identity: Identity) -> io::Result<()> {
    let write = |file: &str, text: &str| std::fs::write(format!("/proc/{pid}/{file}"), text);
    match identity {
        Identity::Mapped { payload, init } => {
            let map = format!("{} {payload} 1\n{} {init} 1\n", rights::PAYLOAD_ID, rights::INIT_ID);
            write("uid_map", &map)?;
            write("gid_map", &map)
        }
        Identity::Plain { .. } => Ok(()),
        Identity::Single => {
            let (uid, gid) = identity.payload_owner();
            write("setgroups", "deny")?;
            write("uid_map", &format!("{} {uid} 1\n", rights::PAYLOAD_ID))?;
            write("gid_map", &format!("{} {gid} 1\n", rights::PAYLOAD_ID))
        }
    }
}

/// How a program comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is executed, which may be a call that Linux asks about.
    Exec,
    /// It is a fork, and executes nothing.
    Fork,
}

/// Waits until the child's last copy of the socket is closed, which exec does, and lets that exec pass where Linux asks
/// about it. Returns whether there is a `/proc`, and where Linux asks from now on.
pub(super) fn wait_for_program(
    sync: &OwnedFd,
    reported: &Arc<Reported>,
    way: Way,
) -> Result<(bool, Listener), SpawnError> {
    let mut has_proc = true;
    let mut listener: Option<Listener> = None;
    loop {
        wait_for_news(sync, listener.as_ref().filter(|_| way == Way::Exec))?;
        if let (Some(listener), Way::Exec) = (&listener, way)
            && let Next::Call(call) = listener.next().map_err(SpawnError::Descriptors)?
        {
            listener.let_pass(&call).map_err(SpawnError::Descriptors)?;
        }
        let mut packet = [0; 8];
        let (length, fds) = match vacant::receive(sync, &mut packet) {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN) => continue,
            Err(error) => return Err(SpawnError::Descriptors(error.into())),
        };
        match (packet.get(..length), listener.take()) {
            (Some([]), Some(listener)) => return Ok((has_proc, listener)),
            (Some([note::NO_PROC]), _) => has_proc = false,
            (Some([note::EXEC]), _) => {
                let fd = fds.into_iter().next().ok_or(SpawnError::Died)?;
                listener = Some(Listener::new(fd, reported.clone()));
            }
            (Some(report), _) => return Err(Failure::decode(report).map_or(SpawnError::Died, SpawnError::inside)),
            (None, _) => return Err(SpawnError::Died),
        }
    }
}

/// Waits until the child says something or Linux asks something.
fn wait_for_news(sync: &OwnedFd, listener: Option<&Listener>) -> Result<(), SpawnError> {
    let timeout = Timespec { tv_sec: SILENCE_S, tv_nsec: 0 };
    let mut watched = vec![PollFd::new(sync, PollFlags::IN)];
    watched.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    loop {
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) => return Err(SpawnError::Timeout),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SpawnError::Descriptors(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_are_nobodys_are_bound() {
        for path in ["/opt/python", "/root/.pyenv/versions/3.12", "/usr/local"] {
            assert!(may_bind(Path::new(path)), "{path}");
        }
        for path in ["/", "", "opt", "/opt/../etc", "/etc", "/tmp/venv", "/proc", "/dev/shm", "/run/x", "/workspace"] {
            assert!(!may_bind(Path::new(path)), "{path}");
        }
    }
}
