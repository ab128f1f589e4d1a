//! The control protocol between gateway and driver: framing and messages, no I/O.
//!
//! One SOCK_STREAM pair. A frame is eight ASCII digits, the length of its payload in bytes, and the payload, one JSON
//! object. What a driver sends is untrusted: user code can write to its descriptor. A malformed frame costs that
//! session its kernel and harms nobody else.
//!
//! Nothing half-sent ever reaches a driver: frames to it are at most [`MAX_TO_DRIVER`] and are sent whole into a
//! socket buffer with room for them; longer code goes in parts, each answered before the next. What a driver sent and
//! a dying gateway had half read is found again by a nonce: the answer to `hello` carries it, and what comes before
//! that answer is dropped.

use std::collections::BTreeMap;

use repltool_protocol::event::{Exception, RawJson};
use repltool_protocol::query::{QueryKind, Reply};
use serde::{Deserialize, Serialize};

/// The longest payload to a driver.
pub const MAX_TO_DRIVER: usize = 64 * 1024;
/// The longest payload from a driver.
pub const MAX_FROM_DRIVER: usize = 8 * 1024 * 1024;
/// Commas in a payload from a driver: each value that one ends takes some fifty times its own byte while it is read.
const MAX_COMMAS: usize = 1 << 20;
/// Digits of the length before a payload.
pub const HEADER: usize = 8;
/// Numbers of queries begin here; those of executions stay below.
pub const FIRST_QUERY: u64 = 1 << 32;
/// The most that one display may weigh, as JSON.
pub const MAX_DISPLAY: usize = 4 * 1024 * 1024;
/// Code is sent in one frame up to this many bytes; JSON can make six of one.
pub const PART: usize = 8 * 1024;

/// Gateway to driver.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ToDriver<'a> {
    /// Synchronise: answer with the nonce and repeat what was not acknowledged.
    Hello {
        /// 32 hex digits that nobody can guess.
        nonce: &'a str,
        /// Whether every process but the interpreter was killed since the last execution: children that nobody waits
        /// for still take their place among the processes, so the driver is to wait for them.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        reap: bool,
    },
    /// A piece of the code of execution `n`.
    Part {
        /// The execution.
        n: u64,
        /// Its place, from 0.
        i: usize,
        /// The text.
        s: &'a str,
    },
    /// Run it.
    Exec {
        /// Grows with each execution; one that is not larger than the last is a repeat and is ignored.
        n: u64,
        /// The execution count, for names of cells.
        count: u64,
        /// The code, if it was not sent in parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a str>,
        /// How many parts were sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        parts: Option<usize>,
        /// Messages up to this number are stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        ack: Option<u64>,
        /// Where the program reads from.
        stdin: StdinMode,
    },
    /// A question, while nothing runs; answered by [`FromDriver::Reply`].
    Query {
        /// At least [`FIRST_QUERY`], so that it is no execution's.
        n: u64,
        /// What is asked.
        kind: QueryKind,
        /// The code, if it was not sent in parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a str>,
        /// How many parts were sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        parts: Option<usize>,
        /// In code points.
        cursor: u64,
    },
    /// Messages up to this number are stored; whoever waits for that goes on.
    Ack {
        /// The number.
        m: u64,
    },
}

/// Where an execution's standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// End of file at once.
    None,
    /// The pipe, which holds what the request brought. Nobody is asked.
    Pipe,
    /// The pipe; the interpreter's own input functions ask first.
    Ask,
}

