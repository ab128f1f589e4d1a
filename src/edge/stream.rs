//! Answers that grow: the event log, or a part of it, as NDJSON or server-sent events, read by a cursor.
//!
//! A client that reads slowly holds its place in the log and one chunk, and slows nobody. One that goes away ends its
//! own answer and nothing else.

use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{FutureExt, stream};
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use repltool_protocol::codec::encode_notice;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::{ExecutionId, Seq};
use tokio_util::sync::CancellationToken;

use super::auth::Tenure;
use super::limit::Place;
use super::respond::{self, Answer};
use crate::session::log::{Cursor, Item, Kind, LogError, LogReader, Rendered};

/// What has gathered goes out in chunks of about this many bytes.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// How long a server-sent stream is silent before it says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One JSON object a line.
    Ndjson,
    /// `text/event-stream`, with the sequence number as id.
    Sse,
}

impl Format {
    /// The format that the header `Accept` names first, if it names one.
    pub(super) fn asked(headers: &HeaderMap) -> Option<Self> {
        let named = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        named.flat_map(|value| value.split(',')).find_map(|item| {
            match item.split(';').next().unwrap_or_default().trim() {
                it if it.eq_ignore_ascii_case("application/x-ndjson") => Some(Self::Ndjson),
                it if it.eq_ignore_ascii_case("text/event-stream") => Some(Self::Sse),
                _ => None,
            }
        })
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => "text/event-stream",
        }
    }

    /// Adds an event, with its number if it has one.
    pub(super) fn write(self, out: &mut BytesMut, seq: Option<Seq>, json: &[u8]) {
        if self == Self::Sse {
            if let Some(seq) = seq {
                out.put_slice(format!("id: {seq}\n").as_bytes());
            }
            out.put_slice(b"data: ");
        }
        out.put_slice(json);
        out.put_slice(if self == Self::Sse { b"\n\n" } else { b"\n" });
    }
}

/// Which events an answer has, and where it ends.
#[derive(Debug)]
pub(super) enum Scope {
    /// Those of one execution, up to its result.
    Execution {
        /// Which.
        id: ExecutionId,
        /// Tells whether a result may still come.
        log: LogReader,
    },
    /// All up to this one.
    UpTo(Seq),
    /// All, until the session ends, the token lapses or the server drains.
    Live {
        /// Who reads, and for how long.
        tenure: Box<Tenure>,
        /// Cancelled when the server drains.
        drain: CancellationToken,
    },
}

/// An answer that is being written.
#[derive(Debug)]
pub(super) struct Feed {
    cursor: Cursor,
    format: Format,
    scope: Scope,
    /// How many events may still follow; none: any number.
    left: Option<u64>,
    /// Whose token the answer ends with; none: it ends by itself.
    holder: Option<Tenure>,
    ended: bool,
    /// Held for as long as it is written.
    _place: Option<Place>,
}

/// What a feed waits for.
enum Met {
    Item(Item),
    Silence,
    Over,
}

impl Feed {
    /// Reads from the cursor.
    pub(super) fn new(cursor: Cursor, format: Format, scope: Scope) -> Self {
        Self { cursor, format, scope, left: None, holder: None, ended: false, _place: None }
    }

    /// Ends after so many events, if a number is given.
    pub(super) fn at_most(self, left: Option<u64>) -> Self {
        Self { left, ..self }
    }

    /// Ends with the token of this holder, if nothing else ends it before.
    pub(super) fn held_by(self, holder: Tenure) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// Keeps the place of its reader for as long as it is written.
    pub(super) fn holding(self, place: Option<Place>) -> Self {
        Self { _place: place, ..self }
    }

    /// The answer. Its head goes out at once.
    pub(super) fn answer(self) -> Answer {
        self.answer_then(std::future::ready(()))
    }

    /// The answer, which ends when `last` has; `last` is dropped if it breaks off before.
    pub(super) fn answer_then(self, last: impl Future<Output = ()> + Send + 'static) -> Answer {
        let content_type = self.format.content_type();
        let chunks = stream::unfold((self, last.boxed()), |(mut feed, last)| async move {
            match feed.chunk().await {
                Some(chunk) => Some((chunk.map(Frame::data), (feed, last))),
                None => {
                    last.await;
                    None
                }
            }
        });
        respond::with(StatusCode::OK, content_type, StreamBody::new(chunks).boxed_unsync())
    }

