//! The messages of the WebSocket, subprotocol `repltool.v1`: JSON text, one frame a message.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::event::LoggedEvent;
use crate::ids::{ExecutionId, RequestId, Seq};
use crate::query::Reply;
use crate::rest::{FieldError, ProblemCode, Session};
use crate::token::BearerToken;

/// The subprotocol every client must offer.
pub const SUBPROTOCOL: &str = "repltool.v1";
/// How often the server pings a peer, with a ping of the WebSocket.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long a peer may give no sign of life before its socket is closed.
pub const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Malformed messages that close a socket with 1008.
pub const MAX_FAULTS: u32 = 10;
/// A browser puts its token into a second subprotocol that begins so.
pub const BEARER_PREFIX: &str = "bearer.";

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
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
    /// Gives the program that runs something to read. One of the two fields is needed.
    Stdin {
        /// The text; lines end with `\n`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Whether end of file follows.
        #[serde(default, skip_serializing_if = "is_false")]
        eof: bool,
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
    /// Asks what could stand at the cursor; answered by a `reply`.
    Complete {
        /// Comes back in the `reply`.
        id: RequestId,
        /// At most 1,048,576 characters.
        code: String,
        /// In code points; absent: the end of the code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    },
    /// Asks what is known of the thing at the cursor; answered by a `reply`.
    Inspect {
        /// Comes back in the `reply`.
        id: RequestId,
        /// At most 1,048,576 characters.
        code: String,
        /// In code points; absent: the end of the code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    },
    /// Asks whether the code can be run as it is; answered by a `reply`.
    IsComplete {
        /// Comes back in the `reply`.
        id: RequestId,
        /// At most 1,048,576 characters.
        code: String,
        /// As in the other two; the answer does not depend on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    },
    /// Puts a fresh token of the same subject in the place of the one in force. With an `id` it is answered by
    /// `authenticated`, or by a `problem`, after which the old token stays in force.
    Auth {
        /// The token.
        token: BearerToken,
        /// Comes back in the answer; without one only a refusal is told.
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
    pub const TYPES: [&'static str; 10] =
        ["execute", "stdin", "interrupt", "restart", "terminate", "complete", "inspect", "is_complete", "auth", "ping"];
}

/// What the server sends.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, TS)]
#[serde(untagged)]
pub enum ServerFrame {
    /// An event of the log.
    Event(LoggedEvent),
    /// Everything else, which has no `seq`.
    Notice(Notice),
}

/// Messages that belong to one socket and not to the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// The first message.
    Ready {
        /// The session as it is now.
        session: Session,
        /// The newest event of its log.
        last_seq: Seq,
    },
    /// Answers `complete`, `inspect` or `is_complete`.
    Reply {
        /// As in the question.
        id: RequestId,
        /// The answer, in the shape that its question has.
        #[serde(flatten)]
        reply: Reply,
    },
    /// Answers `auth`: the token is in force.
    Authenticated {
        /// As in the `auth`.
        id: RequestId,
        /// When the token expires, RFC 3339 in UTC; the socket is closed some seconds later.
        expires_at: String,
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
    pub const TYPES: [&'static str; 6] = ["ready", "reply", "authenticated", "pong", "gap", "problem"];
}

/// Whether a field that is false by default can be left out.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}
