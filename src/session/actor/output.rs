//! Output: from the pipes of the kernel into the log.

use repltool_protocol::event::{Limit, StreamName};
use tokio::time::Instant;

use super::Actor;
use super::running::Cause;
use crate::session::log::Edge;

/// The most that one event carries.
const PIECE: usize = 64 * 1024;
/// Pieces taken in one turn.
const PIECES: usize = 8;
const BOTH: [StreamName; 2] = [StreamName::Stdout, StreamName::Stderr];

impl Actor {
    /// Takes what there is of a stream, a few pieces at the most: other things must have their turn.
    pub(super) fn on_output(&mut self, stream: StreamName) {
        for _ in 0..PIECES {
            if self.pump(stream, Edge::Hold).is_none_or(|took| took < PIECE) {
                return;
            }
        }
    }

    /// Takes at most one piece. Says how much that was; `None` if there was nothing or it could not be stored.
    fn pump(&mut self, stream: StreamName, edge: Edge) -> Option<usize> {
        let room = self.room();
        if room == 0 {
            return self.throw_away(stream);
        }
        let kernel = self.kernel.as_mut()?;
        let log = &mut self.log;
        let took = kernel.read(stream, |pipe| match log.splice(stream, pipe, room.min(PIECE)) {
            Ok(took) => Ok(Some(took)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        });
        let took = match took {
            Ok(took) => took?,
            Err(source) => {
                self.stall(&crate::session::log::LogError::Full(source));
                return None;
            }
        };
        self.count_kept(took);
        self.announce(stream, edge);
        Some(took)
    }

    fn announce(&mut self, stream: StreamName, edge: Edge) {
        let id = self.running.as_ref().filter(|running| !running.is_nobodys).map(|running| &running.id);
        if let Err(error) = self.log.announce(stream, id, edge) {
            self.stall(&error);
        }
    }

    /// Bytes that may still be printed: by the running execution, or since the last one ended.
    pub(super) fn room(&self) -> usize {
        let kept = self.running.as_ref().map_or(self.idle_kept, |running| running.kept);
        let left = self.identity.limits.max_output_size.saturating_sub(kept);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// So many bytes are in the log.
    pub(super) fn count_kept(&mut self, bytes: usize) {
        self.meter.kept(bytes);
        if self.running.as_ref().is_some_and(|running| running.kept == 0 && bytes > 0) {
            self.note_first_output();
        }
        let kept = self.running.as_mut().map_or(&mut self.idle_kept, |running| &mut running.kept);
        *kept += bytes as u64;
    }

    /// Past the limit the program must not block in a write while it is being stopped.
    fn throw_away(&mut self, stream: StreamName) -> Option<usize> {
        let dropped = self.kernel.as_mut()?.discard(stream);
        if dropped == 0 {
            return None;
        }
        match &mut self.running {
            Some(running) => {
                running.dropped += dropped as u64;
                self.stop(Cause::Limit(Limit::Output));
            }
            None => self.replace(Limit::Output),
        }
        Some(dropped)
    }

    /// What lies in the pipes at this moment, and no more: a job in the background that goes on writing delays nothing.
    pub(super) fn take_pending_output(&mut self) {
        for stream in BOTH {
            let Some(kernel) = &self.kernel else { return };
            let mut left = kernel.pending(stream);
            while left > 0 {
                match self.pump(stream, Edge::Hold) {
                    Some(took) if took > 0 => left = left.saturating_sub(took),
                    _ => break,
                }
            }
        }
    }

    /// The end of an execution: all it wrote comes before its result.
    pub(super) fn fence(&mut self) {
        self.take_pending_output();
        for stream in BOTH {
            let cut = self.running.as_ref().is_some_and(|running| running.dropped > 0);
            self.announce(stream, if cut { Edge::Cut } else { Edge::Flush });
        }
    }

    /// All that was written until now is told as of whoever it belongs to at this moment.
    pub(super) fn settle_output(&mut self) {
        self.take_pending_output();
        for stream in BOTH {
            self.announce(stream, Edge::Flush);
        }
    }

    /// Every writer is gone: takes all that is left.
    pub(super) fn take_the_rest(&mut self) {
        let begun = Instant::now();
        for stream in BOTH {
            while self.pump(stream, Edge::Hold).is_some_and(|took| took > 0) {}
        }
        self.fence();
        tracing::trace!(took = ?begun.elapsed(), "pipes are empty");
    }
}
