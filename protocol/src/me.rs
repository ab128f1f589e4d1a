//! The caller as the server sees it: who it is, what it may have, and what it has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::rest::ResourceLimits;

/// Body of `GET /me`: the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Me {
    /// Claim `sub` of the token: the owner of what it creates.
    pub subject: String,
    /// What the token may be used for, implied scopes included.
    pub scopes: Vec<String>,
    /// When the token expires, RFC 3339 in UTC.
    pub expires_at: String,
    /// What the subject may have.
    pub limits: MeLimits,
    /// What it has.
    pub usage: MeUsage,
}

/// What a subject may have, as far as its token does not lower it (claim `repl_limits`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct MeLimits {
    /// Sessions at once.
    pub sessions: u64,
    /// Sockets and streams at once.
    pub sockets: u64,
    /// Requests in a minute, and messages of each socket; null if they are not limited.
    pub requests_per_minute: Option<u64>,
    /// How many of them may come at once; null if they are not limited.
    pub burst: Option<u64>,
    /// The most that a session may ask for; what is asked for beyond it is lowered. A sandbox level may have less.
    pub session: ResourceLimits,
    /// What it may use in a period.
    pub quotas: MeQuotas,
}

/// What a subject has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct MeUsage {
    /// Sessions, also those that have ended and can still be read.
    pub sessions: u64,
    /// Sockets and streams.
    pub sockets: u64,
    /// Requests that may come at once after this one; null if they are not limited.
    pub requests_left: Option<u64>,
    /// What it has used in this period.
    pub quotas: MeQuotaUsage,
}

/// What a subject may use in a period; null where that is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct MeQuotas {
    /// After which counts begin anew.
    pub period: QuotaPeriod,
    /// Executions that are accepted in a period.
    pub executions: Option<u64>,
    /// Sessions that are created in a period.
    pub session_creations: Option<u64>,
    /// Seconds of CPU time in a period.
    pub cpu_seconds: Option<u64>,
    /// MiB that the logs of its sessions may take, at any time.
    pub stored_mb: Option<u64>,
}

/// A span of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum QuotaPeriod {
    /// From minute 0 on.
    Hour,
    /// From midnight on.
    Day,
    /// From the midnight before the first day on.
    Month,
}

/// What a subject has used in this period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct MeQuotaUsage {
    /// When the counts begin anew, RFC 3339 in UTC.
    pub period_ends_at: String,
    /// Executions that were accepted.
    pub executions: u64,
    /// Sessions that were created.
    pub session_creations: u64,
    /// CPU time that was used, in milliseconds.
    pub cpu_time_ms: u64,
    /// Bytes that the logs of its sessions take now.
    pub stored_bytes: u64,
}
