//! The system calls of the process that calls outside: it opens no file, starts no program and waits for nobody to connect.

use libseccomp::error::SeccompError;
use libseccomp::{ScmpAction, ScmpFilterContext};

use super::{FCNTLS, IOCTLS, NEW_NAMESPACES, PR_GET_AUXV, THREAD, When, allow};

/// Calls that need no look at their arguments, each group with its reason.
const ALLOWED: &[(&str, &str)] = &[
    ("reading and writing what is open", "read write readv writev pread64 pwrite64 lseek close fstat newfstatat"),
    ("memory", "brk munmap mremap madvise membarrier"),
    ("memory that is lent to the supervisor", "memfd_create ftruncate"),
    (
        "threads and their locks",
        "futex set_robust_list rseq sched_yield sched_getaffinity gettid getpid exit exit_group set_tid_address",
    ),
    ("handlers of signals, its own", "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall"),
    ("time", "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time"),
    (
        "descriptors and waiting for them",
        "dup dup3 eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll",
    ),
    ("random numbers", "getrandom"),
    (
        "connections that it opens, and its links; Landlock says to where",
        "connect getsockname getpeername getsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown",
    ),
    // Landlock refuses it for TCP, and without listen(2) nobody reaches what is bound.
    ("the port that answers to names come back to", "bind"),
];

/// Options of sockets that it opens.
const SOCKET_OPTIONS: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// The filter of the process `pid`, which is the caller.
pub(in crate::sandbox::confine) fn filter(pid: u32) -> Result<ScmpFilterContext, SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Errno(libc::ENOSYS))?;
    filter.set_act_badarch(ScmpAction::KillProcess)?;
    for name in ALLOWED.iter().flat_map(|(_, calls)| calls.split_whitespace()) {
        allow(&mut filter, name, &[])?;
    }
    allow(&mut filter, "clone", &[When::Bits(0, THREAD | NEW_NAMESPACES, THREAD)])?;
    for name in ["mmap", "mprotect"] {
        allow(&mut filter, name, &[When::Bits(2, libc::PROT_EXEC as u64, 0)])?;
    }
    allow(&mut filter, "tgkill", &[When::Is(0, pid), When::Is(2, libc::SIGABRT.cast_unsigned())])?;
    for option in [libc::PR_SET_NAME.cast_unsigned(), PR_GET_AUXV] {
        allow(&mut filter, "prctl", &[When::Is(0, option)])?;
    }
    allow(&mut filter, "prlimit64", &[When::Is(0, 0), When::Bits(2, u64::MAX, 0)])?;
    for command in FCNTLS.iter().chain(&[libc::F_ADD_SEALS]) {
        allow(&mut filter, "fcntl", &[When::Is(1, command.cast_unsigned())])?;
    }
    for request in IOCTLS {
        allow(&mut filter, "ioctl", &[When::Is(1, *request as u32)])?;
    }
    allow_sockets(&mut filter)?;
    Ok(filter)
}

fn allow_sockets(filter: &mut ScmpFilterContext) -> Result<(), SeccompError> {
    // The runtime wakes itself by a pair when a signal comes.
    allow(filter, "socketpair", &[When::Is(0, libc::AF_UNIX.cast_unsigned())])?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let when = [When::Is(0, family.cast_unsigned()), When::Bits(1, 0xf, kind.cast_unsigned().into())];
            allow(filter, "socket", &when)?;
        }
    }
    for (level, option) in SOCKET_OPTIONS {
        let when = [When::Is(1, level.cast_unsigned()), When::Is(2, option.cast_unsigned())];
        allow(filter, "setsockopt", &when)?;
    }
    Ok(())
}