/// Driver to gateway.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromDriver {
    /// The interpreter has booted.
    Ready {
        /// Number among the messages that are repeated until acknowledged.
        m: u64,
        /// Version of the interpreter.
        version: String,
    },
    /// Answers `part`.
    Part {
        /// The execution.
        n: u64,
        /// The part.
        i: usize,
    },
    /// Answers `hello`.
    Hello {
        /// As it was sent.
        nonce: String,
        /// The last execution that has ended; 0 if none has.
        last: u64,
    },
    /// Something to show. The program waits until it is stored.
    Display {
        /// Number among the messages that are repeated until acknowledged.
        m: u64,
        /// The execution that runs; 0 if none does.
        n: u64,
        /// MIME type to value.
        data: BTreeMap<String, serde_json::Value>,
        /// Hints for showing it.
        #[serde(default)]
        metadata: BTreeMap<String, serde_json::Value>,
    },
    /// The program asks for input, and waits.
    InputRequest {
        /// Number among the messages that are repeated until acknowledged.
        m: u64,
        /// The execution that runs; 0 if none does.
        n: u64,
        /// At most 4 KiB.
        prompt: String,
        /// Whether what is typed should stay hidden.
        #[serde(default)]
        password: bool,
    },
    /// Whose output comes next, while an execution runs: that of `n`, or, if it is 0, of something that an earlier one left
    /// behind and that runs between the steps of this one. The program waits until it is stored.
    Owner {
        /// Number among the messages that are repeated until acknowledged.
        m: u64,
        /// The execution that runs, or 0.
        n: u64,
    },
    /// Answers `query`.
    Reply {
        /// The query.
        n: u64,
        /// The answer.
        body: Reply,
    },
    /// An execution has ended.
    Done(Box<Done>),
}

/// How an execution ended, as the driver tells it.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Done {
    /// Number among the messages that are repeated until acknowledged.
    pub m: u64,
    /// The execution.
    pub n: u64,
    /// Whether the program ran to its end without an error.
    pub success: bool,
    /// The value of a trailing expression.
    #[serde(default = "RawJson::null")]
    pub result: RawJson,
    /// Its printed form.
    #[serde(default)]
    pub result_text: Option<String>,
    /// The uncaught exception.
    #[serde(default)]
    pub exception: Option<Exception>,
    /// Set by `sys.exit` and the like.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The result was cut.
    #[serde(default)]
    pub truncated: bool,
    /// What the import policy found, each thing once an execution.
    #[serde(default)]
    pub violations: Vec<Finding>,
    /// CLOCK_MONOTONIC at the end of the user's code, in nanoseconds; 0 from a driver that has no such clock.
    pub end_ns: u64,
}

/// Something that breaks the policy of the session's level.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// The rule: `import`. At most 64 bytes.
    pub rule: String,
    /// What broke it: the name of a module. At most 300 bytes.
    pub detail: String,
}

/// Why a driver is not believed any more.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No length where one must be.
    #[error("a control frame has no length")]
    Header,
    /// More than [`MAX_FROM_DRIVER`].
    #[error("a control frame of {0} bytes is too long")]
    TooLong(usize),
    /// The payload is no message.
    #[error("a control frame cannot be read")]
    Malformed(#[source] serde_json::Error),
    /// A message is larger than its values may be.
    #[error("a control message breaks a size limit")]
    Oversized,
    /// Messages that answer nothing, more than a driver ever has cause for.
    #[error("the driver says what it was not asked")]
    Unexpected,
    /// Messages that the log has no room for, more than a driver sends before it waits for the first.
    #[error("the driver does not wait for what it said to be stored")]
    Impatient,
    /// A frame did not fit into the socket: the driver does not read.
    #[error("the driver does not read its control socket")]
    Stuck,
    /// The socket failed.
    #[error("the control socket failed")]
    Io(#[source] std::io::Error),
}

/// A whole frame, header and payload.
///
/// # Errors
/// [`ControlError::TooLong`] above [`MAX_TO_DRIVER`].
pub fn encode(message: &ToDriver<'_>) -> Result<Vec<u8>, ControlError> {
    let mut frame = vec![b'0'; HEADER];
    serde_json::to_writer(&mut frame, message).map_err(ControlError::Malformed)?;
    let length = frame.len() - HEADER;
    if length > MAX_TO_DRIVER {
        return Err(ControlError::TooLong(length));
    }
    frame[..HEADER].copy_from_slice(format!("{length:08}").as_bytes());
    Ok(frame)
}

/// Collects bytes and gives whole messages.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    used: usize,
    /// Set after a `hello`: everything before the answer with this nonce is dropped.
    awaited: Option<String>,
}

