//! Standard input of the running execution: what its request brought, and what clients send while it runs.
//!
//! Init takes one piece at a time and answers when the program's pipe has it, so what a program does not read waits here,
//! bounded. An execution that used its standard input leaves nothing of it to the next one: it is begun anew.

use std::collections::VecDeque;

use repltool_protocol::rest::Language;
use tokio::time::Instant;

use super::Actor;
use super::running::ASK_LIMIT;
use crate::runtime::control::StdinMode;
use crate::session::{Input, Refusal};
use crate::supervisor::link::init::MAX_STDIN_BYTES;

/// Text that may wait to be read, in bytes: one request body.
const MAX_WAITING: usize = 16 * 1024 * 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Feed {
    /// Whether what clients send is taken.
    open: bool,
    waiting: VecDeque<Piece>,
    waiting_bytes: usize,
    /// The ask of init that is not answered.
    asked: Option<u64>,
    /// Whether the program's pipe is not as it was at first.
    used: bool,
    /// Whether the pipe stands at its end of file, for all executions that want no more.
    ended: bool,
}

struct Piece {
    text: String,
    end: bool,
}

impl Actor {
    /// An execution starts: it reads what its request brought, or what clients send.
    pub(super) fn begin_stdin(&mut self) {
        let Some(running) = &mut self.running else { return };
        let brought = running.job.stdin.take();
        self.feed.open = running.stdin_mode() == StdinMode::Ask;
        if let Some(text) = brought {
            running.brings_stdin = true;
            self.feed_text(&text, true);
        } else if self.identity.language == Language::Javascript && running.stdin_mode() == StdinMode::None {
            self.end_pipe();
        }
    }

    /// Node cannot put another file in the place of a descriptor: its end of file is that of the pipe.
    fn end_pipe(&mut self) {
        if let (false, Some(kernel)) = (self.feed.ended, &mut self.kernel) {
            kernel.give("", true);
            self.feed.ended = true;
        }
    }

    /// Before an execution that reads, the pipe is begun anew if it stands at its end. Says whether that is to be waited
    /// for.
    pub(super) fn reopen_stdin(&mut self, mode: StdinMode) -> bool {
        let wanted = self.feed.ended && mode != StdinMode::None;
        if wanted {
            self.fresh_stdin();
        }
        wanted
    }

    /// Begins standard input anew; nothing starts before init has done it.
    pub(super) fn fresh_stdin(&mut self) {
        self.feed = Feed::default();
        if let Some(kernel) = &mut self.kernel {
            self.asked = Some((kernel.fresh_stdin(), Instant::now() + ASK_LIMIT));
        }
    }

    /// One that an earlier gateway started: how much of what it brought was read is not known, so no more comes.
    pub(super) fn resume_stdin(&mut self) {
        let Some(running) = &mut self.running else {
            // Nobody knows how it stands.
            return self.fresh_stdin();
        };
        self.feed = Feed { open: running.stdin_mode() == StdinMode::Ask, used: true, ..Feed::default() };
        if running.job.stdin.take().is_some() {
            running.brings_stdin = true;
            self.feed_text("", true);
        }
    }

    /// A client sends something to read.
    pub(super) fn take_stdin(&mut self, input: &Input) -> Result<(), Refusal> {
        if self.running.is_none() || !self.feed.open {
            return Err(Refusal::NothingReads);
        }
        if self.feed.waiting_bytes + input.text.len() > MAX_WAITING {
            return Err(Refusal::StdinFull);
        }
        self.touch();
        self.publish();
        self.feed_text(&input.text, input.end);
        Ok(())
    }

    fn feed_text(&mut self, text: &str, end: bool) {
        let mut rest = text;
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.floor_char_boundary(MAX_STDIN_BYTES));
            self.feed.waiting.push_back(Piece { text: head.to_owned(), end: end && tail.is_empty() });
            rest = tail;
        }
        if end && text.is_empty() {
            self.feed.waiting.push_back(Piece { text: String::new(), end: true });
        }
        self.feed.waiting_bytes += text.len();
        self.feed.open &= !end;
        self.feed_next();
    }

    fn feed_next(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        if self.feed.asked.is_some() {
            return;
        }
        if let Some(piece) = self.feed.waiting.pop_front() {
            self.feed.waiting_bytes -= piece.text.len();
            self.feed.asked = Some(kernel.give(&piece.text, piece.end));
            self.feed.used = true;
        }
    }

    /// Init has answered. Says whether it was about standard input.
    pub(super) fn on_fed(&mut self, id: u64) -> bool {
        let ours = self.feed.asked == Some(id);
        if ours {
            self.feed.asked = None;
            self.feed_next();
        }
        ours
    }

    /// The execution has ended: what it did not read is nobody's.
    pub(super) fn end_stdin(&mut self) {
        if self.feed.used {
            self.fresh_stdin();
        } else {
            self.feed = Feed { ended: self.feed.ended, ..Feed::default() };
        }
    }
}
