//! Laws of the log, as functions of any bytes: they panic where a law is broken. For the programs in `fuzz/`.

use std::fs;
use std::path::Path;

use repltool_protocol::codec;
use repltool_protocol::event::{Event, ExecutionState, LoggedEvent, SessionStatus, StreamName};
use repltool_protocol::frame::ServerFrame;
use repltool_protocol::ids::Seq;

use super::record::{self, Parsed, Range, Tag};
use super::recover::Header;
use super::{Edge, Item, Kind, Log, LogError, LogLimits, LogReader, Message, Tail, entry, spool};

const LIMITS: LogLimits = LogLimits { session_bytes: 1 << 20, segment_bytes: 1 << 17 };
const TAGS: [Tag; 12] = [
    Tag::Header,
    Tag::Command,
    Tag::Message,
    Tag::Event(Kind::Queued),
    Tag::Event(Kind::Started),
    Tag::Event(Kind::Stream(StreamName::Stdout)),
    Tag::Event(Kind::Stream(StreamName::Stderr)),
    Tag::Event(Kind::Display),
    Tag::Event(Kind::InputRequest),
    Tag::Event(Kind::Violation),
    Tag::Event(Kind::Result),
    Tag::Event(Kind::Status),
];
const IDS: [&str; 4] = ["", "e1", "e2", "no id"];

/// Bytes that are used up from the front; 0 where there are none left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        self.take(8).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }
}

/// A record: any bytes are one, the beginning of one, or none, and what is written is read back.
pub fn record(bytes: &[u8]) {
    match record::parse(bytes) {
        Parsed::Whole(found) => {
            assert!(found.len <= bytes.len() && found.payload.len() < found.len);
            assert_eq!(record::peek(bytes), Some((found.tag, found.len)));
        }
        Parsed::Short(needed) => assert!(needed > bytes.len()),
        Parsed::Damaged => {}
    }
    if let Some(range) = Range::from_bytes(bytes) {
        assert_eq!(Range::from_bytes(&range.to_bytes()), Some(range));
    }
    if let Some(message) = Message::from_bytes(bytes) {
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
    }
    let mut input = Input(bytes);
    let (tag, seq, id) = (input.one_of(&TAGS), Seq(input.number()), input.one_of(&IDS));
    let mut written = Vec::new();
    record::encode(&mut written, tag, seq, Some(id), &[input.0, b"!"]).expect("it is short");
    let Parsed::Whole(found) = record::parse(&written) else { panic!("it is whole") };
    assert_eq!((found.tag, found.seq, found.id.unwrap_or_default(), found.len), (tag, seq, id, written.len()));
    assert_eq!(found.payload.strip_suffix(b"!"), Some(input.0));
}

/// Output: however it is cut, the pieces together are the text of the whole, and come over the wire as they are.
pub fn text(bytes: &[u8]) {
    let mut input = Input(bytes);
    let lens: Vec<usize> = (0..3).map(|_| usize::from(input.byte())).collect();
    let whole = input.0;
    let (mut said, mut held) = (String::new(), Vec::new());
    for len in lens {
        held.extend_from_slice(input.take(len));
        let tail = &held[held.len().saturating_sub(3)..];
        let ready = held.len() - spool::incomplete(tail) as usize;
        let rest = held.split_off(ready);
        said.push_str(&entry::text(held, &[]));
        held = rest;
    }
    held.extend_from_slice(input.0);
    said.push_str(&entry::text(held, &[]));
    assert_eq!(said, String::from_utf8_lossy(whole));
    let json = codec::encode_stream(Seq(7), Some("e1"), StreamName::Stdout, &said);
    assert!(!json.contains(['\n', '\r']));
    let Ok(Some(ServerFrame::Event(LoggedEvent { seq: Seq(7), event: Event::Stream { data, .. } }))) =
        codec::decode_server(&json)
    else {
        panic!("{json}")
    };
    assert_eq!(data, said);
}

