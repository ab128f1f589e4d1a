//! The reading end. A cursor is a place in the log and no queue: a slow reader costs nothing but its place.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use repltool_protocol::codec;
use repltool_protocol::event::StreamName;
use repltool_protocol::ids::{ExecutionId, Seq};
use tokio::sync::watch;

use super::chunk::{Chunk, read_exact};
use super::entry::{Entry, Look, Payload, text};
use super::files::Name;
use super::record::{self, Parsed, Range, Record, Tag};
use super::shared::{Head, Next, Place, Shared, lock};
use super::spool::Source;
use super::{Item, Kind, LogError, Rendered};

/// How much of the index a cursor reads at once while it catches up, in bytes.
const CHUNK: u64 = 4096;

/// A way to read a log; cheap to clone. It stays good after the writer is gone.
#[derive(Debug, Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
    head: watch::Receiver<Head>,
}

impl LogReader {
    pub(super) fn new(shared: Arc<Shared>, head: watch::Receiver<Head>) -> Self {
        Self { shared, head }
    }

    /// The last number given out; 0 in an empty log.
    pub fn last_seq(&self) -> Seq {
        self.head.borrow().last
    }

    /// The first number that is kept, or would be: a cursor after an earlier one begins with a gap.
    pub fn kept_from(&self) -> Seq {
        self.head.borrow().dropped.next()
    }

    /// Whether an execution was accepted and has no result yet.
    pub fn is_pending(&self, id: &ExecutionId) -> bool {
        lock(&self.shared.map).pending.contains(id)
    }

    /// A cursor that meets what follows `after`; `None` is from now on. A number that was not given out yet counts as
    /// the last one.
    pub fn cursor(&self, after: Option<Seq>) -> Cursor {
        let last = self.last_seq();
        self.shared.join();
        Cursor {
            shared: self.shared.clone(),
            head: self.head.clone(),
            after: after.map_or(last, |after| after.min(last)),
            border: Seq(u64::MAX),
            place: None,
            chunk: Chunk::default(),
            index: None,
            spools: [StreamName::Stdout, StreamName::Stderr]
                .map(|stream| Source::new(stream, self.shared.segment_bytes)),
            id: None,
        }
    }
}

/// A reader's place in the log.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    head: watch::Receiver<Head>,
    after: Seq,
    /// What lies beyond is not joined to what comes before.
    border: Seq,
    /// Where the next record is, once that was looked up.
    place: Option<Place>,
    chunk: Chunk,
    index: Option<(u64, Arc<File>)>,
    spools: [Source; 2],
    /// The id met last: most records carry the same.
    id: Option<ExecutionId>,
}

/// An event with its body.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) first: Seq,
    pub(super) seq: Seq,
    pub(super) at_ms: u64,
    pub(super) execution: Option<ExecutionId>,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Output(StreamName, String),
    Json(Kind, Bytes),
}

#[derive(Debug)]
pub(super) enum Step {
    Event(Raw),
    Gap {
        from: Seq,
        to: Seq,
    },
    End,
    /// Nothing is there yet.
    Wait,
}

impl Cursor {
    /// Meets no event that reaches over this number.
    pub fn with_border(mut self, border: Seq) -> Self {
        self.border = border;
        self
    }

    /// The number of the last event, or of the end of the last gap, that was returned.
    pub fn position(&self) -> Seq {
        self.after
    }

    /// Waits for the next event, gap, or the end.
    ///
    /// # Errors
    /// [`LogError::WriterGone`] if nothing can follow although the log was not ended; [`LogError::File`] if a file
    /// cannot be read. The cursor keeps its place.
    ///
    /// # Cancel safety
    /// Cancel-safe: an item is taken only by the call that returns it.
    pub async fn next(&mut self) -> Result<Item, LogError> {
        // A log that is far ahead would otherwise keep its reader's thread from everybody else.
        tokio::task::consume_budget().await;
        loop {
            if let Some(item) = self.try_next()? {
                return Ok(item);
            }
            self.wait().await?;
        }
    }

    /// What is there now, without waiting.
    ///
    /// # Errors
    /// [`LogError::File`] if a file cannot be read. The cursor keeps its place.
    pub fn try_next(&mut self) -> Result<Option<Item>, LogError> {
        // What was dropped may still be in the ring, but is a gap for everybody alike.
        let is_kept = self.after >= self.head.borrow().dropped;
        if is_kept
            && let Some((event, place)) = self.shared.rendered(self.after.next())
            && !(self.after < self.border && event.seq > self.border)
        {
            (self.after, self.place) = (event.seq, Some(place));
            return Ok(Some(Item::Event(event)));
        }
        Ok(match self.step()? {
            Step::Event(raw) => Some(Item::Event(self.render(raw))),
            Step::Gap { from, to } => Some(Item::Gap { from, to }),
            Step::End => Some(Item::End),
            Step::Wait => None,
        })
    }

