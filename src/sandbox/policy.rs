//! The levels as data: every permission with its reason. What is named in no list does not exist for the program.
//!
//! Only data: `plan` compiles the calls into a filter, `root` and `payload` apply the paths.

mod calls;
mod levels;
mod utilities;

use libc::{c_int, c_ulong};

pub(super) use calls::{ALLOWED, EXEC, FORK, Group, IDLE, NEWER, REFUSED, SHARED_MEMORY, WATCHING};
pub(super) use levels::{ALL, Exec, Level, Network, System, level};
pub(super) use utilities::{DATA, DATA_DIRECTORIES, PLACES, TRIED_BY_LIBRARIES, UTILITIES};

/// Why something is there.
pub(super) type Why = &'static str;

/// What Landlock lets a program do below a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// List directories.
    List,
    /// Read files.
    Read,
    /// Read files and execute them.
    Run,
    /// Read and write devices.
    Device,
    /// Everything but executing and making devices.
    Write,
}

/// Landlock rules, for every level. Directories that do not exist in a sandbox are skipped.
pub(super) const PATHS: &[(&str, Access, Why)] = &[
    ("/usr", Access::Run, "interpreters, libraries, programs: what the level shows of them"),
    ("/bin", Access::Run, "where the host has no merged /usr"),
    ("/sbin", Access::Run, "where the host has no merged /usr"),
    ("/lib", Access::Run, "where the host has no merged /usr"),
    ("/lib64", Access::Run, "where the host has no merged /usr"),
    ("/run", Access::Read, "our drivers"),
    ("/dev", Access::Device, "the five devices that are no hardware"),
];

/// Landlock rules for levels with files.
pub(super) const PATHS_WITH_FILES: &[(&str, Access, Why)] = &[
    ("/", Access::List, "`ls /` works; all below it is either ours or allowed by its own line"),
    ("/etc", Access::Read, "our own small /etc"),
    ("/proc", Access::Read, "the program's own processes; the mount is read-only"),
    ("/dev/shm", Access::Write, "POSIX semaphores and shared memory: multiprocessing"),
    ("/tmp", Access::Write, "private scratch space"),
    (WORKSPACE, Access::Write, "the working directory"),
];

/// The session's working directory, inside.
pub(super) const WORKSPACE: &str = "/workspace";

/// The FIFO that the program has as standard input, inside. Landlock lets it be read, as all of `/run`, and not written.
pub(super) const STDIN: &str = "/run/repltool/stdin";

/// Directories and links that hold the operating system. A link on the host stays a link inside.
pub(super) const SYSTEM: &[(&str, Why)] = &[
    ("/usr", "interpreters, libraries, programs"),
    ("/bin", "shebangs and PATH"),
    ("/sbin", "shebangs and PATH"),
    ("/lib", "the dynamic loader's name in every program"),
    ("/lib64", "the dynamic loader's name in every program on x86-64"),
];

/// Files and directories of the host's `/etc` that are shown, where they exist.
pub(super) const ETC_OF_HOST: &[(&str, Why)] = &[
    ("/etc/ld.so.cache", "libraries outside of the default path; without it the loader searches"),
    ("/etc/alternatives", "links in /usr/bin lead through it on Debian: awk, libblas"),
    ("/etc/matplotlibrc", "Debian's matplotlib does not start without"),
    ("/etc/fonts", "fontconfig complains without: plots with text"),
];

/// Files of the host's `/etc` that are shown, at every level, where the others are refused and not absent: programs do
/// without, but end when they are refused.
pub(super) const ETC_WHERE_REFUSED: &[(&str, Why)] = &[("/etc/ssl/openssl.cnf", "OpenSSL, and Node with it")];

/// Files of our own in `/etc`.
pub(super) const ETC_OF_OURS: &[(&str, &str, Why)] = &[
    (
        "/etc/passwd",
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
         user:x:1000:1000:user:/workspace:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "os.path.expanduser, getpass.getuser, whoami",
    ),
    ("/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", "ls -l, id"),
    ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n", "localhost has an address"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n", "no look-up leaves the sandbox"),
];

/// Links of our own.
pub(super) const LINKS: &[(&str, &str, Why)] = &[
    ("/etc/localtime", "/usr/share/zoneinfo/UTC", "the zone of the host is nobody's business"),
    ("/dev/fd", "/proc/self/fd", "process substitution"),
    ("/dev/stdin", "/proc/self/fd/0", "scripts name it"),
    ("/dev/stdout", "/proc/self/fd/1", "scripts name it"),
    ("/dev/stderr", "/proc/self/fd/2", "scripts name it"),
];

