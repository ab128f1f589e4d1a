//! What is told of security as it comes: records of the audit log that concern it, and what is missing between them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Limit, Usage, ViolationLayer};
use crate::ids::{ExecutionId, Seq, SessionId};
use crate::rest::{Language, ResourceLimits, SandboxMode};

/// One line, server-sent event or message of `GET /security/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SecurityItem {
    /// What is no record.
    Notice(SecurityNotice),
    /// A record.
    Record(Box<SecurityRecord>),
}

/// What is told beside the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SecurityNotice {
    /// Records that are not in memory any more may have been here.
    Gap {
        /// The number of the first of them.
        from: Seq,
        /// The number of the last of them.
        to: Seq,
    },
}

/// What such a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecurityKind {
    /// A rule of the sandbox was broken.
    Violation,
    /// Somebody could not be named.
    AuthFailed,
    /// Somebody may not.
    Refused,
    /// Somebody else's session was used by an administrator.
    AdminAccess,
    /// The settings of a server that starts, or that were read again.
    Config,
    /// A server has started.
    ServerStarted,
    /// A server has ended in good order.
    ServerStopped,
    /// A gateway has started: with its server, or in the place of one that died.
    GatewayStarted,
    /// A half-written record was cut off.
    Repaired,
    /// Records were lost while the log could not be written.
    Gap,
    /// Something happened too often, or must not happen at all.
    Alert,
    /// A limit has ended an execution.
    Execution,
    /// A session was ended for its violations.
    SessionEnded,
}

/// A record of the audit log that concerns security, with those fields that fit its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityRecord {
    /// Its number in the audit log; absent while that cannot be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// When it happened, RFC 3339 in UTC.
    pub time: String,
    /// What happened.
    pub kind: SecurityKind,
    /// Who: the claim `sub`; of a session's records its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The address that the request came from, behind the proxies that are believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// As in the `X-Request-Id` of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The template of the path, such as `/api/v1/sessions/{id}`; never the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Of the answer, as HTTP has it, also where a close code said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Which execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_mode: Option<SandboxMode>,
    /// `repl_execution`, of executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Its place among the executions of its session; 0 if it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    /// Whether it ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// How long it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// SHA-256 of the code in UTF-8, in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<String>,
    /// What the session may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// What the execution used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The limit that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The name of an exception, without its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// Of the interpreter, or of the last command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether the variables are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_lost: Option<bool>,
    /// The rule that was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What broke it, or what a reason is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Who found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<ViolationLayer>,
    /// How often in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Refusals before this one that have no record of their own, since there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<u64>,
    /// Of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of the effective settings, in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    /// Records that were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The name of an alert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<String>,
    /// How often within the time that the alert looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// When the first of those was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// When the last of those was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// How often since the alert before this one, without one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<u64>,
    /// SHA-256 of the line before it in the audit log, in hex digits; absent where `n` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<String>,
}