impl Decoder {
    /// Where the next bytes of the socket go.
    pub fn fill(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Drops what comes before the answer to a `hello` with this nonce.
    pub fn synchronise(&mut self, nonce: String) {
        self.awaited = Some(nonce);
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    /// See [`ControlError`]; after one the stream means nothing any more.
    pub fn take(&mut self) -> Result<Option<FromDriver>, ControlError> {
        if self.awaited.is_some() && !self.find_answer() {
            return Ok(None);
        }
        let rest = &self.buffer[self.used..];
        let Some((header, payload)) = rest.split_at_checked(HEADER) else { return Ok(None) };
        let length = parse_length(header)?;
        let Some(payload) = payload.get(..length) else { return Ok(None) };
        if length > MAX_COMMAS && payload.iter().filter(|byte| **byte == b',').count() > MAX_COMMAS {
            return Err(ControlError::Oversized);
        }
        let message: FromDriver = serde_json::from_slice(payload).map_err(ControlError::Malformed)?;
        self.used += HEADER + length;
        check_sizes(&message)?;
        Ok(Some(message))
    }

    fn find_answer(&mut self) -> bool {
        let Some(nonce) = &self.awaited else { return true };
        let mark = format!("{{\"t\":\"hello\",\"nonce\":\"{nonce}\"");
        let rest = &self.buffer[self.used..];
        // What stands where there is no room for a length before it is no frame.
        let behind_header = rest.get(HEADER..).unwrap_or_default();
        match behind_header.windows(mark.len()).position(|window| window == mark.as_bytes()) {
            Some(at) => {
                self.used += at;
                self.awaited = None;
                true
            }
            None => {
                // What cannot be the beginning of the answer is not kept.
                self.used += rest.len().saturating_sub(mark.len() + HEADER);
                false
            }
        }
    }
}

fn parse_length(header: &[u8]) -> Result<usize, ControlError> {
    if !header.iter().all(u8::is_ascii_digit) {
        return Err(ControlError::Header);
    }
    let length = header.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    if length > MAX_FROM_DRIVER { Err(ControlError::TooLong(length)) } else { Ok(length) }
}

/// The caps of the contract, again: a driver is not to be trusted with them.
fn check_sizes(message: &FromDriver) -> Result<(), ControlError> {
    const TEXT: usize = 64 * 1024;
    // The driver counts characters of a repr and bytes of a message; four bytes a character is the most.
    const TEXT_BYTES: usize = 4 * TEXT;
    const RESULT: usize = 1024 * 1024;
    const PROMPT: usize = 4 * 1024;
    const MATCHES: usize = 500;
    const FINDINGS: usize = 16;
    let fits = match message {
        FromDriver::Done(done) => {
            let exception = done.exception.as_ref();
            let traceback: usize = exception.map_or(0, |it| it.traceback.iter().map(|line| line.len() + 1).sum());
            done.result.0.get().len() <= 2 * RESULT
                && done.result_text.as_ref().is_none_or(|text| text.len() <= TEXT_BYTES)
                && exception.is_none_or(|it| it.message.len() <= TEXT_BYTES && it.name.len() <= TEXT)
                && traceback <= TEXT_BYTES
                && done.violations.len() <= FINDINGS
                && done.violations.iter().all(Finding::fits)
        }
        FromDriver::InputRequest { prompt, .. } => prompt.len() <= PROMPT,
        FromDriver::Reply { body: Reply::Complete(it), .. } => it.matches.len() <= MATCHES,
        FromDriver::Reply { body: Reply::Inspect(it), .. } => {
            it.data.iter().map(|(mime, text)| mime.len() + text.len()).sum::<usize>() <= TEXT_BYTES
        }
        // A display is weighed where it is counted; its frame is bounded.
        _ => true,
    };
    if fits { Ok(()) } else { Err(ControlError::Oversized) }
}

impl Finding {
    fn fits(&self) -> bool {
        self.rule.len() <= 64 && self.detail.len() <= 300
    }
}

/// Cuts code into pieces of at most [`PART`] bytes at characters.
pub fn parts(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (head, tail) = rest.split_at(rest.floor_char_boundary(PART));
        rest = tail;
        Some(head)
    })
}

#[cfg(test)]
mod tests;
