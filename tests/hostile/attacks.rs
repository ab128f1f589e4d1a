//! What somebody tries who runs code in the gateway's place.

#![allow(unsafe_code, reason = "most of these calls have no safe name, and none of them is meant to be made")]

mod calls;
mod files;
mod processes;
pub mod shared_memory;
mod sockets;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::turned::{Report, Scene, Turned};

/// One attempt.
pub struct Attack {
    pub name: &'static str,
    /// Gives no error if it gets through.
    pub run: fn(&Target) -> io::Result<()>,
    /// Whether root on any host gets through with it, outside the cage, and harms nobody by that.
    pub works_outside: bool,
}

/// An attack that works outside the cage.
const fn works(name: &'static str, run: fn(&Target) -> io::Result<()>) -> Attack {
    Attack { name, run, works_outside: true }
}

/// An attack that hosts may refuse by themselves, or that had better not be tried outside.
const fn depends(name: &'static str, run: fn(&Target) -> io::Result<()>) -> Attack {
    Attack { name, run, works_outside: false }
}

pub const ATTACKS: [&[Attack]; 4] = [files::ATTACKS, processes::ATTACKS, sockets::ATTACKS, calls::ATTACKS];

/// What is attacked, and what with.
pub struct Target {
    pub scene: Scene,
    /// See [`open_directories`].
    pub passed: Vec<OwnedFd>,
    /// The listening socket of the API.
    pub listener: OwnedFd,
}

impl Target {
    fn root(&self) -> RawFd {
        self.passed[0].as_raw_fd()
    }

    fn supervisor(&self) -> usize {
        self.scene.supervisor as usize
    }

    fn victim(&self) -> usize {
        self.scene.victim as usize
    }
}

/// Directories of the host: its root, `/etc` and `/proc`.
pub fn open_directories() -> Vec<OwnedFd> {
    let open = |path| openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    ["/", "/etc", "/proc"].map(|path| open(path).unwrap()).into()
}

/// Closes what the link came by.
pub fn close_standard_input() {
    call(libc::SYS_close, &[0]).unwrap();
}

/// Tries everything.
pub fn all(turned: &Turned) -> Option<Report> {
    let target = Target {
        scene: turned.scene.clone(),
        passed: turned.passed.iter().map(|fd| fd.try_clone().unwrap()).collect(),
        listener: turned.listener.try_clone().unwrap(),
    };
    let each = ATTACKS.iter().copied().flatten();
    Some(each.map(|attack| (attack.name.to_owned(), (attack.run)(&target).into())).collect())
}

/// Makes a system call. What pointers point to is the caller's to keep.
fn call(number: libc::c_long, args: &[usize]) -> io::Result<usize> {
    let at = |index: usize| args.get(index).copied().unwrap_or(0);
    // SAFETY: each attack gives pointers to what lives through the call, or null; the rest changes this process alone,
    // which is here for that.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// As [`call`], for a call that gives nothing.
fn try_call(number: libc::c_long, args: &[usize]) -> io::Result<()> {
    call(number, args).map(drop)
}

fn text(text: &std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

fn path(path: &Path) -> std::ffi::CString {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn address<T>(value: &T) -> usize {
    std::ptr::from_ref(value) as usize
}
