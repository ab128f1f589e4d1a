//! Rights, namespaces, and the parts of Linux with a history of holes.

use super::{Attack, address, call, depends, text, try_call, works};

/// `TIOCSTI` and `TIOCLINUX` of asm-generic/ioctls.h.
const TIOCSTI: usize = 0x5412;
const TIOCLINUX: usize = 0x541C;

pub(super) const ATTACKS: &[Attack] = &[
    works("become root", |_| {
        call(libc::SYS_setuid, &[0])?;
        try_call(libc::SYS_capget, &[address(&[0x2008_0522_u32, 0]), 0])
    }),
    works("become root by setresuid", |_| try_call(libc::SYS_setresuid, &[0, 0, 0])),
    works("join groups", |_| try_call(libc::SYS_setgroups, &[0, 0])),
    works("change the user for files", |_| match call(libc::SYS_setfsuid, &[0])? {
        // It always gives what was before.
        0 => Ok(()),
        _ => Err(std::io::Error::from_raw_os_error(libc::EPERM)),
    }),
    works("set capabilities", |_| {
        let (header, data) = ([0x2008_0522_u32, 0], [0_u32; 6]);
        try_call(libc::SYS_capset, &[address(&header), address(&data)])
    }),
    works("raise its limits", |_| {
        let limit = [1_u64, 2];
        try_call(libc::SYS_prlimit64, &[0, libc::RLIMIT_CORE as usize, address(&limit), 0])
    }),
    works("make a user namespace", |_| try_call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize])),
    works("make a mount namespace", |_| try_call(libc::SYS_unshare, &[libc::CLONE_NEWNS as usize])),
    works("make a process in a user namespace", |_| {
        match call(libc::SYS_clone, &[(libc::CLONE_NEWUSER | libc::SIGCHLD) as usize])? {
            0 => call(libc::SYS_exit_group, &[0]).map(drop),
            _ => Ok(()),
        }
    }),
    works("enter the namespaces of the supervisor", |it| {
        let pidfd = call(libc::SYS_pidfd_open, &[it.supervisor(), 0])?;
        try_call(libc::SYS_setns, &[pidfd, libc::CLONE_NEWUTS as usize])
    }),
    works("mount something", |it| {
        call(libc::SYS_unshare, &[libc::CLONE_NEWNS as usize])?;
        let place = super::path(&it.scene.data);
        call(libc::SYS_mount, &[0, text(c"/"), 0, (libc::MS_REC | libc::MS_PRIVATE) as usize, 0])?;
        try_call(libc::SYS_mount, &[text(c"none"), text(&place), text(c"tmpfs"), 0, 0])
    }),
    works("mount by the new calls", |_| try_call(libc::SYS_fsopen, &[text(c"tmpfs"), 0])),
    depends("unmount the store", |it| {
        let place = super::path(&it.scene.data);
        try_call(libc::SYS_umount2, &[text(&place), libc::MNT_DETACH as usize])
    }),
    depends("pivot_root", |_| try_call(libc::SYS_pivot_root, &[text(c"."), text(c".")])),
    depends("load a program into Linux", |_| {
        let attributes = [0_u64; 16];
        try_call(libc::SYS_bpf, &[0, address(&attributes), size_of_val(&attributes)])
    }),
    depends("make rings", |_| {
        let parameters = [0_u32; 32];
        try_call(libc::SYS_io_uring_setup, &[1, address(&parameters)])
    }),
    works("make old rings", |_| {
        let context = 0_u64;
        try_call(libc::SYS_io_setup, &[1, address(&context)])
    }),
    depends("count the machine's events", |_| {
        let attributes = [0_u64; 17];
        try_call(libc::SYS_perf_event_open, &[address(&attributes), 0, usize::MAX, usize::MAX, 0])
    }),
    depends("handle faults of pages", |_| try_call(libc::SYS_userfaultfd, &[0])),
    depends("use keyrings", |_| try_call(libc::SYS_keyctl, &[0, usize::MAX - 2, 0])),
    depends("add a key", |_| try_call(libc::SYS_add_key, &[text(c"user"), text(c"x"), text(c"x"), 1, usize::MAX - 2])),
    works("put another filter", |_| {
        let action = 0x7fff_0000_u32;
        try_call(libc::SYS_seccomp, &[2, 0, address(&action)])
    }),
    depends("load a module", |_| try_call(libc::SYS_finit_module, &[0, text(c""), 0])),
    works("change its personality", |_| try_call(libc::SYS_personality, &[0x0040_0000])),
    depends("set the clock", |_| try_call(libc::SYS_clock_settime, &[0, 0])),
    depends("name the host", |_| try_call(libc::SYS_sethostname, &[text(c"x"), 1])),
    depends("type for the operator", |_| try_call(libc::SYS_ioctl, &[2, TIOCSTI, text(c"x")])),
    depends("steer the console", |_| try_call(libc::SYS_ioctl, &[2, TIOCLINUX, text(c"\x02")])),
    depends("make a lease", |it| {
        let socket = std::os::fd::AsRawFd::as_raw_fd(&it.listener) as usize;
        try_call(libc::SYS_fcntl, &[socket, libc::F_SETLEASE as usize, 0])
    }),
    works("make a timer that signals", |_| {
        let id = 0_i32;
        try_call(libc::SYS_timer_create, &[0, 0, address(&id)])
    }),
    works("read the log of Linux", |_| try_call(libc::SYS_syslog, &[10, 0, 0])),
];
