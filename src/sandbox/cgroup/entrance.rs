//! How a sandbox's first process gets into its group without anybody waiting.
//!
//! To move another process, Linux stops every fork and exit on the machine, for which it first waits some milliseconds
//! (`cgroup_threadgroup_rwsem`). A process that is born in a group of v2, or moves its only thread by itself on v1, waits
//! for nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::{CgroupError, Group};

/// Opened by the server, which may; used by the copy of it that becomes the first process.
#[derive(Debug, Default)]
pub struct Entrance {
    unified: Option<OwnedFd>,
    old: Vec<File>,
    favoured: Option<File>,
}

impl Entrance {
    pub(super) fn open(group: &Group) -> Result<Self, CgroupError> {
        let failed = |path: &Path, source| CgroupError::Enter { path: path.to_owned(), source };
        let list = |path: &Path| OpenOptions::new().write(true).open(path).map_err(|source| failed(path, source));
        let folder = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            open(path, flags, Mode::empty()).map_err(|error| failed(path, error.into()))
        };
        let old = group.folders.iter().filter(|folder| group.unified.as_ref() != Some(*folder));
        Ok(Self {
            unified: group.unified.as_deref().map(folder).transpose()?,
            old: old.map(|folder| list(&folder.join("tasks"))).collect::<Result<_, _>>()?,
            favoured: group.favoured.as_deref().and_then(|path| list(path).ok()),
        })
    }

    /// The group of v2 in which the process is to be born.
    pub fn unified(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|folder| folder.as_fd())
    }

    /// The lists of threads of the group's folders of v1; whoever writes `0` there moves in.
    pub fn old(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.old.iter().map(|list| list.as_fd())
    }

    /// Moves the calling thread into the group's folders of v1. The only one of its process: others would stay behind.
    ///
    /// # Errors
    /// What Linux says; the thread may then be in some of them.
    pub fn enter(&self) -> io::Result<()> {
        self.old.iter().try_for_each(move_in)
    }

    /// Gives the calling thread the server's share of the processors: it is trusted, and its turn comes before those of the
    /// others in the group. Best effort: cgroup v2 cannot.
    pub fn favour(&self) {
        if let Some(list) = &self.favoured {
            let _ = move_in(list);
        }
    }
}

fn move_in(mut list: &File) -> io::Result<()> {
    // The writer itself.
    list.write_all(b"0")
}
