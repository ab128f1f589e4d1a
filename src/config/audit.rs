//! The audit log.

use serde::{Deserialize, Serialize};

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// MiB beyond which a new file is begun.
    pub file_mb: u64,
    /// Days that a file is kept after its last record; at least 90.
    pub keep_days: u64,
    /// What is done when it cannot be written.
    pub on_failure: OnFailure,
}

impl Default for Audit {
    fn default() -> Self {
        Self { file_mb: 64, keep_days: 90, on_failure: OnFailure::default() }
    }
}

/// What is done when the audit log cannot be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// No new sessions and executions.
    #[default]
    Refuse,
    /// The server goes on without.
    Continue,
}
