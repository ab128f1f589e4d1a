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
}
