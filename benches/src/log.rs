//! The event log, in a directory that is removed with the step.

use std::hint::black_box;

use bytes::Bytes;
use repltool::session::log::{Command, Cursor, Item, Log, LogLimits, LogReader};
use repltool_protocol::codec;
use repltool_protocol::event::Event;
use repltool_protocol::ids::Seq;
use tempfile::TempDir;

use crate::codec::RESULT;
use crate::{Run, Step};

/// So much that old segments are dropped on the way, as in a session that lives long.
const LIMITS: LogLimits = LogLimits { session_bytes: 16 << 20, segment_bytes: 1 << 20 };
/// Events that are read at once.
const MANY: u64 = 1000;

/// All of them.
pub static STEPS: [Step; 4] = [
    Step { name: "accept a command", make: accept },
    Step { name: "append a result", make: append },
    Step { name: "append a result and read it back", make: append_and_read },
    Step { name: "read 1000 results by a fresh cursor", make: read_many },
];

fn fresh() -> (TempDir, Log, LogReader, Event) {
    let dir = tempfile::tempdir().unwrap();
    let (log, reader) = Log::create(&dir.path().join("log"), LIMITS).unwrap();
    (dir, log, reader, codec::decode_event(RESULT).unwrap().event)
}

/// With its result, so that not more and more commands wait.
fn accept() -> Run {
    let (dir, mut log, reader, result) = fresh();
    let Event::Result(outcome) = &result else { unreachable!("RESULT is one") };
    let command = Command { id: outcome.id.clone(), body: Bytes::from_static(b"{\"code\":\"1+1\"}") };
    Box::new(move || {
        let _held = (&dir, &reader);
        log.accept(black_box(&command)).unwrap();
        log.append(black_box(&result)).unwrap();
    })
}

fn append() -> Run {
    let (dir, mut log, reader, result) = fresh();
    Box::new(move || {
        let _held = (&dir, &reader);
        black_box(log.append(black_box(&result)).unwrap());
    })
}

fn append_and_read() -> Run {
    let (dir, mut log, reader, result) = fresh();
    let mut cursor = reader.cursor(None);
    Box::new(move || {
        let _held = &dir;
        log.append(black_box(&result)).unwrap();
        black_box(next_event(&mut cursor));
    })
}

fn read_many() -> Run {
    let (dir, mut log, reader, result) = fresh();
    for _ in 0..MANY {
        log.append(&result).unwrap();
    }
    Box::new(move || {
        let _held = (&dir, &log);
        let mut cursor = reader.cursor(Some(Seq(0)));
        for _ in 0..MANY {
            black_box(next_event(&mut cursor));
        }
    })
}

fn next_event(cursor: &mut Cursor) -> Item {
    let item = cursor.try_next().unwrap().unwrap();
    assert!(matches!(item, Item::Event(_)));
    item
}
