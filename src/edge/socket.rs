//! One WebSocket: frames to commands, events to frames. One task, no queue of events, no session state.
//!
//! ```text
//!   peer ──frames──▶ decode ──▶ handle        at most PENDING commands wait for their answer
//!   peer ◀──batch── encoder ◀── cursor ◀── log
//! ```
//! What has gathered in the log goes out together, up to one batch; the next one is read when the peer has taken that.
//! Meanwhile the peer is listened to, so that a ping or an interrupt gets through while its output is blocked.

mod closing;
mod command;
mod pulse;
mod rate;
mod renewal;
mod source;
mod watching;

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt};
use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::encode_notice;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::Seq;
use repltool_protocol::rest::MAX_MESSAGE_BYTES;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use self::closing::Ending;
pub(super) use self::closing::refuse;
use self::command::Answered;
use self::pulse::{Beat, Pulse};
use self::renewal::lapsed;
use self::source::Source;
pub(super) use self::watching::{Watching, watch};
use super::Connection;
use super::auth::Principal;
use super::connection::Transport;
use super::limit::{Meter, Place};
use crate::session::log::{Item, LogError};
use crate::session::{End, SessionHandle};

/// What goes out together, in bytes; a slow reader holds no more than this and one event.
const BATCH_BYTES: usize = 256 * 1024;
/// The longest encoded event, with room to spare: the encoder refuses what is longer.
const MAX_EVENT_BYTES: usize = 48 * 1024 * 1024;
/// What is read at once: small, since most sockets are quiet.
const READ_BUFFER_BYTES: usize = 4096;
/// Commands that wait for their answer; beyond it the peer is not listened to, and waits.
const PENDING: usize = 16;
/// How long those of a peer that has gone have to be handed on. Their sessions see to the rest.
const LAST_COMMANDS: Duration = Duration::from_secs(3);
/// Answers that the peer has not taken yet, in bytes; beyond it the peer is not listened to, and waits.
const MAX_OWED_BYTES: usize = 64 * 1024;

type Wire = WebSocketStream<Transport>;

/// A session, and who attaches to it.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) handle: SessionHandle,
    /// As the handshake had it; a fresh token may have taken its place since.
    pub(super) principal: Principal,
    /// The last event the client has seen, or is not to see.
    pub(super) after: Seq,
    /// Where it comes from.
    pub(super) client: IpAddr,
    /// Counts what the client says.
    pub(super) meter: Meter,
    pub(super) _place: Place,
}

/// Serves a socket until the session or the token ends, the server drains, or the peer goes away.
pub(super) async fn serve(connection: &Connection, stream: Transport, early: Bytes, attachment: &Attachment) {
    let session = &attachment.handle.identity().id;
    tracing::debug!(%session, subject = attachment.principal.subject, "a socket is attached");
    let _open = connection.shared.metrics.socket();
    let mut socket = Socket::new(wire(stream, early).await, connection, attachment);
    let ending = socket.run(&connection.shared.drain).await;
    tracing::debug!(%session, ?ending, "a socket is detached");
    let Socket { wire, mut answers, .. } = socket;
    // What the peer asked for before it went is carried out.
    let carried_out = async { while answers.next().await.is_some() {} };
    let _ = tokio::join!(closing::close(wire, ending), tokio::time::timeout(LAST_COMMANDS, carried_out));
}

async fn wire(stream: Transport, early: Bytes) -> Wire {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(BATCH_BYTES)
        .max_write_buffer_size(BATCH_BYTES + MAX_EVENT_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    WebSocketStream::from_partially_read(stream, early.into(), Role::Server, Some(config)).await
}

struct Socket<'a> {
    wire: Wire,
    connection: &'a Connection,
    attachment: &'a Attachment,
    /// Whose token is in force.
    principal: Principal,
    /// Ends with that token.
    lapsed: BoxFuture<'static, ()>,
    source: Source,
    /// Commands in the order in which they came; each gives its answer once.
    answers: FuturesUnordered<BoxFuture<'a, Answered>>,
    /// Questions to the interpreter among them.
    questions: usize,
    /// Whether the peer has still to take something.
    writing: bool,
    /// Bytes of answers among that.
    owed: usize,
    /// Malformed messages so far.
    faults: u32,
    pulse: Pulse,
}

/// What the wire does next.
enum Traffic {
    Message(Message),
    Flushed,
    Closed,
    Broken(WsError),
}

impl<'a> Socket<'a> {
    fn new(wire: Wire, connection: &'a Connection, attachment: &'a Attachment) -> Self {
        let principal = attachment.principal.clone();
        Self {
            wire,
            connection,
            attachment,
            lapsed: lapsed(connection.shared.auth.tenure(principal.clone())),
            principal,
            source: Source::new(attachment.handle.log().clone(), attachment.after),
            answers: FuturesUnordered::new(),
            questions: 0,
            writing: false,
            owed: 0,
            faults: 0,
            pulse: Pulse::new(),
        }
    }

    async fn run(&mut self, drain: &CancellationToken) -> Ending {
        let mut drained = pin!(drain.cancelled());
        let mut turn = self.greet();
        while turn.is_ok() {
            let listening = self.is_listening();
            turn = tokio::select! {
                () = &mut drained => Err(Ending::Close(CloseCode::Draining)),
                () = &mut self.lapsed => Err(Ending::Close(CloseCode::Unauthorized)),
                beat = self.pulse.next() => self.on_beat(beat),
                traffic = traffic(&mut self.wire, self.writing, listening) => self.on_traffic(traffic),
                Some(answered) = self.answers.next() => self.on_answer(answered),
                item = self.source.next(), if !self.writing => self.on_item(item),
            };
        }
        turn.err().unwrap_or(Ending::Lost)
    }

