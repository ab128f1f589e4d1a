//! The system calls of a gateway: what serving asks of Linux, and nothing else.
//!
//! Found by recording the tests of the whole server. What is not listed does not exist for the gateway (ENOSYS), so that
//! the C library takes an older call where it has tried a newer one.
//!
//! There is no call here that makes a socket for a network, connects or binds one: the listening socket comes from the
//! supervisor. A gateway that is to open connections of its own needs `socket` and `connect` in [`SOCKETS`], a rule for
//! the port in Landlock, and to stay in the host's network namespace (`NAMESPACES` of the parent module).

pub(super) mod caller;

use libseccomp::error::{SeccompErrno, SeccompError};
use libseccomp::{ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};

/// Calls that need no look at their arguments, each group with its reason. Names of other architectures do no harm.
const ALLOWED: &[(&str, &str)] = &[
    (
        "reading and writing what is open",
        "read write readv writev pread64 pwrite64 preadv pwritev lseek close splice fsync fdatasync syncfs ftruncate \
         fallocate fstat fadvise64",
    ),
    (
        "the files of the store; mounts and Landlock say which",
        "open openat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd \
         mkdir mkdirat unlink unlinkat rmdir rename renameat renameat2 utimensat flock",
    ),
    ("memory", "brk munmap mremap madvise membarrier"),
    (
        "threads and their locks",
        "futex set_robust_list rseq sched_yield sched_getaffinity gettid getpid exit exit_group set_tid_address",
    ),
    ("handlers of signals, its own", "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall"),
    ("time", "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time"),
    (
        "descriptors and waiting for them",
        "dup dup3 pipe2 eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll",
    ),
    ("who it is, which SQLite asks", "getuid geteuid getgid getegid uname sysinfo"),
    ("random numbers", "getrandom"),
    SOCKETS,
];

/// See the module: nothing in here reaches a network that nobody came from.
const SOCKETS: (&str, &str) = (
    "connections that were accepted, and the link",
    "accept accept4 getsockname getpeername getsockopt sendto recvfrom sendmsg recvmsg",
);

/// A condition on an argument of a call.
#[derive(Debug, Clone, Copy)]
enum When {
    /// Its lower 32 bits are this.
    Is(u32, u32),
    /// Under the first mask it is the second value.
    Bits(u32, u64, u64),
}

/// What makes a thread of this process and nothing else: `CLONE_VM`, `_FS`, `_FILES`, `_SIGHAND` and `_THREAD` are there.
const THREAD: u64 =
    (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u64;
/// And none of these is, which new namespaces begin with.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32 as u64;

/// What Linux told this process at its start, from linux/prctl.h.
const PR_GET_AUXV: u32 = 0x4155_5856;
/// Commands of fcntl(2). Without those that name who is sent a signal, and leases.
const FCNTLS: &[i32] = &[
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_DUPFD_CLOEXEC,
    libc::F_SETPIPE_SZ,
];
/// Requests of ioctl(2). Without all that a terminal on standard error would do, such as typing for the operator.
const IOCTLS: &[libc::Ioctl] = &[libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX];
/// Options of accepted connections. Without filters, which the listening socket would keep for the next gateway.
const SOCKET_OPTIONS: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
];

/// The filter of the process `pid`, which is the caller.
pub(super) fn filter(pid: u32) -> Result<ScmpFilterContext, SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Errno(libc::ENOSYS))?;
    filter.set_act_badarch(ScmpAction::KillProcess)?;
    for name in ALLOWED.iter().flat_map(|(_, calls)| calls.split_whitespace()) {
        allow(&mut filter, name, &[])?;
    }
    allow_some(&mut filter, pid)?;
    Ok(filter)
}

fn allow_some(filter: &mut ScmpFilterContext, pid: u32) -> Result<(), SeccompError> {
    // clone3 keeps its flags in memory, where a filter cannot look: the C library then takes clone.
    allow(filter, "clone", &[When::Bits(0, THREAD | NEW_NAMESPACES, THREAD)])?;
    // Memory is written or executed: no code comes but by what is mapped already.
    for name in ["mmap", "mprotect"] {
        allow(filter, name, &[When::Bits(2, libc::PROT_EXEC as u64, 0)])?;
    }
    // SQLite, for a file it has just made. Never set-uid or set-gid.
    allow(filter, "fchmod", &[When::Bits(1, 0o6000, 0)])?;
    // abort(3). No other signal, and to nobody else: one that stopped this process would leave its clients waiting.
    allow(filter, "tgkill", &[When::Is(0, pid), When::Is(2, libc::SIGABRT.cast_unsigned())])?;
    for option in [libc::PR_SET_NAME.cast_unsigned(), PR_GET_AUXV] {
        allow(filter, "prctl", &[When::Is(0, option)])?;
    }
    // Ends what is sent. The other direction would end the listening socket, which is the same for the next gateway.
    allow(filter, "shutdown", &[When::Is(1, libc::SHUT_WR.cast_unsigned())])?;
    // Reads limits: of the caller, and none is set.
    allow(filter, "prlimit64", &[When::Is(0, 0), When::Bits(2, u64::MAX, 0)])?;
    // The runtime wakes itself by one when a signal comes.
    allow(filter, "socketpair", &[When::Is(0, libc::AF_UNIX.cast_unsigned())])?;
    for command in FCNTLS {
        allow(filter, "fcntl", &[When::Is(1, command.cast_unsigned())])?;
    }
    for request in IOCTLS {
        allow(filter, "ioctl", &[When::Is(1, *request as u32)])?;
    }
    for (level, option) in SOCKET_OPTIONS {
        let when = [When::Is(1, level.cast_unsigned()), When::Is(2, option.cast_unsigned())];
        allow(filter, "setsockopt", &when)?;
    }
    Ok(())
}

fn allow(filter: &mut ScmpFilterContext, name: &str, when: &[When]) -> Result<(), SeccompError> {
    // A name that this libseccomp does not know is a call that nobody here makes: the next best is taken.
    let Ok(call) = ScmpSyscall::from_name(name) else { return Ok(()) };
    let compares: Vec<_> = when.iter().map(|when| compare(*when)).collect();
    match filter.add_rule_conditional(ScmpAction::Allow, call, &compares) {
        // A call that this architecture does not have needs no rule.
        Err(error) if error.errno() == Some(SeccompErrno::EDOM) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn compare(when: When) -> ScmpArgCompare {
    let (argument, mask, value) = match when {
        When::Is(argument, value) => (argument, u64::from(u32::MAX), u64::from(value)),
        When::Bits(argument, mask, value) => (argument, mask, value),
    };
    ScmpArgCompare::new(argument, ScmpCompareOp::MaskedEqual(mask), value)
}