/// Devices of the host that are shown.
pub(super) const DEVICES: &[(&str, Why)] = &[
    ("/dev/null", "everybody opens it"),
    ("/dev/zero", "zeros"),
    ("/dev/full", "tests of a full disk"),
    ("/dev/random", "randomness of libraries that know no getrandom"),
    ("/dev/urandom", "randomness of libraries that know no getrandom"),
];

/// When a call matches: every condition on its arguments, of which only the low 32 bits count unless told otherwise,
/// because Linux takes an `int` from a register whose upper half nobody promised to clear.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// Argument `.0` has the value `.1`.
    Is(u32, u32),
    /// Of the bits `.1` of argument `.0` exactly `.2` are set.
    Bits(u32, u64, u64),
    /// The pointer in argument `.0` is null.
    Null(u32),
    /// The pointer in argument `.0` is not null.
    NotNull(u32),
}

impl When {
    /// Whether arguments are so.
    pub(super) fn holds(self, arguments: [u64; 6]) -> bool {
        let argument = |index: u32| arguments[index as usize];
        match self {
            Self::Is(index, value) => argument(index) & u64::from(u32::MAX) == u64::from(value),
            Self::Bits(index, mask, value) => argument(index) & mask == value,
            Self::Null(index) => argument(index) == 0,
            Self::NotNull(index) => argument(index) != 0,
        }
    }
}

/// What is answered to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done.
    Allow,
    /// It fails with this errno, and nobody is told: honest programs try it.
    Refuse(c_int),
    /// It fails with this errno, and is reported as a violation of this rule.
    Report(&'static str, c_int),
}

/// A rule on the arguments of a call.
pub(super) struct Rule {
    pub(super) call: &'static str,
    pub(super) when: &'static [When],
    pub(super) answer: Answer,
    #[expect(dead_code, reason = "read by people")]
    pub(super) why: Why,
}

const fn allow(call: &'static str, when: &'static [When], why: Why) -> Rule {
    Rule { call, when, answer: Answer::Allow, why }
}

const fn refuse(call: &'static str, when: &'static [When], errno: c_int, why: Why) -> Rule {
    Rule { call, when, answer: Answer::Refuse(errno), why }
}

const fn report(call: &'static str, when: &'static [When], rule: &'static str, why: Why) -> Rule {
    Rule { call, when, answer: Answer::Report(rule, libc::EPERM), why }
}

/// Rules that a report names.
pub(super) mod names {
    /// Executing a program.
    pub(in crate::sandbox) const EXEC: &str = "exec";
    /// Starting a process where there may be threads only.
    pub(in crate::sandbox) const PROCESS: &str = "process";
    /// A socket of a family that the level does not have.
    pub(in crate::sandbox) const NETWORK: &str = "network";
    /// Leaving a namespace, or making one.
    pub(in crate::sandbox) const NAMESPACE: &str = "namespace";
    /// Changing mounts or the root.
    pub(in crate::sandbox) const MOUNT: &str = "mount";
    /// Looking into other processes.
    pub(in crate::sandbox) const TRACE: &str = "trace";
    /// Large parts of Linux with a history of holes.
    pub(in crate::sandbox) const KERNEL: &str = "kernel";
    /// Becoming somebody else.
    pub(in crate::sandbox) const IDENTITY: &str = "identity";
    /// Settings of the machine.
    pub(in crate::sandbox) const MACHINE: &str = "machine";
    /// Opening files by handle, past every path.
    pub(in crate::sandbox) const HANDLE: &str = "handle";
    /// Making devices, or typing into a terminal.
    pub(in crate::sandbox) const DEVICE: &str = "device";
}

/// Flags of `clone` that make namespaces; the last one shares its bit with the exit signal, where no signal reaches.
pub(super) const NAMESPACE_FLAGS: u64 = 0x7e02_0080;

const FILE_TYPE: u64 = libc::S_IFMT as u64;

/// The flag of `clone` that makes a thread.
const THREAD: u64 = 0x0001_0000;

/// Rules on `clone` where there may be more processes.
pub(super) const CLONE: &[Rule] = &[allow("clone", &[When::Bits(0, NAMESPACE_FLAGS, 0)], "threads and fork")];

/// Rules on `clone` where there may be threads only.
pub(super) const CLONE_THREADS: &[Rule] = &[
    allow("clone", &[When::Bits(0, NAMESPACE_FLAGS | THREAD, THREAD)], "threads"),
    Rule {
        call: "clone",
        when: &[When::Bits(0, NAMESPACE_FLAGS | THREAD, 0)],
        answer: Answer::Report(names::PROCESS, libc::EACCES),
        why: "no processes at this level",
    },
];

