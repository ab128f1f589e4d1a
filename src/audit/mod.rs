//! The audit log: who did what to which session, when, and how it ended. Append-only, one JSON object a line, each with
//! the hash of the line before it. It decides nothing, and refuses to know code, output, tokens and who may read it.
//!
//! ```text
//!   edge, session ──records──▶ queue ──▶ writer: one thread ──▶ store/audit/00000001.jsonl …
//!                                          │ count, hash of the last line   ▲ checkpoint
//!                                          └──▶ supervisor: Sealer signs ───┘   audit.key, audit.head
//! ```
//! The process that writes the log has no key: it can append, and what it changes of what was signed is found. The
//! other one signs counts that only grow, and keeps the last of them in a file of its own.

mod book;
mod chain;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod listener;
mod queue;
mod record;
mod report;
mod seal;
mod search;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use chain::{Hash, Head};
pub use listener::Listener;
pub use record::{Kind, Record, Text, What, written};
pub use report::{Story, as_line, story};
pub use seal::{PublicKey, Seal, SealError, Sealer, last_seal};
pub use search::{Query, SearchError, search};
pub use verify::{Fault, Verdict, VerifyError, verify};

use queue::Shared;
use writer::Writer;

/// What is done when the log cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// New sessions and executions are refused until it can; records wait.
    Refuse,
    /// The server goes on; records for which there is no room are counted.
    Continue,
}

/// How the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes beyond which a new file is begun.
    pub file_bytes: u64,
    /// How long a file is kept after its last record.
    pub keep: Duration,
    /// See [`OnFailure`].
    pub on_failure: OnFailure,
}

/// Asks for the signature under what was written and is on the disk. Must not wait; the answer goes to [`Audit::sealed`].
pub type Ask = Box<dyn Fn(Head) + Send>;

/// Takes records. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    shared: Arc<Shared>,
}

impl Audit {
    /// Starts the writer of the log in `folder`, which is made if it is not there. `last` is the last checkpoint that was
    /// signed: numbers go on after it even where the files are gone. A log that cannot be opened counts as one that
    /// cannot be written, and is tried again each second.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(
        folder: PathBuf,
        settings: Settings,
        last: Option<Seal>,
        ask: Ask,
        listener: Option<Arc<dyn Listener>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(settings.on_failure, listener));
        let writer = Writer::new(shared.clone(), folder, settings, last, ask);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared })
    }

    /// One that forgets what it is told.
    #[cfg(test)]
    pub(crate) fn unheard() -> Self {
        let shared = Arc::new(Shared::new(OnFailure::Refuse, None));
        shared.end();
        Self { shared }
    }

    /// Hands a record over. It is on the disk a second later at most. It does not wait: a caller that can is to ask for
    /// [`Audit::room`] before it goes on to what may need the next record.
    pub fn note(&self, record: Record) {
        self.shared.push(record, None);
    }

    /// Hands a record over and waits until it is on the disk, or until it is known that it cannot be written now.
    ///
    /// # Cancel safety
    /// Dropped while it waits for room, nothing is recorded; after that the record is.
    pub async fn store(&self, record: Record) {
        self.room().await;
        let (done, stored) = tokio::sync::oneshot::channel();
        self.shared.push(record, Some(done));
        // An error says that nobody will tell: the log cannot be written, or the writer has ended.
        let _ = stored.await;
    }

    /// Waits while as many records wait as may.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn room(&self) {
        self.shared.room().await;
    }

    /// Whether new work is to be refused, since it could not be recorded.
    pub fn refuses(&self) -> bool {
        self.shared.refuses()
    }

    /// Takes the answer to [`Ask`].
    pub fn sealed(&self, seal: Seal) {
        self.shared.sealed(seal);
    }

    /// Writes what waits, has it signed, and ends the writer. Records that come later are lost.
    ///
    /// # Cancel safety
    /// Dropped, it goes on without being waited for.
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

/// Where the log lies in a data directory.
pub fn folder(data_dir: &Path) -> PathBuf {
    in_store(&data_dir.join("store"))
}

/// Where the log lies in the store.
pub fn in_store(store: &Path) -> PathBuf {
    store.join("audit")
}
