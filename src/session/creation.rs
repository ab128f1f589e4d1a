//! What a session needs to begin.

use repltool_protocol::rest::{Language, SessionConfig};

use super::Identity;
use crate::supervisor::link::Create;

/// What the supervisor is asked for on behalf of a session.
pub(super) fn create_request(identity: &Identity, config: &SessionConfig) -> Create {
    // A process may take the CPU time of many executions; what one execution may take is not enforced by this ceiling.
    let cpu_seconds = identity.limits.max_cpu_time.saturating_mul(identity.limits.max_expressions).max(3600);
    Create {
        request: 0,
        session: identity.id.clone(),
        language: match identity.language {
            Language::Shell => Language::Bash,
            language => language,
        },
        mode: identity.sandbox_mode,
        environment: config.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        working_directory: config.working_directory.as_deref().map(below_workspace),
        memory_bytes: identity.limits.max_memory_mb << 20,
        cpu_seconds,
    }
}

/// The same directory as names below the session's own one. That the path leads to such a one has been checked.
fn below_workspace(path: &str) -> String {
    let mut names = Vec::new();
    for part in path.strip_prefix("/workspace").unwrap_or(path).split('/') {
        match part {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}