    /// Waits until the log has changed since the last [`Cursor::step`].
    pub(super) async fn wait(&mut self) -> Result<(), LogError> {
        self.head.changed().await.map_err(|_| LogError::WriterGone)
    }

    pub(super) fn step(&mut self) -> Result<Step, LogError> {
        loop {
            let head = *self.head.borrow_and_update();
            if self.after >= head.last {
                self.chunk = Chunk::default();
                return Ok(if head.ended { Step::End } else { Step::Wait });
            }
            let Some(place) = self.place else {
                if let Some(gap) = self.locate() {
                    return Ok(gap);
                }
                continue;
            };
            let moved = match self.look(place) {
                Look::Event(entry) => return self.take(entry, head.last),
                Look::Pass(next) => {
                    self.place = Some(next);
                    None
                }
                Look::More(needed) => self.fill(place, needed)?,
                Look::Damaged => self.skip(place),
            };
            if let Some(gap) = moved {
                return Ok(gap);
            }
        }
    }

    /// Finds the place of what follows `after`.
    fn locate(&mut self) -> Option<Step> {
        let (place, base) = lock(&self.shared.map).seek(self.after)?;
        self.place = Some(place);
        self.gap(base)
    }

    /// Moves on to what follows `to`; what lies between is a gap.
    fn gap(&mut self, to: Seq) -> Option<Step> {
        let from = self.after.next();
        (to >= from).then(|| {
            self.after = to;
            Step::Gap { from, to }
        })
    }

    fn look(&self, place: Place) -> Look {
        let bytes = self.chunk.at(place);
        match record::peek(bytes) {
            // The body of a command may be long, and is nothing that a reader is told.
            Some((Tag::Header | Tag::Command | Tag::Message, len)) => return Look::Pass(place.plus(len)),
            Some((Tag::Event(_), _)) | None => {}
        }
        match record::parse(bytes) {
            Parsed::Whole(record) if record.seq <= self.after => Look::Pass(place.plus(record.len)),
            Parsed::Whole(record) => self.entry(record, place.plus(record.len)).map_or(Look::Damaged, Look::Event),
            Parsed::Short(needed) => Look::More(needed),
            Parsed::Damaged => Look::Damaged,
        }
    }

    fn entry(&self, record: Record<'_>, next: Place) -> Option<Entry> {
        let execution = match (record.id, &self.id) {
            (None, _) => None,
            (Some(text), Some(id)) if id.as_str() == text => Some(id.clone()),
            (Some(text), _) => Some(text.parse().ok()?),
        };
        let payload = match record.tag {
            Tag::Event(Kind::Stream(stream)) => Payload::Output(stream, Range::from_bytes(record.payload)?, Vec::new()),
            Tag::Event(kind) => Payload::Json(kind, Bytes::copy_from_slice(record.payload)),
            Tag::Header | Tag::Command | Tag::Message => return None,
        };
        Some(Entry { first: record.seq, seq: record.seq, at_ms: record.at_ms, execution, payload, next })
    }

    /// Joins what follows in the same stream and execution, as far as it is in memory, to one event with the last of their
    /// numbers: a reader that is behind is told in fewer and larger pieces. `None` if there is nothing to join.
    fn gather(&self, entry: &Entry, last: Seq) -> Option<Entry> {
        let Payload::Output(stream, mut range, _) = entry.payload else { return None };
        let (mut seq, mut next, mut pieces) = (entry.seq, entry.next, Vec::new());
        while let Look::Event(following) = self.look(next)
            && let Payload::Output(other, more, _) = following.payload
            && following.seq <= last
            && !(entry.seq <= self.border && following.seq > self.border)
            && (other, &following.execution) == (stream, &entry.execution)
            && let Some(joined) = range.join(more)
        {
            pieces.push(range.len);
            (range, seq, next) = (joined, following.seq, following.next);
        }
        let (first, at_ms, execution) = (entry.first, entry.at_ms, entry.execution.clone());
        let payload = Payload::Output(stream, range, pieces);
        (seq > first).then_some(Entry { first, seq, at_ms, execution, payload, next })
    }

