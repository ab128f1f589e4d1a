//! Files of a session's working directory: a handle's way to them, and what arrives of them. What comes out of a sandbox
//! is looked at before it is used.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

use super::{Command, Refusal, SessionHandle};
use crate::runtime::files::{FileAnswer, FileAsk};

/// Why something cannot be done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFault {
    /// There is nothing of that name.
    Missing,
    /// It is of another kind than is needed: a directory, a link, a FIFO; or a directory is not empty.
    Kind,
    /// The program has closed it to everybody.
    Denied,
    /// The path itself is not one.
    Path,
    /// No room for its bytes, or for one more file.
    Full,
}

/// A file to be read.
#[derive(Debug)]
pub struct OpenFile {
    /// A regular file, open for reading.
    pub file: std::fs::File,
    /// Bytes, when it was opened.
    pub size: u64,
    /// When it was last changed; with the size and the number of the file it makes the entity tag.
    pub modified: jiff::Timestamp,
    /// Number of the file in its file system.
    pub inode: u64,
}

/// A file to be written. It is nowhere to be seen until it is committed.
#[derive(Debug)]
pub struct NewFile {
    /// A regular file, open for writing.
    pub file: std::fs::File,
    /// Whether something was there before.
    pub existed: bool,
    path: String,
    temporary: String,
}

impl SessionHandle {
    /// Lists the files below a directory, `""` for all: a pipe from which to read one JSON object a line, in order of
    /// their paths, and then the end.
    ///
    /// # Errors
    /// [`Refusal::File`] and what every command may be refused for.
    pub async fn files(&self, path: String, limit: u32) -> Result<std::fs::File, Refusal> {
        descriptor(self.file(FileAsk::List { path, limit }).await?).map(Into::into)
    }

    /// Opens a file of the working directory for reading.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub async fn read_file(&self, path: String) -> Result<OpenFile, Refusal> {
        regular(descriptor(self.file(FileAsk::Read { path }).await?)?)
    }

    /// Begins to write a file. It takes its place by [`Self::commit_file`], or is to be discarded.
    ///
    /// # Errors
    /// As [`Self::files`].
    ///
    /// # Cancel safety
    /// Not cancel-safe: a file that nobody sees may be left until the session ends.
    pub async fn create_file(&self, path: String) -> Result<NewFile, Refusal> {
        let temporary = temporary_name();
        let answer = self.file(FileAsk::Create { path: path.clone(), temporary: temporary.clone() }).await?;
        let existed = answer.existed;
        Ok(NewFile { file: regular(descriptor(answer)?)?.file, existed, path, temporary })
    }

    /// Puts a written file in its place, in one step.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub async fn commit_file(&self, file: NewFile) -> Result<(), Refusal> {
        let commit = FileAsk::Commit { path: file.path.clone(), temporary: file.temporary.clone() };
        let committed = self.file(commit).await;
        if committed.is_err() {
            self.discard_file(file).await;
        }
        committed.map(drop)
    }

    /// Gives up a file that was begun.
    pub async fn discard_file(&self, file: NewFile) {
        let NewFile { path, temporary, .. } = file;
        // If it cannot be removed, it goes with the session.
        let _ = self.file(FileAsk::Discard { path, temporary }).await;
    }

    /// Removes a file, a link, a FIFO or an empty directory.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub async fn remove_file(&self, path: String) -> Result<(), Refusal> {
        self.file(FileAsk::Remove { path }).await.map(drop)
    }

    async fn file(&self, ask: FileAsk) -> Result<FileAnswer, Refusal> {
        self.ask(|reply| Command::File(ask, reply)).await?
    }
}

/// A name that nobody else has chosen.
fn temporary_name() -> String {
    format!(".repltool-{:032x}.part", rand::random::<u128>())
}

/// What a refusal of Linux means to the client.
pub(super) fn refusal(errno: i32) -> Refusal {
    let (what, fault) = match Errno::from_raw_os_error(errno) {
        Errno::NOENT => ("there is no such file", FileFault::Missing),
        Errno::ISDIR => ("it is a directory", FileFault::Kind),
        Errno::NOTDIR => ("a part of the path is no directory", FileFault::Kind),
        Errno::LOOP | Errno::XDEV => ("it is a link, or the path leads through one", FileFault::Kind),
        Errno::NOTEMPTY => ("the directory is not empty", FileFault::Kind),
        Errno::NXIO | Errno::EXIST => ("it is no regular file", FileFault::Kind),
        Errno::ACCESS | Errno::PERM => ("the program has closed it", FileFault::Denied),
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => ("this can be no path", FileFault::Path),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ("the session's disk is full", FileFault::Full),
        Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::NFILE | Errno::MFILE => return Refusal::NoTime,
        other => {
            tracing::error!(%other, "files of the session cannot be reached");
            return Refusal::Internal;
        }
    };
    Refusal::File(what.to_owned(), fault)
}

/// The descriptor that an answer must have brought.
fn descriptor(answer: FileAnswer) -> Result<OwnedFd, Refusal> {
    answer.descriptor.ok_or(Refusal::Internal)
}

/// A descriptor that must be one of a regular file.
fn regular(descriptor: OwnedFd) -> Result<OpenFile, Refusal> {
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|error| {
        tracing::error!(%error, "a file of the session cannot be looked at");
        Refusal::Internal
    })?;
    if !metadata.is_file() {
        return Err(Refusal::File("it is no regular file".to_owned(), FileFault::Kind));
    }
    let modified = jiff::Timestamp::new(metadata.mtime(), i32::try_from(metadata.mtime_nsec()).unwrap_or(0));
    Ok(OpenFile { size: metadata.len(), modified: modified.unwrap_or_default(), inode: metadata.ino(), file })
}