/// Rules on arguments, for every level. What none matches fails with ENOSYS.
pub(super) const RULES: &[Rule] = &[
    report("clone", &[When::Bits(0, 0x0000_0080, 0x0000_0080)], names::NAMESPACE, "time namespace"),
    report("clone", &[When::Bits(0, 0x0002_0000, 0x0002_0000)], names::NAMESPACE, "mount namespace"),
    report("clone", &[When::Bits(0, 0x0200_0000, 0x0200_0000)], names::NAMESPACE, "cgroup namespace"),
    report("clone", &[When::Bits(0, 0x0400_0000, 0x0400_0000)], names::NAMESPACE, "uts namespace"),
    report("clone", &[When::Bits(0, 0x0800_0000, 0x0800_0000)], names::NAMESPACE, "ipc namespace"),
    report("clone", &[When::Bits(0, 0x1000_0000, 0x1000_0000)], names::NAMESPACE, "user namespace: all capabilities"),
    report("clone", &[When::Bits(0, 0x2000_0000, 0x2000_0000)], names::NAMESPACE, "pid namespace"),
    report("clone", &[When::Bits(0, 0x4000_0000, 0x4000_0000)], names::NAMESPACE, "network namespace"),
    allow("mknod", &[When::Bits(1, FILE_TYPE, libc::S_IFIFO as u64)], "mkfifo"),
    report("mknod", &[When::Bits(1, FILE_TYPE, libc::S_IFCHR as u64)], names::DEVICE, "devices"),
    report("mknod", &[When::Bits(1, FILE_TYPE, libc::S_IFBLK as u64)], names::DEVICE, "devices"),
    allow("mknodat", &[When::Bits(2, FILE_TYPE, libc::S_IFIFO as u64)], "mkfifo"),
    report("mknodat", &[When::Bits(2, FILE_TYPE, libc::S_IFCHR as u64)], names::DEVICE, "devices"),
    report("mknodat", &[When::Bits(2, FILE_TYPE, libc::S_IFBLK as u64)], names::DEVICE, "devices"),
    allow("personality", &[When::Is(0, 0)], "plain Linux"),
    allow("personality", &[When::Is(0, u32::MAX)], "asks only"),
    report("ioctl", &[When::Is(1, libc::TIOCSTI as u32)], names::DEVICE, "types into a terminal"),
    report("ioctl", &[When::Is(1, libc::TIOCLINUX as u32)], names::DEVICE, "pastes into a console"),
    // A core size of 1 keeps a host's crash handler from being run on a program's memory; 0 would not.
    refuse("setrlimit", &[When::Is(0, libc::RLIMIT_CORE)], libc::EPERM, "see above"),
    refuse("prlimit64", &[When::Is(1, libc::RLIMIT_CORE), When::NotNull(2)], libc::EPERM, "see above"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_CORE), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_RSS), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_MEMLOCK), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_LOCKS), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_SIGPENDING), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_MSGQUEUE), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_NICE), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_RTPRIO), When::Null(2)], "asks only"),
    allow("prlimit64", &[When::Is(1, libc::RLIMIT_RTTIME), When::Null(2)], "asks only"),
];

/// Local sockets, where the sandbox has a network namespace and a file tree of its own.
pub(super) const UNIX: &[Rule] = &[
    allow("socket", &[When::Is(0, libc::AF_UNIX as u32)], "inside the sandbox only: its own namespaces bound it"),
    allow("socketpair", &[When::Is(0, libc::AF_UNIX as u32)], "asyncio, subprocess"),
];

/// The bits of a socket's type that are no flags.
const SOCKET_TYPE: u64 = 0xf;

/// Local sockets, where it has not: Landlock does not judge connections to sockets that have a path, so there are pairs
/// only, and of those only the kinds that cannot send to anybody but each other.
pub(super) const UNIX_PAIRS: &[Rule] = &[
    refuse(
        "socket",
        &[When::Is(0, libc::AF_UNIX as u32)],
        libc::EACCES,
        "the host's services listen on such; quietly, since the C library looks for one of them by itself",
    ),
    allow(
        "socketpair",
        &[When::Is(0, libc::AF_UNIX as u32), When::Bits(1, SOCKET_TYPE, libc::SOCK_STREAM as u64)],
        "asyncio, subprocess",
    ),
    allow(
        "socketpair",
        &[When::Is(0, libc::AF_UNIX as u32), When::Bits(1, SOCKET_TYPE, libc::SOCK_SEQPACKET as u64)],
        "the same, in packets",
    ),
];

