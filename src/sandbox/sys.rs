//! System calls that neither rustix nor nix wraps, each behind a safe function or one whose rules are told.

#![allow(unsafe_code, reason = "raw system calls live here and in enter.rs only")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::mount::MountAttrFlags;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// What [`clone_process`] returns.
pub(super) enum Forked {
    /// To the caller: the child.
    Parent { pid: i32, pidfd: OwnedFd },
    /// To the child.
    Child,
}

/// Copies the process as `fork` does, into new namespaces. Handlers of signals are reset in the child.
///
/// # Safety
/// The process has one thread: another one could hold a lock that nobody would ever release in the child. The child must
/// not return into the code of the caller's caller, which believes that it exists once.
pub(super) unsafe fn clone_process(namespaces: libc::c_int) -> io::Result<Forked> {
    // SAFETY: the caller's promise.
    unsafe { clone_process_into(namespaces, None, Parent::Caller) }
}

/// Whose child a clone becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    /// The caller's.
    Caller,
    /// That of the caller's parent.
    Callers,
}

/// As [`clone_process`], with the child born in this cgroup of v2.
///
/// # Safety
/// As there.
pub(super) unsafe fn clone_process_into(
    namespaces: libc::c_int,
    cgroup: Option<BorrowedFd<'_>>,
    parent: Parent,
) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all-zero bytes are a valid `clone_args`: a plain structure of integers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = libc::CLONE_PIDFD as u64 | CLONE_CLEAR_SIGHAND | namespaces as u64;
    args.flags = flags;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    }
    args.pidfd = (&raw mut pidfd) as u64;
    match parent {
        Parent::Caller => args.exit_signal = libc::SIGCHLD as u64,
        // The signal is the caller's own then.
        Parent::Callers => args.flags |= libc::CLONE_PARENT as u64,
    }
    // SAFETY: `args` is valid for its whole size, asks for no shared memory and no stack of its own, and `pidfd` outlives
    // the call. The rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match result {
        // Containers refuse the call altogether, because their filters cannot look into its arguments.
        -1 if namespaces == 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) => {
            // SAFETY: the caller's promise.
            unsafe { clone_by_flags() }
        }
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => {
            // SAFETY: the call succeeded, so Linux stored a fresh descriptor there, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
        }
    }
}

/// [`clone_process`] by the older call, without namespaces.
///
/// # Safety
/// As there.
unsafe fn clone_by_flags() -> io::Result<Forked> {
    // A handler must not run in the child before it is reset there.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let mut pidfd: RawFd = -1;
    let flags = libc::c_long::from(libc::CLONE_PIDFD | libc::SIGCHLD);
    // SAFETY: asks for no shared memory and no stack of its own, and `pidfd` outlives the call. The rest is the caller's
    // promise.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut pidfd, 0_usize, 0_usize) };
    let failure = io::Error::last_os_error();
    if result == 0 {
        default_signals();
    }
    before.thread_set_mask()?;
    match result {
        -1 => Err(failure),
        0 => Ok(Forked::Child),
        pid => {
            // SAFETY: the call succeeded, so Linux stored a fresh descriptor there, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
        }
    }
}

