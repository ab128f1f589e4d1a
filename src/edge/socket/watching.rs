//! A WebSocket that is told what concerns security. Its client has nothing to say.

use std::pin::pin;

use bytes::Bytes;
use futures::{FutureExt, SinkExt};
use repltool_protocol::close::CloseCode;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::closing::{self, Ending};
use super::pulse::{Beat, Pulse};
use super::renewal::lapsed;
use super::{BATCH_BYTES, Connection, Traffic, Wire, text, traffic, wire};
use crate::alerts::{Item, Reader};
use crate::edge::auth::Principal;
use crate::edge::connection::Transport;
use crate::edge::limit::{Meter, Place, Verdict};
use crate::edge::security;

/// Who is told, and from where on.
#[derive(Debug)]
pub(in crate::edge) struct Watching {
    pub(in crate::edge) reader: Reader,
    pub(in crate::edge) principal: Principal,
    /// Counts pings.
    pub(in crate::edge) meter: Meter,
    pub(in crate::edge) _place: Place,
}

/// Serves a socket until the token ends, the server drains, or the peer goes away.
pub(in crate::edge) async fn watch(connection: &Connection, stream: Transport, early: Bytes, watching: Watching) {
    let shared = &connection.shared;
    tracing::debug!(subject = watching.principal.subject, "a socket follows what concerns security");
    let _open = shared.metrics.socket();
    let mut lapsed = lapsed(shared.auth.tenure(watching.principal.clone()));
    let wire = wire(stream, early).await;
    let mut socket = Socket { wire, watching, writing: false, pulse: Pulse::new() };
    let ending = tokio::select! {
        ending = socket.run(&shared.drain) => ending,
        () = &mut lapsed => Ending::Close(CloseCode::Unauthorized),
    };
    tracing::debug!(?ending, "a socket follows what concerns security no longer");
    closing::close(socket.wire, ending).await;
}

struct Socket {
    wire: Wire,
    watching: Watching,
    /// Whether the peer has still to take something.
    writing: bool,
    pulse: Pulse,
}

impl Socket {
    /// # Cancel safety
    /// Cancel-safe: what is half written is kept in the wire.
    async fn run(&mut self, drain: &CancellationToken) -> Ending {
        let mut drained = pin!(drain.cancelled());
        loop {
            let turn = tokio::select! {
                () = &mut drained => Err(Ending::Close(CloseCode::Draining)),
                beat = self.pulse.next() => self.on_beat(beat),
                traffic = traffic(&mut self.wire, self.writing, true) => self.on_traffic(traffic),
                item = self.watching.reader.next(), if !self.writing => self.on_item(item),
            };
            if let Err(ending) = turn {
                return ending;
            }
        }
    }

    fn on_beat(&mut self, beat: Beat) -> Result<(), Ending> {
        match beat {
            Beat::Silent => return Err(Ending::Lost),
            // A peer that takes nothing would not see a ping.
            Beat::Due if self.writing => return Ok(()),
            Beat::Due => {}
        }
        self.wire.start_send_unpin(Message::Ping(Bytes::new()))?;
        self.flush()
    }

    fn on_traffic(&mut self, traffic: Traffic) -> Result<(), Ending> {
        self.pulse.heard();
        match traffic {
            Traffic::Flushed => {
                self.writing = false;
                Ok(())
            }
            Traffic::Message(Message::Text(_) | Message::Binary(_)) => Err(Ending::Close(CloseCode::Policy)),
            Traffic::Message(Message::Close(_)) => Err(Ending::Answer),
            // It is answered below us.
            Traffic::Message(Message::Ping(_)) => match self.watching.meter.charge() {
                Verdict::Cut => Err(Ending::Close(CloseCode::RateLimited)),
                Verdict::Granted | Verdict::Refused { .. } => Ok(()),
            },
            Traffic::Message(Message::Pong(_) | Message::Frame(_)) => Ok(()),
            Traffic::Closed => Err(Ending::Lost),
            Traffic::Broken(error) => Err(error.into()),
        }
    }

    /// Sends what was met, and whatever else is there, as one batch.
    fn on_item(&mut self, first: Item) -> Result<(), Ending> {
        let (mut bytes, mut next) = (0, Some(first));
        while let Some(item) = next {
            let message = match item {
                Item::Line(line) => text(line.json)?,
                Item::Gap { from, to } => security::gap(from, to).into(),
            };
            bytes += message.len();
            self.wire.start_send_unpin(Message::Text(message))?;
            next = if bytes < BATCH_BYTES { self.watching.reader.try_next() } else { None };
        }
        self.flush()
    }

    /// Writes as much as the peer takes now. The rest is written by [`traffic`].
    fn flush(&mut self) -> Result<(), Ending> {
        match self.wire.flush().now_or_never() {
            Some(flushed) => flushed?,
            None => self.writing = true,
        }
        Ok(())
    }
}
