//! Opening a log that another process wrote: what is whole is kept, a torn end is cut, and the numbers go on, or jump
//! where clients may hold some that are lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use repltool_protocol::codec;
use repltool_protocol::event::{Event, SessionStatus, StatusReason, StreamName, Violation};
use repltool_protocol::ids::Seq;

use super::cursor::LogReader;
use super::files::{Files, Name, Part};
use super::record::{self, Parsed, Range, Record, Tag};
use super::retain::{Waiting, split_command};
use super::shared::{Head, Map, Place, Segment, Shared};
use super::spool::Spool;
use super::writer::{Index, Log, at};
use super::{Begun, DOUBT, Ended, Found, Kind, LogError, LogLimits, MIN_SEGMENT, Message, Tail};

const MAGIC: [u8; 4] = *b"RLOG";
const FORMAT: u32 = 1;

/// What an index segment opens with: all that its reader would have to know of the segments before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) segment_bytes: u64,
    /// The last number given out before it.
    pub(super) base: Seq,
    /// Where the spools' announced bytes ended.
    pub(super) announced: [u64; 2],
    pub(super) execution_count: u64,
}

impl Header {
    pub(super) fn to_record(self) -> Option<Vec<u8>> {
        let [stdout, stderr] = self.announced;
        let mut payload = [MAGIC, FORMAT.to_le_bytes()].concat();
        for number in [self.segment_bytes, stdout, stderr, self.execution_count] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        let mut out = Vec::new();
        record::encode(&mut out, Tag::Header, self.base, None, &[&payload])?;
        Some(out)
    }

    /// `Ok(None)` if the record is no header.
    fn from_record(record: Record<'_>) -> Result<Option<Self>, LogError> {
        let payload = record.payload;
        if record.tag != Tag::Header || !payload.starts_with(&MAGIC) {
            return Ok(None);
        }
        match record::u32_at(payload, 4) {
            Some(FORMAT) => {}
            Some(other) => return Err(LogError::Format(other)),
            None => return Ok(None),
        }
        let number = |at| record::u64_at(payload, at);
        let header = || {
            let announced = [number(16)?, number(24)?];
            let segment_bytes = number(8).filter(|bytes| (MIN_SEGMENT..=record::MAX_OFFSET).contains(bytes))?;
            let is_possible = announced.iter().all(|end| *end <= record::MAX_OFFSET);
            is_possible.then_some(Self { segment_bytes, base: record.seq, announced, execution_count: number(32)? })
        };
        Ok(header())
    }
}

/// What the index says, read from its begin to its end.
#[derive(Debug, Default)]
struct Scan {
    map: Map,
    segment_bytes: u64,
    last: Seq,
    announced: [u64; 2],
    execution_count: u64,
    /// By the number of the `queued` event.
    waiting: BTreeMap<Seq, Waiting>,
    ended: Vec<Ended>,
    /// A command whose `queued` event has not been met yet.
    unconfirmed: Option<Waiting>,
    /// The last message of a driver whose event is whole.
    message: Option<Message>,
    /// One whose event has not been met yet, and where its record begins.
    unconfirmed_message: Option<(Message, u64)>,
    ended_because: Option<StatusReason>,
    /// The end was not merely torn: a whole record was wrong, or output that was announced is missing.
    is_doubtful: bool,
}

pub(super) fn open(dir: &Path, limits: LogLimits, tail: Tail) -> Result<(Log, LogReader, Found), LogError> {
    let files = Files::new(dir);
    let mut scan = Scan { is_doubtful: tail == Tail::Doubtful, ..Scan::default() };
    let numbers = files.numbers(Part::Index).map_err(LogError::file("list its directory"))?;
    for number in numbers.iter().copied() {
        let bytes = fs::read(files.path(Name::index(number))).map_err(LogError::file("read its index"))?;
        if !scan.segment(number, &bytes, numbers.last() == Some(&number))? {
            files.remove(Name::index(number)).map_err(LogError::file("remove a segment"))?;
        }
    }
    if scan.map.segments.is_empty() {
        return match numbers.as_slice() {
            [] => Err(LogError::Directory("holds no log")),
            // Its writer did not get beyond its first write; nobody was told of anything.
            [0] if !scan.is_doubtful && !has_output(&files)? => create_again(dir, limits),
            _ => Err(LogError::Damaged("no segment can be read")),
        };
    }
    resume(files, scan, limits)
}

fn has_output(files: &Files) -> Result<bool, LogError> {
    let numbers = |stream| files.numbers(Part::Spool(stream)).map_err(LogError::file("list its directory"));
    Ok(!numbers(StreamName::Stdout)?.is_empty() || !numbers(StreamName::Stderr)?.is_empty())
}

