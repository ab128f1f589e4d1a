//! The messages of the WebSocket, subprotocol `repltool.v1`: JSON text, one frame a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::LoggedEvent;
use crate::ids::{ExecutionId, RequestId, Seq};
use crate::rest::{FieldError, ProblemCode, Session};

/// The subprotocol every client must offer.
pub const SUBPROTOCOL: &str = "repltool.v1";
/// A browser puts its token into a second subprotocol that begins so.
pub const BEARER_PREFIX: &str = "bearer.";

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientFrame {
    /// Runs code; answered by events that carry the id, or by a `problem`.
    Execute {
        /// The client's name for the execution; use a UUID.
        id: ExecutionId,
        /// 1 to 1,048,576 characters.
        code: String,
        /// 100 to 300,000; default 30,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// What the program reads from standard input, then end of file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin: Option<String>,
    },
    /// Ends an execution and keeps the state.
    Interrupt {
        /// Which; absent: what runs now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ExecutionId>,
    },
    /// Replaces the interpreter by a fresh one.
    Restart {
        /// Names the request in a `problem`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<RequestId>,
    },
    /// Ends the session.
    Terminate {
        /// Names the request in a `problem`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<RequestId>,
    },
    /// Asks for a `pong`.
    Ping {
        /// Comes back in the `pong`.
        id: RequestId,
    },
}

impl ClientFrame {
    /// Every value of `type`.
    pub const TYPES: [&'static str; 5] = ["execute", "interrupt", "restart", "terminate", "ping"];
}

/// What the server sends.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ServerFrame {
    /// An event of the log.
    Event(LoggedEvent),
    /// Everything else, which has no `seq`.
    Notice(Notice),
}

/// Messages that belong to one socket and not to the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// The first message.
    Ready {
        /// The session as it is now.
        session: Session,
        /// The newest event of its log.
        last_seq: Seq,
    },
    /// Answers `ping`.
    Pong {
        /// As in the `ping`.
        id: RequestId,
    },
    /// Events that are no longer kept.
    Gap {
        /// The first one.
        from: Seq,
        /// The last one.
        to: Seq,
    },
    /// A request was refused; the socket stays.
    Problem {
        /// The id of the request, if it could be read.
        id: Option<String>,
        /// For programs; stable.
        code: ProblemCode,
        /// What to do about it.
        detail: String,
        /// Which fields are wrong, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        errors: Vec<FieldError>,
    },
}

impl Notice {
    /// Every value of `type`.
    pub const TYPES: [&'static str; 4] = ["ready", "pong", "gap", "problem"];
}
