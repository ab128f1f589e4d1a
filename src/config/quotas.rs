//! Quotas.

use serde::{Deserialize, Serialize};

/// What one subject may use in a period; 0 is as much as it likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// After which counts begin anew.
    pub period: Period,
    /// Executions that are accepted in a period.
    pub executions: u64,
    /// Sessions that are created in a period.
    pub session_creations: u64,
    /// Seconds of CPU time in a period.
    pub cpu_seconds: u64,
    /// MiB that the logs of its sessions may take, at any time.
    pub stored_mb: u64,
}

/// A span of the calendar, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// From minute 0 on.
    Hour,
    /// From midnight on.
    #[default]
    Day,
    /// From the midnight before the first day on.
    Month,
}
