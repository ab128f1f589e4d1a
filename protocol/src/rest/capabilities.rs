//! What a server offers.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::{DEFAULT_TIMEOUT_MS, Language, ResourceLimits, SandboxMode, TIMEOUT_MS};

impl ResourceLimits {
    /// The bounds of `max_cpu_time`.
    pub const CPU_TIME: RangeInclusive<u64> = 1..=300;
    /// The bounds of `max_memory_mb`; a language may need more than the least.
    pub const MEMORY_MB: RangeInclusive<u64> = 16..=4096;
    /// MiB of memory that a session of the level `strict` gets at most.
    pub const STRICT_MEMORY_MB: u64 = 128;
    /// The bounds of `max_output_size`.
    pub const OUTPUT_SIZE: RangeInclusive<u64> = 1024..=10_485_760;
    /// The bounds of `max_expressions`.
    pub const EXPRESSIONS: RangeInclusive<u64> = 1..=10_000;
}

/// Body of `GET /capabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Capabilities {
    /// Version of the server.
    pub version: String,
    /// Subprotocol of its WebSockets.
    pub protocol: String,
    /// Languages whose interpreter was found.
    pub languages: Vec<LanguageSupport>,
    /// What stands around each session.
    pub sandbox: SandboxSupport,
    /// How much of anything there may be.
    pub limits: ServerLimits,
}

/// A language that sessions can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct LanguageSupport {
    /// Its name.
    pub name: Language,
    /// Other names for it.
    pub synonyms: Vec<Language>,
    /// The interpreter: `CPython`, `Node.js` or `GNU Bash`.
    pub interpreter: String,
    /// What that says its version is, for example `3.11.2`.
    pub version: String,
    /// The least `max_memory_mb` with which it starts.
    pub min_memory_mb: u64,
}

/// The sandbox as it was found when the server started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct SandboxSupport {
    /// `A`: every wall stands, and Linux holds memory and processes of a session together. `B`: every wall stands, the
    /// server watches the memory.
    pub tier: String,
    /// Each layer, and whether it is there.
    pub layers: Vec<SandboxLayer>,
    /// Levels that sessions can have.
    pub modes: Vec<ModeSupport>,
}

/// One layer of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct SandboxLayer {
    /// As `repltool doctor` names it, for example `seccomp`.
    pub name: String,
    /// Whether it was put up and stood.
    pub active: bool,
}

/// A level that sessions can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct ModeSupport {
    /// Its name.
    pub name: SandboxMode,
    /// The scopes that a token needs to create a session of it.
    pub scopes: Vec<String>,
    /// Processes and threads of one session.
    pub max_processes: u64,
    /// MiB of memory that a session gets at most, whatever it asks for.
    pub max_memory_mb: u64,
    /// What makes its sandboxes: `native` for the server itself, else the container runtime, for example `runc`.
    pub backend: String,
}

/// The bounds of a number, and what it is if nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Bounds {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
    /// If nobody says.
    pub default: u64,
}

/// The bounds of [`ResourceLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct ResourceBounds {
    /// Seconds.
    pub max_cpu_time: Bounds,
    /// MiB.
    pub max_memory_mb: Bounds,
    /// Bytes.
    pub max_output_size: Bounds,
    /// Executions.
    pub max_expressions: Bounds,
}

/// How much of anything there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct ServerLimits {
    /// What a session may ask for itself.
    pub resource_limits: ResourceBounds,
    /// Milliseconds of one execution.
    pub timeout_ms: Bounds,
    /// Characters of one execution's code; at least 1.
    pub max_code_chars: u64,
    /// Bytes of a request body and of a WebSocket message.
    pub max_message_bytes: u64,
    /// Bytes of one file, and of all files of a session.
    pub max_file_bytes: u64,
    /// The largest `limit` of a list.
    pub max_page: u64,
    /// Executions that may wait in one session.
    pub queue: u64,
    /// Seconds without use until a session ends.
    pub idle_timeout_s: u64,
    /// Seconds without an execution until a session is shown as `idle`.
    pub idle_after_s: u64,
    /// Seconds that a session stays readable after its idle timeout.
    pub keep_ended_s: u64,
    /// Sessions of all subjects together.
    pub max_sessions: u64,
    /// Sessions of one subject.
    pub max_sessions_per_subject: u64,
}

impl Bounds {
    /// Bounds with a default.
    pub fn new(range: &RangeInclusive<u64>, default: u64) -> Self {
        Self { min: *range.start(), max: *range.end(), default }
    }
}

impl ResourceBounds {
    /// Those of this protocol.
    pub fn of_protocol() -> Self {
        let default = ResourceLimits::default();
        Self {
            max_cpu_time: Bounds::new(&ResourceLimits::CPU_TIME, default.max_cpu_time),
            max_memory_mb: Bounds::new(&ResourceLimits::MEMORY_MB, default.max_memory_mb),
            max_output_size: Bounds::new(&ResourceLimits::OUTPUT_SIZE, default.max_output_size),
            max_expressions: Bounds::new(&ResourceLimits::EXPRESSIONS, default.max_expressions),
        }
    }
}

/// The bounds of `timeout_ms`, with its default.
pub fn timeout_bounds() -> Bounds {
    Bounds::new(&TIMEOUT_MS, DEFAULT_TIMEOUT_MS)
}
