//! The supervisor and other processes.

use super::{Attack, address, call, depends, try_call, works};

const TERM: usize = libc::SIGTERM as usize;

pub(super) const ATTACKS: &[Attack] = &[
    works("attach to the supervisor", |it| {
        try_call(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as usize, it.supervisor()])
    }),
    works("seize the supervisor", |it| try_call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, it.supervisor()])),
    works("attach to a bystander", |it| try_call(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as usize, it.victim()])),
    depends("read the supervisor's memory", |it| copy_memory(libc::SYS_process_vm_readv, it.supervisor())),
    depends("write the supervisor's memory", |it| copy_memory(libc::SYS_process_vm_writev, it.supervisor())),
    works("open the supervisor", |it| try_call(libc::SYS_pidfd_open, &[it.supervisor(), 0])),
    works("take a descriptor of the supervisor", |it| {
        let pidfd = call(libc::SYS_pidfd_open, &[it.supervisor(), 0])?;
        try_call(libc::SYS_pidfd_getfd, &[pidfd, 0, 0])
    }),
    works("compare with the supervisor", |it| {
        let own = std::process::id() as usize;
        try_call(libc::SYS_kcmp, &[it.supervisor(), own, 0, 0, 0])
    }),
    // No signal: only asks whether one could be sent.
    works("signal the supervisor", |it| try_call(libc::SYS_kill, &[it.supervisor(), 0])),
    works("signal a bystander", |it| try_call(libc::SYS_kill, &[it.victim(), 0])),
    works("signal everybody", |_| try_call(libc::SYS_kill, &[usize::MAX, 0])),
    works("signal its group", |_| try_call(libc::SYS_kill, &[0, 0])),
    works("signal a thread of the supervisor", |it| try_call(libc::SYS_tgkill, &[it.supervisor(), it.supervisor(), 0])),
    works("signal a thread by its number alone", |it| try_call(libc::SYS_tkill, &[it.supervisor(), 0])),
    depends("queue a signal for the supervisor", |it| {
        let info = [0_u64; 16];
        try_call(libc::SYS_rt_sigqueueinfo, &[it.supervisor(), TERM, address(&info)])
    }),
    works("signal by a descriptor", |it| {
        let pidfd = call(libc::SYS_pidfd_open, &[it.victim(), 0])?;
        try_call(libc::SYS_pidfd_send_signal, &[pidfd, 0, 0, 0])
    }),
    works("have Linux signal the supervisor about a socket", |it| {
        let socket = std::os::fd::AsRawFd::as_raw_fd(&it.listener) as usize;
        try_call(libc::SYS_fcntl, &[socket, libc::F_SETOWN as usize, it.supervisor()])
    }),
    works("choose the signal about a socket", |it| {
        let socket = std::os::fd::AsRawFd::as_raw_fd(&it.listener) as usize;
        try_call(libc::SYS_fcntl, &[socket, F_SETSIG, TERM])
    }),
    depends("stop itself", |_| {
        let own = std::process::id() as usize;
        try_call(libc::SYS_tgkill, &[own, own, libc::SIGSTOP as usize])
    }),
    depends("stop itself by kill", |_| {
        try_call(libc::SYS_kill, &[std::process::id() as usize, libc::SIGSTOP as usize])
    }),
    works("limit the supervisor", |it| {
        let limit = [1_u64 << 30, 1 << 30];
        try_call(libc::SYS_prlimit64, &[it.supervisor(), libc::RLIMIT_CORE as usize, address(&limit), 0])
    }),
    works("ask for the supervisor's limits", |it| {
        let limit = [0_u64; 2];
        try_call(libc::SYS_prlimit64, &[it.supervisor(), libc::RLIMIT_NOFILE as usize, 0, address(&limit)])
    }),
    works("choose the supervisor's processors", |it| {
        let set = [u64::MAX; 16];
        try_call(libc::SYS_sched_setaffinity, &[it.supervisor(), size_of_val(&set), address(&set)])
    }),
    works("slow the supervisor down", |it| {
        try_call(libc::SYS_setpriority, &[libc::PRIO_PROCESS as usize, it.supervisor(), 1])
    }),
    works("schedule the supervisor", |it| {
        try_call(libc::SYS_sched_setscheduler, &[it.supervisor(), libc::SCHED_OTHER as usize, address(&0_i32)])
    }),
    works("give the supervisor's disk a class", |it| {
        try_call(libc::SYS_ioprio_set, &[1, it.supervisor(), (2 << 13) | 4])
    }),
    depends("move the supervisor's pages", |it| try_call(libc::SYS_migrate_pages, &[it.supervisor(), 0, 0, 0])),
    works("look for the supervisor's locks", |it| {
        let (head, len) = (0_usize, 0_usize);
        try_call(libc::SYS_get_robust_list, &[it.supervisor(), address(&head), address(&len)])
    }),
    works("ask for the supervisor's group", |it| try_call(libc::SYS_getpgid, &[it.supervisor()])),
    works("make a process", |_| match call(libc::SYS_clone, &[libc::SIGCHLD as usize])? {
        0 => call(libc::SYS_exit_group, &[0]).map(drop),
        _ => Ok(()),
    }),
    works("make a process by clone3", |_| {
        let args = [0_u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
        match call(libc::SYS_clone3, &[address(&args), size_of_val(&args)])? {
            0 => call(libc::SYS_exit_group, &[0]).map(drop),
            _ => Ok(()),
        }
    }),
    works("outlive the supervisor", |_| try_call(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as usize, 0])),
    works("become dumpable", |_| try_call(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as usize, 1])),
    works("leave its session", |_| try_call(libc::SYS_setpgid, &[0, 0])),
    works("trace itself", |_| try_call(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize])),
];

/// `F_SETSIG` of linux/fcntl.h.
const F_SETSIG: usize = 10;

/// One byte of the other process, wherever: an address that is not mapped is refused otherwise than the attempt is.
fn copy_memory(number: libc::c_long, pid: usize) -> std::io::Result<()> {
    let byte = 0_u8;
    let (own, other) = ([address(&byte), 1], [address(&byte), 1]);
    try_call(number, &[pid, address(&own), 1, address(&other), 1, 0])
}
