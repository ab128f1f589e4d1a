//! Files of a session's working directory, as they are listed. Their bytes travel as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The largest `limit` of a list of files, and the limit where a request names none.
pub const MAX_FILES: u64 = 10_000;

/// Body of `GET /sessions/{id}/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct FileList {
    /// What there is, folders before what is in them, in the order of names.
    pub files: Vec<FileEntry>,
    /// Whether there is more than was asked for.
    #[serde(default)]
    pub truncated: bool,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct FileEntry {
    /// Relative to the working directory. A name that is no UTF-8 has U+FFFD where it is none, and cannot be asked for.
    pub path: String,
    /// Bytes; 0 for all but files.
    pub size: u64,
    /// When it was last changed, RFC 3339 in UTC.
    pub modified: String,
    /// What it is.
    pub kind: FileKind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file: the only kind that can be read.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. It is never followed.
    Link,
    /// A FIFO, a socket, a device.
    Other,
}
