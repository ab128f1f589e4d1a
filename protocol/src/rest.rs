//! Bodies of REST requests and responses, and the problem document. Nothing here decides a status.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::event::{Exception, ExecutionState, Limit, Outcome, RawJson, SessionStatus, Usage, Violation};
use crate::ids::{ExecutionId, SessionId};

pub mod capabilities;
mod codes;
mod one_shot;

pub use capabilities::Capabilities;
pub use one_shot::OneShotRequest;

/// The longest code of one execution, in characters.
pub const MAX_CODE_CHARS: usize = 1_048_576;
/// The bounds of `timeout_ms`.
pub const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 100..=300_000;
/// `timeout_ms` where a request names none.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// The largest request body and WebSocket message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The largest `limit` of a list.
pub const MAX_PAGE: u64 = 1000;
/// `limit` of a list where a request names none.
pub const DEFAULT_PAGE: u64 = 100;

/// The languages of sessions. `shell` is a synonym of `bash` and is shown as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// CPython 3.11 or later.
    Python,
    /// Node.js 18 or later.
    Javascript,
    /// GNU Bash.
    Bash,
    /// The same as `bash`.
    Shell,
}

/// How much the sandbox allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// No files, no network, no processes.
    Strict,
    /// Private files, no network.
    #[default]
    Standard,
    /// Private files, loopback inside the sandbox.
    Relaxed,
}

/// What a session may use. Each field has its own default and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// CPU seconds of one execution, all its processes together.
    #[schemars(range(min = 1, max = 300))]
    pub max_cpu_time: u64,
    /// Memory in MiB, all processes of the session together.
    #[schemars(range(min = 16, max = 4096))]
    pub max_memory_mb: u64,
    /// Bytes of output of one execution, both streams together.
    #[schemars(range(min = 1024, max = 10_485_760))]
    pub max_output_size: u64,
    /// Executions in the life of the session.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_expressions: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self { max_cpu_time: 30, max_memory_mb: 256, max_output_size: 1_048_576, max_expressions: 1000 }
    }
}

/// Body of `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[schemars(transform = crate::schema::bounds_of_session)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
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
    pub working_directory: Option<String>,
    /// What the session may use.
    #[serde(default)]
    #[ts(optional, as = "Option<crate::typescript::SomeLimits>")]
    pub resource_limits: ResourceLimits,
}

/// A session as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Session {
    /// Names the session.
    pub session_id: SessionId,
    /// As it was asked for.
    pub language: Language,
    /// RFC 3339 in UTC.
    pub created_at: String,
    /// When it was last used, RFC 3339 in UTC.
    pub last_activity: String,
    /// Whether it can be used.
    pub status: SessionStatus,
    /// What the interpreter does.
    pub execution_state: ExecutionState,
    /// What the session may use.
    pub resource_limits: ResourceLimits,
    /// Sandbox level.
    pub sandbox_mode: SandboxMode,
    /// Subject of the token that created it.
    pub owner: String,
    /// Executions so far.
    pub expression_count: u64,
    /// The newest event of its log.
    pub last_seq: u64,
    /// When it ends if nobody uses it, RFC 3339 in UTC; null while something runs.
    pub expires_at: Option<String>,
}

/// Body of `GET /sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct SessionList {
    /// All there are.
    pub total: u64,
    /// As asked, or the default.
    pub limit: u64,
    /// As asked, or 0.
    pub offset: u64,
    /// This page, oldest first.
    pub sessions: Vec<Session>,
}

/// Body of `POST /sessions/{id}/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct ExecutionRequest {
    /// If given, the session in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Code to run, in characters.
    #[schemars(length(min = 1, max = 1_048_576))]
    pub code: String,
    /// Wall-clock limit, from the start of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300_000))]
    pub timeout_ms: Option<u64>,
    /// The client's own name for the execution; the same id with the same code follows it instead of running it twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// What the program reads from standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// What a blocking execution answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
pub struct ExecutionResult {
    /// The session.
    pub session_id: SessionId,
    /// The execution.
    pub execution_id: ExecutionId,
    /// Counts the executions of the session, from 1.
    pub execution_count: u64,
    /// Whether the program ran to its end without an error.
    pub success: bool,
    /// Standard output.
    pub output: String,
    /// Standard error, then the traceback of an uncaught exception.
    pub error: String,
    /// See [`Outcome::result`].
    #[schemars(with = "serde_json::Value")]
    #[ts(type = "unknown")]
    pub result: RawJson,
    /// See [`Outcome::result_text`].
    pub result_text: Option<String>,
    /// Rich outputs.
    pub display: Vec<Display>,
    /// The uncaught exception.
    pub exception: Option<Exception>,
    /// See [`Outcome::exit_code`].
    pub exit_code: Option<i32>,
    /// The limit that ended it.
    pub limit: Option<Limit>,
    /// The rule that was broken.
    pub violation: Option<Violation>,
    /// Output or result was cut.
    pub truncated: bool,
    /// Variables are gone.
    pub state_lost: bool,
    /// What the execution used.
    pub usage: Usage,
    /// Wall-clock time in milliseconds.
    pub execution_time_ms: u64,
    /// When it started, RFC 3339 in UTC.
    pub timestamp: String,
}

