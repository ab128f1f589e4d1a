//! What a copy of init does with the files of the working directory, with the rights of the program and no others. The
//! program makes these files while we look at them: every path is resolved by Linux beneath the working directory without
//! following any link, nothing waits for anybody, and what was opened is looked at once more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::path::Arg;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::CapabilitySet;

use super::list;
use crate::sandbox::init_link::{FileAsk, Tell};
use crate::sandbox::{Identity, rights};

/// The exit code of a copy that has answered.
pub(super) const ANSWERED: i32 = 0;
/// That of one that has not.
const SILENT: i32 = 1;
/// How long an answer may wait for room in the socket, in seconds.
const ROOM_S: i64 = 5;
/// Names in a path.
pub(super) const MAX_DEPTH: usize = 64;
/// The longest path, in bytes.
pub(super) const MAX_PATH_BYTES: usize = 4096;

/// What a copy works with.
pub(super) struct Desk<'a> {
    pub(super) socket: &'a OwnedFd,
    pub(super) workdir: &'a OwnedFd,
    pub(super) id: u64,
}

/// Does it and answers. Returns the exit code.
pub(super) fn run(desk: &Desk<'_>, identity: Identity, what: &FileAsk) -> i32 {
    if let Err(error) = become_as_the_program(identity) {
        return desk.answer(Err(error));
    }
    match what {
        FileAsk::List { path, limit } => desk.list(path, *limit),
        FileAsk::Read { path } => desk.answer(desk.read(path).map(Done::with)),
        FileAsk::Create { path, temporary } => desk.answer(desk.create(path, temporary)),
        FileAsk::Commit { path, temporary } => desk.answer(desk.commit(path, temporary)),
        FileAsk::Discard { path, temporary } => desk.answer(desk.discard(path, temporary)),
        FileAsk::Remove { path } => desk.answer(desk.remove(path)),
    }
}

/// Signals stay blocked and the mask of init stays: files get the mode 0644.
fn become_as_the_program(identity: Identity) -> Result<(), Errno> {
    let failed = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::PERM);
    rights::take_identity(identity, rights::PAYLOAD_ID).map_err(failed)?;
    rights::keep_capabilities(CapabilitySet::empty()).map_err(failed)?;
    // A change of the uid may have undone it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// What is answered to an ask that succeeded.
#[derive(Default)]
struct Done {
    descriptor: Option<OwnedFd>,
    existed: bool,
}

impl Done {
    fn with(descriptor: OwnedFd) -> Self {
        Self { descriptor: Some(descriptor), existed: false }
    }
}

impl Desk<'_> {
    fn list(&self, path: &str, limit: u32) -> i32 {
        let opened = self.open_folder(path).and_then(|folder| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&read, true)?;
            Ok((folder, read, write))
        });
        match opened {
            Err(error) => self.answer(Err(error)),
            Ok((folder, read, write)) => {
                let code = self.answer(Ok(Done::with(read)));
                if code == ANSWERED {
                    list::write(folder, path, limit, &write);
                }
                code
            }
        }
    }

    fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { check(path)? };
        open_beneath(self.workdir, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    fn read(&self, path: &str) -> Result<OwnedFd, Errno> {
        let path = check(path)?;
        // Looked at before it is opened, which for a FIFO would let a writer go on.
        self.must_be_a_file(&open_beneath(self.workdir, path, OFlags::PATH, Mode::empty())?)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let file = open_beneath(self.workdir, path, flags, Mode::empty())?;
        self.must_be_a_file(&file)?;
        Ok(file)
    }

    fn must_be_a_file(&self, opened: &OwnedFd) -> Result<(), Errno> {
        let (stat, workdir) = (fstat(opened)?, fstat(self.workdir)?);
        match file_type(&stat) {
            FileType::RegularFile if stat.st_dev == workdir.st_dev => Ok(()),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::NXIO),
        }
    }

    fn create(&self, path: &str, temporary: &str) -> Result<Done, Errno> {
        let (folders, name) = split(path)?;
        let temporary = check_name(temporary)?;
        let mut folder = open_beneath(self.workdir, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            match mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            folder = open_beneath(&folder, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        }
        let existed = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::Directory => return Err(Errno::ISDIR),
            Ok(_) => true,
            Err(Errno::NOENT) => false,
            Err(error) => return Err(error),
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let file = open_beneath(&folder, temporary, flags, Mode::from_raw_mode(0o644))?;
        Ok(Done { descriptor: Some(file), existed })
    }

    /// Linux replaces what is there itself, a link and not what it leads to, and refuses a directory with EISDIR.
    fn commit(&self, path: &str, temporary: &str) -> Result<Done, Errno> {
        let (folder, name) = self.place(path)?;
        renameat(&folder, check_name(temporary)?, &folder, name)?;
        Ok(Done::default())
    }

    fn discard(&self, path: &str, temporary: &str) -> Result<Done, Errno> {
        let (folder, _) = self.place(path)?;
        unlinkat(&folder, check_name(temporary)?, AtFlags::empty())?;
        Ok(Done::default())
    }

    fn remove(&self, path: &str) -> Result<Done, Errno> {
        let (folder, name) = self.place(path)?;
        let is_dir = file_type(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?) == FileType::Directory;
        unlinkat(&folder, name, if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() })?;
        Ok(Done::default())
    }

    /// The folder that something is in, and its name there.
    fn place<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        let (folders, name) = split(path)?;
        let folders = if folders.is_empty() { "." } else { folders };
        Ok((open_beneath(self.workdir, folders, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?, name))
    }

    fn answer(&self, done: Result<Done, Errno>) -> i32 {
        let (errno, done) = match done {
            Ok(done) => (0, done),
            Err(error) => (error.raw_os_error(), Done::default()),
        };
        let tell = Tell::File { id: self.id, errno, existed: done.existed };
        // It is a plain enum of numbers, which always has a JSON form.
        let Ok(packet) = serde_json::to_vec(&tell) else { return SILENT };
        let descriptors: Vec<BorrowedFd<'_>> = done.descriptor.iter().map(AsFd::as_fd).collect();
        if self.send(&packet, &descriptors) { ANSWERED } else { SILENT }
    }

    fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let patience = Timespec { tv_sec: ROOM_S, tv_nsec: 0 };
        loop {
            let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return false;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(self.socket, &[std::io::IoSlice::new(packet)], &mut control, flags) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !matches!(poll(&mut [PollFd::new(self.socket, PollFlags::OUT)], Some(&patience)), Ok(1..)) {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }
}

/// Opens without leaving `folder`, neither by a link nor by a mount.
pub(super) fn open_beneath(folder: impl AsFd, path: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve)
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The gateway keeps to these rules; what breaks one is refused all the same.
fn check(path: &str) -> Result<&str, Errno> {
    if path.len() > MAX_PATH_BYTES || path.split('/').count() > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    path.split('/').try_for_each(|name| check_name(name).map(drop))?;
    Ok(path)
}

fn check_name(name: &str) -> Result<&str, Errno> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) { Err(Errno::INVAL) } else { Ok(name) }
}

fn split(path: &str) -> Result<(&str, &str), Errno> {
    let path = check(path)?;
    Ok(path.rsplit_once('/').unwrap_or(("", path)))
}
