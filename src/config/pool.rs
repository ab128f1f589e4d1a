//! Interpreters that wait for sessions.

use serde::{Deserialize, Serialize};

/// How many interpreters wait, booted in a finished sandbox, for sessions that are to come. Each language has some at
/// each level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// As many wait at least: at the level `standard` from the start on, at others once a session was there.
    pub min: usize,
    /// As many wait at most, however many sessions are created; 0: none, every session starts its own.
    pub max: usize,
    /// Seconds after which one that waited in vain is replaced.
    pub max_age_s: u64,
    /// Whether Python interpreters are forks of one that has booted, instead of booting each by itself.
    pub zygote: bool,
    /// Python packages that the zygote imports before it forks.
    pub preload: Vec<String>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { min: 1, max: 16, max_age_s: 900, zygote: true, preload: Vec::new() }
    }
}
