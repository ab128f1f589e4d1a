//! What a record is: a kind, a time, and what fits of a list of fields. All text from outside is bounded here.

use jiff::Timestamp;
use repltool_protocol::event::{Limit, Usage, ViolationLayer};
use repltool_protocol::ids::{ExecutionId, SessionId};
use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode};
use serde::{Serialize, Serializer};

use super::chain::Hash;
use super::seal::Seal;

/// The longest text in a record, in characters.
const MAX_TEXT_CHARS: usize = 256;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A session can be used.
    SessionCreated,
    /// A session is over.
    SessionEnded,
    /// A session has a fresh interpreter.
    SessionRestarted,
    /// A session was taken up by a new gateway or a new server.
    SessionRecovered,
    /// An execution has ended.
    Execution,
    /// A rule of the sandbox was broken.
    Violation,
    /// A token was used for the first time, or a socket opened.
    Login,
    /// Somebody could not be named.
    AuthFailed,
    /// Somebody may not.
    Refused,
    /// Somebody else's session was used by an administrator.
    AdminAccess,
    /// The settings of a server that starts.
    Config,
    /// A server has started.
    ServerStarted,
    /// A server has ended in good order.
    ServerStopped,
    /// A gateway has started: with its server, or in the place of one that died.
    GatewayStarted,
    /// The first record of a file.
    File,
    /// A signature of the supervisor.
    Checkpoint,
    /// Old files are dropped.
    Retention,
    /// A half-written record was cut off.
    Repaired,
    /// Records were lost while the log could not be written.
    Gap,
    /// Something happened too often, or must not happen at all.
    Alert,
}

/// A text of at most 256 characters, without those that change how the rest of a line is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text(String);

impl Text {
    /// Takes over what fits of a text.
    pub fn new(text: &str) -> Self {
        Self(text.chars().take(MAX_TEXT_CHARS).map(plain).collect())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// JSON escapes the control characters of ASCII; those beyond, and those for directions, are replaced.
fn plain(c: char) -> char {
    match c {
        '\u{7f}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// A record, before it has a place in the log.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    #[serde(serialize_with = "microseconds")]
    pub(super) time: Timestamp,
    pub(super) kind: Kind,
    #[serde(flatten)]
    pub(super) what: What,
}

impl Record {
    /// It happened now.
    pub fn new(kind: Kind, what: What) -> Self {
        Self { time: Timestamp::now(), kind, what }
    }

    /// What happened.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// When it happened.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// More of it.
    pub fn what(&self) -> &What {
        &self.what
    }

    /// It happened then.
    pub(super) fn at(time: Timestamp, kind: Kind, what: What) -> Self {
        Self { time, kind, what }
    }
}

/// A time as records have it: RFC 3339, UTC, microseconds.
pub fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn some_microseconds<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&time.map(written))
}

fn microseconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&written(*time))
}

