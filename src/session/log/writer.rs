//! The writing end: takes output from pipes, appends records, and wakes the readers once a record is in the file.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;

use repltool_protocol::codec;
use repltool_protocol::event::{Event, StreamName};
use repltool_protocol::ids::{ExecutionId, Seq};
use tokio::sync::watch;

use super::cursor::LogReader;
use super::files::{Files, Name};
use super::record::{self, Tag};
use super::retain::Waiting;
use super::shared::{Head, Map, Place, Segment, Shared, lock};
use super::spool::Spool;
use super::total::Share;
use super::{Begun, Command, Edge, Found, Kind, LogError, LogLimits, Message, Tail, recover};

/// The buffer is given back after a larger record.
const KEPT_BUFFER: usize = 64 * 1024;

/// The writer of a log; at most one may exist for a directory. It holds up to three descriptors.
///
/// No function waits for anything but the page cache. A log that is dropped without [`Log::end`] tells its readers that
/// the writer is gone.
#[derive(Debug)]
pub struct Log {
    pub(super) shared: Arc<Shared>,
    pub(super) head: watch::Sender<Head>,
    pub(super) limits: LogLimits,
    pub(super) index: Index,
    /// stdout and stderr.
    pub(super) spools: [Spool; 2],
    pub(super) waiting: Vec<Waiting>,
    pub(super) execution_count: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) share: Share,
    /// Readers are woken later.
    pub(super) holds: bool,
}

/// What a record is good for once it is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// It is the event with this number.
    Event(Seq),
    /// Readers pass over it.
    Internal,
}

/// The index segment that is written on.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) file: Arc<File>,
    pub(super) number: u64,
    pub(super) end: u64,
    /// Where the spools' announced bytes ended when it was begun.
    pub(super) announced: [u64; 2],
    /// Bytes of all index segments.
    pub(super) total: u64,
    /// A failed write left bytes beyond `end` that could not be cut.
    pub(super) torn: bool,
}

