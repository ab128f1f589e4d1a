//! One execution in a session of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::{ExecutionRequest, Language, ResourceLimits, SandboxMode, SessionConfig};
use crate::ids::ExecutionId;

/// Body of `POST /execute`: the fields of [`SessionConfig`] and those of [`ExecutionRequest`] but `session_id`. They
/// stand here once more because a flattened type could not refuse unknown fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[schemars(transform = crate::schema::bounds_of_session)]
#[serde(deny_unknown_fields)]
pub struct OneShotRequest {
    /// Programming language.
    pub language: Language,
    /// Sandbox level.
    #[serde(default)]
    #[ts(optional, as = "Option<_>")]
    pub sandbox_mode: SandboxMode,
    /// Environment variables of the interpreter.
    #[serde(default)]
    #[ts(optional, as = "Option<_>")]
    pub environment: BTreeMap<String, String>,
    /// A path inside the session's own directory, made if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub working_directory: Option<String>,
    /// What the session may use.
    #[serde(default)]
    #[ts(optional, as = "Option<crate::typescript::SomeLimits>")]
    pub resource_limits: ResourceLimits,
    /// Code to run, in characters.
    #[schemars(length(min = 1, max = 1_048_576))]
    pub code: String,
    /// Wall-clock limit, from the start of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    #[schemars(range(min = 100, max = 300_000))]
    pub timeout_ms: Option<u64>,
    /// The client's own name for the execution, in its events and its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub execution_id: Option<ExecutionId>,
    /// What the program reads from standard input; without it, end of file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub stdin: Option<String>,
}

impl OneShotRequest {
    /// The session to create, and what to run in it.
    pub fn into_parts(self) -> (SessionConfig, ExecutionRequest) {
        let Self { language, sandbox_mode, environment, working_directory, resource_limits, .. } = self;
        let Self { code, timeout_ms, execution_id, stdin, .. } = self;
        (
            SessionConfig { language, sandbox_mode, environment, working_directory, resource_limits },
            ExecutionRequest { session_id: None, code, timeout_ms, execution_id, stdin },
        )
    }
}
