//! Calls that the filter does not answer by itself (`SECCOMP_RET_USER_NOTIF`, seccomp_unotify(2)): Linux suspends the
//! caller and asks here. All of them are refused, but for the first execution of a program, which is that of the program
//! itself. When nobody listens any more, Linux refuses them with ENOSYS.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::policy::{self, When, names};
use super::sys;

/// The most of a path that is told, in bytes.
const MAX_PATH: usize = 256;

/// Where Linux asks about calls of one sandbox. Readable while there is something to answer.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    reported: Arc<Reported>,
}

/// A call that waits for its refusal. Dropping it leaves its caller suspended until the listener goes.
#[derive(Debug)]
pub struct Call {
    id: u64,
    errno: i32,
    /// Whether it is worth telling: an honest library may try programs that it can do without.
    pub is_told: bool,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// Its name, and for an execution the path: printable, at most some 300 bytes.
    pub detail: String,
}

#[cfg(test)]
impl Call {
    /// One that nobody made.
    pub(crate) fn example(rule: &'static str, detail: String) -> Self {
        Self { id: 0, errno: 0, is_told: true, rule, detail }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a look at a listener found.
#[derive(Debug)]
pub enum Next {
    /// A call.
    Call(Call),
    /// Nothing waits now.
    Nothing,
    /// Nobody is left who could call.
    Gone,
}

impl Listener {
    pub(super) fn new(fd: OwnedFd, reported: Arc<Reported>) -> Self {
        Self { fd, reported }
    }

    /// The next call that waits. Never waits itself.
    ///
    /// # Errors
    /// Those of ioctl(2); the sandbox is then not to be trusted to be asked about again.
    pub fn next(&self) -> io::Result<Next> {
        loop {
            let mut ready = [PollFd::new(&self.fd, PollFlags::IN)];
            poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            let events = ready[0].revents();
            if !events.contains(PollFlags::IN) {
                let gone = events.intersects(PollFlags::HUP | PollFlags::ERR);
                return Ok(if gone { Next::Gone } else { Next::Nothing });
            }
            match sys::receive_notification(self.fd.as_fd()) {
                Ok(notification) => return Ok(Next::Call(self.judge(&notification))),
                // Its caller was killed in between.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Refuses a call; its caller goes on.
    ///
    /// # Errors
    /// Those of ioctl(2). A caller that is gone is none.
    pub fn refuse(&self, call: &Call) -> io::Result<()> {
        self.answer(call.id, -call.errno, 0)
    }

    /// Lets the execution of the program itself pass: the first call of a sandbox at whose level nothing else may be
    /// executed. No code of a user's has run yet, so what it points to is what it was.
    pub(super) fn let_pass(&self, call: &Call) -> io::Result<()> {
        self.answer(call.id, 0, CONTINUE)
    }

    fn answer(&self, id: u64, error: i32, flags: u32) -> io::Result<()> {
        match sys::answer_notification(self.fd.as_fd(), id, error, flags) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            outcome => outcome,
        }
    }

    fn judge(&self, notification: &libc::seccomp_notif) -> Call {
        let data = &notification.data;
        let found = self.reported.find(data.nr, data.args);
        // The filter was compiled from the same rules. Whatever it asks about is refused.
        let (name, rule, errno) = found.unwrap_or(("?", names::KERNEL, libc::EPERM));
        let mut call = Call { id: notification.id, errno, is_told: true, rule, detail: name.to_owned() };
        let path = if rule == names::EXEC { path_argument(name, data.args) } else { None };
        let found = path.and_then(|at| read_path(notification.pid, at)).map(|path| {
            let is_there = is_there(notification.pid, &path);
            (path, is_there)
        });
        // Between the call and now its process may have ended and its number been given to another.
        if let Some((path, is_there)) = found.filter(|_| sys::notification_is_valid(self.fd.as_fd(), call.id)) {
            let program = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_known = policy::TRIED_BY_LIBRARIES.iter().any(|(name, _)| name.as_bytes() == program);
            (call.errno, call.is_told) = match is_there || !self.reported.spares_missing {
                true => (errno, !is_known),
                false => (libc::ENOENT, false),
            };
            call.detail = format!("{name} {}", shown(&path));
        }
        call
    }
}

/// Whether a program has something at a path. Where that cannot be asked, it has: that is the sterner answer.
fn is_there(pid: u32, path: &[u8]) -> bool {
    // What the links there lead to depends on who asks.
    if path.starts_with(b"/proc/") {
        return true;
    }
    let base = if path.starts_with(b"/") { "root" } else { "cwd" };
    let Ok(base) = rustix::fs::open(format!("/proc/{pid}/{base}"), PATH_ONLY, Mode::empty()) else { return true };
    // What links say is said of the program's own root, not of ours.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(&base, path, PATH_ONLY, Mode::empty(), resolve);
    !matches!(found, Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR))
}

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const CONTINUE: u32 = 1;

/// Where a call that executes has its path.
fn path_argument(name: &str, arguments: [u64; 6]) -> Option<u64> {
    match name {
        "execve" => Some(arguments[0]),
        "execveat" => Some(arguments[1]),
        _ => None,
    }
}

/// A path in the memory of another process, as far as it can be read. What it says is what the program made of it.
fn read_path(pid: u32, at: u64) -> Option<Vec<u8>> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = vec![0; MAX_PATH];
    // A path may end right before memory that cannot be read.
    let until_page = usize::try_from(4096 - at % 4096).unwrap_or(MAX_PATH).min(MAX_PATH);
    let mut got = memory.read_at(&mut bytes[..until_page], at).ok()?;
    if got == until_page && got < MAX_PATH && !bytes[..got].contains(&0) {
        got += memory.read_at(&mut bytes[got..], at + got as u64).unwrap_or(0);
    }
    let end = bytes[..got].iter().position(|byte| *byte == 0).unwrap_or(got);
    bytes.truncate(end);
    Some(bytes)
}

/// A path for people, on one line and with an end.
fn shown(path: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(path).escape_debug().to_string();
    shown.truncate(shown.floor_char_boundary(MAX_PATH));
    shown
}

/// The calls that are reported at a level.
#[derive(Debug)]
pub(super) struct Reported {
    entries: Vec<Entry>,
    /// Whether a program that is not there is told to be missing, as it is where `/usr` is shown, and not reported.
    spares_missing: bool,
}

#[derive(Debug)]
struct Entry {
    number: i32,
    call: &'static str,
    when: Vec<When>,
    rule: &'static str,
    errno: i32,
}

impl Reported {
    pub(super) fn new(spares_missing: bool) -> Self {
        Self { entries: Vec::new(), spares_missing }
    }

    pub(super) fn add(&mut self, number: i32, call: &'static str, when: &[When], rule: &'static str, errno: i32) {
        self.entries.push(Entry { number, call, when: when.to_vec(), rule, errno });
    }

    /// Name, rule and errno of a call.
    fn find(&self, number: i32, arguments: [u64; 6]) -> Option<(&'static str, &'static str, i32)> {
        let matches = |entry: &&Entry| entry.number == number && entry.when.iter().all(|when| when.holds(arguments));
        self.entries.iter().find(matches).map(|entry| (entry.call, entry.rule, entry.errno))
    }
}
