//! What a configuration that is read again changes: some of it at once, the rest when the server starts next.

use serde_json::Value;

use super::Config;
use super::rules::RULES;

/// The keys that a running server takes over. All others wait for its next start.
pub const LIVE: &[&str] = &[
    "edge.allowed_hosts",
    "edge.allowed_origins",
    "edge.trusted_proxies",
    "edge.max_sockets_per_subject",
    "rate_limit.enabled",
    "rate_limit.requests_per_minute",
    "rate_limit.burst",
    "rate_limit.failed_logins_per_minute",
    "log.level",
];

/// The difference between the settings in force and others.
#[derive(Debug)]
pub struct Change {
    /// The settings in force, with what can change at once.
    pub config: Config,
    /// What has changed at once.
    pub live: Vec<&'static str>,
    /// What is to change at the next start.
    pub later: Vec<&'static str>,
}

impl Change {
    /// From the settings in force to others.
    ///
    /// # Errors
    /// None for settings that were read; those of serde_json.
    pub fn between(current: &Config, next: &Config) -> serde_json::Result<Self> {
        let (mut merged, next) = (serde_json::to_value(current)?, serde_json::to_value(next)?);
        let (mut live, mut later) = (Vec::new(), Vec::new());
        for (key, _) in RULES {
            let pointer = format!("/{}", key.replace('.', "/"));
            let (Some(old), Some(new)) = (merged.pointer_mut(&pointer), next.pointer(&pointer)) else { continue };
            if old == new {
                continue;
            }
            if LIVE.contains(key) {
                live.push(*key);
                *old = Value::clone(new);
            } else {
                later.push(*key);
            }
        }
        Ok(Self { config: serde_json::from_value(merged)?, live, later })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::LogLevel;

    #[test]
    fn what_can_change_at_once_does_and_the_rest_is_named() {
        let current = Config::with_data_dir("/d");
        let same = Change::between(&current, &current).unwrap();
        assert_eq!((same.config, same.live, same.later), (current.clone(), vec![], vec![]));
        let mut next = current.clone();
        next.log.level = LogLevel::Debug;
        next.rate_limit.burst = 7;
        next.edge.allowed_hosts = vec!["a.example".to_owned()];
        next.sessions.max = 3;
        next.auth.key_file = Some(PathBuf::from("/k"));
        let change = Change::between(&current, &next).unwrap();
        assert_eq!(change.live, ["edge.allowed_hosts", "rate_limit.burst", "log.level"]);
        assert_eq!(change.later, ["sessions.max", "auth.key_file"]);
        next.sessions.max = current.sessions.max;
        next.auth.key_file = None;
        assert_eq!(change.config, next);
    }

    #[test]
    fn every_key_is_seen_to_change() {
        let settings = serde_json::to_value(Config::with_data_dir("/d")).unwrap();
        for (key, _) in RULES.iter().filter(|(_, rule)| !matches!(rule, crate::config::rules::Rule::Absent(_))) {
            assert!(settings.pointer(&format!("/{}", key.replace('.', "/"))).is_some(), "{key}");
        }
        assert!(LIVE.iter().all(|live| RULES.iter().any(|(key, _)| key == live)));
    }
}
