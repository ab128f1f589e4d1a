//! Files of a session's working directory, as the descriptors of them arrive. What comes out of a sandbox is looked at
//! before it is used.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use super::{FileFault, OpenFile, Refusal};
use crate::runtime::files::FileAnswer;

/// A name that nobody else has chosen.
pub(super) fn temporary_name() -> String {
    format!(".repltool-{:032x}.part", rand::random::<u128>())
}

/// The descriptor that an answer must have brought.
pub(super) fn descriptor(answer: FileAnswer) -> Result<OwnedFd, Refusal> {
    answer.descriptor.ok_or(Refusal::Internal)
}

/// A descriptor that must be one of a regular file.
pub(super) fn regular(descriptor: OwnedFd) -> Result<OpenFile, Refusal> {
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
