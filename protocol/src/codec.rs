//! Text to frames and back under a size limit. Nothing here panics, whatever the text.
//!
//! Client frames are read by hand and not by serde's tagged enums: those copy a message into a tree before they know its
//! type, which multiplies 16 MiB by sixteen, and they cannot say which field was wrong.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use crate::event::{Event, LoggedEvent, StreamName};
use crate::frame::{ClientFrame, Notice, ServerFrame};
use crate::ids::{ExecutionId, IdError, RequestId, Seq};
use crate::rest::MAX_MESSAGE_BYTES;
use crate::token::BearerToken;

/// The longest text that [`shorten`] leaves as it is, in characters: the `detail` of a [`DecodeError::Malformed`] and
/// other messages that may quote what a client sent.
pub const MAX_DETAIL_CHARS: usize = 300;

/// Why a message is no frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Larger than [`MAX_MESSAGE_BYTES`].
    #[error("the message has {0} bytes; at most {MAX_MESSAGE_BYTES} are allowed")]
    TooBig(usize),
    /// No JSON object, an unknown type, an unknown, missing or wrong field.
    #[error("{detail}")]
    Malformed {
        /// What is wrong and where; a few hundred characters at most.
        detail: String,
        /// The `id` of the message, if there is a valid one.
        id: Option<String>,
    },
}

/// Reads what a client sent. The bounds of `code` and `timeout_ms` are for the caller to check.
///
/// # Errors
/// [`DecodeError::TooBig`] above [`MAX_MESSAGE_BYTES`], else [`DecodeError::Malformed`], which names the unknown type or
/// the offending field.
pub fn decode_client(text: &str) -> Result<ClientFrame, DecodeError> {
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(DecodeError::TooBig(text.len()));
    }
    let frame = serde_json::from_str::<Message>(text).map_err(|error| error.to_string()).and_then(Message::into_frame);
    frame.map_err(|detail| DecodeError::Malformed { detail: shorten(detail), id: valid_id(text) })
}

/// The fields of all client frames together, and which of them were there.
#[derive(Default)]
struct Message {
    kind: Option<String>,
    id: Option<String>,
    code: Option<String>,
    timeout_ms: Option<u64>,
    stdin: Option<String>,
    data: Option<String>,
    eof: bool,
    cursor: Option<u64>,
    token: Option<BearerToken>,
    given: Vec<&'static str>,
    unknown: Option<String>,
}

const FIELDS: [&str; 9] = ["type", "id", "code", "timeout_ms", "stdin", "data", "eof", "cursor", "token"];

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let mut message = Message::default();
        while let Some(key) = map.next_key::<String>()? {
            let Some(name) = FIELDS.into_iter().find(|name| *name == key) else {
                map.next_value::<IgnoredAny>()?;
                message.unknown.get_or_insert(key);
                continue;
            };
            if message.given.contains(&name) {
                return Err(de::Error::duplicate_field(name));
            }
            message.given.push(name);
            match name {
                "type" => message.kind = value(name, &mut map)?,
                "id" => message.id = value(name, &mut map)?,
                "code" => message.code = value(name, &mut map)?,
                "timeout_ms" => message.timeout_ms = value(name, &mut map)?,
                "stdin" => message.stdin = value(name, &mut map)?,
                "data" => message.data = value(name, &mut map)?,
                "eof" => message.eof = value(name, &mut map)?,
                "cursor" => message.cursor = value(name, &mut map)?,
                _ => message.token = value(name, &mut map)?,
            }
        }
        Ok(message)
    }
}

/// Reads the value of a field; an error names the field.
fn value<'de, T: Deserialize<'de>, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<T, A::Error> {
    map.next_value().map_err(|error| de::Error::custom(format_args!("{name}: {error}")))
}

impl Message {
    /// Joins the fields to the frame that `type` names.
    fn into_frame(mut self) -> Result<ClientFrame, String> {
        let kind = self.kind.take().ok_or("missing field `type`")?;
        let frame = match kind.as_str() {
            "execute" => {
                self.allow(&kind, &["id", "code", "timeout_ms", "stdin"])?;
                ClientFrame::Execute {
                    id: self.required_id()?,
                    code: self.code.ok_or("missing field `code`")?,
                    timeout_ms: self.timeout_ms,
                    stdin: self.stdin,
                }
            }
            "stdin" => {
                self.allow(&kind, &["data", "eof"])?;
                ClientFrame::Stdin { data: self.data, eof: self.eof }
            }
            "complete" => {
                let (id, code, cursor) = self.into_question(&kind)?;
                ClientFrame::Complete { id, code, cursor }
            }
            "inspect" => {
                let (id, code, cursor) = self.into_question(&kind)?;
                ClientFrame::Inspect { id, code, cursor }
            }
            "is_complete" => {
                let (id, code, cursor) = self.into_question(&kind)?;
                ClientFrame::IsComplete { id, code, cursor }
            }
            "interrupt" => {
                self.allow(&kind, &["id"])?;
                ClientFrame::Interrupt { id: self.id::<ExecutionId>()? }
            }
            "restart" => {
                self.allow(&kind, &["id"])?;
                ClientFrame::Restart { id: self.id::<RequestId>()? }
            }
            "terminate" => {
                self.allow(&kind, &["id"])?;
                ClientFrame::Terminate { id: self.id::<RequestId>()? }
            }
            "auth" => {
                self.allow(&kind, &["token", "id"])?;
                ClientFrame::Auth { id: self.id::<RequestId>()?, token: self.token.ok_or("missing field `token`")? }
            }
            "ping" => {
                self.allow(&kind, &["id"])?;
                ClientFrame::Ping { id: self.required_id()? }
            }
            unknown => {
                let known = ClientFrame::TYPES.join(", ");
                return Err(format!("unknown type `{}`, expected one of {known}", shorten(unknown.to_owned())));
            }
        };
        Ok(frame)
    }