/// The fields of records; each record has those that fit its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[rustfmt::skip]
pub struct What {
    /// Who: the claim `sub`; of a session's records its owner.
    #[serde(skip_serializing_if = "Option::is_none")] pub subject: Option<Text>,
    /// The address that the request came from, behind the proxies that are believed.
    #[serde(skip_serializing_if = "Option::is_none")] pub peer: Option<std::net::IpAddr>,
    /// As in the answer's `X-Request-Id` and in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")] pub request_id: Option<Text>,
    /// Of the request.
    #[serde(skip_serializing_if = "Option::is_none")] pub method: Option<Text>,
    /// The template of the path, such as `/api/v1/sessions/{id}`; never the path.
    #[serde(skip_serializing_if = "Option::is_none")] pub route: Option<&'static str>,
    /// Of the answer, as HTTP has it, also where a close code said it.
    #[serde(skip_serializing_if = "Option::is_none")] pub status: Option<u16>,
    /// Which session.
    #[serde(skip_serializing_if = "Option::is_none")] pub session_id: Option<SessionId>,
    /// Which execution.
    #[serde(skip_serializing_if = "Option::is_none")] pub execution_id: Option<ExecutionId>,
    /// Of the session.
    #[serde(skip_serializing_if = "Option::is_none")] pub language: Option<Language>,
    /// Of the session.
    #[serde(skip_serializing_if = "Option::is_none")] pub sandbox_mode: Option<SandboxMode>,
    /// `repl_execution`, of executions.
    #[serde(skip_serializing_if = "Option::is_none")] pub event_type: Option<&'static str>,
    /// Its place among the executions of its session; 0 if it never ran.
    #[serde(skip_serializing_if = "Option::is_none")] pub execution_count: Option<u64>,
    /// Whether it ended well.
    #[serde(skip_serializing_if = "Option::is_none")] pub success: Option<bool>,
    /// How long it ran.
    #[serde(skip_serializing_if = "Option::is_none")] pub duration_ms: Option<u64>,
    /// SHA-256 of the code in UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")] pub code_sha256: Option<Hash>,
    /// What the session may use.
    #[serde(skip_serializing_if = "Option::is_none")] pub limits: Option<ResourceLimits>,
    /// What the execution used.
    #[serde(skip_serializing_if = "Option::is_none")] pub usage: Option<Usage>,
    /// The limit that ended it.
    #[serde(skip_serializing_if = "Option::is_none")] pub limit: Option<Limit>,
    /// The name of an exception, without its message.
    #[serde(skip_serializing_if = "Option::is_none")] pub exception: Option<Text>,
    /// Of the interpreter, or of the last command.
    #[serde(skip_serializing_if = "Option::is_none")] pub exit_code: Option<i32>,
    /// Whether the variables are gone.
    #[serde(skip_serializing_if = "Option::is_none")] pub state_lost: Option<bool>,
    /// The rule that was broken.
    #[serde(skip_serializing_if = "Option::is_none")] pub rule: Option<Text>,
    /// What broke it, or what a reason is about.
    #[serde(skip_serializing_if = "Option::is_none")] pub detail: Option<Text>,
    /// Who found it.
    #[serde(skip_serializing_if = "Option::is_none")] pub layer: Option<ViolationLayer>,
    /// How often in a row.
    #[serde(skip_serializing_if = "Option::is_none")] pub times: Option<u32>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")] pub reason: Option<Text>,
    /// Refusals before this one that have no record of their own, since there were too many.
    #[serde(skip_serializing_if = "Option::is_none")] pub untold: Option<u64>,
    /// Of this program.
    #[serde(skip_serializing_if = "Option::is_none")] pub version: Option<&'static str>,
    /// SHA-256 of the effective settings.
    #[serde(skip_serializing_if = "Option::is_none")] pub config_sha256: Option<Hash>,
    /// The number of a file: of this one, or of the last one that is dropped.
    #[serde(skip_serializing_if = "Option::is_none")] pub file: Option<u32>,
    /// The last checkpoint before this file.
    #[serde(skip_serializing_if = "Option::is_none")] pub base: Option<Seal>,
    /// What was signed.
    #[serde(skip_serializing_if = "Option::is_none")] pub seal: Option<Seal>,
    /// The number of the last record that is dropped.
    #[serde(skip_serializing_if = "Option::is_none")] pub dropped: Option<u64>,
    /// Records that were lost.
    #[serde(skip_serializing_if = "Option::is_none")] pub lost: Option<u64>,
    /// The name of an alert.
    #[serde(skip_serializing_if = "Option::is_none")] pub alert: Option<&'static str>,
    /// How often within the time that the alert looks at.
    #[serde(skip_serializing_if = "Option::is_none")] pub count: Option<u64>,
    /// When the first of those was.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_microseconds")] pub first: Option<Timestamp>,
    /// When the last of those was.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_microseconds")] pub last: Option<Timestamp>,
    /// How often since the alert before this one, without one of its own.
    #[serde(skip_serializing_if = "Option::is_none")] pub held_back: Option<u64>,
}
