//! What the log promises, by behaviour. Here: the rig, and what one writer and its readers see.

mod cost;
mod full;
mod properties;
mod recovery;
mod retention;

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use repltool_protocol::event::{Event, ExecutionState, Outcome, RawJson, SessionStatus, StreamName, Usage};
use repltool_protocol::ids::{ExecutionId, Seq};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::*;

pub(super) const STREAMS: [StreamName; 2] = [StreamName::Stdout, StreamName::Stderr];

pub(super) fn limits(session_bytes: u64, segment_bytes: u64) -> LogLimits {
    LogLimits { session_bytes, segment_bytes }
}

pub(super) fn id(text: &str) -> ExecutionId {
    text.parse().unwrap()
}

pub(super) fn status() -> Event {
    let (status, execution_state) = (SessionStatus::Active, ExecutionState::Idle);
    Event::Status { status, execution_state, reason: None, recovered: None }
}

pub(super) fn started(id: &ExecutionId, execution_count: u64) -> Event {
    Event::Started { id: id.clone(), execution_count, timestamp: "2026-04-08T10:30:05.123Z".into() }
}

pub(super) fn result(id: &ExecutionId) -> Event {
    Event::Result(Box::new(Outcome {
        id: id.clone(),
        execution_count: 1,
        success: true,
        result: RawJson(RawValue::from_string("0.30000000000000004123".into()).unwrap()),
        result_text: None,
        exception: None,
        exit_code: None,
        limit: None,
        violation: None,
        truncated: false,
        state_lost: false,
        usage: Usage::default(),
        execution_time_ms: 1,
        timestamp: "2026-04-08T10:30:05.123Z".into(),
    }))
}

pub(super) fn command(name: &str, len: usize) -> Command {
    Command { id: id(name), body: name.bytes().cycle().take(len).collect() }
}

/// A pipe for each stream, as an interpreter would hold them.
pub(super) struct Pipes([(OwnedFd, OwnedFd); 2]);

impl Pipes {
    pub(super) fn new() -> Self {
        Self(STREAMS.map(|_| rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap()))
    }

    /// Writes into the pipe what fits, at most 64 KiB.
    pub(super) fn write(&self, stream: StreamName, bytes: &[u8]) -> usize {
        rustix::io::write(&self.0[writer::at(stream)].1, bytes).unwrap()
    }

    pub(super) fn reading(&self, stream: StreamName) -> std::os::fd::BorrowedFd<'_> {
        self.0[writer::at(stream)].0.as_fd()
    }

    /// Splices until the pipe is empty.
    pub(super) fn drain(&self, log: &mut Log, stream: StreamName) -> usize {
        let mut total = 0;
        loop {
            match log.splice(stream, self.reading(stream), usize::MAX) {
                Ok(moved) => total += moved,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return total,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn print(&self, log: &mut Log, stream: StreamName, text: &str, id: Option<&ExecutionId>) -> Seq {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            rest = &rest[self.write(stream, rest)..];
            self.drain(log, stream);
        }
        log.announce(stream, id, Edge::Hold).unwrap().unwrap()
    }
}

/// All that is there now.
pub(super) fn all(cursor: &mut Cursor) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(item) = cursor.try_next().unwrap() {
        items.push(item.clone());
        if item == Item::End {
            break;
        }
    }
    items
}

pub(super) fn since(reader: &LogReader, after: u64) -> Vec<Item> {
    all(&mut reader.cursor(Some(Seq(after))))
}

/// What the `stream` events among these say, each stream by itself.
pub(super) fn output(items: &[Item]) -> [String; 2] {
    let mut texts = [String::new(), String::new()];
    for item in items {
        let Item::Event(event) = item else { continue };
        if let Kind::Stream(stream) = event.kind {
            let value: serde_json::Value = serde_json::from_slice(&event.json).unwrap();
            texts[writer::at(stream)].push_str(value["data"].as_str().unwrap());
        }
    }
    texts
}

