//! Lists what is below a directory, while the program may be changing it: what cannot be looked at is left out.

use std::collections::BinaryHeap;
use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

use super::work::{MAX_DEPTH, MAX_PATH_BYTES, file_type, open_beneath};
use crate::sandbox::init_link::{Entry, EntryKind};

/// How much is collected before it is written, in bytes.
const BUFFER_BYTES: usize = 32 * 1024;
/// What a file is called until it is put in its place.
const TEMPORARY: (&[u8], &[u8]) = (b".repltool-", b".part");
/// The last line where there is more than the limit.
const MORE: &[u8] = b"{\"more\":true}\n";

/// Writes the list of `folder`, which is `path` below the working directory, until it is complete or nobody reads it.
pub(super) fn write(folder: OwnedFd, path: &str, limit: u32, pipe: &OwnedFd) {
    let mut list = List { pipe, buffer: Vec::new(), left: limit };
    match list.walk(folder, path, 0) {
        Err(Stop::Full) => {
            list.buffer.extend_from_slice(MORE);
            let _ = list.flush();
        }
        Ok(()) => {
            let _ = list.flush();
        }
        Err(Stop::Unread) => {}
    }
}

struct List<'a> {
    pipe: &'a OwnedFd,
    buffer: Vec<u8>,
    /// Entries that may still come.
    left: u32,
}

/// Why a list ends early.
enum Stop {
    /// There is more than was asked for.
    Full,
    /// Nobody reads it.
    Unread,
}

impl List<'_> {
    fn walk(&mut self, folder: OwnedFd, path: &str, depth: usize) -> Result<(), Stop> {
        let Ok(mut folder) = Dir::new(folder) else { return Ok(()) };
        for name in least_names(&mut folder, self.left as usize + 1) {
            let Ok(fd) = folder.fd() else { return Ok(()) };
            let Ok(stat) = statat(fd, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let shown = name.to_string_lossy();
            let below = if path.is_empty() { shown.into_owned() } else { format!("{path}/{shown}") };
            self.add(&below, &stat)?;
            if file_type(&stat) == FileType::Directory && depth + 1 < MAX_DEPTH && below.len() < MAX_PATH_BYTES {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                if let Ok(inner) = open_beneath(fd, &name, flags, Mode::empty()) {
                    self.walk(inner, &below, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, stat: &Stat) -> Result<(), Stop> {
        self.left = self.left.checked_sub(1).ok_or(Stop::Full)?;
        let kind = match file_type(stat) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Other,
        };
        let size = if kind == EntryKind::File { stat.st_size.unsigned_abs() } else { 0 };
        let entry = Entry { path: path.to_owned(), size, modified: stat.st_mtime, kind };
        // Text and numbers always have a JSON form.
        self.buffer.extend(serde_json::to_vec(&entry).into_iter().flatten());
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(self.pipe, rest) {
                Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Stop::Unread),
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

/// The first names of a folder in order of their bytes, as many as can be needed.
fn least_names(folder: &mut Dir, needed: usize) -> Vec<CString> {
    let mut least = BinaryHeap::new();
    while let Some(Ok(entry)) = folder.read() {
        let name = entry.file_name();
        let bytes = name.to_bytes();
        let is_temporary = bytes.starts_with(TEMPORARY.0) && bytes.ends_with(TEMPORARY.1);
        if is_temporary || matches!(bytes, b"." | b"..") {
            continue;
        }
        least.push(name.to_owned());
        if least.len() > needed {
            least.pop();
        }
    }
    least.into_sorted_vec()
}
