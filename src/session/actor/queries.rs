//! Questions to the interpreter. Each waits for its turn behind what runs, but not for long, and before what waits to run.

use std::time::Duration;

use repltool_protocol::event::Limit;
use repltool_protocol::query::Reply;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Actor;
use super::running::ASK_LIMIT;
use crate::runtime::control::{FIRST_QUERY, ToDriver};
use crate::session::{Query, Refusal};

/// Questions that may wait.
const MAX_WAITING: usize = 16;
/// How long a question waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the interpreter may take for an answer, then for the interrupt after it.
const TIME: Duration = Duration::from_secs(2);

type Asker = oneshot::Sender<Result<Reply, Refusal>>;

/// A question that waits.
pub(super) struct Waiting {
    query: Query,
    asker: Asker,
    until: Instant,
}

/// The question that the driver has.
pub(super) struct Asking {
    n: u64,
    query: Query,
    parts_sent: usize,
    /// None once it was told that there is no answer.
    asker: Option<Asker>,
    until: Instant,
}

impl Actor {
    /// A client asks.
    pub(super) fn ask(&mut self, query: Query, asker: Asker) {
        if self.draining.is_some() {
            let _ = asker.send(Err(Refusal::Draining));
        } else if self.queries.len() >= MAX_WAITING {
            let _ = asker.send(Err(Refusal::NoTime));
        } else {
            self.touch();
            self.publish();
            self.queries.push_back(Waiting { query, asker, until: Instant::now() + PATIENCE });
            self.start_next();
        }
    }

    /// Begins with the next question. Says whether there is one.
    pub(super) fn begin_query(&mut self) -> bool {
        while let Some(Waiting { query, asker, .. }) = self.queries.pop_front() {
            if asker.is_closed() {
                continue;
            }
            self.query_number += 1;
            let n = FIRST_QUERY + self.query_number;
            self.asking = Some(Asking { n, query, parts_sent: 0, asker: Some(asker), until: Instant::now() + TIME });
            self.send_query();
            return true;
        }
        false
    }

    fn send_query(&mut self) {
        let (Some(asking), Some(kernel)) = (&self.asking, &mut self.kernel) else { return };
        let (n, kind, cursor) = (asking.n, asking.query.kind, asking.query.cursor);
        let message = |code, parts| ToDriver::Query { n, kind, code, parts, cursor };
        if let Err(error) = kernel.send_code(n, &asking.query.code, asking.parts_sent, message) {
            self.driver_fault(&error);
        }
    }

    /// The driver has a part of a question.
    pub(super) fn query_part_taken(&mut self, n: u64, i: usize) {
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.n == n && asking.parts_sent == i) {
            asking.parts_sent += 1;
            self.send_query();
        } else {
            self.stray();
        }
    }

    /// The driver answers.
    pub(super) fn on_reply(&mut self, n: u64, reply: Reply) {
        let Some(asking) = self.asking.take_if(|asking| asking.n == n) else { return self.stray() };
        if let Some(asker) = asking.asker {
            let _ = asker.send(Ok(reply));
        }
        self.start_next();
    }

    /// When something must be done about questions.
    pub(super) fn query_deadline(&self) -> Option<Instant> {
        let waiting = self.queries.front().map(|waiting| waiting.until);
        let asking = self.asking.as_ref().map(|asking| asking.until);
        waiting.into_iter().chain(asking).min()
    }

    /// Acts on deadlines of questions. Describing values can run code of the user's, which may never end.
    pub(super) fn enforce_queries(&mut self, now: Instant) {
        while let Some(late) = self.queries.pop_front_if(|waiting| now >= waiting.until) {
            let _ = late.asker.send(Err(Refusal::NoTime));
        }
        let Some(asking) = self.asking.as_mut().filter(|asking| now >= asking.until) else { return };
        asking.until = now + TIME;
        match asking.asker.take() {
            Some(asker) => {
                let _ = asker.send(Err(Refusal::NoTime));
                if let Some(kernel) = &mut self.kernel {
                    self.asked = Some((kernel.interrupt(), now + ASK_LIMIT));
                    self.fence = true;
                }
            }
            None => self.replace(Limit::WallTime),
        }
    }

    /// The interpreter is lost: so is the question that it had.
    pub(super) fn lose_query(&mut self) {
        if let Some(asker) = self.asking.take().and_then(|asking| asking.asker) {
            let _ = asker.send(Err(Refusal::NoTime));
        }
    }
}
