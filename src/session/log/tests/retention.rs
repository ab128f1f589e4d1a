//! What is no longer kept is a gap with exact ends, and what waits to be run is never dropped.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::task::JoinSet;

use super::*;

/// The numbers after `after` that these items account for; they must follow each other.
fn account(items: &[Item], after: Seq) -> Seq {
    items.iter().fold(after, |at, item| match item {
        Item::Event(event) => {
            assert_eq!(event.first, at.next());
            event.seq
        }
        Item::Gap { from, to } => {
            assert!(*from == at.next() && to >= from, "{item:?} after {at}");
            *to
        }
        Item::End => at,
    })
}

/// An event of output tells what was printed under its numbers.
fn check(item: &Item, printed: &BTreeMap<u64, String>) {
    let text: String = match item {
        Item::Event(event) if matches!(event.kind, Kind::Stream(_)) => {
            printed.range(event.first.0..=event.seq.0).map(|(_, text)| text.as_str()).collect()
        }
        _ => return,
    };
    assert_eq!(output(std::slice::from_ref(item)).concat(), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slow_readers_get_everything_or_an_exact_gap(
        acts in proptest::collection::vec((0usize..10, 1usize..200), 1..400),
        segment in 256u64..600,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(8 * segment, segment);
        let (mut log, mut reader) = Log::create(dir.path(), limits).unwrap();
        let pipes = Pipes::new();
        let mut fast = reader.cursor(None);
        let mut slow = reader.cursor(None);
        let (mut told, mut slow_at) = (Vec::new(), Seq(0));
        let mut waiting = Vec::new();
        let mut printed = BTreeMap::new();
        for (n, (act, len)) in acts.into_iter().enumerate() {
            match act {
                0..=5 => {
                    let text = format!("{n} {}", "x".repeat(len));
                    let seq = pipes.print(&mut log, STREAMS[act % 2], &text, Some(&id("e1")));
                    printed.insert(seq.0, text);
                }
                6 => drop(log.append(&status()).unwrap()),
                7 => {
                    let items: Vec<_> = (0..len).map_while(|_| slow.try_next().unwrap()).collect();
                    slow_at = account(&items, slow_at);
                    prop_assert_eq!(slow_at, slow.position());
                    for item in items {
                        check(&item, &printed);
                    }
                }
                8 if waiting.len() < 3 => {
                    let command = command(&format!("c{n}"), len / 2);
                    log.accept(&command).unwrap();
                    let begun = (n % 2 == 0).then(|| Begun { execution_count: n as u64 + 1, timestamp: "2026-04-08T10:30:05.123Z".into(), violation: None });
                    if begun.is_some() {
                        log.append(&started(&command.id, n as u64 + 1)).unwrap();
                    }
                    waiting.push((command, begun));
                }
                8 => drop(log.append(&result(&waiting.remove(0).0.id)).unwrap()),
                _ => {
                    let last = log.last_seq();
                    told.extend(all(&mut fast));
                    drop(log);
                    let found;
                    (log, reader, found) = Log::open(dir.path(), limits, Tail::Trusted).unwrap();
                    prop_assert_eq!(found.last_seq, last);
                    let pending: Vec<_> = found.pending.into_iter().map(|it| (it.command, it.begun)).collect();
                    prop_assert_eq!(&pending, &waiting);
                    fast = reader.cursor(Some(last));
                    slow = reader.cursor(Some(slow_at));
                }
            }
            told.extend(all(&mut fast));
            prop_assert_eq!(told.len() as u64, log.last_seq().0, "the fast reader missed something");
            prop_assert_eq!(log.bytes(), bytes_on_disk(dir.path()));
            prop_assert!(log.bytes() <= limits.session_bytes + 2 * segment + 2000, "{} bytes", log.bytes());
        }
        let fresh = since(&reader, 0);
        prop_assert_eq!(account(&fresh, Seq(0)), log.last_seq());
        if log.first_seq() > Seq(1) {
            prop_assert_eq!(&fresh[0], &Item::Gap { from: Seq(1), to: Seq(log.first_seq().0 - 1) });
        }
        prop_assert_eq!(fresh.iter().filter(|item| matches!(item, Item::Gap { .. })).count(), usize::from(log.first_seq() > Seq(1)));
        prop_assert_eq!(reader.kept_from(), log.first_seq());
    }
}

#[test]
fn code_that_is_larger_than_the_log_may_be_is_kept_until_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let limits = limits(4096, 512);
    let (mut log, _reader) = Log::create(dir.path(), limits).unwrap();
    let large = command("large", 10_000);
    log.accept(&large).unwrap();
    for _ in 0..50 {
        log.append(&status()).unwrap();
    }
    drop(log);
    let (mut log, _reader, found) = Log::open(dir.path(), limits, Tail::Trusted).unwrap();
    assert_eq!(found.pending.iter().map(|it| &it.command).collect::<Vec<_>>(), [&large]);
    assert!(log.bytes() < 2 * 10_000 + 4096);
    log.append(&result(&large.id)).unwrap();
    for _ in 0..50 {
        log.append(&status()).unwrap();
    }
    assert!(log.bytes() <= 4096 && bytes_on_disk(dir.path()) <= 4096);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_race_with_retention_and_never_see_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(dir.path(), limits(16 * 1024, 1024)).unwrap();
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let mut cursor = reader.cursor(Some(Seq(0)));
        readers.spawn(async move {
            let mut at = Seq(0);
            loop {
                let item = cursor.next().await.unwrap();
                if item == Item::End {
                    return at;
                }
                at = account(std::slice::from_ref(&item), at);
                if let Item::Event(event) = item {
                    let text = String::from_utf8(event.json.to_vec()).unwrap();
                    assert!(text.contains(&format!("<{}>", event.seq)) && !text.contains("\\u0000"), "{text}");
                }
            }
        });
    }
    let pipes = Pipes::new();
    for n in 1..=8_000u64 {
        let line = format!("<{n}>{}", "-".repeat(n as usize % 90));
        pipes.print(&mut log, STREAMS[n as usize % 2], &line, None);
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    log.end();
    assert_eq!(readers.join_all().await, [Seq(8_000); 4]);
}

#[test]
fn past_the_ceiling_of_all_logs_the_one_that_writes_gives_up_its_oldest_part() {
    let dir = tempfile::tempdir().unwrap();
    let (total, own) = (Total::new(20_000), Total::new(u64::MAX));
    let limits = limits(1 << 20, 1024);
    let make = |name: &str| {
        let (mut log, reader) = Log::create(&dir.path().join(name), limits).unwrap();
        log.share(total.clone(), own.clone());
        (log, reader)
    };
    let pipes = Pipes::new();
    let ((mut quiet, quiet_reader), (mut loud, _reader)) = (make("quiet"), make("loud"));
    pipes.print(&mut quiet, StreamName::Stdout, &"q".repeat(8000), None);
    for _ in 0..40 {
        pipes.print(&mut loud, StreamName::Stdout, &"l".repeat(1000), None);
    }
    assert!(!total.is_over() || loud.bytes() < 3000, "{} bytes", loud.bytes());
    assert!(loud.first_seq() > Seq(1), "the loud one kept everything");
    assert_eq!(quiet_reader.kept_from(), Seq(1), "the quiet one lost something");
    assert_eq!(own.bytes(), quiet.bytes() + loud.bytes(), "what their owner has");
    drop((quiet, loud));
    assert_eq!(own.bytes(), 0);
    assert!(!super::super::total::Share::of(total.clone(), own.clone()).report(20_000), "what is gone counts still");
    assert!(super::super::total::Share::of(total, own).report(20_001));
}