/// Has `part` done by a process that has entered a user namespace and shares all memory and descriptors with this one, which
/// waits meanwhile. What that process clones with [`Parent::Callers`] is a child of this one.
///
/// # Errors
/// What Linux says of the clone, or of entering the namespace. A panic of `part` ends up as one here.
pub(super) fn inside_user_namespace<T>(
    namespace: BorrowedFd<'_>,
    part: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    struct Order<'a, F, T> {
        namespace: BorrowedFd<'a>,
        part: Option<F>,
        result: Option<std::thread::Result<io::Result<T>>>,
    }
    extern "C" fn run<F: FnOnce() -> io::Result<T>, T>(order: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it is the order below, which its owner does not touch before this process has ended.
        let order = unsafe { &mut *order.cast::<Order<'_, F, T>>() };
        let (namespace, part) = (order.namespace, order.part.take());
        order.result = Some(catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the call reads no memory.
            check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) }.into())?;
            part.map_or_else(|| Err(io::Error::from_raw_os_error(libc::EINVAL)), |part| part())
        })));
        0
    }
    fn address<F: FnOnce() -> io::Result<T>, T>(_: &Option<F>) -> extern "C" fn(*mut libc::c_void) -> libc::c_int {
        run::<F, T>
    }
    must_be_single_threaded()?;
    let mut order = Order { namespace, part: Some(part), result: None };
    let entry = address::<_, T>(&order.part);
    // What is cloned lives on in a copy of this stack.
    let stack = Stack::new()?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: the stack is aligned, and it and `order` outlive the process, for which the call waits. This process has one
    // thread, so nobody else is in the memory that the two share.
    let pid = unsafe { libc::clone(entry, stack.top(), flags, (&raw mut order).cast()) };
    check(pid.into())?;
    // It has ended; nobody asks how.
    let pid = Pid::from_raw(pid);
    while matches!(rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {
    }
    match order.result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => Err(io::Error::from_raw_os_error(libc::ECHILD)),
    }
}

/// The stack of such a process, and of what it clones: pages of its own, so that none takes memory but those in use.
struct Stack(*mut libc::c_void);

impl Stack {
    const BYTES: usize = 1 << 20;

    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where Linux has room for it, touches no memory that is in use.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, flags, -1, 0) };
        if pages == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(pages)) }
    }

    /// Where it begins: stacks grow down.
    fn top(&self) -> *mut libc::c_void {
        self.0.wrapping_byte_add(Self::BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and who has used it as a stack has ended.
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}

/// Has a copy of this process do `part` and exit with what it returns; the copy runs nothing else.
///
/// # Errors
/// What Linux says: `EINVAL` in a process with several threads, `EAGAIN` where there are too many processes.
pub(super) fn fork(part: impl FnOnce() -> i32) -> io::Result<Pid> {
    must_be_single_threaded()?;
    // SAFETY: this process has one thread, as just asked, and the copy ends here.
    match unsafe { clone_process(0) }? {
        Forked::Parent { pid, .. } => Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH)),
        Forked::Child => exit_now(catch_unwind(AssertUnwindSafe(part)).unwrap_or(PANICKED)),
    }
}

/// What a copy exits with whose part panicked.
const PANICKED: i32 = 101;

/// Linux refuses this no-op to a process with several threads.
pub(super) fn must_be_single_threaded() -> io::Result<()> {
    match unshare(UnshareFlags::from_bits_retain(libc::CLONE_THREAD.cast_unsigned())) {
        // Containers refuse every form of the call.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let threads = std::fs::read_dir("/proc/self/task")?.count();
            if threads == 1 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
        }
        outcome => outcome,
    }
}

/// `CLONE_INTO_CGROUP`, which libc does not have.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// `CLONE_CLEAR_SIGHAND`, which does not fit into libc's type.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

/// Changes the attributes of the mount that `mount` stands for, and of those below it if `recursive`.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, set: MountAttrFlags, recursive: bool) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `mount_attr`: a plain structure of integers.
    let mut attributes: libc::mount_attr = unsafe { std::mem::zeroed() };
    attributes.attr_set = u64::from(set.bits());
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a terminated string, `attributes` is valid for the size given, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result)
}

/// Makes `number` refer to what `source` refers to, to be inherited by programs. What `number` was before is closed.
///
/// # Safety
/// No owner of `number` exists that will be used or dropped.
pub(super) unsafe fn place(source: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: touches only the table of descriptors; ownership is the caller's promise.
    check(unsafe { libc::dup2(source.as_raw_fd(), number) }.into())
}