    async fn chunk(&mut self) -> Option<io::Result<Bytes>> {
        let mut out = BytesMut::new();
        match self.gather(&mut out).await {
            Ok(()) => (!out.is_empty()).then(|| Ok(out.freeze())),
            Err(error) => Some(Err(self.broken(error))),
        }
    }

    /// Waits for something to say, and adds all that is there already.
    async fn gather(&mut self, out: &mut BytesMut) -> Result<(), LogError> {
        while !self.ended && out.is_empty() {
            match self.meet().await? {
                Met::Item(item) => self.take(out, item)?,
                Met::Silence => out.put_slice(b":\n\n"),
                Met::Over => self.ended = true,
            }
            while !self.ended && out.len() < CHUNK_BYTES {
                let Some(item) = self.cursor.try_next()? else { break };
                self.take(out, item)?;
            }
        }
        Ok(())
    }

    async fn meet(&mut self) -> Result<Met, LogError> {
        match &self.scope {
            Scope::UpTo(last) if self.cursor.position() >= *last => Ok(Met::Over),
            Scope::UpTo(_) => self.cursor.next().await.map(Met::Item),
            Scope::Execution { .. } if self.holder.as_ref().is_some_and(Tenure::has_ended) => Ok(Met::Over),
            Scope::Execution { id, log } => {
                // In this order: a result is in the log before its execution counts as settled.
                let may_follow = log.is_pending(id);
                if let Some(item) = self.cursor.try_next()? {
                    return Ok(Met::Item(item));
                }
                if !may_follow {
                    return Err(LogError::ResultGone);
                }
                tokio::select! {
                    item = self.cursor.next() => item.map(Met::Item),
                    () = lapse_of(self.holder.as_ref()) => Ok(Met::Over),
                    () = keep_alive(self.format) => Ok(Met::Silence),
                }
            }
            Scope::Live { tenure, drain } => tokio::select! {
                item = self.cursor.next() => item.map(Met::Item),
                () = drain.cancelled() => Ok(Met::Over),
                () = tenure.ended() => Ok(Met::Over),
                () = keep_alive(self.format) => Ok(Met::Silence),
            },
        }
    }

    fn take(&mut self, out: &mut BytesMut, item: Item) -> Result<(), LogError> {
        match item {
            Item::Event(event) => self.take_event(out, &event),
            Item::Gap { from, to } => {
                self.format.write(out, None, encode_notice(&Notice::Gap { from, to }).as_bytes());
            }
            // The session was deleted before the result was read.
            Item::End if matches!(self.scope, Scope::Execution { .. }) => return Err(LogError::ResultGone),
            Item::End => self.ended = true,
        }
        if let Scope::UpTo(last) = &self.scope {
            self.ended |= self.cursor.position() >= *last;
        }
        Ok(())
    }

    fn take_event(&mut self, out: &mut BytesMut, event: &Rendered) {
        if let Scope::Execution { id, .. } = &self.scope {
            if event.execution.as_ref() != Some(id) {
                return;
            }
            self.ended |= event.kind == Kind::Result;
        }
        self.format.write(out, Some(event.seq), &event.json);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            self.ended |= *left == 0;
        }
    }

    fn broken(&mut self, error: LogError) -> io::Error {
        self.ended = true;
        match &error {
            // Nobody has to do anything about it: the client has waited longer than results, or their session, are kept.
            LogError::ResultGone => tracing::info!("a stream of events ends without its result"),
            other => tracing::error!(error = other as &dyn std::error::Error, "a stream of events broke off"),
        }
        io::Error::other("the stream of events broke off")
    }
}

async fn lapse_of(holder: Option<&Tenure>) {
    match holder {
        Some(tenure) => tenure.ended().await,
        None => std::future::pending().await,
    }
}

/// Returns when the client is to be told that the stream is alive.
pub(super) async fn keep_alive(format: Format) {
    match format {
        Format::Sse => tokio::time::sleep(KEEP_ALIVE).await,
        Format::Ndjson => std::future::pending().await,
    }
}
