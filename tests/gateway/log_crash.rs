//! The event log under `kill -9`: nothing that a program printed is lost or told twice, and what a client saw stays.
//!
//! The test runs itself again as the writer: it splices from two FIFOs, which the parent fills, and notes each event
//! that a reader of its own was told, as a client would. It is killed at random moments; the next one goes on.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use repltool::session::log::{self, Edge, Item, Kind, Log, LogLimits, LogReader, Rendered, Tail};
use repltool_protocol::event::{Event, Outcome, RawJson, StreamName, Usage};
use repltool_protocol::ids::{ExecutionId, Seq};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};

const PLACE: &str = "REPLTOOL_TEST_LOG_CRASH";
const KILLS: u64 = 250;
const STREAMS: [StreamName; 2] = [StreamName::Stdout, StreamName::Stderr];
/// Small segments, so that kills fall between two of them as well; nothing is dropped.
const LIMITS: LogLimits = LogLimits { session_bytes: 1 << 40, segment_bytes: 2 * 1024 * 1024 };

#[test]
fn killed_writer_loses_nothing_and_tells_nothing_twice() {
    if let Some(dir) = std::env::var_os(PLACE) {
        return write_until_killed(&Place(dir.into()));
    }
    let dir = tempfile::tempdir().unwrap();
    let place = Place(dir.path().into());
    drop(Log::create(&place.log(), LIMITS).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let feeders = STREAMS.map(|stream| feed(&place, stream, stop.clone()));

    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut kills = 0;
    while kills < KILLS {
        let mut child = spawn(&place);
        // Its first words come before it opens the log: some die then, most at work.
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
        let (noted, dies_early) = (place.noted_bytes(), random.below(8) == 0);
        while !dies_early && place.noted_bytes() == noted && child.try_wait().unwrap().is_none() {
            pause(Duration::from_millis(1));
        }
        pause(Duration::from_micros(random.below(15_000)));
        assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    let events_seen = place.seen().len();
    assert!(events_seen > 500, "only {events_seen} events in {kills} lives");

    stop.store(true, Ordering::Relaxed);
    let reader = finish(&place, &feeders);
    check(&place, &reader, feeders.map(|(feeder, _)| feeder.join().unwrap()));
}

/// The files of the test.
struct Place(PathBuf);

impl Place {
    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn fifo(&self, stream: StreamName) -> PathBuf {
        self.0.join(format!("{stream:?}"))
    }

    fn client(&self) -> PathBuf {
        self.0.join("client")
    }

    /// What the client noted. The last line may be torn.
    fn seen(&self) -> Vec<Note> {
        let text = fs::read_to_string(self.client()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(Note::parse).collect()
    }

    fn noted_bytes(&self) -> u64 {
        fs::metadata(self.client()).map_or(0, |notes| notes.len())
    }

    /// Opens the notes to go on with, and tells the last number in them.
    fn go_on(&self) -> (File, Seq) {
        let file = OpenOptions::new().append(true).create(true).open(self.client()).unwrap();
        let text = fs::read_to_string(self.client()).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        file.set_len(whole.len() as u64).unwrap();
        (file, whole.lines().next_back().map_or(Seq(0), |line| Note::parse(line).seq))
    }
}

/// What a client remembers of an event. Output that waited together is told as one event, and in other pieces to who
/// reads it again, so of output it is the text that counts.
#[derive(Debug)]
struct Note {
    first: Seq,
    seq: Seq,
    stream: Option<usize>,
    len: usize,
    crc: u32,
}

impl Note {
    fn of(event: &Rendered) -> Self {
        let (stream, told) = match event.kind {
            Kind::Stream(stream) => (Some(stream as usize), data(event).into_bytes()),
            _ => (None, event.json.to_vec()),
        };
        Self { first: event.first, seq: event.seq, stream, len: told.len(), crc: crc32fast::hash(&told) }
    }

    fn line(&self) -> String {
        let stream = self.stream.unwrap_or(2);
        format!("{} {} {stream} {} {}\n", self.first, self.seq, self.len, self.crc)
    }

    fn parse(line: &str) -> Self {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [first, seq, stream, len, crc] = numbers[..] else { panic!("no note: {line}") };
        let stream = (stream < 2).then_some(stream as usize);
        Self { first: Seq(first), seq: Seq(seq), stream, len: len as usize, crc: crc as u32 }
    }
}

fn data(event: &Rendered) -> String {
    let value: serde_json::Value = serde_json::from_slice(&event.json).unwrap();
    value["data"].as_str().unwrap().to_owned()
}

/// The life of a writer: open, settle what an earlier one accepted, then move output and take commands.
fn write_until_killed(place: &Place) {
    let (mut log, reader, found) = Log::open(&place.log(), LIMITS, Tail::Trusted).unwrap();
    let (mut client, seen) = place.go_on();
    let mut cursor = reader.cursor(Some(seen));
    let mut random = Random(found.last_seq.0);
    for pending in found.pending {
        assert_eq!(pending.command.body, body(&pending.command.id));
        log.append(&Event::Result(outcome(pending.command.id))).unwrap();
    }
    let fifos = STREAMS.map(|stream| open_fifo(place, stream));
    loop {
        let mut ready = fifos.each_ref().map(|fifo| PollFd::new(fifo, PollFlags::IN));
        rustix::event::poll(&mut ready, None).unwrap();
        for (stream, fifo) in STREAMS.iter().zip(&fifos) {
            let max = if random.below(4) == 0 { usize::MAX } else { random.below(2000) as usize + 1 };
            match log.splice(*stream, fifo.as_fd(), max) {
                // The parent is gone.
                Ok(0) => return,
                Ok(_) => drop(log.announce(*stream, None, Edge::Hold).unwrap()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        if random.below(8) == 0 {
            let id: ExecutionId = format!("e{}", log.last_seq()).parse().unwrap();
            log.accept(&log::Command { body: body(&id), id }).unwrap();
        }
        while let Some(Item::Event(event)) = cursor.try_next().unwrap() {
            client.write_all(Note::of(&event).line().as_bytes()).unwrap();
        }
    }
}

fn body(id: &ExecutionId) -> Bytes {
    id.as_str().repeat(9).into()
}

fn outcome(id: ExecutionId) -> Box<Outcome> {
    Box::new(Outcome {
        id,
        execution_count: 0,
        success: false,
        result: RawJson::null(),
        result_text: None,
        exception: None,
        exit_code: None,
        limit: None,
        violation: None,
        truncated: false,
        state_lost: true,
        usage: Usage::default(),
        execution_time_ms: 0,
        timestamp: "2026-04-08T10:30:05.123Z".into(),
    })
}

fn spawn(place: &Place) -> Child {
    let name = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--nocapture", "--test-threads", "1"]).env(PLACE, &place.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn pause(span: Duration) {
    let span = rustix::time::Timespec { tv_sec: 0, tv_nsec: span.subsec_nanos().into() };
    rustix::event::poll(&mut [], Some(&span)).unwrap();
}

/// A FIFO that is held open at both ends, so that bytes in it outlive the writer that would have taken them, and a
/// thread that fills it until it is told to stop and then tells what it wrote.
fn feed(place: &Place, stream: StreamName, stop: Arc<AtomicBool>) -> (JoinHandle<Vec<u8>>, File) {
    let path = place.fifo(stream);
    rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let held = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut fifo = held.try_clone().unwrap();
    let feeder = std::thread::spawn(move || {
        let mut random = Random(stream as u64 + 7);
        let mut written = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let piece = text(&mut random);
            fifo.write_all(piece.as_bytes()).unwrap();
            written.extend_from_slice(piece.as_bytes());
        }
        written
    });
    (feeder, held)
}

/// Mostly lines, sometimes much; with characters of every length, so that reads cut them.
fn text(random: &mut Random) -> String {
    let len = if random.below(20) == 0 { 30_000 } else { 120 };
    let count = random.below(len) + 1;
    (0..count).map(|_| ['a', 'é', '€', '😀', '\n'][random.below(5) as usize]).collect()
}

/// What is left is taken here, by the last writer.
fn finish(place: &Place, feeders: &[(JoinHandle<Vec<u8>>, File); 2]) -> LogReader {
    let (mut log, reader, _) = Log::open(&place.log(), LIMITS, Tail::Trusted).unwrap();
    let fifos = STREAMS.map(|stream| open_fifo(place, stream));
    loop {
        let is_done = feeders.iter().all(|(feeder, _)| feeder.is_finished());
        let mut moved = 0;
        for (stream, fifo) in STREAMS.iter().zip(&fifos) {
            moved += log.splice(*stream, fifo.as_fd(), usize::MAX).unwrap_or(0);
            log.announce(*stream, None, Edge::Hold).unwrap();
        }
        if is_done && moved == 0 {
            assert!(STREAMS.iter().all(|stream| log.unannounced(*stream) == 0));
            log.end();
            return reader;
        }
    }
}

fn open_fifo(place: &Place, stream: StreamName) -> File {
    rustix::fs::open(place.fifo(stream), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap().into()
}

fn check(place: &Place, reader: &LogReader, written: [Vec<u8>; 2]) {
    for (stream, written) in ["stdout", "stderr"].into_iter().zip(&written) {
        assert!(spool(&place.log(), stream) == *written, "{stream}: the spool is not what was printed");
    }
    let mut cursor = reader.cursor(Some(Seq(0)));
    let mut told = [String::new(), String::new()];
    let mut last = Seq(0);
    // How much of each stream was told up to a number, and every other event.
    let (mut progress, mut others) = (BTreeMap::new(), BTreeMap::new());
    while let Some(Item::Event(event)) = cursor.try_next().unwrap() {
        assert_eq!(event.first, last.next());
        last = event.seq;
        match event.kind {
            Kind::Stream(stream) => told[stream as usize].push_str(&data(&event)),
            _ => assert!(others.insert(event.seq, crc32fast::hash(&event.json)).is_none()),
        }
        progress.insert(event.seq, told.each_ref().map(String::len));
    }
    assert!(
        told.each_ref().map(String::as_bytes) == written.each_ref().map(Vec::as_slice),
        "the events tell other text"
    );
    compare(&place.seen(), &told.map(String::into_bytes), &progress, &others);
}

/// What the client saw, in all its lives together, is what the log tells in the end.
fn compare(seen: &[Note], told: &[Vec<u8>; 2], progress: &BTreeMap<Seq, [usize; 2]>, others: &BTreeMap<Seq, u32>) {
    let (mut last, mut at) = (Seq(0), [0, 0]);
    for note in seen {
        assert_eq!(note.first, last.next(), "a client was told something twice, or missed something");
        last = note.seq;
        match note.stream {
            Some(stream) => {
                let text = told[stream].get(at[stream]..at[stream] + note.len).unwrap_or_default();
                assert_eq!(crc32fast::hash(text), note.crc, "a client saw other text: {note:?}");
                at[stream] += note.len;
            }
            None => assert_eq!(others.get(&note.seq), Some(&note.crc), "a client saw another event: {note:?}"),
        }
        if let Some(progress) = progress.get(&note.seq) {
            assert_eq!(at, *progress, "the text has other numbers: {note:?}");
        }
    }
}

fn spool(log: &Path, stream: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0.. {
        match fs::read(log.join(format!("{stream}.{number:06}"))) {
            Ok(segment) => bytes.extend(segment),
            Err(_) => return bytes,
        }
    }
    bytes
}

/// The same numbers in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}
