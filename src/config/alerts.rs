//! Alerts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// From how many on there is an alert (0: never), and where alerts go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alerts {
    /// Violations of one subject in a minute; those that Linux refused and those of the policy are counted apart.
    pub violations_per_minute: u64,
    /// Failed logins of one address in a minute.
    pub failed_logins_per_minute: u64,
    /// Executions of one subject in ten minutes that a limit ended.
    pub limit_kills_per_10min: u64,
    /// Seconds after an alert without another one of the same kind about the same subject or address.
    pub cooldown_s: u64,
    /// Where alerts are sent; none: nowhere.
    pub webhook_url: Option<String>,
    /// The secret that signs them; there is one if there is an address.
    pub webhook_secret_file: Option<PathBuf>,
}

impl Default for Alerts {
    fn default() -> Self {
        Self {
            violations_per_minute: 10,
            failed_logins_per_minute: 10,
            limit_kills_per_10min: 10,
            cooldown_s: 300,
            webhook_url: None,
            webhook_secret_file: None,
        }
    }
}