fn create_again(dir: &Path, limits: LogLimits) -> Result<(Log, LogReader, Found), LogError> {
    let (log, reader) = Log::create(dir, limits)?;
    let found = Found {
        last_seq: Seq(0),
        pending: Vec::new(),
        ended: Vec::new(),
        execution_count: 0,
        unannounced_stdout: 0,
        unannounced_stderr: 0,
        message: None,
        ended_because: None,
    };
    Ok((log, reader, found))
}

/// Cuts what is torn and begins to write where the scan ended.
fn resume(files: Files, mut scan: Scan, limits: LogLimits) -> Result<(Log, LogReader, Found), LogError> {
    let (Some(first), Some(last)) = (scan.map.segments.front(), scan.map.segments.back()) else {
        return Err(LogError::Damaged("no segment can be read"));
    };
    let (dropped, kept, total) = (first.base, first.announced, scan.map.segments.iter().map(|it| it.end).sum());
    let (number, end, announced) = (last.number, last.end, last.announced);
    let file = files.append(Name::index(number)).map_err(LogError::file("open its index"))?;
    file.set_len(end).map_err(LogError::file("cut its index"))?;
    let index = Index { file, number, end, announced, total, torn: false };

    let mut open = |stream: StreamName| -> Result<Spool, LogError> {
        let (kept, announced) = (kept[at(stream)], scan.announced[at(stream)]);
        let (spool, missing) = Spool::open(&files, stream, scan.segment_bytes, kept, announced)
            .map_err(LogError::file("open its spool"))?;
        scan.is_doubtful |= missing;
        Ok(spool)
    };
    let spools = [open(StreamName::Stdout)?, open(StreamName::Stderr)?];
    if spools.iter().any(|spool| spool.announced() > record::MAX_OFFSET) {
        return Err(LogError::Damaged("its streams are longer than any can be"));
    }

    let head = Head { last: scan.last, dropped, ended: false };
    let shared = Shared::new(files, scan.segment_bytes, scan.map);
    let mut log = Log::assemble(shared, head, limits, index, spools);
    log.execution_count = scan.execution_count;
    for waiting in scan.waiting.into_values() {
        log.wait_for_result(waiting);
    }
    if scan.is_doubtful {
        let base = Seq(scan.last.0.saturating_add(DOUBT - 1));
        log.roll(base)?;
        log.head.send_modify(|head| head.last = base);
    }
    let found = found(&log, scan.ended, scan.message, scan.ended_because)?;
    let reader = log.reader();
    Ok((log, reader, found))
}

fn found(
    log: &Log,
    ended: Vec<Ended>,
    message: Option<Message>,
    ended_because: Option<StatusReason>,
) -> Result<Found, LogError> {
    let pending = log.waiting.iter().map(|waiting| waiting.load(&log.shared)).collect::<Result<_, _>>()?;
    Ok(Found {
        last_seq: log.last_seq(),
        pending,
        ended,
        execution_count: log.execution_count,
        unannounced_stdout: log.unannounced(StreamName::Stdout),
        unannounced_stderr: log.unannounced(StreamName::Stderr),
        message,
        ended_because,
    })
}

impl Scan {
    /// Takes in one segment; `false` if it has no header and tells nothing.
    fn segment(&mut self, number: u64, bytes: &[u8], is_last: bool) -> Result<bool, LogError> {
        let (header, start) = match record::parse(bytes) {
            Parsed::Whole(record) => (Header::from_record(record)?, record.len),
            // Begun by a process that was ended before it could write.
            Parsed::Short(_) if is_last => return Ok(false),
            Parsed::Short(_) | Parsed::Damaged => (None, 0),
        };
        let fits = |header: &Header| {
            let grows = self.announced.iter().zip(header.announced).all(|(before, now)| *before <= now);
            header.base >= self.last && grows
        };
        let Some(header) = header.filter(fits) else {
            self.is_doubtful = true;
            return Ok(false);
        };
        self.segment_bytes = header.segment_bytes;
        self.last = header.base;
        self.announced = header.announced;
        self.execution_count = self.execution_count.max(header.execution_count);
        self.map.segments.push_back(Segment::new(number, header.base, header.announced, start as u64));
        let is_whole = self.records(number, bytes, start);
        // In the middle it is a gap; at the end clients may hold numbers that are given out again.
        self.is_doubtful |= is_last && !is_whole;
        Ok(true)
    }

