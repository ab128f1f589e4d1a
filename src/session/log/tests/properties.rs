//! Any bytes, however they are cut, over two streams, with reopening and readers anywhere.

use proptest::prelude::*;

use repltool_protocol::codec;

use super::*;

#[derive(Debug, Clone)]
enum Act {
    Write(StreamName, Vec<u8>),
    Announce(StreamName),
    Status,
    Accept,
    Finish,
    Read(usize),
    Reopen,
}

fn stream() -> impl Strategy<Value = StreamName> {
    prop_oneof![Just(StreamName::Stdout), Just(StreamName::Stderr)]
}

/// Bytes that are text, nearly text, or noise.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "\\PC{0,40}".prop_map(String::into_bytes),
        proptest::collection::vec(
            prop_oneof![Just(0xf0u8), Just(0x9f), Just(0x98), Just(0x80), Just(0xe2), Just(b'a')],
            0..12
        ),
        proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (stream(), bytes()).prop_map(|(stream, bytes)| Act::Write(stream, bytes)),
        4 => stream().prop_map(Act::Announce),
        1 => Just(Act::Status),
        1 => Just(Act::Accept),
        1 => Just(Act::Finish),
        3 => (0usize..4).prop_map(Act::Read),
        1 => Just(Act::Reopen),
    ];
    proptest::collection::vec(act, 1..60)
}

fn events(items: &[Item]) -> Vec<Arc<Rendered>> {
    let event = |item: &Item| match item {
        Item::Event(event) => event.clone(),
        other => panic!("no gap is due: {other:?}"),
    };
    items.iter().map(event).collect()
}

/// Every number that the events stand for.
fn numbers(items: &[Item]) -> Vec<u64> {
    events(items).iter().flat_map(|event| event.first.0..=event.seq.0).collect()
}

/// What was told, whatever pieces of output came together: neighbours of one stream and execution count as one.
fn joined(items: &[Item]) -> Vec<(Kind, Option<ExecutionId>, String)> {
    let mut out: Vec<(Kind, Option<ExecutionId>, String)> = Vec::new();
    for event in events(items) {
        let text = String::from_utf8(event.json.to_vec()).unwrap();
        let Event::Stream { data, .. } = codec::decode_event(&text).unwrap().event else {
            out.push((event.kind, event.execution.clone(), text));
            continue;
        };
        match out.last_mut() {
            Some((kind, id, told)) if (*kind, &*id) == (event.kind, &event.execution) => told.push_str(&data),
            _ => out.push((event.kind, event.execution.clone(), data)),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_byte_is_told_once_and_what_was_seen_stays(acts in acts(), segment in 256u64..1500) {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(1 << 30, segment);
        let (mut log, mut reader) = Log::create(dir.path(), limits).unwrap();
        let pipes = Pipes::new();
        let mut written: [Vec<u8>; 2] = Default::default();
        let mut waiting: Vec<Command> = Vec::new();
        // Three clients, each at a place of its own, with what they have seen.
        let mut clients = [0; 3].map(|_| (reader.cursor(None), Vec::new()));
        for (n, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write(stream, bytes) => {
                    written[writer::at(stream)].extend_from_slice(&bytes);
                    pipes.write(stream, &bytes);
                    prop_assert_eq!(pipes.drain(&mut log, stream), bytes.len());
                }
                Act::Announce(stream) => drop(log.announce(stream, Some(&id("e1")), Edge::Hold).unwrap()),
                Act::Status => drop(log.append(&status()).unwrap()),
                Act::Accept => {
                    waiting.push(command(&format!("c{n}"), n * 10));
                    log.accept(&waiting[waiting.len() - 1]).unwrap();
                }
                Act::Finish => if !waiting.is_empty() {
                    log.append(&result(&waiting.remove(n % waiting.len()).id)).unwrap();
                }
                Act::Read(at) => if let Some((cursor, seen)) = clients.get_mut(at) {
                    seen.extend(all(cursor));
                }
                Act::Reopen => {
                    let before = (log.last_seq(), log.bytes(), STREAMS.map(|stream| log.unannounced(stream)));
                    drop(log);
                    let found;
                    (log, reader, found) = Log::open(dir.path(), limits, Tail::Trusted).unwrap();
                    prop_assert_eq!((log.last_seq(), log.bytes(), STREAMS.map(|stream| log.unannounced(stream))), before);
                    prop_assert_eq!(found.last_seq, before.0);
                    let pending: Vec<_> = found.pending.into_iter().map(|pending| pending.command).collect();
                    prop_assert_eq!(&pending, &waiting);
                    for (cursor, _) in &mut clients {
                        *cursor = reader.cursor(Some(cursor.position()));
                    }
                }
            }
        }
        for stream in STREAMS {
            log.announce(stream, None, Edge::Flush).unwrap();
            prop_assert_eq!(log.unannounced(stream), 0);
        }
        prop_assert_eq!(log.bytes(), bytes_on_disk(dir.path()));
        let whole = since(&reader, 0);
        prop_assert_eq!(numbers(&whole), (1..=log.last_seq().0).collect::<Vec<_>>());
        prop_assert_eq!(output(&whole), written.each_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        for (cursor, seen) in &mut clients {
            seen.extend(all(cursor));
            prop_assert_eq!(joined(seen), joined(&whole));
        }
        for after in 0..=log.last_seq().0 {
            let rest = since(&reader, after);
            prop_assert_eq!(numbers(&rest), (after + 1..=log.last_seq().0).collect::<Vec<_>>());
            for (rest, whole) in output(&rest).iter().zip(output(&whole)) {
                prop_assert!(whole.ends_with(rest.as_str()));
            }
        }
    }

    #[test]
    fn pieces_are_at_most_64_kib_and_join_to_the_whole(lead in 0usize..8, chars in 60_000usize..90_000) {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, reader) = Log::create(dir.path(), LogLimits::new(1 << 30)).unwrap();
        let pipes = Pipes::new();
        let text = "a".repeat(lead) + &"é".repeat(chars);
        pipes.print(&mut log, StreamName::Stdout, &text, None);
        let items = since(&reader, 0);
        prop_assert_eq!(&output(&items)[0], &text);
        for event in events(&items) {
            prop_assert!(event.json.len() < 64 * 1024 + 100);
        }
    }
}

#[test]
fn flush_tells_half_a_character_and_the_rest_is_told_as_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, reader) = Log::create(dir.path(), limits(1 << 20, 1 << 16)).unwrap();
    let pipes = Pipes::new();
    pipes.write(StreamName::Stdout, b"a\xe2\x82");
    pipes.drain(&mut log, StreamName::Stdout);
    assert_eq!(log.announce(StreamName::Stdout, None, Edge::Hold).unwrap(), Some(Seq(1)));
    assert_eq!(log.announce(StreamName::Stdout, None, Edge::Hold).unwrap(), None);
    assert_eq!(log.announce(StreamName::Stdout, None, Edge::Flush).unwrap(), Some(Seq(2)));
    pipes.print(&mut log, StreamName::Stdout, "b", None);
    assert_eq!(output(&since(&reader, 0))[0], "a\u{fffd}b");
}
