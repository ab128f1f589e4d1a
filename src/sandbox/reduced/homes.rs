//! The directories of sessions, where there are no mounts: below the data directory, each of one user.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, mknodat, open, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::make_dir;
use crate::sandbox::{Identity, sys};

/// Others may enter a directory whose content they know, and not list it.
const PASSABLE: u32 = 0o711;
/// Names that are read of a directory before what they name is removed.
const BATCH: usize = 1024;

/// The directories of all sessions of a server.
#[derive(Debug)]
pub(in crate::sandbox) struct Homes {
    base: Rc<Base>,
    next: u64,
}

/// What a session has. Dropping it removes it, by a child that takes its time.
#[derive(Debug)]
pub(in crate::sandbox) struct Home {
    base: Rc<Base>,
    path: PathBuf,
}

/// Goes with the last of them.
#[derive(Debug)]
struct Base {
    path: PathBuf,
    /// Children that remove what is not needed any more.
    removers: RefCell<Vec<Pid>>,
}

impl Homes {
    /// Opens the data directory so far that other users can pass, and removes what a server that was killed left in it.
    ///
    /// # Errors
    /// What Linux says, and where a directory above it is closed to other users.
    pub(in crate::sandbox) fn new(data_dir: &Path) -> io::Result<Self> {
        let data_dir = data_dir.canonicalize()?;
        for above in data_dir.ancestors().skip(1) {
            if std::fs::metadata(above)?.mode() & 0o001 == 0 {
                let (above, data_dir) = (above.display(), data_dir.display());
                return Err(io::Error::other(format!(
                    "without namespaces the users of sessions have to pass through the data directory {data_dir}, and \
                     {above} is closed to them; choose another --data-dir, or chmod o+x {above}"
                )));
            }
        }
        std::fs::set_permissions(&data_dir, std::fs::Permissions::from_mode(PASSABLE))?;
        let path = data_dir.join("homes");
        make_dir(&path, PASSABLE)?;
        clear(&open_dir(CWD, &path)?)?;
        Ok(Self { base: Rc::new(Base { path, removers: RefCell::default() }), next: 0 })
    }

    /// Makes the directories of a session, empty. Gives the working directory beside them; it is no more than a path.
    pub(in crate::sandbox) fn create(&mut self, identity: Identity) -> io::Result<(Home, OwnedFd)> {
        let path = self.base.path.join(self.next.to_string());
        self.next += 1;
        std::fs::create_dir(&path)?;
        // From here on, dropping it undoes everything.
        let home = Home { base: self.base.clone(), path };
        make_dir(&home.path, PASSABLE)?;
        let (user, group) = identity.payload_owner();
        for own in [home.workspace(), home.tmp()] {
            make_dir(&own, 0o700)?;
            chown(&own, Some(user), Some(group))?;
        }
        let stdin = home.stdin();
        mknodat(CWD, &stdin, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        chown(&stdin, Some(user), Some(group))?;
        let workdir = open(home.workspace(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok((home, workdir))
    }

    /// Takes notice of removals that are done.
    pub(in crate::sandbox) fn tidy(&self) {
        self.base.tidy();
    }
}

impl Home {
    pub(in crate::sandbox) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    pub(in crate::sandbox) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    pub(in crate::sandbox) fn stdin(&self) -> PathBuf {
        self.path.join("stdin")
    }

    /// Where a path below `/workspace` or `/tmp` is.
    pub(in crate::sandbox) fn locate(&self, path: &str) -> String {
        let own = ["/workspace", "/tmp"].iter().any(|own| Path::new(path).starts_with(own));
        if own { format!("{}{path}", self.path.display()) } else { path.to_owned() }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.base.remove(&self.path);
    }
}

impl Base {
    fn tidy(&self) {
        let runs = |pid: &Pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR));
        self.removers.borrow_mut().retain(runs);
    }

    fn remove(&self, path: &Path) {
        self.tidy();
        let mut removers = self.removers.borrow_mut();
        match sys::fork(|| i32::from(remove(path).is_err())) {
            Ok(pid) => removers.push(pid),
            Err(error) => tracing::warn!(%error, "a working directory stays until the next start of the server"),
        }
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        for pid in self.removers.borrow_mut().drain(..) {
            while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
        if let Err(error) = std::fs::remove_dir(&self.path) {
            tracing::warn!(%error, "working directories stay until the next start of the server");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    clear(&open_dir(CWD, path)?)?;
    std::fs::remove_dir(path)
}

/// Empties a directory. A program made what is in it: trees of any depth are laid flat first, since going down into them
/// would need a descriptor for each level, and no link is followed.
fn clear(top: &OwnedFd) -> io::Result<()> {
    let mut number = 0;
    loop {
        let names = list(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match unlinkat(top, &name, AtFlags::empty()) {
                Err(Errno::ISDIR) => flatten(top, &name, &mut number)?,
                outcome => outcome?,
            }
        }
    }
}

/// Removes a directory, and moves those in it to the top.
fn flatten(top: &OwnedFd, name: &CStr, number: &mut u64) -> io::Result<()> {
    // Its owner may have closed it to himself; whoever removes it may be root without the right to pass by that.
    let _ = chmodat(top, name, Mode::RWXU, AtFlags::empty());
    let folder = open_dir(top, name)?;
    loop {
        let names = list(&folder)?;
        if names.is_empty() {
            return Ok(unlinkat(top, name, AtFlags::REMOVEDIR)?);
        }
        for inner in names {
            match unlinkat(&folder, &inner, AtFlags::empty()) {
                Err(Errno::ISDIR) => move_to(top, &folder, &inner, number)?,
                outcome => outcome?,
            }
        }
    }
}

fn move_to(top: &OwnedFd, folder: &OwnedFd, name: &CStr, number: &mut u64) -> io::Result<()> {
    loop {
        *number += 1;
        match renameat_with(folder, name, top, format!("{number}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            outcome => return Ok(outcome?),
        }
    }
}

fn list(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let entries = Dir::read_from(folder)?;
    let names = entries.map(|entry| -> io::Result<CString> { Ok(entry?.file_name().to_owned()) });
    let others = names.filter(|name| !name.as_deref().is_ok_and(|it| it == c"." || it == c".."));
    others.take(BATCH).collect()
}

fn open_dir(at: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_program_made_is_removed_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        std::fs::write(&kept, "x").unwrap();
        let made = folder.path().join("made");
        std::fs::create_dir(&made).unwrap();
        std::os::unix::fs::symlink(folder.path(), made.join("up")).unwrap();
        let mut deep = open_dir(CWD, &made).unwrap();
        for _ in 0..1100 {
            rustix::fs::mkdirat(&deep, "1", Mode::RWXU).unwrap();
            deep = open_dir(&deep, "1").unwrap();
            rustix::fs::symlinkat("/etc", &deep, "2").unwrap();
        }
        for n in 0..(BATCH + 8) {
            std::fs::write(made.join(format!("f{n}")), "").unwrap();
        }
        std::fs::create_dir_all(made.join("closed/inner")).unwrap();
        std::fs::set_permissions(made.join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
        remove(&made).unwrap();
        assert!(!made.exists());
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "x");
    }

    #[test]
    fn a_data_directory_that_nobody_can_enter_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let told = Homes::new(&data).unwrap_err().to_string();
        assert!(told.contains(&format!("chmod o+x {}", folder.path().display())), "{told}");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(PASSABLE)).unwrap();
        Homes::new(&data).unwrap();
    }
}
