//! Where a socket's events come from: its cursor, and before that whatever an execution told before the socket came.
//!
//! A client that lost its socket sends its execution again, under the same id, on a new one. It then follows what it
//! has started: events of it that lie before this socket's own beginning are read by a second cursor.

use std::collections::VecDeque;

use repltool_protocol::ids::{ExecutionId, Seq};

use crate::session::log::{Cursor, Item, LogError, LogReader};

/// Replays that wait for their turn; beyond it the peer is not listened to.
const MAX_REPLAYS: usize = 16;
/// Events of others that are passed over at once, before other tasks get their turn.
const MAX_PASSED: usize = 64;

/// Everything that goes to one socket, in order.
#[derive(Debug)]
pub(super) struct Source {
    log: LogReader,
    cursor: Cursor,
    /// The socket gets all that follows this, and gets it once.
    from: Seq,
    replays: VecDeque<Replay>,
}

#[derive(Debug)]
struct Replay {
    cursor: Cursor,
    execution: ExecutionId,
    until: Seq,
}

impl Source {
    /// Begins after the given event.
    pub(super) fn new(log: LogReader, after: Seq) -> Self {
        let cursor = log.cursor(Some(after));
        let from = cursor.position();
        Self { log, cursor, from, replays: VecDeque::new() }
    }

    /// Sees to it that the socket gets all events of an execution, which lie after `after`.
    pub(super) fn follow(&mut self, execution: ExecutionId, after: Seq) {
        if after < self.from {
            let (cursor, until) = (self.log.cursor(Some(after)).with_border(self.from), self.from);
            self.replays.push_back(Replay { cursor, execution, until });
        }
    }

    /// How many events the log has beyond those that were read.
    pub(super) fn behind(&self) -> u64 {
        self.log.last_seq().0.saturating_sub(self.cursor.position().0)
    }

    /// Whether there is room for another replay.
    pub(super) fn may_replay(&self) -> bool {
        self.replays.len() < MAX_REPLAYS
    }

    /// Waits for what comes next; `None` if it is nothing for this socket.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    ///
    /// # Cancel safety
    /// Cancel-safe, as [`Cursor::next`].
    pub(super) async fn next(&mut self) -> Result<Option<Item>, LogError> {
        match self.replays.is_empty() {
            true => self.cursor.next().await.map(Some),
            false => {
                tokio::task::consume_budget().await;
                self.try_next()
            }
        }
    }

    /// What is there now.
    ///
    /// # Errors
    /// As [`Cursor::try_next`].
    pub(super) fn try_next(&mut self) -> Result<Option<Item>, LogError> {
        while let Some(replay) = self.replays.front_mut() {
            let item = replay.try_next()?;
            if item.is_some() {
                return Ok(item);
            }
            if !replay.is_over() {
                return Ok(None);
            }
            self.replays.pop_front();
        }
        self.cursor.try_next()
    }
}

impl Replay {
    fn is_over(&self) -> bool {
        self.cursor.position() >= self.until
    }

    fn try_next(&mut self) -> Result<Option<Item>, LogError> {
        for _ in 0..MAX_PASSED {
            if self.is_over() {
                return Ok(None);
            }
            match self.cursor.try_next()? {
                Some(Item::Event(event)) if event.execution.as_ref() != Some(&self.execution) => {}
                Some(Item::Event(event)) => return Ok(Some(Item::Event(event))),
                Some(Item::Gap { from, to }) => return Ok(Some(Item::Gap { from, to: to.min(self.until) })),
                // What lies before the beginning of a socket is there, so this is not met.
                Some(Item::End) | None => self.until = Seq(0),
            }
        }
        Ok(None)
    }
}