/// Files of a log in `dir`, which is emptied: whatever is in them, they open or fail cleanly; readers are told of each
/// number at most once and in order; numbers go on; and the next process finds the same.
pub fn files(dir: &Path, bytes: &[u8]) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).expect("there is room for a directory");
    let mut input = Input(bytes);
    let tail = input.one_of(&[Tail::Trusted, Tail::Doubtful]);
    for number in 0..=input.byte() % 3 {
        let segment = segment(&mut input);
        fs::write(dir.join(format!("index.{number:06}")), segment).expect("there is room for a file");
    }
    for name in ["stdout.000000", "stderr.000000"] {
        let len = usize::from(input.byte());
        fs::write(dir.join(name), vec![b'x'; len]).expect("there is room for a file");
    }
    let (mut log, reader, found) = match Log::open(dir, LIMITS, tail) {
        Ok(opened) => opened,
        Err(LogError::Damaged(_) | LogError::Format(_) | LogError::Directory(_)) => return,
        Err(error) => panic!("{error:?}"),
    };
    let kept = items(&reader);
    assert!(kept.last().is_none_or(|item| last_of(item) <= found.last_seq));
    for ended in &found.ended {
        let _ = log.load(ended);
    }
    for stream in [StreamName::Stdout, StreamName::Stderr] {
        log.announce(stream, None, Edge::Flush).expect("there is room for an event");
    }
    let (status, execution_state) = (SessionStatus::Active, ExecutionState::Idle);
    let event = Event::Status { status, execution_state, reason: None, recovered: None };
    let fresh = log.append(&event).expect("there is room for an event");
    assert!(fresh > found.last_seq, "{fresh} after {}", found.last_seq);
    let now = items(&reader);
    drop((log, reader));
    let (_log, reader, again) = Log::open(dir, LIMITS, Tail::Trusted).expect("it was open before");
    assert!(again.last_seq >= fresh);
    let then: Vec<_> = items(&reader).into_iter().take(now.len()).collect();
    assert_eq!(then, now);
}

/// A segment with a header of ours or of any numbers, records whose sums are right, and an end that may be cut or wrong.
fn segment(input: &mut Input<'_>) -> Vec<u8> {
    let mut header = Header { segment_bytes: 4096, base: Seq(0), announced: [0; 2], execution_count: 0 };
    if input.byte() % 2 == 1 {
        let base = Seq(input.number() >> 2);
        let (segment_bytes, announced) = (input.number(), [input.number(), input.number()]);
        header = Header { segment_bytes, base, announced, execution_count: input.number() };
    }
    let mut out = header.to_record().expect("a header is short");
    let mut seq = header.base;
    for _ in 0..input.byte() % 16 {
        add_record(&mut out, &mut seq, input);
    }
    match input.byte() {
        0 => out.extend_from_slice(input.take(40)),
        1 => out.truncate(out.len().saturating_sub(usize::from(input.byte()))),
        2 => {
            let at = input.number() as usize % out.len();
            out[at] ^= input.byte();
        }
        _ => {}
    }
    out
}

fn add_record(out: &mut Vec<u8>, seq: &mut Seq, input: &mut Input<'_>) {
    let (tag, id, step) = (input.one_of(&TAGS), input.one_of(&IDS), input.byte());
    *seq = match step {
        255 => Seq(input.number() >> 2),
        step => Seq(seq.0 + u64::from(step % 3)),
    };
    let len = usize::from(input.byte());
    let any = input.take(len);
    let payload = match (tag, any) {
        // What its writer would have put there, with numbers of any kind.
        (Tag::Event(Kind::Stream(_)), [len, rest @ ..]) => {
            let offset = Input(rest).byte();
            Range { offset: offset.into(), len: (*len).into() }.to_bytes().to_vec()
        }
        (Tag::Event(Kind::Started), [count, ..]) => {
            let (id, timestamp) = (id.parse().ok(), "2026-04-08T10:30:05.123Z".to_owned());
            let started = id.map(|id| Event::Started { id, execution_count: (*count).into(), timestamp });
            started.map(|event| codec::encode_event(*seq, &event).into_bytes()).unwrap_or_default()
        }
        (Tag::Command, [count, body @ ..]) => [&u64::from(*count).to_le_bytes()[..], &[0], body].concat(),
        _ => any.to_vec(),
    };
    record::encode(out, tag, *seq, Some(id), &[&payload]).expect("it is short");
}

/// All that a reader is told now: ascending, without an overlap.
fn items(reader: &LogReader) -> Vec<Item> {
    let mut cursor = reader.cursor(Some(Seq(0)));
    let (mut items, mut last) = (Vec::new(), Seq(0));
    while let Some(item) = cursor.try_next().expect("what opened can be read") {
        let first = match &item {
            Item::Event(event) => event.first,
            Item::Gap { from, .. } => *from,
            Item::End => panic!("nobody ended the log"),
        };
        assert!(first > last && last_of(&item) >= first, "{item:?} after {last}");
        last = last_of(&item);
        items.push(item);
    }
    items
}

fn last_of(item: &Item) -> Seq {
    match item {
        Item::Event(event) => event.seq,
        Item::Gap { to, .. } => *to,
        Item::End => Seq(u64::MAX),
    }
}