impl Log {
    /// Makes a log in a directory, which is made (0700) if it is not there.
    ///
    /// # Errors
    /// [`LogError::Directory`] if a log is there already, [`LogError::Full`], [`LogError::File`].
    pub fn create(dir: &Path, limits: LogLimits) -> Result<(Self, LogReader), LogError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(LogError::file("make its directory"))?;
        let files = Files::new(dir);
        let segment_bytes = limits.segment();
        let header = recover::Header { segment_bytes, base: Seq(0), announced: [0; 2], execution_count: 0 };
        let (file, start) = begin_segment(&files, 0, header).map_err(|error| match error {
            LogError::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                LogError::Directory("holds a log already")
            }
            error => error,
        })?;
        let mut map = Map::default();
        map.segments.push_back(Segment::new(0, Seq(0), [0; 2], start));
        let index = Index { file, number: 0, end: start, announced: [0; 2], total: start, torn: false };
        let spools = [StreamName::Stdout, StreamName::Stderr].map(|stream| Spool::new(stream, segment_bytes));
        let head = Head { last: Seq(0), dropped: Seq(0), ended: false };
        let log = Self::assemble(Shared::new(files, segment_bytes, map), head, limits, index, spools);
        let reader = log.reader();
        Ok((log, reader))
    }

    /// Takes up a log where its last writer stopped, whichever way that ended.
    ///
    /// # Errors
    /// [`LogError::Directory`] if there is no log, [`LogError::Damaged`] if nothing of it can be read,
    /// [`LogError::Format`], [`LogError::Full`], [`LogError::File`].
    pub fn open(dir: &Path, limits: LogLimits, tail: Tail) -> Result<(Self, LogReader, Found), LogError> {
        recover::open(dir, limits, tail)
    }

    pub(super) fn assemble(shared: Shared, head: Head, limits: LogLimits, index: Index, spools: [Spool; 2]) -> Self {
        let (shared, head) = (Arc::new(shared), watch::Sender::new(head));
        Self {
            shared,
            head,
            limits,
            index,
            spools,
            waiting: Vec::new(),
            execution_count: 0,
            buffer: Vec::new(),
            share: Share::default(),
            holds: false,
        }
    }

    pub(super) fn reader(&self) -> LogReader {
        LogReader::new(self.shared.clone(), self.head.subscribe())
    }

    /// Moves what a pipe holds into the spool, at most `max` and 64 KiB; it does not wait. No reader learns of it
    /// before [`Log::announce`].
    ///
    /// Returns the number of bytes; 0 is the end of the pipe.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty; `StorageFull` if there is no room (what could not be moved stays in the pipe);
    /// `InvalidInput` if `max` is 0.
    pub fn splice(&mut self, stream: StreamName, pipe: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        spool(&mut self.spools, stream).splice(&self.shared.files, pipe, max)
    }

    /// Bytes of a stream that were taken from its pipe and that no event covers yet.
    pub fn unannounced(&self, stream: StreamName) -> u64 {
        self.spools[at(stream)].unannounced()
    }

    /// Appends what was spliced and not yet announced as `stream` events of at most 64 KiB: one, unless more than that
    /// has gathered. Returns the number of the last one; `None` if there was nothing to tell.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::File`]; what is not announced then stays so and is part of the next call.
    pub fn announce(
        &mut self,
        stream: StreamName,
        execution: Option<&ExecutionId>,
        edge: Edge,
    ) -> Result<Option<Seq>, LogError> {
        let mut last = None;
        while let Some(range) =
            self.spools[at(stream)].next_piece(&self.shared.files, edge).map_err(LogError::file("read its spool"))?
        {
            let seq = self.last_seq().next();
            self.encode(Tag::Event(Kind::Stream(stream)), seq, execution, &[&range.to_bytes()])?;
            self.put(Unit::Event(seq), u64::from(range.len))?;
            spool(&mut self.spools, stream).announce(range);
            self.wake(seq);
            last = Some(seq);
        }
        if edge == Edge::Cut {
            spool(&mut self.spools, stream).skip();
        }
        if last.is_some() {
            self.retain();
        }
        Ok(last)
    }

    /// Appends an event other than `stream` and `queued`.
    ///
    /// # Errors
    /// [`LogError::Misplaced`] for those two; [`LogError::TooLong`], [`LogError::Full`], [`LogError::File`].
    pub fn append(&mut self, event: &Event) -> Result<Seq, LogError> {
        self.append_of(None, event)
    }

    /// Appends an event that a driver's message asked for, and by the same write the number of that message, which is
    /// found again by [`Log::open`].
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_message(&mut self, message: Message, event: &Event) -> Result<Seq, LogError> {
        self.append_of(Some(message), event)
    }

    fn append_of(&mut self, message: Option<Message>, event: &Event) -> Result<Seq, LogError> {
        let (kind, id) = match event {
            Event::Stream { .. } => return Err(LogError::Misplaced("stream")),
            Event::Queued { .. } => return Err(LogError::Misplaced("queued")),
            Event::Started { id, .. } => (Kind::Started, Some(id)),
            Event::Display { id, .. } => (Kind::Display, id.as_ref()),
            Event::InputRequest { id, .. } => (Kind::InputRequest, Some(id)),
            Event::Violation { id, .. } => (Kind::Violation, id.as_ref()),
            Event::Result(outcome) => (Kind::Result, Some(&outcome.id)),
            Event::Status { .. } => (Kind::Status, None),
        };
        let seq = self.last_seq().next();
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BUFFER);
        if let Some(message) = message {
            self.encode_more(Tag::Message, seq, None, &[&message.to_bytes()])?;
        }
        self.encode_more(Tag::Event(kind), seq, id, &[codec::encode_event(seq, event).as_bytes()])?;
        self.put(Unit::Event(seq), 0)?;
        self.wake(seq);
        match event {
            Event::Started { id, execution_count, timestamp } => {
                let (execution_count, timestamp) = (*execution_count, timestamp.clone());
                self.begin(id, Begun { execution_count, timestamp, violation: None });
            }
            // After the readers were woken: who finds that an execution waits no longer can rely on its result's
            // being there.
            Event::Result(outcome) => self.settle(&outcome.id),
            _ => {}
        }
        self.retain();
        Ok(seq)
    }

    /// Stores a command and its `queued` event by one write.
    ///
    /// # Errors
    /// [`LogError::TooLong`], [`LogError::Full`], [`LogError::File`].
    pub fn accept(&mut self, command: &Command) -> Result<Seq, LogError> {
        let seq = self.last_seq().next();
        let queued = codec::encode_event(seq, &Event::Queued { id: command.id.clone() });
        let stored = self.encode_command(seq, &command.id, None, &command.body)?;
        self.encode_more(Tag::Event(Kind::Queued), seq, Some(&command.id), &[queued.as_bytes()])?;
        let place = self.put(Unit::Event(seq), 0)?;
        self.wait_for_result(Waiting { queued: seq, id: command.id.clone(), place, len: stored, begun: None });
        self.wake(seq);
        self.retain();
        Ok(seq)
    }

    /// The last number given out; 0 in an empty log.
    pub fn last_seq(&self) -> Seq {
        self.head.borrow().last
    }

    /// The first number that is kept, or would be.
    pub fn first_seq(&self) -> Seq {
        self.head.borrow().dropped.next()
    }

    /// Bytes of output, index and code that are kept.
    pub fn bytes(&self) -> u64 {
        self.index.total + self.spools.iter().map(Spool::kept_bytes).sum::<u64>()
    }

    /// Wakes no reader until [`Log::release`], so that what belongs together is told together. Who looks by itself finds all.
    pub fn hold(&mut self) {
        self.holds = true;
    }

    /// Wakes the readers.
    pub fn release(&mut self) {
        self.holds = false;
        self.head.send_modify(|_| {});
    }

    /// No more events will come: readers meet [`super::Item::End`] after the last one.
    pub fn end(&mut self) {
        self.head.send_modify(|head| head.ended = true);
    }

    /// Ends the log and deletes its directory. Readers meet the end, perhaps after a gap.
    ///
    /// # Errors
    /// [`LogError::File`] if something is left over.
    pub fn delete(mut self) -> Result<(), LogError> {
        self.end();
        std::fs::remove_dir_all(self.shared.files.dir()).map_err(LogError::file("delete its directory"))
    }

    pub(super) fn encode(
        &mut self,
        tag: Tag,
        seq: Seq,
        id: Option<&ExecutionId>,
        payload: &[&[u8]],
    ) -> Result<usize, LogError> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BUFFER);
        self.encode_more(tag, seq, id, payload)
    }

    fn encode_more(
        &mut self,
        tag: Tag,
        seq: Seq,
        id: Option<&ExecutionId>,
        payload: &[&[u8]],
    ) -> Result<usize, LogError> {
        let before = self.buffer.len();
        record::encode(&mut self.buffer, tag, seq, id.map(ExecutionId::as_str), payload).ok_or(LogError::TooLong)?;
        Ok(self.buffer.len() - before)
    }

    /// Writes the buffer as one unit and tells the map of it, not yet the readers. `output` is what it adds to the part
    /// of the spools that its segment covers.
    pub(super) fn put(&mut self, unit: Unit, output: u64) -> Result<Place, LogError> {
        if self.is_full(self.buffer.len() as u64 + output) {
            self.roll(self.last_seq())?;
        }
        let offset = self.index.write(&self.buffer).map_err(LogError::file("write its index"))?;
        let seq = match unit {
            Unit::Event(seq) => Some(seq),
            Unit::Internal => None,
        };
        if let Some(segment) = lock(&self.shared.map).segments.back_mut() {
            segment.grow(seq, offset, self.index.end);
        }
        Ok(Place { segment: self.index.number, offset })
    }

    /// A segment covers about `segment_bytes` of index and output together, so that dropping one drops both.
    fn is_full(&self, more: u64) -> bool {
        let output: u64 = self.announced().iter().zip(self.index.announced).map(|(now, then)| now - then).sum();
        let is_empty = lock(&self.shared.map).segments.back().is_none_or(|segment| segment.start == segment.end);
        !is_empty && self.index.end + output + more > self.shared.segment_bytes
    }

    /// Begins a new index segment; `base` is the last number given out before it.
    pub(super) fn roll(&mut self, base: Seq) -> Result<(), LogError> {
        let (number, announced) = (self.index.number + 1, self.announced());
        let (segment_bytes, execution_count) = (self.shared.segment_bytes, self.execution_count);
        // Left over where an earlier try could neither finish nor undo.
        self.shared.files.remove(Name::index(number)).map_err(LogError::file("begin a segment"))?;
        let header = recover::Header { segment_bytes, base, announced, execution_count };
        let (file, start) = begin_segment(&self.shared.files, number, header)?;
        let total = self.index.total + start;
        self.index = Index { file, number, end: start, announced, total, torn: false };
        lock(&self.shared.map).segments.push_back(Segment::new(number, base, announced, start));
        Ok(())
    }

    fn announced(&self) -> [u64; 2] {
        self.spools.each_ref().map(Spool::announced)
    }

    fn wake(&self, seq: Seq) {
        self.head.send_if_modified(|head| {
            head.last = seq;
            !self.holds
        });
    }
}