    fn into_question(self, kind: &str) -> Result<(RequestId, String, Option<u64>), String> {
        self.allow(kind, &["id", "code", "cursor"])?;
        Ok((self.required_id()?, self.code.ok_or("missing field `code`")?, self.cursor))
    }

    fn allow(&self, kind: &str, fields: &[&str]) -> Result<(), String> {
        let known = |name: &&str| *name == "type" || fields.contains(name);
        let stray = self.given.iter().copied().find(|name| !known(name)).or(self.unknown.as_deref());
        stray.map_or(Ok(()), |name| Err(format!("unknown field `{}` in `{kind}`", shorten(name.to_owned()))))
    }

    fn id<T: std::str::FromStr<Err = IdError>>(&self) -> Result<Option<T>, String> {
        self.id.as_deref().map(|id| id.parse().map_err(|error| format!("id: {error}"))).transpose()
    }

    fn required_id<T: std::str::FromStr<Err = IdError>>(&self) -> Result<T, String> {
        self.id()?.ok_or_else(|| "missing field `id`".to_owned())
    }
}

/// The `id` of a message that is otherwise wrong.
fn valid_id(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct IdOnly {
        id: RequestId,
    }
    // A tuple would be read as well, hence the check for an object.
    let object = text.trim_ascii_start().starts_with('{');
    object.then(|| serde_json::from_str::<IdOnly>(text).ok()).flatten().map(|it| it.id.as_str().to_owned())
}

/// Cuts a text after [`MAX_DETAIL_CHARS`], and marks it as cut.
pub fn shorten(mut text: String) -> String {
    if let Some((cut, _)) = text.char_indices().nth(MAX_DETAIL_CHARS) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// Writes an event as it goes over the wire: one JSON object without line breaks.
pub fn encode_event(seq: Seq, event: &Event) -> String {
    #[derive(serde::Serialize)]
    struct Borrowed<'a> {
        #[serde(flatten)]
        event: &'a Event,
        seq: Seq,
    }
    if let Event::Stream { id, stream, data } = event {
        return encode_stream(seq, id.as_ref().map(|id| id.as_str()), *stream, data);
    }
    serde_json::to_string(&Borrowed { event, seq }).unwrap_or_default()
}

/// Writes a `stream` event. The hot path: one allocation, and no map in between.
pub fn encode_stream(seq: Seq, id: Option<&str>, stream: StreamName, data: &str) -> String {
    #[derive(serde::Serialize)]
    struct Stream<'a> {
        r#type: &'static str,
        seq: Seq,
        id: Option<&'a str>,
        stream: StreamName,
        data: &'a str,
    }
    let mut out = Vec::with_capacity(data.len() + data.len() / 16 + 160);
    match serde_json::to_writer(&mut out, &Stream { r#type: "stream", seq, id, stream, data }) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Writes a message that is not of the log.
pub fn encode_notice(notice: &Notice) -> String {
    serde_json::to_string(notice).unwrap_or_default()
}

/// Reads what the server sent, as clients do. None for a type that this version does not know: later versions may add
/// some, and clients skip them. Unknown fields are skipped likewise.
///
/// # Errors
/// Whatever `serde_json` says about the text.
pub fn decode_server(text: &str) -> Result<Option<ServerFrame>, serde_json::Error> {
    #[derive(Deserialize)]
    struct TypeOnly {
        r#type: String,
    }
    let kind = serde_json::from_str::<TypeOnly>(text)?.r#type;
    if Event::TYPES.contains(&kind.as_str()) {
        serde_json::from_str(text).map(|event| Some(ServerFrame::Event(event)))
    } else if Notice::TYPES.contains(&kind.as_str()) {
        serde_json::from_str(text).map(|notice| Some(ServerFrame::Notice(notice)))
    } else {
        Ok(None)
    }
}

/// Reads an event back, as a line of `GET …/events` or of a streamed reply holds it.
///
/// # Errors
/// Whatever `serde_json` says about the text.
pub fn decode_event(text: &str) -> Result<LoggedEvent, serde_json::Error> {
    serde_json::from_str(text)
}
