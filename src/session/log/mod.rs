//! The event log of one session: append-only, in a directory of its own. One writer, any number of readers.
//!
//! ```text
//!            splice                 announce, append, accept
//!   pipes ───────────▶ spools            │ one pwrite each, then the readers are woken
//!                      stdout.000000     ▼
//!                      stderr.000000    index.000000   header │ record │ record │ …
//!                         ▲                  ▲
//!                         └───── pread ──────┴── Cursor ──▶ Rendered, Gap, End
//! ```
//! **Append, then send**: an event is in the file before any reader can learn of it, so what a client saw is there after
//! the process was killed. Bytes of output lie in the spools alone; a `stream` event is a range. What was taken from a
//! pipe but not announced is announced by the next process.
//!
//! Files are segments. Retention unlinks the oldest, a reader that still wanted them gets a gap. An index segment opens
//! with the last number given out before it, so whatever is missing between two of them (dropped, damaged, or lost with
//! the machine) is a gap with exact ends, found in one way.
//!
//! The log knows no interpreters, sockets or clients, and does not know what is in a command.

mod chunk;
mod collect;
mod cursor;
mod entry;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod record;
mod recover;
mod retain;
mod shared;
mod spool;
#[cfg(test)]
mod tests;
mod total;
mod writer;

use std::io;

use bytes::Bytes;
use repltool_protocol::event::{StatusReason, StreamName, Violation};
use repltool_protocol::ids::{ExecutionId, Seq};

pub use collect::{Collected, collect};
pub use cursor::{Cursor, LogReader};
pub use total::Total;
pub use writer::Log;

/// How far the numbers jump when the end of the log cannot be trusted: more than any machine can write between two
/// write-backs of its page cache.
pub const DOUBT: u64 = 1 << 20;

/// The fewest bytes of a segment.
const MIN_SEGMENT: u64 = 256;

/// What a log may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes of output, index and code together; past it the oldest are dropped. At least the newest segment is kept.
    pub session_bytes: u64,
    /// Bytes of a segment; taken as at most an eighth of `session_bytes` and at least 256. Fixed when a log is created.
    pub segment_bytes: u64,
}

impl LogLimits {
    /// Segments of 4 MiB.
    pub fn new(session_bytes: u64) -> Self {
        Self { session_bytes, segment_bytes: 4 * 1024 * 1024 }
    }

    fn segment(self) -> u64 {
        self.segment_bytes.min(self.session_bytes / 8).max(MIN_SEGMENT)
    }
}

/// Whether the end of a log is as its last writer left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Only the process ended: nothing is lost.
    Trusted,
    /// The machine went down: events may be lost whose numbers clients hold. The numbers jump by [`DOUBT`].
    Doubtful,
}

/// What becomes of a character that is not complete at the end of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// It waits for its rest.
    Hold,
    /// It is told as U+FFFD: nothing will follow, or nothing that belongs to it.
    Flush,
    /// It is left out: output was cut here on purpose.
    Cut,
}

/// A command as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The execution it asks for.
    pub id: ExecutionId,
    /// Code and options, in whatever form the session gives them; at most 16 MiB.
    pub body: Bytes,
}

/// A message of a driver, which it repeats until it is told that the message is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Names the driver.
    pub sandbox: u64,
    /// Its number.
    pub number: u64,
}

impl Message {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.sandbox.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self { sandbox: record::u64_at(bytes, 0)?, number: record::u64_at(bytes, 8)? })
    }
}

/// The `started` event of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// As in the event.
    pub execution_count: u64,
    /// As in the event: RFC 3339 in UTC.
    pub timestamp: String,
    /// The first of its `violation` events, as far as they are kept.
    pub violation: Option<Violation>,
}

/// A command that was accepted and has no result in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The number of its `queued` event.
    pub queued: Seq,
    /// What was accepted.
    pub command: Command,
    /// Its `started` event, if there is one.
    pub begun: Option<Begun>,
}

/// A command with its result, both still in the log; read by [`Log::load`].
#[derive(Debug, Clone)]
pub struct Ended {
    /// The execution.
    pub id: ExecutionId,
    command: retain::Waiting,
    result: shared::Place,
    result_len: usize,
}

/// What an opened log held.
#[derive(Debug, Clone)]
pub struct Found {
    /// The last number given out.
    pub last_seq: Seq,
    /// Commands without a result, in the order in which they were accepted.
    pub pending: Vec<Pending>,
    /// Commands with a result, in the order of their results.
    pub ended: Vec<Ended>,
    /// Executions started so far.
    pub execution_count: u64,
    /// Bytes taken from stdout that no event covers.
    pub unannounced_stdout: u64,
    /// Bytes taken from stderr that no event covers.
    pub unannounced_stderr: u64,
    /// The last message of a driver that is in the log.
    pub message: Option<Message>,
    /// Why the session ended, if the log tells that it did.
    pub ended_because: Option<StatusReason>,
}

/// What a rendered event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An execution was accepted.
    Queued,
    /// An execution began.
    Started,
    /// Output.
    Stream(StreamName),
    /// A rich output.
    Display,
    /// The program asks for input.
    InputRequest,
    /// A rule was broken.
    Violation,
    /// The last event of an execution.
    Result,
    /// The session changed.
    Status,
}

/// An event as it goes over the wire. Readers that want it at the same time share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The first number it stands for: pieces of output that wait together are told as one event.
    pub first: Seq,
    /// Its place in the log, which is that of the last piece.
    pub seq: Seq,
    /// What it is.
    pub kind: Kind,
    /// The execution it belongs to.
    pub execution: Option<ExecutionId>,
    /// When it was appended, in milliseconds since 1970, UTC.
    pub at_ms: u64,
    /// The whole JSON object, without line breaks; always UTF-8.
    pub json: Bytes,
}

/// What a cursor meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The next event.
    Event(std::sync::Arc<Rendered>),
    /// These numbers, both ends included, are no longer kept or were never given out.
    Gap {
        /// The first one.
        from: Seq,
        /// The last one.
        to: Seq,
    },
    /// Nothing will follow.
    End,
}

/// Why a log cannot do something. It is as it was before the call.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No room; the same call can be made again later.
    #[error("no room is left for the log")]
    Full(#[source] io::Error),
    /// Any other failure of a file.
    #[error("the log cannot {step}")]
    File {
        /// What failed.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is a log in the directory already, or none to open.
    #[error("the directory {0}")]
    Directory(&'static str),
    /// Nothing of the log can be read.
    #[error("the log is damaged: {0}")]
    Damaged(&'static str),
    /// Written by a later version.
    #[error("format {0} of the log is not known")]
    Format(u32),
    /// The event or command has too many bytes.
    #[error("an event or command of this length cannot be stored")]
    TooLong,
    /// The event is appended by another function.
    #[error("a {0} event is not appended by this function")]
    Misplaced(&'static str),
    /// The writer went away without ending the log.
    #[error("the writer of the log is gone")]
    WriterGone,
    /// The result of an execution is no longer kept.
    #[error("the result of the execution is no longer kept")]
    ResultGone,
}

impl LogError {
    /// Sorts a failure: no room, or anything else.
    fn file(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(source),
            _ => Self::File { step, source },
        }
    }
}
