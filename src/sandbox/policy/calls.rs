//! The calls that need no look at their arguments. Calls of other architectures in these lists do no harm.

use super::{Why, names};

/// Calls with a reason that holds for each of them.
pub(in crate::sandbox) struct Group {
    #[expect(dead_code, reason = "read by people")]
    pub(in crate::sandbox) why: Why,
    calls: &'static str,
}

impl Group {
    /// The names of its calls.
    pub(in crate::sandbox) fn calls(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.calls.split_whitespace()
    }
}

/// Done for every program.
pub(in crate::sandbox) const ALLOWED: &[Group] = &[
    Group {
        why: "reading and writing what is open",
        calls: "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek close \
                close_range sendfile sendfile64 copy_file_range fadvise64 fadvise64_64 readahead sync_file_range \
                fsync fdatasync flock",
    },
    Group {
        why: "opening and looking at files; mounts and Landlock say which",
        calls: "open openat openat2 creat stat fstat lstat stat64 fstat64 lstat64 newfstatat fstatat64 statx \
                access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir statfs \
                fstatfs statfs64 fstatfs64 getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
    },
    Group {
        why: "changing files of its own",
        calls: "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat \
                truncate ftruncate truncate64 ftruncate64 chmod fchmod fchmodat fchmodat2 chown fchown lchown \
                fchownat utime utimes utimensat futimesat umask fallocate",
    },
    Group {
        why: "memory",
        calls: "brk mmap mmap2 munmap mremap mprotect madvise msync mlock munlock mlock2 membarrier",
    },
    Group { why: "V8 guards its code with memory keys", calls: "pkey_alloc pkey_free pkey_mprotect" },
    Group {
        why: "processes and threads; the number is limited",
        calls: "exit exit_group wait4 waitid waitpid getpid getppid gettid getpgid getpgrp \
                setpgid getsid setsid set_tid_address set_robust_list get_robust_list futex futex_waitv rseq \
                arch_prctl set_thread_area get_thread_area pidfd_open pidfd_send_signal",
    },
    Group {
        why: "scheduling; a higher priority needs a right that is gone",
        calls: "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler \
                sched_get_priority_max sched_get_priority_min sched_rr_get_interval getpriority setpriority \
                getcpu get_mempolicy",
    },
    Group {
        why: "signals; they reach only its own processes",
        calls: "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend \
                rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack sigreturn signalfd signalfd4 pause \
                alarm getitimer setitimer restart_syscall",
    },
    Group {
        why: "time",
        calls: "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times timer_create \
                timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime \
                timerfd_gettime",
    },
    Group {
        why: "descriptors and waiting for them",
        calls: "dup dup2 dup3 fcntl fcntl64 pipe pipe2 eventfd eventfd2 epoll_create epoll_create1 epoll_ctl \
                epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 _newselect",
    },
    Group {
        why: "sockets, once there is one",
        calls: "bind connect listen accept accept4 getsockname getpeername getsockopt sendto recvfrom sendmsg \
                recvmsg sendmmsg recvmmsg shutdown",
    },
    Group {
        why: "asking who and where it is",
        calls: "getuid geteuid getgid getegid getresuid getresgid getgroups capget uname sysinfo getrusage \
                getrlimit ugetrlimit getrandom",
    },
];

/// Allowed only where a memory cgroup counts it: no resource limit sees this memory.
pub(in crate::sandbox) const SHARED_MEMORY: &[Group] =
    &[Group { why: "anonymous files: allocators, wasm, tests", calls: "memfd_create" }];

/// Allowed only where the sandbox has a file tree of its own: Landlock does not judge what is watched.
pub(in crate::sandbox) const WATCHING: &[Group] =
    &[Group { why: "node's fs.watch", calls: "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch" }];

/// Beside `clone`, where there may be more processes.
pub(in crate::sandbox) const FORK: Group = Group { why: "older names of clone", calls: "fork vfork" };

/// Where programs may be executed.
pub(in crate::sandbox) const EXEC: Group = Group { why: "what is shown inside", calls: "execve" };

/// Refused with EPERM and reported: calls that would matter, and that no honest program needs here. Each with its rule.
pub(in crate::sandbox) const REFUSED: &[(&str, Group)] = &[
    (
        names::TRACE,
        Group {
            why: "other processes' memory and descriptors",
            calls: "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd \
                    move_pages migrate_pages",
        },
    ),
    (
        names::MOUNT,
        Group {
            why: "mounts and roots",
            calls: "mount umount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr \
                    move_mount mount_setattr statmount listmount",
        },
    ),
    (names::NAMESPACE, Group { why: "namespaces", calls: "unshare setns" }),
    (
        names::KERNEL,
        Group {
            why: "large parts of Linux with a history of holes",
            calls: "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key \
                    request_key keyctl vmsplice modify_ldt fanotify_init fanotify_mark memfd_secret",
        },
    ),
    (names::EXEC, Group { why: "a second way to execute, by descriptor", calls: "execveat" }),
    (names::HANDLE, Group { why: "files by handle pass by every path", calls: "open_by_handle_at name_to_handle_at" }),
    (
        names::IDENTITY,
        Group {
            why: "the identity is settled",
            calls: "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset \
                    sethostname setdomainname vhangup",
        },
    ),
    (
        names::MACHINE,
        Group {
            why: "the machine",
            calls: "reboot kexec_load kexec_file_load init_module finit_module delete_module create_module swapon \
                    swapoff acct iopl ioperm quotactl quotactl_fd syslog settimeofday clock_settime adjtimex \
                    clock_adjtime stime lookup_dcookie nfsservctl uselib sysfs _sysctl",
        },
    ),
];

/// Refused with EPERM and not reported: honest programs try them and do without.
pub(in crate::sandbox) const IDLE: &[Group] = &[
    Group { why: "walls are complete already", calls: "seccomp landlock_create_ruleset landlock_restrict_self" },
    Group { why: "would have the host write its disks", calls: "sync syncfs" },
];

/// Numbers of calls that libseccomp 2.5.4 has no name for. Since 5.0 they are the same on every architecture.
pub(in crate::sandbox) const NEWER: &[(&str, i32)] =
    &[("fchmodat2", 452), ("statmount", 457), ("listmount", 458), ("open_tree_attr", 467)];