    /// Takes in the records of a segment up to its end or the first that is torn or wrong; whether none was wrong.
    fn records(&mut self, segment: u64, bytes: &[u8], start: usize) -> bool {
        let mut offset = start;
        let is_whole = loop {
            match record::parse(bytes.get(offset..).unwrap_or_default()) {
                Parsed::Whole(record) => {
                    if self.record(record, Place { segment, offset: offset as u64 }).is_none() {
                        break false;
                    }
                    offset += record.len;
                }
                Parsed::Short(_) => break true,
                Parsed::Damaged => break false,
            }
        };
        (self.unconfirmed, self.unconfirmed_message) = (None, None);
        is_whole
    }

    /// Takes in one record; `None` if it does not fit to what came before.
    fn record(&mut self, record: Record<'_>, place: Place) -> Option<()> {
        let kind = match record.tag {
            Tag::Header => return None,
            Tag::Command => return self.command(record, place),
            Tag::Message => {
                self.unconfirmed_message = Some((Message::from_bytes(record.payload)?, place.offset));
                return Some(());
            }
            Tag::Event(kind) => kind,
        };
        if record.seq <= self.last {
            return None;
        }
        let mut begin = place.offset;
        match kind {
            Kind::Stream(stream) => {
                let range = Range::from_bytes(record.payload)?;
                let announced = &mut self.announced[at(stream)];
                *announced = range.end().filter(|_| range.offset >= *announced)?;
            }
            Kind::Queued => {
                let waiting = self.unconfirmed.take().filter(|it| it.queued == record.seq)?;
                begin = waiting.place.offset;
                self.waiting.insert(record.seq, waiting);
            }
            Kind::Started => self.started(record.payload)?,
            Kind::Result => self.result(&record, place),
            Kind::Display | Kind::InputRequest | Kind::Violation => {
                if kind == Kind::Violation {
                    self.violation(record.payload);
                }
                if let Some((message, at)) = self.unconfirmed_message.take() {
                    (self.message, begin) = (Some(message), at);
                }
            }
            Kind::Status => self.status(record.payload),
        }
        self.last = record.seq;
        self.grow(Some(record.seq), begin, place.plus(record.len));
        Some(())
    }

    fn command(&mut self, record: Record<'_>, place: Place) -> Option<()> {
        let (begun, _) = split_command(record.payload)?;
        let waiting = Waiting { queued: record.seq, id: record.id?.parse().ok()?, place, len: record.len, begun };
        if record.seq > self.last {
            // Until its event is met the segment ends before it: both came by one write, which may be torn.
            self.unconfirmed = Some(waiting);
        } else {
            self.waiting.insert(record.seq, waiting);
            self.grow(None, place.offset, place.plus(record.len));
        }
        Some(())
    }

    fn result(&mut self, record: &Record<'_>, place: Place) {
        let its = |waiting: &Waiting| Some(waiting.id.as_str()) == record.id;
        let queued = self.waiting.iter().find(|(_, waiting)| its(waiting)).map(|(queued, _)| *queued);
        if let Some(command) = queued.and_then(|queued| self.waiting.remove(&queued)) {
            self.ended.push(Ended { id: command.id.clone(), command, result: place, result_len: record.len });
        }
    }

    fn started(&mut self, json: &[u8]) -> Option<()> {
        let Event::Started { id, execution_count, timestamp } = event(json)? else { return None };
        self.execution_count = self.execution_count.max(execution_count);
        if let Some(waiting) = self.waiting.values_mut().find(|waiting| waiting.id == id) {
            waiting.begun = Some(Begun { execution_count, timestamp, violation: None });
        }
        Some(())
    }

    fn violation(&mut self, json: &[u8]) {
        let Some(Event::Violation { id: Some(id), rule, detail, layer, .. }) = event(json) else { return };
        let waiting = self.waiting.values_mut().find(|waiting| waiting.id == id);
        if let Some(begun) = waiting.and_then(|waiting| waiting.begun.as_mut()) {
            begun.violation.get_or_insert(Violation { rule, detail, layer });
        }
    }

    fn status(&mut self, json: &[u8]) {
        if let Some(Event::Status { status, reason, .. }) = event(json) {
            self.ended_because = reason.filter(|_| status == SessionStatus::Terminated);
        }
    }

    fn grow(&mut self, seq: Option<Seq>, offset: u64, end: Place) {
        if let Some(segment) = self.map.segments.back_mut() {
            segment.grow(seq, offset, end.offset);
        }
    }
}

fn event(json: &[u8]) -> Option<Event> {
    Some(codec::decode_event(std::str::from_utf8(json).ok()?).ok()?.event)
}