pub(super) fn bytes_on_disk(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn events_come_in_order_with_the_text_of_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(&dir.path().join("log"), limits(1 << 20, 1 << 16)).unwrap();
    let pipes = Pipes::new();
    let e1 = id("e1");
    assert_eq!(log.accept(&command("e1", 10)).unwrap(), Seq(1));
    log.append(&started(&e1, 3)).unwrap();
    pipes.print(&mut log, StreamName::Stdout, "hello\n", Some(&e1));
    pipes.print(&mut log, StreamName::Stderr, "\u{1b}[31m\"é\"", None);
    log.append(&result(&e1)).unwrap();
    log.append(&status()).unwrap();
    log.end();
    let lines: Vec<_> = since(&reader, 0)
        .into_iter()
        .map(|item| match item {
            Item::Event(event) => String::from_utf8(event.json.to_vec()).unwrap(),
            other => format!("{other:?}"),
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"type":"queued","id":"e1","seq":1}
    {"type":"started","id":"e1","execution_count":3,"timestamp":"2026-04-08T10:30:05.123Z","seq":2}
    {"type":"stream","seq":3,"id":"e1","stream":"stdout","data":"hello\n"}
    {"type":"stream","seq":4,"id":null,"stream":"stderr","data":"\u001b[31m\"é\""}
    {"type":"result","id":"e1","execution_count":1,"success":true,"result":0.30000000000000004123,"result_text":null,"exception":null,"exit_code":null,"limit":null,"violation":null,"truncated":false,"state_lost":false,"usage":{"cpu_time_ms":0,"peak_memory_bytes":0,"output_bytes":0},"execution_time_ms":1,"timestamp":"2026-04-08T10:30:05.123Z","seq":5}
    {"type":"status","status":"active","execution_state":"idle","reason":null,"seq":6}
    End
    "#);
    assert_eq!(
        (reader.last_seq(), reader.kept_from(), log.bytes()),
        (Seq(6), Seq(1), bytes_on_disk(&dir.path().join("log")))
    );
}

#[test]
fn streams_and_queued_events_have_their_own_functions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::create(dir.path(), limits(1 << 20, 1 << 16)).unwrap();
    let stream = Event::Stream { id: None, stream: StreamName::Stdout, data: "x".into() };
    assert!(matches!(log.append(&stream), Err(LogError::Misplaced("stream"))));
    assert!(matches!(log.append(&Event::Queued { id: id("e1") }), Err(LogError::Misplaced("queued"))));
    assert!(matches!(log.accept(&command("e1", 40 << 20)), Err(LogError::TooLong)));
    assert_eq!(log.append(&status()).unwrap(), Seq(1));
    assert!(matches!(Log::create(dir.path(), limits(1, 1)), Err(LogError::Directory(_))));
}

#[tokio::test]
async fn waiting_reader_is_woken_and_a_cancelled_wait_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(dir.path(), limits(1 << 20, 1 << 16)).unwrap();
    log.append(&status()).unwrap();
    let mut cursor = reader.cursor(None);
    for _ in 0..3 {
        let wait = tokio::time::timeout(std::time::Duration::ZERO, cursor.next());
        assert!(wait.await.is_err());
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { (cursor.next().await.unwrap(), cursor.next().await.unwrap(), cursor.next().await) });
    tokio::task::yield_now().await;
    log.append(&status()).unwrap();
    log.append(&status()).unwrap();
    drop(log);
    let (first, second, third) = tasks.join_next().await.unwrap().unwrap();
    assert!(matches!(first, Item::Event(event) if event.seq == Seq(2)));
    assert!(matches!(second, Item::Event(event) if event.seq == Seq(3)));
    assert!(matches!(third, Err(LogError::WriterGone)));
}

#[test]
fn readers_at_the_same_place_share_what_is_rendered() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(dir.path(), limits(1 << 20, 1 << 16)).unwrap();
    let mut cursors = [0; 3].map(|_| reader.cursor(None));
    log.append(&status()).unwrap();
    log.append(&status()).unwrap();
    for _ in 0..2 {
        let events = cursors.each_mut().map(|cursor| match cursor.try_next().unwrap() {
            Some(Item::Event(event)) => event,
            other => panic!("{other:?}"),
        });
        assert!(Arc::ptr_eq(&events[0], &events[1]) && Arc::ptr_eq(&events[0], &events[2]));
    }
    assert!(cursors.iter_mut().all(|cursor| cursor.try_next().unwrap().is_none()));
}