/// Resources whose limits a program may lower, or raise up to the hard limit.
pub(super) const RESOURCES: &[(u32, Why)] = &[
    (libc::RLIMIT_NOFILE, "servers raise it"),
    (libc::RLIMIT_STACK, "deep recursion"),
    (libc::RLIMIT_AS, "programs that limit themselves"),
    (libc::RLIMIT_DATA, "programs that limit themselves"),
    (libc::RLIMIT_CPU, "programs that limit themselves"),
    (libc::RLIMIT_FSIZE, "programs that limit themselves"),
    (libc::RLIMIT_NPROC, "programs that limit themselves"),
];

/// Requests of `ioctl` that are allowed. There is no terminal and no real device inside; the rest is ENOSYS.
pub(super) const IOCTLS: &[(c_ulong, Why)] = &[
    (libc::TCGETS, "isatty"),
    (libc::TCSETS, "a shell that finds no terminal gets ENOTTY, as it expects"),
    (libc::TCSETSW, "the same"),
    (libc::TCSETSF, "the same"),
    (libc::TIOCGWINSZ, "the width of a terminal that is not there"),
    (libc::TIOCGPGRP, "job control asks"),
    (libc::TIOCSPGRP, "job control asks"),
    (libc::TIOCOUTQ, "what a socket has not sent yet"),
    (libc::FIONREAD, "what a pipe or socket holds"),
    (libc::FIONBIO, "non-blocking"),
    (libc::FIOASYNC, "signals from descriptors"),
    (libc::FIOCLEX, "close on exec"),
    (libc::FIONCLEX, "close on exec"),
];

/// Options of `prctl` that are allowed.
pub(super) const PRCTLS: &[(c_int, Why)] = &[
    (libc::PR_SET_NAME, "names of threads"),
    (libc::PR_GET_NAME, "names of threads"),
    (libc::PR_SET_PDEATHSIG, "multiprocessing, supervisors of children"),
    (libc::PR_GET_PDEATHSIG, "asks only"),
    (libc::PR_GET_DUMPABLE, "asks only"),
    (libc::PR_SET_DUMPABLE, "hides a process from its siblings"),
    (libc::PR_CAPBSET_READ, "asks only"),
    (libc::PR_SET_NO_NEW_PRIVS, "tightens"),
    (libc::PR_GET_NO_NEW_PRIVS, "asks only"),
    (libc::PR_GET_SECCOMP, "asks only"),
    (libc::PR_SET_CHILD_SUBREAPER, "supervisors of children"),
    (libc::PR_GET_CHILD_SUBREAPER, "asks only"),
    (libc::PR_SET_TIMERSLACK, "exact timers"),
    (libc::PR_GET_TIMERSLACK, "asks only"),
    (libc::PR_SET_THP_DISABLE, "allocators"),
    (libc::PR_GET_THP_DISABLE, "asks only"),
    (libc::PR_SET_VMA, "names of memory areas: V8, the C library"),
];

/// Options of `setsockopt` at the level SOL_SOCKET that are allowed: all the usual ones but packet filters, which are
/// programs that run in Linux.
pub(super) const SOCKET_OPTIONS: &[c_int] = &[
    libc::SO_DEBUG,
    libc::SO_REUSEADDR,
    libc::SO_DONTROUTE,
    libc::SO_BROADCAST,
    libc::SO_SNDBUF,
    libc::SO_RCVBUF,
    libc::SO_KEEPALIVE,
    libc::SO_OOBINLINE,
    libc::SO_PRIORITY,
    libc::SO_LINGER,
    libc::SO_REUSEPORT,
    libc::SO_PASSCRED,
    libc::SO_RCVLOWAT,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_TIMESTAMP,
];

/// Levels of `setsockopt` that are allowed with every option, in sandboxes with a network.
pub(super) const SOCKET_LEVELS: &[(c_int, Why)] =
    &[(libc::IPPROTO_TCP, "TCP_NODELAY"), (libc::IPPROTO_IPV6, "IPV6_V6ONLY"), (libc::IPPROTO_IP, "IP_TOS")];

/// A family that is refused quietly: the C library asks by it which addresses there are, whoever resolves a name.
pub(super) const QUIET_FAMILY: c_int = libc::AF_NETLINK;

/// Families of `socket` that are refused with EACCES, which says more than ENOSYS, and reported, unless a level allows
/// them.
pub(super) const REFUSED_FAMILIES: &[c_int] =
    &[libc::AF_INET, libc::AF_INET6, libc::AF_PACKET, libc::AF_ALG, libc::AF_VSOCK, libc::AF_BLUETOOTH];
