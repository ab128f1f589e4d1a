//! Landlock and seccomp: what a process can take from itself for good.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetError, Scope,
};
use libseccomp::{ScmpAction, ScmpFilterContext, ScmpSyscall, error::SeccompError};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{getpid, getppid, getpriority_process, test_kill_process},
    thread::set_no_new_privs,
};

use super::{
    super::{
        PlanError, plan,
        sys::{answer_notification, landlock_version, load_filter_with_listener, receive_notification},
    },
    Layer,
    names::{EXEC_ONCE, LANDLOCK, LANDLOCK_SCOPES, SECCOMP, SECCOMP_LISTENER},
    sys,
    trial::{Child, reap_quick, run, step},
};

/// The version of Landlock with scopes, of Linux 6.12.
const SCOPES_SINCE: i32 = 6;

pub(super) fn landlock() -> Vec<Layer> {
    let mut found = run(|child| child.tell(LANDLOCK, denied_open()));
    found.extend(run(|child| child.tell(LANDLOCK_SCOPES, denied_signal_and_socket())));
    found
}

pub(super) fn seccomp() -> Vec<Layer> {
    let mut found = run(|child| child.tell(SECCOMP, denied_call()));
    found.extend(run(asked));
    found
}

fn denied_open() -> Result<String, String> {
    let open = || File::open("/");
    step("opening the root before", open())?;
    let status = step("landlock", restrict(|rules| rules.handle_access(AccessFs::from_all(ABI::V1))))?;
    match open() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(format!("ABI {}", version(&status))),
        Err(error) => Err(format!("opening the root after: {error}")),
        Ok(_) => Err("restricted, but files can still be opened".to_owned()),
    }
}

fn denied_signal_and_socket() -> Result<String, String> {
    let abi = landlock_version();
    if abi < SCOPES_SINCE {
        return Err(format!("ABI {abi} has none, they came with {SCOPES_SINCE}"));
    }
    let name = format!("repltool-trial-{}", getpid());
    let address = step("naming a socket", SocketAddr::from_abstract_name(name))?;
    let _listener = step("listening", UnixListener::bind_addr(&address))?;
    step("landlock", restrict(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal)))?;
    let parent = getppid().ok_or("the parent is gone")?;
    let signal = test_kill_process(parent).map_err(io::Error::from);
    let socket = UnixStream::connect_addr(&address).map(drop);
    let denied = |what: &str, result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
        Ok(()) => Err(format!("{what} is still possible")),
    };
    denied("a signal to the outside", signal)?;
    denied("a connection to the outside", socket)?;
    Ok("signals and abstract sockets stay inside".to_owned())
}

/// Enforces rules that allow nothing of what they handle; half of it is not accepted.
fn restrict(handle: impl FnOnce(Ruleset) -> Result<Ruleset, RulesetError>) -> Result<RestrictionStatus, RulesetError> {
    handle(Ruleset::default().set_compatibility(CompatLevel::HardRequirement))?.create()?.restrict_self()
}

fn version(status: &RestrictionStatus) -> i32 {
    match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    }
}

fn denied_call() -> Result<String, String> {
    // A harmless call that nothing else here makes, refused with an error that it never gives by itself.
    step("calling before", getpriority_process(None))?;
    step("seccomp", filter("getpriority", Errno::XDEV))?;
    match getpriority_process(None) {
        Err(Errno::XDEV) => Ok("a filter refuses calls".to_owned()),
        _ => Err("the filter was loaded, but does nothing".to_owned()),
    }
}

fn filter(call: &str, refusal: Errno) -> Result<(), SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    filter.add_rule(ScmpAction::Errno(refusal.raw_os_error()), ScmpSyscall::from_name(call)?)?;
    filter.load()
}

/// A filter that asks: one call is refused by who listens, and of two executions the first one passes.
fn asked(child: &Child) {
    let asked = || -> Result<(), String> {
        step("no_new_privs", set_no_new_privs(true))?;
        let listener = step("seccomp with a listener", load_filter_with_listener(&step("seccomp", asking())?))?;
        // The filter is the child's, too.
        let (pid, _) = step("fork", sys::child(|| call_all(child)))?;
        let answered = answer_all(&listener);
        drop(listener);
        reap_quick(pid);
        answered
    };
    if let Err(reason) = asked() {
        for name in [SECCOMP_LISTENER, EXEC_ONCE] {
            child.tell(name, Err(reason.clone()));
        }
    }
}

fn asking() -> Result<Vec<libc::sock_filter>, PlanError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    for call in ["getpriority", "execve"] {
        filter.add_rule(ScmpAction::Notify, ScmpSyscall::from_name(call)?)?;
    }
    plan::export(&filter)
}

fn call_all(child: &Child) {
    let refused = match getpriority_process(None) {
        Err(Errno::XDEV) => Ok("a call was refused by who listens".to_owned()),
        other => Err(format!("who listens refused a call, which gave {other:?}")),
    };
    child.tell(SECCOMP_LISTENER, refused);
    let execute = || nix::unistd::execve::<&CStr, &CStr>(c"/nonexistent", &[], &[]).err().map(|it| it as i32);
    let executed = match (execute(), execute()) {
        (Some(libc::ENOENT), Some(libc::EACCES)) => Ok("the first execution passes, and no other".to_owned()),
        other => Err(format!("of two executions only the first was to pass: {other:?}")),
    };
    child.tell(EXEC_ONCE, executed);
}

fn answer_all(listener: &OwnedFd) -> Result<(), String> {
    const CONTINUE: u32 = 1;
    for (error, flags) in [(-libc::EXDEV, 0), (0, CONTINUE), (-libc::EACCES, 0)] {
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        match step("poll", poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience)))? {
            0 => return Err("who listens was not asked".to_owned()),
            _ => {
                let asked = step("hearing of a call", receive_notification(listener.as_fd()))?;
                step("answering a call", answer_notification(listener.as_fd(), asked.id, error, flags))?;
            }
        }
    }
    Ok(())
}
