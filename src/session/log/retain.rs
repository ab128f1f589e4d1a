//! What a full log does: commands without a result are carried over, then the oldest segment goes.

use repltool_protocol::event::Outcome;
use repltool_protocol::ids::{ExecutionId, Seq};

use super::chunk::read_exact;
use super::collect::decode_outcome;
use super::files::Name;
use super::record::{self, Parsed, Tag};
use super::shared::{Place, Shared, lock};
use super::total::{Share, Total};
use super::writer::{Log, Unit};
use super::{Begun, Command, Ended, LogError, Pending};

/// A command that has no result yet, and where its record lies.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) queued: Seq,
    pub(super) id: ExecutionId,
    pub(super) place: Place,
    pub(super) len: usize,
    pub(super) begun: Option<Begun>,
}

impl Waiting {
    /// Reads the command back.
    pub(super) fn load(&self, shared: &Shared) -> Result<Pending, LogError> {
        let file = shared.files.read(Name::index(self.place.segment)).map_err(LogError::file("open a segment"))?;
        let bytes = read_exact(&file, self.place.offset, self.len).map_err(LogError::file("read a command"))?;
        let Parsed::Whole(record) = record::parse(&bytes) else {
            return Err(LogError::Damaged("a command cannot be read back"));
        };
        let (_, body) = split_command(record.payload).ok_or(LogError::Damaged("a command is cut"))?;
        let command = Command { id: self.id.clone(), body: bytes::Bytes::copy_from_slice(body) };
        Ok(Pending { queued: self.queued, command, begun: self.begun.clone() })
    }
}

/// Takes the payload of a command's record apart: its `started` event, if it was carried over after that, and its body.
pub(super) fn split_command(payload: &[u8]) -> Option<(Option<Begun>, &[u8])> {
    let execution_count = record::u64_at(payload, 0)?;
    let body_at = 9 + usize::from(*payload.get(8)?);
    let timestamp = std::str::from_utf8(payload.get(9..body_at)?).ok()?.to_owned();
    let begun = (execution_count > 0).then_some(Begun { execution_count, timestamp, violation: None });
    Some((begun, payload.get(body_at..)?))
}

impl Log {
    pub(super) fn encode_command(
        &mut self,
        queued: Seq,
        id: &ExecutionId,
        begun: Option<&Begun>,
        body: &[u8],
    ) -> Result<usize, LogError> {
        let (count, timestamp) = begun.map_or((0, ""), |begun| (begun.execution_count, begun.timestamp.as_str()));
        let timestamp_len = u8::try_from(timestamp.len()).map_err(|_| LogError::TooLong)?;
        let payload = [&count.to_le_bytes()[..], &[timestamp_len], timestamp.as_bytes(), body];
        self.encode(Tag::Command, queued, Some(id), &payload)
    }

    pub(super) fn wait_for_result(&mut self, waiting: Waiting) {
        lock(&self.shared.map).pending.push(waiting.id.clone());
        self.waiting.push(waiting);
    }

    pub(super) fn begin(&mut self, id: &ExecutionId, begun: Begun) {
        self.execution_count = self.execution_count.max(begun.execution_count);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == *id) {
            waiting.begun = Some(begun);
        }
    }

    pub(super) fn settle(&mut self, id: &ExecutionId) {
        self.waiting.retain(|waiting| waiting.id != *id);
        lock(&self.shared.map).pending.retain(|pending| pending != id);
    }

    /// Reads a command and its outcome back.
    ///
    /// # Errors
    /// [`LogError::File`], [`LogError::Damaged`] if they are no longer there.
    pub fn load(&self, ended: &Ended) -> Result<(Command, Outcome), LogError> {
        let command = ended.command.load(&self.shared)?.command;
        let file =
            self.shared.files.read(Name::index(ended.result.segment)).map_err(LogError::file("open a segment"))?;
        let bytes =
            read_exact(&file, ended.result.offset, ended.result_len).map_err(LogError::file("read a result"))?;
        let Parsed::Whole(record) = record::parse(&bytes) else {
            return Err(LogError::Damaged("a result cannot be read back"));
        };
        Ok((command, decode_outcome(record.payload)?))
    }

    /// Counts this log among all logs of the server, and among those of its owner, from now on.
    pub fn share(&mut self, total: Total, owners: Total) {
        self.share = Share::of(total, owners);
        self.share.report(self.bytes());
    }

    /// Drops the oldest segments until the log, and all logs together, are within their limits or this one is down to its
    /// newest segment. It cannot fail the
    /// event that caused it: what could not be dropped now is tried again after the next one.
    pub(super) fn retain(&mut self) {
        let mut droppable = lock(&self.shared.map).segments.len().saturating_sub(1);
        loop {
            let bytes = self.bytes();
            let over = self.share.report(bytes) || bytes > self.limits.session_bytes;
            if droppable == 0 || !over {
                return;
            }
            if let Err(error) = self.drop_oldest() {
                tracing::warn!(error = &error as &dyn std::error::Error, "a full log cannot drop its oldest segment");
                return;
            }
            droppable -= 1;
        }
    }

    fn drop_oldest(&mut self) -> Result<(), LogError> {
        let (oldest, next) = {
            let map = lock(&self.shared.map);
            match (map.segments.front(), map.segments.get(1)) {
                (Some(oldest), Some(next)) => (oldest.clone(), next.clone()),
                _ => return Ok(()),
            }
        };
        self.carry_over(oldest.number)?;
        // Readers must know before a file is gone, so that one that misses it finds a reason.
        lock(&self.shared.map).segments.pop_front();
        self.head.send_modify(|head| head.dropped = next.base);
        self.index.total -= oldest.end;
        self.shared.files.remove(Name::index(oldest.number)).map_err(LogError::file("remove a segment"))?;
        for (spool, announced) in self.spools.iter_mut().zip(next.announced) {
            spool.release(&self.shared.files, announced).map_err(LogError::file("remove a segment"))?;
        }
        Ok(())
    }

    fn carry_over(&mut self, segment: u64) -> Result<(), LogError> {
        for at in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.get(at).filter(|waiting| waiting.place.segment == segment) else {
                continue;
            };
            let Pending { queued, command, begun } = waiting.load(&self.shared)?;
            let len = self.encode_command(queued, &command.id, begun.as_ref(), &command.body)?;
            let place = self.put(Unit::Internal, 0)?;
            if let Some(waiting) = self.waiting.get_mut(at) {
                (waiting.place, waiting.len) = (place, len);
            }
        }
        Ok(())
    }
}
