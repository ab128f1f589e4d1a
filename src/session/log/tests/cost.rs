//! What the log costs. Run by hand: `cargo test cost -- --ignored --nocapture`.

use tokio::time::Instant;

use super::*;

fn per(what: &str, count: u32, since: Instant) {
    eprintln!("{what:<52} {:>8.2} us", since.elapsed().as_secs_f64() * 1e6 / f64::from(count));
}

#[test]
#[ignore = "it measures and asserts nothing"]
fn cost_of_events() {
    for (len, count) in [(80usize, 200_000u32), (64 * 1024, 3_000)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, reader) = Log::create(dir.path(), LogLimits::new(1 << 40)).unwrap();
        let pipes = Pipes::new();
        let e1 = id("0f8fad5b-d9cb-469f-a165-70867728950e");
        let text = "x".repeat(len);
        let since = Instant::now();
        for _ in 0..count {
            pipes.write(StreamName::Stdout, text.as_bytes());
            log.splice(StreamName::Stdout, pipes.reading(StreamName::Stdout), usize::MAX).unwrap();
        }
        per(&format!("write to the pipe and splice, {len} bytes"), count, since);
        log.announce(StreamName::Stdout, None, Edge::Hold).unwrap();
        let after = log.last_seq();
        let since = Instant::now();
        for _ in 0..count {
            pipes.write(StreamName::Stdout, text.as_bytes());
            log.splice(StreamName::Stdout, pipes.reading(StreamName::Stdout), usize::MAX).unwrap();
            log.announce(StreamName::Stdout, Some(&e1), Edge::Hold).unwrap();
        }
        per("the same and announce", count, since);
        let mut cursor = reader.cursor(Some(after));
        let since = Instant::now();
        while cursor.try_next().unwrap().is_some() {}
        per("try_next, catching up", count, since);
        let since = Instant::now();
        let mut cursor = reader.cursor(None);
        for _ in 0..count {
            log.append(&status()).unwrap();
            cursor.try_next().unwrap();
        }
        per("append a status and try_next at the end", count, since);
        drop(log);
        let since = Instant::now();
        let (_log, _reader, found) = Log::open(dir.path(), LogLimits::new(1 << 40), Tail::Trusted).unwrap();
        per(&format!("open, per event of {}", found.last_seq), found.last_seq.0 as u32, since);
    }
}