impl ExecutionResult {
    /// Joins an outcome with what the log holds of its output.
    ///
    /// `stderr` is the stream alone; the traceback is added here.
    pub fn new(session_id: SessionId, outcome: Outcome, stdout: String, stderr: String, display: Vec<Display>) -> Self {
        let mut error = stderr;
        if let Some(exception) = &outcome.exception {
            if !error.is_empty() && !error.ends_with('\n') {
                error.push('\n');
            }
            for line in &exception.traceback {
                error.push_str(line);
                error.push('\n');
            }
        }
        Self {
            session_id,
            execution_id: outcome.id,
            execution_count: outcome.execution_count,
            success: outcome.success,
            output: stdout,
            error,
            result: outcome.result,
            result_text: outcome.result_text,
            display,
            exception: outcome.exception,
            exit_code: outcome.exit_code,
            limit: outcome.limit,
            violation: outcome.violation,
            truncated: outcome.truncated,
            state_lost: outcome.state_lost,
            usage: outcome.usage,
            execution_time_ms: outcome.execution_time_ms,
            timestamp: outcome.timestamp,
        }
    }
}

/// One rich output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Display {
    /// MIME type to value; binary types in base64.
    #[ts(type = "Record<string, unknown>")]
    pub data: BTreeMap<String, serde_json::Value>,
    /// Hints for showing it.
    #[ts(type = "Record<string, unknown>")]
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// Body of `GET /sessions/{id}/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct History {
    /// The session.
    pub session_id: SessionId,
    /// All there are.
    pub total: u64,
    /// As asked, or the default.
    pub limit: u64,
    /// As asked, or 0.
    pub offset: u64,
    /// This page, oldest first.
    pub executions: Vec<HistoryEntry>,
}

/// A past execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct HistoryEntry {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Counts the executions of the session, from 1.
    pub execution_count: u64,
    /// What ran.
    pub code: String,
    /// Whether it ran to its end without an error.
    pub success: bool,
    /// Wall-clock time in milliseconds.
    pub execution_time_ms: u64,
    /// When it started, RFC 3339 in UTC.
    pub timestamp: String,
    /// The limit that ended it.
    pub limit: Option<Limit>,
    /// The rule that was broken.
    pub violation: Option<Violation>,
    /// What it used.
    pub usage: Usage,
}

/// Body of `POST /sessions/{id}/interrupt`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct InterruptRequest {
    /// Which execution; absent: the one that runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
}

/// Body of `POST /sessions/{id}/stdin`. One of the two fields is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[schemars(transform = crate::schema::bounds_of_input)]
#[serde(deny_unknown_fields)]
pub struct StdinRequest {
    /// What the program that runs is to read; lines end with `\n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Whether end of file follows.
    #[serde(default, skip_serializing_if = "crate::frame::is_false")]
    pub eof: bool,
}

/// A refused request, RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Problem {
    /// `about:blank`, or a documented URI.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What to do about it.
    pub detail: String,
    /// For programs; stable.
    pub code: ProblemCode,
    /// Also in the `X-Request-Id` header and in the server's log.
    pub request_id: String,
    /// Which fields are wrong, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// A wrong field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct FieldError {
    /// Its path, for example `resource_limits.max_memory_mb`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// 400
    InvalidRequest,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404, also for somebody else's session
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 409: the queue is full
    Busy,
    /// 409
    Conflict,
    /// 410
    Gone,
    /// 412: a file is not what `If-Match` or `If-None-Match` says
    PreconditionFailed,
    /// 413
    TooLarge,
    /// 415
    UnsupportedMediaType,
    /// 416: nothing of a file lies in the range
    RangeNotSatisfiable,
    /// 421: another host than the server's own
    MisdirectedRequest,
    /// 429: too many sessions
    SessionLimit,
    /// 429
    RateLimited,
    /// 429
    ExpressionLimit,
    /// 500
    Internal,
    /// 503
    SandboxUnavailable,
    /// 503
    Draining,
    /// 507
    StorageFull,
}