/// Takes over a descriptor that the program was started with.
///
/// # Errors
/// `EBADF` if it is not open.
///
/// # Safety
/// `number` has no owner.
pub(super) unsafe fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: with this request the call reads no memory; it fails for a number that is not open.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }.into())?;
    // SAFETY: it is open, as just found, and without an owner by the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes every descriptor from `first` to `last`.
///
/// # Safety
/// No owner of any of them exists that will be used or dropped.
pub(super) unsafe fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    // SAFETY: touches only the table of descriptors; ownership is the caller's promise.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })
}

/// Gives every signal its default effect. Rust ignores SIGPIPE, and what is ignored would stay so in the program.
pub(super) fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: sets a disposition, never a handler. It fails for SIGKILL, SIGSTOP and the two that the C library
        // keeps for itself, which nobody can have changed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Loads a system call filter for this thread, which must have no_new_privs.
pub(super) fn load_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    seccomp(program, 0).map(drop)
}

/// As [`load_filter`], and gives the descriptor on which Linux asks about calls that the filter leaves to somebody else.
pub(super) fn load_filter_with_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let fd = match seccomp(program, flags | WAIT_KILLABLE_RECV) {
        // Before Linux 5.19 a signal that comes while a call is being judged has it made anew.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => seccomp(program, flags)?,
        outcome => outcome?,
    };
    // SAFETY: with this flag the call gives a fresh descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn seccomp(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<RawFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to `len` instructions that outlive the call; Linux copies and checks them.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    check(result)?;
    Ok(RawFd::try_from(result).unwrap_or(-1))
}

/// Takes the next notification of a listener; waits if there is none.
///
/// # Errors
/// `ENOENT` if its caller was killed.
pub(super) fn receive_notification(listener: BorrowedFd<'_>) -> io::Result<libc::seccomp_notif> {
    // SAFETY: all-zero bytes are a valid `seccomp_notif`: a plain structure of integers. Linux demands zeros.
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: Linux writes one `seccomp_notif` there, which outlives the call.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut notification) }.into())?;
    Ok(notification)
}

/// Answers a notification: the call gives `error`, a negative errno, or with `flags` goes on.
///
/// # Errors
/// `ENOENT` if its caller was killed.
pub(super) fn answer_notification(listener: BorrowedFd<'_>, id: u64, error: i32, flags: u32) -> io::Result<()> {
    let mut response = libc::seccomp_notif_resp { id, val: 0, error, flags };
    // SAFETY: Linux reads one `seccomp_notif_resp` there, which outlives the call.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut response) }.into())
}

/// Whether the caller of a notification still waits for its answer.
pub(super) fn notification_is_valid(listener: BorrowedFd<'_>, mut id: u64) -> bool {
    // SAFETY: Linux reads one number there, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_ID_VALID, &raw mut id) == 0 }
}

/// Requests of ioctl(2) to a listener, from linux/seccomp.h.
const NOTIF_RECV: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const NOTIF_SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
const NOTIF_ID_VALID: libc::Ioctl = 0x4008_2102_u32 as libc::Ioctl;

/// The Landlock version of this kernel; 0 if there is none.
pub(super) fn landlock_version() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call reads no memory and makes no descriptor: it returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Raises the loopback interface of this network namespace.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all-zero bytes are a valid `ifreq`: integers and a terminated, empty name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
}

/// Names the NIS domain of this uts namespace.
pub(super) fn set_domain_name(name: &str) -> io::Result<()> {
    // SAFETY: Linux reads `len` bytes at the pointer, which are there.
    check(unsafe { libc::setdomainname(name.as_ptr().cast(), name.len()) }.into())
}

/// Leaves the namespaces of the parent for new ones.
///
/// # Errors
/// What Linux says; `EINVAL` for a user namespace if the process has several threads.
pub(super) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: the one danger is CLONE_FILES, which takes descriptors from under other threads; nobody here asks for it.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces) }?)
}

/// Ends this process at once, without any clean-up of the program that it is a copy of.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