    /// Reads an event, with what can be told together with it. Of joined pieces all are there, or each is read by itself.
    fn take(&mut self, entry: Entry, last: Seq) -> Result<Step, LogError> {
        let (seq, next) = (entry.seq, entry.next);
        if let Some(gathered) = self.gather(&entry, last)
            && let Some(step) = self.read(gathered)?
        {
            return Ok(step);
        }
        Ok(self.read(entry)?.unwrap_or_else(|| self.missing(seq, next)))
    }

    /// Reads the body of an event, and only then moves on; `None` if its bytes are no longer there.
    fn read(&mut self, entry: Entry) -> Result<Option<Step>, LogError> {
        let Entry { first, seq, at_ms, execution, payload, next } = entry;
        let body = match payload {
            Payload::Json(kind, json) => Body::Json(kind, json),
            Payload::Output(stream, range, pieces) => match self.output(stream, range, &pieces)? {
                Some(text) => Body::Output(stream, text),
                None => return Ok(None),
            },
        };
        (self.after, self.place) = (seq, Some(next));
        if execution.is_some() {
            self.id.clone_from(&execution);
        }
        Ok(Some(Step::Event(Raw { first, seq, at_ms, execution, body })))
    }

    /// The text of a range; `None` if its bytes are no longer there.
    fn output(&mut self, stream: StreamName, range: Range, pieces: &[u32]) -> Result<Option<String>, LogError> {
        let [stdout, stderr] = &mut self.spools;
        let source = match stream {
            StreamName::Stdout => stdout,
            StreamName::Stderr => stderr,
        };
        let bytes = source.read(&self.shared.files, range).map_err(LogError::file("read its spool"))?;
        Ok((bytes.len() == range.len as usize).then(|| text(bytes, pieces)))
    }

    /// The bytes of an event are gone: dropped since it was looked up, with all before it, or lost with the machine.
    fn missing(&mut self, seq: Seq, next: Place) -> Step {
        let (place, to) = match lock(&self.shared.map).seek(self.after) {
            Some((kept, base)) if base >= seq => (kept, base),
            _ => (next, seq),
        };
        let from = self.after.next();
        (self.after, self.place) = (to, Some(place));
        Step::Gap { from, to }
    }

    /// Reads the next part of the index, or finds that the segment has no more.
    fn fill(&mut self, place: Place, needed: usize) -> Result<Option<Step>, LogError> {
        let next = lock(&self.shared.map).at(place);
        let Next::Records { end } = next else { return Ok(self.proceed(next)) };
        let room = end - place.offset;
        if needed as u64 > room {
            return Ok(self.skip(place));
        }
        let len = usize::try_from(room.min(CHUNK)).unwrap_or(needed).max(needed);
        let file = match self.segment(place.segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.skip(place)),
            file => file.map_err(LogError::file("open its index"))?,
        };
        match read_exact(&file, place.offset, len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(self.skip(place)),
            bytes => {
                let bytes = bytes.map_err(LogError::file("read its index"))?;
                self.chunk = Chunk { segment: place.segment, start: place.offset, bytes };
            }
        }
        Ok(None)
    }

    /// Gives up the rest of a segment that cannot be read.
    fn skip(&mut self, place: Place) -> Option<Step> {
        let next = lock(&self.shared.map).beyond(place);
        self.proceed(next)
    }

    fn proceed(&mut self, next: Next) -> Option<Step> {
        let to = match next {
            Next::Following { from, base } => {
                self.place = Some(from);
                base
            }
            // Looked up anew, which finds what was dropped.
            Next::Dropped | Next::Records { .. } => {
                self.place = None;
                self.after
            }
            Next::Nothing => {
                self.place = None;
                self.head.borrow().last
            }
        };
        self.gap(to)
    }

    fn segment(&mut self, number: u64) -> io::Result<Arc<File>> {
        if let Some((held, file)) = &self.index
            && *held == number
        {
            return Ok(file.clone());
        }
        let file = self.shared.files.read(Name::index(number))?;
        self.index = Some((number, file.clone()));
        Ok(file)
    }

    fn render(&self, raw: Raw) -> Arc<Rendered> {
        let Raw { first, seq, at_ms, execution, body } = raw;
        let (kind, json) = match body {
            Body::Json(kind, json) => (kind, json),
            Body::Output(stream, text) => {
                let id = execution.as_ref().map(ExecutionId::as_str);
                (Kind::Stream(stream), codec::encode_stream(seq, id, stream, &text).into())
            }
        };
        let event = Arc::new(Rendered { first, seq, kind, execution, at_ms, json });
        if let Some(place) = self.place {
            self.shared.offer(&event, place);
        }
        event
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.leave();
    }
}