    /// The first message. The cursor has its place already, so nothing is missed in between.
    fn greet(&mut self) -> Result<(), Ending> {
        let session = self.attachment.handle.describe();
        let last_seq = Seq(session.last_seq);
        self.feed(encode_notice(&Notice::Ready { session, last_seq }).into())?;
        self.flush()
    }

    fn is_listening(&self) -> bool {
        self.answers.len() < PENDING && self.owed < MAX_OWED_BYTES && self.source.may_replay()
    }

    fn on_traffic(&mut self, traffic: Traffic) -> Result<(), Ending> {
        match traffic {
            // It had been blocked, so the peer has taken something: a slow reader is not a silent one.
            Traffic::Flushed => {
                self.pulse.heard();
                self.flushed();
                Ok(())
            }
            Traffic::Message(message) => {
                self.pulse.heard();
                self.on_message(message)
            }
            Traffic::Closed => Err(Ending::Lost),
            Traffic::Broken(error) => Err(error.into()),
        }
    }

    fn on_message(&mut self, message: Message) -> Result<(), Ending> {
        if !self.is_within_rate(&message)? {
            return Ok(());
        }
        match message {
            Message::Text(text) => self.on_text(&text),
            Message::Binary(_) => self.on_fault(None, "messages are text"),
            Message::Close(_) => Err(Ending::Answer),
            // Pings are answered below us.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    /// Sends what was met, and whatever else is there, as one batch.
    fn on_item(&mut self, first: Result<Option<Item>, LogError>) -> Result<(), Ending> {
        let mut bytes = 0;
        let mut next = first;
        self.connection.shared.metrics.lag(self.source.behind());
        while let Some(item) = next.map_err(|error| self.failed(&error))? {
            bytes += match item {
                Item::Event(event) => self.feed(text(event.json.clone())?)?,
                Item::Gap { from, to } => {
                    self.connection.shared.metrics.gap();
                    self.feed(encode_notice(&Notice::Gap { from, to }).into())?
                }
                Item::End => return Err(Ending::Close(self.end())),
            };
            if bytes >= BATCH_BYTES {
                break;
            }
            next = self.source.try_next();
        }
        self.flush()
    }

    fn on_beat(&mut self, beat: Beat) -> Result<(), Ending> {
        match beat {
            Beat::Silent => return Err(Ending::Lost),
            // A peer that takes nothing would not see a ping, and need not be sent more.
            Beat::Due if self.writing => return Ok(()),
            Beat::Due => {}
        }
        self.wire.start_send_unpin(Message::Ping(Bytes::new()))?;
        self.flush()
    }

    /// Sends an answer to this peer alone.
    fn say(&mut self, notice: &Notice) -> Result<(), Ending> {
        if let Notice::Problem { code, .. } = notice {
            self.connection.shared.metrics.refused_on_socket(*code);
        }
        self.owed += self.feed(encode_notice(notice).into())?;
        self.flush()
    }

    /// Adds a message to what goes out with the next flush; returns its length.
    fn feed(&mut self, text: Utf8Bytes) -> Result<usize, Ending> {
        let bytes = text.len();
        self.wire.start_send_unpin(Message::Text(text))?;
        Ok(bytes)
    }

    /// Writes as much as the peer takes now. The rest is written by [`traffic`].
    fn flush(&mut self) -> Result<(), Ending> {
        match self.wire.flush().now_or_never() {
            Some(flushed) => {
                flushed?;
                self.flushed();
            }
            None => self.writing = true,
        }
        Ok(())
    }

    fn flushed(&mut self) {
        self.writing = false;
        self.owed = 0;
    }

    /// Why the log has ended.
    fn end(&self) -> CloseCode {
        match self.attachment.handle.snapshot().ended {
            Some(End::IdleTimeout) => CloseCode::IdleTimeout,
            Some(End::Terminated) => CloseCode::Terminated,
            Some(End::Violations) => CloseCode::Forbidden,
            // The gateway leaves the session to the next one.
            None => CloseCode::Draining,
        }
    }

    /// What becomes of the socket when the log cannot be read. The writer of a session that is deleted may be gone
    /// before its readers have met the end.
    fn failed(&self, error: &LogError) -> Ending {
        if matches!(error, LogError::WriterGone) && self.attachment.handle.snapshot().ended.is_some() {
            return Ending::Close(self.end());
        }
        tracing::error!(error = error as &dyn std::error::Error, "a socket cannot read its log");
        Ending::Close(CloseCode::Internal)
    }
}

/// Text that is known to be UTF-8; it is looked at again, since that costs less than an `unsafe` would.
fn text(json: Bytes) -> Result<Utf8Bytes, Ending> {
    Utf8Bytes::try_from(json).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "an event is no text");
        Ending::Close(CloseCode::Internal)
    })
}

/// Waits until the peer has taken what it has to, if it has, or has sent something, if it is listened to.
///
/// # Cancel safety
/// Cancel-safe: what is half written or half read is kept in the wire.
async fn traffic(wire: &mut Wire, writing: bool, listening: bool) -> Traffic {
    poll_fn(|context| {
        if writing && let Poll::Ready(flushed) = wire.poll_flush_unpin(context) {
            return Poll::Ready(flushed.map_or_else(Traffic::Broken, |()| Traffic::Flushed));
        }
        if !listening {
            return Poll::Pending;
        }
        wire.poll_next_unpin(context).map(|message| match message {
            Some(Ok(message)) => Traffic::Message(message),
            Some(Err(error)) => Traffic::Broken(error),
            None => Traffic::Closed,
        })
    })
    .await
}
