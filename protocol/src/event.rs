//! The events of a session's log: what every reader of the log is told, over whichever transport.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use ts_rs::TS;

use crate::ids::{ExecutionId, Seq};

/// An event with its place in the log; on the wire one flat object with `type` and `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
pub struct LoggedEvent {
    /// Grows within a session, also across a restart of the gateway.
    pub seq: Seq,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What can happen in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// An execution was accepted; it is stored and will run or end.
    Queued {
        /// The execution.
        id: ExecutionId,
    },
    /// An execution began; its timeout counts from here.
    Started {
        /// The execution.
        id: ExecutionId,
        /// Counts the executions of the session, from 1.
        execution_count: u64,
        /// When, RFC 3339 in UTC.
        timestamp: String,
    },
    /// Output. Bytes that are no UTF-8 became U+FFFD; a character is never cut in two.
    Stream {
        /// The execution that ran when it was read; null while nothing runs.
        id: Option<ExecutionId>,
        /// Which stream.
        stream: StreamName,
        /// The text, at most 64 KiB of bytes.
        data: String,
    },
    /// A rich output, at its place in the output.
    Display {
        /// The execution that showed it; null while nothing runs.
        id: Option<ExecutionId>,
        /// MIME type to value; binary types in base64.
        #[ts(type = "Record<string, unknown>")]
        data: BTreeMap<String, serde_json::Value>,
        /// Hints for showing it.
        #[ts(type = "Record<string, unknown>")]
        metadata: BTreeMap<String, serde_json::Value>,
    },
    /// The program asks for a line of input.
    InputRequest {
        /// The execution that waits.
        id: ExecutionId,
        /// What the program says, at most 4 KiB.
        prompt: String,
        /// Whether what is typed should stay hidden.
        password: bool,
    },
    /// A rule of the sandbox was broken, or what the level does not allow was tried.
    Violation {
        /// The execution that ran; null while nothing runs.
        id: Option<ExecutionId>,
        /// Which rule, for example `import`; at most 64 bytes.
        rule: String,
        /// What was tried, for example `subprocess`; at most 300 bytes of printable text.
        detail: String,
        /// Who found it.
        layer: ViolationLayer,
        /// How often it was tried, one time after the other; at least 1.
        times: u32,
    },
    /// The last event of an execution.
    Result(Box<Outcome>),
    /// The session changed.
    Status {
        /// As in the Session.
        status: SessionStatus,
        /// As in the Session.
        execution_state: ExecutionState,
        /// Why, where there is something to say.
        reason: Option<StatusReason>,
        /// With reason `recovered`: whether the state was rebuilt or the session starts empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovered: Option<Recovered>,
    },
}

impl Event {
    /// Every value of `type`.
    pub const TYPES: [&'static str; 8] =
        ["queued", "started", "stream", "display", "input_request", "violation", "result", "status"];
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whether a session can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Usable.
    Active,
    /// Usable, and nothing ran for a while.
    Idle,
    /// Ended by its idle timeout, or by too many violations; readable for a while.
    Terminated,
    /// Its interpreter is gone and could not be replaced.
    Error,
}

/// What the interpreter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// The interpreter boots.
    Starting,
    /// Nothing runs.
    Idle,
    /// An execution runs.
    Busy,
}

/// Why a `status` event was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum StatusReason {
    /// A fresh interpreter took the place of the old one.
    Restarted,
    /// A limit between executions ended the interpreter.
    Limit,
    /// Nobody used the session for its idle timeout.
    IdleTimeout,
    /// The session was taken up again after the server or machine went down.
    Recovered,
    /// A client terminated the session.
    Terminated,
    /// The disk is full: new work is refused until there is room.
    StorageFull,
    /// There were too many violations; the session has ended.
    Violations,
}

/// What became of a session's variables in a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum Recovered {
    /// The successful executions of the history were run again.
    Replayed,
    /// The session starts with an empty interpreter.
    Empty,
}

/// How an execution ended: all of ExecutionResult but its two texts and its displays, which the log holds as events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Outcome {
    /// The execution.
    pub id: ExecutionId,
    /// Counts the executions of the session, from 1; 0 if it was never run.
    pub execution_count: u64,
    /// Whether the program ran to its end without an error.
    pub success: bool,
    /// The value of a trailing expression: JSON if the value is exactly JSON, else its printed form.
    #[schemars(with = "serde_json::Value")]
    #[ts(type = "unknown")]
    pub result: RawJson,
    /// The printed form of that value, when there is one; at most 64 KiB.
    pub result_text: Option<String>,
    /// The uncaught exception that ended the program.
    pub exception: Option<Exception>,
    /// Bash: status of the last command; others: when the interpreter ended. 0…255, or 128 + signal.
    pub exit_code: Option<i32>,
    /// The limit that ended it.
    pub limit: Option<Limit>,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// Output was cut at `max_output_size`, or `result` at its own limit; what came before is kept.
    pub truncated: bool,
    /// The interpreter had to be replaced; variables are gone.
    pub state_lost: bool,
    /// What the execution used.
    pub usage: Usage,
    /// Wall-clock time from `started` to the end, in milliseconds.
    pub execution_time_ms: u64,
    /// When it started, RFC 3339 in UTC.
    pub timestamp: String,
}

/// A JSON value kept as text, so that it is encoded once. Equality is that of the text.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct RawJson(pub Box<RawValue>);

/// By way of `Value`: a tagged enum buffers its fields, and a `RawValue` cannot be read from that buffer.
impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        serde_json::value::to_raw_value(&value).map(Self).map_err(serde::de::Error::custom)
    }
}

impl RawJson {
    /// The value `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.0.get() == "null"
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// An uncaught exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Exception {
    /// The name of its class, or one of ours: `StateLost`.
    pub name: String,
    /// What it says, at most 64 KiB.
    pub message: String,
    /// The traceback as lines, cut to the user's frames, at most 64 KiB together.
    pub traceback: Vec<String>,
}

/// The limits that can end an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `timeout_ms`.
    WallTime,
    /// `max_cpu_time`.
    CpuTime,
    /// `max_memory_mb`.
    Memory,
    /// `max_output_size`.
    Output,
    /// The cap on processes and threads.
    Processes,
}

/// A rule of the sandbox that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Violation {
    /// Which rule, for example `import`.
    pub rule: String,
    /// What was tried, for example `subprocess`.
    pub detail: String,
    /// Who refused it.
    pub layer: ViolationLayer,
}

/// Who refused what was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum ViolationLayer {
    /// Advice: the import policy or the screening of code.
    Policy,
    /// The wall.
    Kernel,
}

/// What an execution used, all its processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Usage {
    /// CPU time, user and system, in milliseconds.
    pub cpu_time_ms: u64,
    /// Highest memory use during the execution, in bytes.
    pub peak_memory_bytes: u64,
    /// Bytes of both streams that were kept.
    pub output_bytes: u64,
}