#[test]
fn descriptors_are_few_and_shared() {
    let dir = tempfile::tempdir().unwrap();
    let held = || {
        let links =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|path| path.starts_with(dir.path())).count()
    };
    let (mut log, reader) = Log::create(dir.path(), limits(1 << 20, 1024)).unwrap();
    let pipes = Pipes::new();
    assert_eq!(held(), 1);
    let mut cursors: Vec<_> = (0..50).map(|_| reader.cursor(None)).collect();
    for _ in 0..100 {
        for stream in STREAMS {
            pipes.print(&mut log, stream, &"x".repeat(100), None);
        }
        cursors.iter_mut().for_each(|cursor| drop(all(cursor)));
    }
    assert!(held() <= 6, "{} descriptors for one writer and fifty readers at its end", held());
    drop(cursors);
    assert_eq!(held(), 3);
    drop(log);
    assert_eq!(since(&reader, 0).len(), 200);
    assert_eq!(held(), 0);
}

#[tokio::test]
async fn collect_waits_for_the_result_and_takes_only_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(dir.path(), limits(1 << 20, 1024)).unwrap();
    let pipes = Pipes::new();
    let (e1, e2) = (id("e1"), id("e2"));
    let after = log.last_seq();
    log.accept(&command("e1", 5)).unwrap();
    log.accept(&command("e2", 5)).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let (reader, e1) = (reader.clone(), e1.clone());
        async move { collect(&reader, after, &e1).await }
    });
    tokio::task::yield_now().await;
    pipes.print(&mut log, StreamName::Stdout, "before", None);
    log.append(&started(&e1, 1)).unwrap();
    for n in 0..100 {
        pipes.print(&mut log, StreamName::Stdout, &format!("{n},"), Some(&e1));
        pipes.print(&mut log, StreamName::Stderr, "é", Some(&e1));
        tokio::task::yield_now().await;
    }
    let data = [("text/plain".to_owned(), serde_json::json!("x"))].into();
    log.append(&Event::Display { id: Some(e1.clone()), data, metadata: [].into() }).unwrap();
    log.append(&result(&e1)).unwrap();
    let collected = tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(collected.stdout, (0..100).map(|n| format!("{n},")).collect::<String>());
    assert_eq!(collected.stderr, "é".repeat(100));
    assert_eq!(collected.displays[0].data["text/plain"], "x");
    assert_eq!(collected.outcome.result.0.get(), "0.30000000000000004123");
    assert!(!collected.has_gap);
    // It does not wait for what cannot come.
    assert!(matches!(collect(&reader, log.last_seq(), &e1).await, Err(LogError::ResultGone)));
    tasks.spawn(async move { collect(&reader, Seq(0), &e2).await });
    tokio::task::yield_now().await;
    log.end();
    assert!(matches!(tasks.join_next().await.unwrap().unwrap(), Err(LogError::ResultGone)));
}

#[test]
fn deleted_log_ends_for_its_readers() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(&dir.path().join("log"), limits(1 << 20, 1024)).unwrap();
    let mut at_end = reader.cursor(None);
    let pipes = Pipes::new();
    pipes.print(&mut log, StreamName::Stdout, "text", None);
    assert_eq!(all(&mut at_end).len(), 1);
    log.append(&status()).unwrap();
    log.delete().unwrap();
    assert!(matches!(all(&mut at_end)[..], [Item::Event(_), Item::End]));
    drop(at_end);
    assert_eq!(since(&reader, 0), [Item::Gap { from: Seq(1), to: Seq(2) }, Item::End]);
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_are_woken_once_for_what_is_held_and_find_it_before() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(&dir.path().join("log"), limits(1 << 20, 1 << 16)).unwrap();
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = woken.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut cursor = reader.cursor(None);
    let mut next = Box::pin(cursor.next());
    assert!(next.as_mut().poll(&mut context).is_pending());
    log.hold();
    log.accept(&command("e1", 5)).unwrap();
    log.append(&started(&id("e1"), 1)).unwrap();
    assert_eq!(since(&reader, 0).len(), 2, "it is there for who looks");
    assert!(!woken.0.load(Ordering::Relaxed));
    log.release();
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(Ok(Item::Event(event))) if event.seq == Seq(1)));
}
