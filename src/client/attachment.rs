//! A WebSocket that comes back: when its connection breaks off, it is opened again and goes on where it was.
//!
//! ```text
//!   connected ──broken, 1001, 1011, 1013, 4429──▶ lost ──attached again, after what was seen──▶ connected
//!       └── any other close code ──▶ ended ◀── refused, or nobody answers for a minute ──┘
//! ```

use std::time::Duration;

use repltool_protocol::close::CloseCode;
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{Seq, SessionId};
use tokio::time::Instant;

use super::{Client, ClientError, Closed, Received, Socket};

/// How long a server may be away.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause between two attempts; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What an attachment brings.
#[derive(Debug)]
pub enum Moment {
    /// A message.
    Frame(Box<ServerFrame>),
    /// The connection broke off. What is sent now gets lost; [`Moment::Back`] or [`Moment::Ended`] follows.
    Lost,
    /// There is a new connection. No event is missing.
    Back,
    /// The end, and why.
    Ended(Closed),
}

/// A session that is followed across broken connections and restarts of the gateway.
#[derive(Debug)]
pub struct Attachment {
    client: Client,
    session: SessionId,
    /// The newest event that was brought.
    seen: Option<Seq>,
    state: State,
}

#[derive(Debug)]
enum State {
    Connected(Box<Socket>),
    /// Broken off, and nobody was told yet.
    Broken,
    Lost {
        since: Instant,
        next: Instant,
        pause: Duration,
    },
    Ended(Closed),
}

impl Attachment {
    /// Attaches to a session. Without `after` it brings what happens from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn open(client: &Client, session: &SessionId, after: Option<Seq>) -> Result<Self, ClientError> {
        let socket = client.attach(session, after).await?;
        let (client, session) = (client.clone(), session.clone());
        Ok(Self { client, session, seen: after, state: State::Connected(Box::new(socket)) })
    }

    /// Waits for what comes next; after the end it is the end again.
    ///
    /// # Errors
    /// [`ClientError::Unreadable`] for a message that is not of the protocol.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken but by the call that returns it.
    pub async fn next(&mut self) -> Result<Moment, ClientError> {
        match &mut self.state {
            State::Connected(socket) => match socket.receive().await? {
                Received::Frame(frame) => {
                    self.note(&frame);
                    Ok(Moment::Frame(Box::new(frame)))
                }
                Received::Closed(closed) if comes_back(&closed) => Ok(self.lose()),
                Received::Closed(closed) => Ok(self.end(closed)),
            },
            State::Broken => Ok(self.lose()),
            State::Lost { since, next, pause } => {
                let (since, pause) = (*since, *pause);
                tokio::time::sleep_until(*next).await;
                self.attach_again(since, pause).await
            }
            State::Ended(closed) => Ok(Moment::Ended(closed.clone())),
        }
    }

    /// Sends a message, if there is a connection. One that breaks off meanwhile is told by [`Attachment::next`].
    ///
    /// # Cancel safety
    /// Not cancel-safe: the message may be sent later, or not.
    pub async fn send(&mut self, frame: &ClientFrame) {
        if let State::Connected(socket) = &mut self.state
            && socket.send(frame).await.is_err()
        {
            self.state = State::Broken;
        }
    }

    fn note(&mut self, frame: &ServerFrame) {
        match frame {
            ServerFrame::Event(logged) => self.seen = Some(logged.seq),
            ServerFrame::Notice(Notice::Gap { to, .. }) => self.seen = Some(*to),
            // Without a number to begin with, the log as it was at the beginning is what counts as seen.
            ServerFrame::Notice(Notice::Ready { last_seq, .. }) if self.seen.is_none() => self.seen = Some(*last_seq),
            ServerFrame::Notice(_) => {}
        }
    }

    fn lose(&mut self) -> Moment {
        let now = Instant::now();
        self.state = State::Lost { since: now, next: now, pause: FIRST_PAUSE };
        Moment::Lost
    }

    fn end(&mut self, closed: Closed) -> Moment {
        self.state = State::Ended(closed.clone());
        Moment::Ended(closed)
    }

    async fn attach_again(&mut self, since: Instant, mut pause: Duration) -> Result<Moment, ClientError> {
        loop {
            match self.client.attach(&self.session, self.seen).await {
                Ok(socket) => {
                    self.state = State::Connected(Box::new(socket));
                    return Ok(Moment::Back);
                }
                Err(error) if !may_pass(&error) => {
                    return Ok(self.end(Closed { code: None, reason: error.to_string() }));
                }
                Err(error) if since.elapsed() > PATIENCE => {
                    let reason = format!("the server did not come back: {error}");
                    return Ok(self.end(Closed { code: None, reason }));
                }
                Err(_) => {
                    let next = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    self.state = State::Lost { since, next, pause };
                    tokio::time::sleep_until(next).await;
                }
            }
        }
    }
}

/// Whether the socket was closed for a reason that passes.
fn comes_back(closed: &Closed) -> bool {
    let known = |code| CloseCode::ALL.into_iter().find(|known| known.code() == code);
    closed.code.is_none_or(|code| known(code).is_some_and(CloseCode::may_retry))
}

/// Whether the same attempt may succeed in a while: nobody answers, or the server is busy with itself.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Broken(_) => true,
        ClientError::Refused(problem) => problem.status == 429 || problem.status >= 500,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_is_waited_for() {
        let closed = |code| Closed { code, reason: String::new() };
        for code in [None, Some(1001), Some(1011), Some(1013), Some(4429)] {
            assert!(comes_back(&closed(code)), "{code:?}");
        }
        for code in [1000, 1008, 1009, 4401, 4403, 4404, 4408, 4999] {
            assert!(!comes_back(&closed(Some(code))), "{code}");
        }
    }
}
