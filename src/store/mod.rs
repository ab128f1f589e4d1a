//! Sessions and their history, beyond the life of the process.
//!
//! A [`Store`] is a handle to one [`Backend`]; each backend passes the tests in `contract`. It keeps what cannot be told
//! from a session's event log: which sessions there are, and what was run in them. It knows no events, kernels or
//! clients, and decides nothing.

#[cfg(test)]
mod contract;
mod sqlite;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use repltool_protocol::event::{Outcome, SessionStatus};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{HistoryEntry, SessionConfig};
use serde::Serialize;

pub use sqlite::Sqlite;

/// What makes a session; it changes only by ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Names the session.
    pub id: SessionId,
    /// Subject of the token that created it.
    pub owner: String,
    /// As it was asked for.
    pub config: SessionConfig,
    /// When it was created; kept to the microsecond.
    pub created_at: Timestamp,
    /// When it ended, if it has; [`SessionRow::TO_BE_DELETED`] of one that nobody is to find again.
    pub ended_at: Option<Timestamp>,
}

impl SessionRow {
    /// The end of a session that is to be deleted at once, by the next process if this one does not come to it.
    pub const TO_BE_DELETED: Timestamp = Timestamp::UNIX_EPOCH;
}

/// What changes in the life of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionState {
    /// When it was last used; kept to the microsecond.
    pub last_activity: Timestamp,
    /// Whether it can be used.
    pub status: SessionStatus,
    /// Executions so far.
    pub expression_count: u64,
    /// Its interpreter was lost and no result has said so yet.
    pub state_lost: bool,
}

/// What a subject has used in a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaUsage {
    /// Whose it is.
    pub subject: String,
    /// When the period began; kept to the second.
    #[serde(with = "jiff::fmt::serde::timestamp::second::required")]
    pub period_start: Timestamp,
    /// Executions that were accepted.
    pub executions: u64,
    /// Sessions that were created.
    pub session_creations: u64,
    /// CPU time, in milliseconds.
    pub cpu_time_ms: u64,
}

