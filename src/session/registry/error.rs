//! Why the registry has no session to give.

use crate::session::quotas::Exhausted;
use crate::store::StoreError;

/// Why there is no new session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The subject has as many as it may.
    #[error("you have {0} sessions already; delete one")]
    PerSubject(usize),
    /// The server has as many as it may.
    #[error("the server has its {0} sessions; try again later")]
    Total(usize),
    /// A quota of the subject is used up.
    #[error(transparent)]
    Quota(#[from] Exhausted),
    /// No interpreter could be started.
    #[error("no interpreter could be started: {0}")]
    SandboxUnavailable(String),
    /// A field that only this server can judge.
    #[error("{field}: {message}")]
    Invalid {
        /// Its path.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// No room for its log.
    #[error("the server's disk is full")]
    StorageFull,
    /// The gateway is about to stop.
    #[error("the server is about to stop; connect again")]
    Draining,
    /// A fault of the server, told in its log.
    #[error("internal fault")]
    Internal,
}

/// Why sessions of an earlier run could not be taken up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of logs cannot be made.
    #[error("the folder of logs cannot be made")]
    Folder(#[source] std::io::Error),
}