impl Index {
    /// Appends bytes at the end of the segment; they are all there afterwards, or none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if self.torn {
            self.file.set_len(self.end)?;
            self.torn = false;
        }
        let offset = self.end;
        if let Err(error) = self.file.write_all_at(bytes, offset) {
            self.torn = self.file.set_len(offset).is_err();
            return Err(error);
        }
        self.end += bytes.len() as u64;
        self.total += bytes.len() as u64;
        Ok(offset)
    }
}

/// Makes an index segment with its header, or nothing at all.
fn begin_segment(files: &Files, number: u64, header: recover::Header) -> Result<(Arc<File>, u64), LogError> {
    let name = Name::index(number);
    let file = files.create(name).map_err(LogError::file("begin a segment"))?;
    let bytes = header.to_record().ok_or(LogError::TooLong)?;
    if let Err(error) = file.write_all_at(&bytes, 0) {
        files.remove(name).map_err(LogError::file("remove a segment"))?;
        return Err(LogError::file("begin a segment")(error));
    }
    Ok((file, bytes.len() as u64))
}

pub(super) fn at(stream: StreamName) -> usize {
    match stream {
        StreamName::Stdout => 0,
        StreamName::Stderr => 1,
    }
}

fn spool(spools: &mut [Spool; 2], stream: StreamName) -> &mut Spool {
    let [stdout, stderr] = spools;
    match stream {
        StreamName::Stdout => stdout,
        StreamName::Stderr => stderr,
    }
}