/// Why the store cannot do something.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No room.
    #[error("no room is left for the store")]
    Full,
    /// A file of the store cannot be made.
    #[error("the store cannot be made")]
    File(#[source] Arc<std::io::Error>),
    /// The database refuses.
    #[error("the store's database fails")]
    Database(#[source] Arc<rusqlite::Error>),
    /// Written by a later version.
    #[error("the store has format {found}; this version knows formats up to {known}")]
    Format {
        /// That of the file.
        found: usize,
        /// The newest one known.
        known: usize,
    },
    /// The store was closed, or its thread ended.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same can succeed once there is room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

/// What a backend answers, once it is stored or read.
///
/// # Cancel safety
/// What was asked is done whether or not the answer is waited for.
pub type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

/// A place where sessions and history are kept.
///
/// Changes take effect in the order of the calls, also those without an answer, and every read sees the changes before
/// it. Changes without an answer may be stored together and a little later; a failure is told in the server's log, and
/// what there was no room for is tried again.
pub trait Backend: Debug + Send + Sync {
    /// Stores a new session; the state it begins with is active, unused since its creation.
    fn create_session(&self, row: SessionRow) -> Answer<()>;
    /// All sessions, oldest first.
    fn sessions(&self) -> Answer<Vec<SessionRow>>;
    /// The state of a session; `None` if there is no such session.
    fn state(&self, id: SessionId) -> Answer<Option<SessionState>>;
    /// A page of a session's past executions in the order in which they ended, and how many there are.
    fn history(&self, id: SessionId, limit: u64, offset: u64) -> Answer<(u64, Vec<HistoryEntry>)>;
    /// Deletes all that is stored of a session, so that it cannot be read back from the files either.
    fn delete_session(&self, id: SessionId) -> Answer<()>;
    /// Resolves once every change before it is stored.
    fn flush(&self) -> Answer<()>;
    /// Adds a past execution. An execution id that the session has already is left as it is.
    fn finish(&self, id: SessionId, entry: HistoryEntry);
    /// The session was used.
    fn touch(&self, id: SessionId, at: Timestamp);
    /// The session's state is now this.
    fn update(&self, id: SessionId, state: SessionState);
    /// The session ended.
    fn end(&self, id: SessionId, at: Timestamp);
    /// What every subject has used.
    fn quota_usage(&self) -> Answer<Vec<QuotaUsage>>;
    /// Subjects have used so much now.
    fn keep_quota_usage(&self, usage: Vec<QuotaUsage>);
    /// What was used in periods that began before this instant is forgotten.
    fn forget_quota_usage(&self, before: Timestamp);
}

/// The way to a backend; cheap to clone.
///
/// # Cancel safety
/// What was asked is done whether or not the answer is waited for.
#[derive(Debug, Clone)]
pub struct Store(Arc<dyn Backend>);

impl Store {
    /// Opens the embedded store, and makes it if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Format`] if a later version wrote it, [`StoreError::Full`], [`StoreError::File`],
    /// [`StoreError::Database`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self::new(Sqlite::open(path)?))
    }

    /// A handle to any backend.
    pub fn new(backend: impl Backend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// Stores a new session, and returns when it is stored.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Database`] (also if there is such a session), [`StoreError::Closed`].
    pub async fn create_session(&self, row: SessionRow) -> Result<(), StoreError> {
        self.0.create_session(row).await
    }

    /// All sessions, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        self.0.sessions().await
    }

    /// The state of a session; `None` if there is no such session.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn state(&self, id: &SessionId) -> Result<Option<SessionState>, StoreError> {
        self.0.state(id.clone()).await
    }

    /// A page of past executions, oldest first, and how many there are.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn history(
        &self,
        id: &SessionId,
        limit: u64,
        offset: u64,
    ) -> Result<(u64, Vec<HistoryEntry>), StoreError> {
        self.0.history(id.clone(), limit, offset).await
    }

    /// Deletes all that is stored of a session, and returns when it cannot be read back from the files either.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.delete_session(id.clone()).await
    }

    /// Adds an execution that ended to the history. See [`Backend`] for what comes of a failure.
    pub fn finish(&self, id: &SessionId, outcome: &Outcome, code: &str) {
        let entry = HistoryEntry {
            execution_id: outcome.id.clone(),
            execution_count: outcome.execution_count,
            code: code.to_owned(),
            success: outcome.success,
            execution_time_ms: outcome.execution_time_ms,
            timestamp: outcome.timestamp.clone(),
            limit: outcome.limit,
            violation: outcome.violation.clone(),
            usage: outcome.usage,
        };
        self.0.finish(id.clone(), entry);
    }

    /// Notes that a session was used.
    pub fn touch(&self, id: &SessionId, at: Timestamp) {
        self.0.touch(id.clone(), at);
    }

    /// Replaces the state of a session.
    pub fn update(&self, id: &SessionId, state: SessionState) {
        self.0.update(id.clone(), state);
    }

    /// Notes that a session ended at this instant, and returns when that is stored. It is kept for a while after it, unless
    /// the instant is [`SessionRow::TO_BE_DELETED`].
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn end(&self, id: &SessionId, at: Timestamp) -> Result<(), StoreError> {
        self.0.end(id.clone(), at);
        self.0.flush().await
    }

    /// What every subject has used in each period that is not forgotten, in no order.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Closed`].
    pub async fn quota_usage(&self) -> Result<Vec<QuotaUsage>, StoreError> {
        self.0.quota_usage().await
    }

    /// Replaces what these subjects have used in these periods. Numbers beyond 63 bits are stored as the largest one.
    pub fn keep_quota_usage(&self, usage: Vec<QuotaUsage>) {
        self.0.keep_quota_usage(usage);
    }

    /// Forgets what was used in periods that began before this instant.
    pub fn forget_quota_usage(&self, before: Timestamp) {
        self.0.forget_quota_usage(before);
    }

    /// Waits until everything before it is stored; called last, before the process ends. A failure is told in the
    /// server's log.
    pub async fn close(&self) {
        if let Err(error) = self.0.flush().await {
            tracing::error!(error = &error as &dyn std::error::Error, "the store cannot be closed");
        }
    }
}
