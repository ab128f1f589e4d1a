//! Coming back: a client that lost its socket goes on after the last event it saw, and is told what is no longer kept.

use futures::SinkExt;
use repltool::client::{Client, Events, Received, Socket};
use repltool_protocol::event::{Event, LoggedEvent, StreamName};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::harness::{
    As, Server, assert_log, event, eventually, frame, in_time, named, numbered, outcome, printed, python, run, send,
    told, until_result,
};
use super::wire::{bearer, local_token, open_as, open_with_buffer};

/// A log of one MiB keeps the end of what this prints.
const SMALL_LOG: &str = "[store]\nsession_mb = 1\n";

/// Everything that is kept, as `GET …/events` has it.
async fn kept(client: &Client, id: &SessionId) -> Vec<LoggedEvent> {
    let mut stream = client.events(id, Events::default()).await.expect("events");
    let mut events = Vec::new();
    while let Some(ServerFrame::Event(event)) = in_time("an event", stream.next()).await.expect("readable") {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn every_event_arrives_once_however_often_the_socket_breaks() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let text = "import time\nfor n in range(600):\n    print(n)\n    time.sleep(0.002)\n'end'";
    send(&mut socket, "e1", text).await;
    let mut seen: Vec<LoggedEvent> = Vec::new();
    let mut sockets = 1;
    while seen.last().is_none_or(|it| !matches!(it.event, Event::Result(_))) {
        seen.push(event(&mut socket).await);
        if seen.len().is_multiple_of(17) {
            // The connection ends in the middle of the stream, without a word.
            drop(socket);
            socket = client.attach(&id, Some(seen[seen.len() - 1].seq)).await.expect("a socket");
            sockets += 1;
        }
    }
    assert!(sockets > 3, "only {sockets} sockets");
    assert_log(&seen);
    let expected: String = (0..600).map(|n| format!("{n}\n")).collect();
    assert_eq!(printed(&seen, StreamName::Stdout), expected);
    assert_eq!(outcome(&seen).result.0.get(), r#""end""#);
    assert_eq!(told(&seen), told(&kept(&client, &id).await));
}

#[tokio::test]
async fn after_zero_is_everything_and_without_after_is_what_comes() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "print('one')").await;
    let past = kept(&client, &id).await;
    let mut all = client.attach(&id, Some(Seq(0))).await.expect("a socket");
    let ServerFrame::Notice(Notice::Ready { session, last_seq }) = frame(&mut all).await else { panic!("not ready") };
    assert_eq!((session, last_seq), (client.get(&id).await.expect("the session"), past[past.len() - 1].seq));
    let mut fresh = client.attach(&id, None).await.expect("a socket");
    let mut ahead = client.attach(&id, Some(Seq(1 << 50))).await.expect("a socket");
    let second = send(&mut fresh, "e2", "print('two')").await;
    let new = until_result(&mut fresh, &second).await;
    assert_eq!(until_result(&mut all, &second).await, [past, new.clone()].concat());
    assert_eq!(until_result(&mut ahead, &second).await, new, "a number that is to come counts as the last one");
}

#[tokio::test]
async fn nothing_is_missed_that_happens_after_the_handshake() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for n in 0..50 {
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let result = client.execute(&id, &named(&format!("e{n}"), "print('at once')")).await.expect("a result");
        let events = until_result(&mut socket, &result.execution_id).await;
        assert_eq!((events.len(), printed(&events, StreamName::Stdout).as_str()), (4, "at once\n"), "{events:?}");
    }
}

#[tokio::test]
async fn two_sockets_see_the_same() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut one = client.attach(&id, None).await.expect("a socket");
    let mut two = client.attach(&id, None).await.expect("a socket");
    for n in 0..10 {
        let from = if n % 2 == 0 { &mut one } else { &mut two };
        let text = "import sys\nfor n in range(20): print(n); print(-n, file=sys.stderr)";
        send(from, &format!("e{n}"), text).await;
    }
    // Which one comes last depends on whose message came first.
    let (one, two) = futures::future::join(ten_results(&mut one), ten_results(&mut two)).await;
    assert_log(&one);
    assert_log(&two);
    let kept = told(&kept(&client, &id).await);
    for (place, event) in kept.iter().enumerate() {
        assert_eq!((told(&one).get(place), told(&two).get(place)), (Some(event), Some(event)), "at {place}");
    }
}

async fn ten_results(socket: &mut Socket) -> Vec<LoggedEvent> {
    let mut events = Vec::new();
    while events.iter().filter(|it: &&LoggedEvent| matches!(it.event, Event::Result(_))).count() < 10 {
        events.push(event(socket).await);
    }
    events
}

#[tokio::test]
async fn execution_is_followed_from_its_middle_on() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let text = "import time\nfor n in range(3000):\n    print(n)\n    if n % 10 == 0: time.sleep(0.001)";
    let mut first = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut first, "e1", text).await;
    let mut sockets = Vec::new();
    // On a busy machine the program may be over, and told in few pieces, before there are so many.
    let mut is_over = false;
    while sockets.len() < 20 && !is_over {
        is_over = matches!(event(&mut first).await.event, Event::Result(_));
        // The same execution once more: its past is repeated, what comes follows, nothing comes twice.
        let mut socket = client.attach(&id, None).await.expect("a socket");
        send(&mut socket, "e1", text).await;
        sockets.push(socket);
    }
    let expected: String = (0..3000).map(|n| format!("{n}\n")).collect();
    for socket in &mut sockets {
        let mut events = until_result(socket, &execution).await;
        // The past may come late.
        while printed(&events, StreamName::Stdout).len() < expected.len() {
            events.push(event(socket).await);
        }
        events.sort_by_key(|it| it.seq);
        assert_log(&events);
        assert!(printed(&events, StreamName::Stdout) == expected, "something else, or twice");
    }
}

#[tokio::test]
async fn what_is_no_longer_kept_is_told_as_a_gap() {
    let server = Server::start_with(As::Me, SMALL_LOG).await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10_485_760}})).await;
    let (text, expected) = numbered(40_000, 80);
    assert!(run(&client, &id, &text).await.success);
    let mut socket = client.attach(&id, Some(Seq(0))).await.expect("a socket");
    frame(&mut socket).await;
    let ServerFrame::Notice(Notice::Gap { from, to }) = frame(&mut socket).await else { panic!("no gap") };
    assert_eq!(from, Seq(1));
    let last = client.get(&id).await.expect("the session").last_seq;
    let events = read_to(&mut socket, Seq(last)).await;
    assert!(events[0].seq > to);
    assert_log(&events);
    let end = printed(&events, StreamName::Stdout);
    assert!(expected.ends_with(&end), "a part of the end");
    assert!((128 * 1024..1200 * 1024).contains(&end.len()), "{} bytes of one MiB are kept", end.len());

    // The same over HTTP: without `after` a gap comes first, with one that is too old there is nothing.
    let mut stream = client.events(&id, Events::default()).await.expect("events");
    let first = in_time("an event", stream.next()).await.expect("readable");
    assert!(matches!(first, Some(ServerFrame::Notice(Notice::Gap { from: Seq(1), .. }))), "{first:?}");
    let old = client.events(&id, Events { after: Some(Seq(0)), ..Events::default() }).await;
    assert_eq!(old.err().expect("refused").problem().expect("a problem").code, ProblemCode::Gone);
    let mut stream = client.events(&id, Events { after: Some(to), ..Events::default() }).await.expect("events");
    let first = in_time("an event", stream.next()).await.expect("readable");
    assert!(matches!(first, Some(ServerFrame::Event(_))), "{first:?}");
}

async fn read_to(socket: &mut Socket, last: Seq) -> Vec<LoggedEvent> {
    let mut events: Vec<LoggedEvent> = Vec::new();
    while events.last().is_none_or(|it| it.seq < last) {
        events.push(event(socket).await);
    }
    events
}

#[tokio::test]
async fn slow_reader_that_is_overtaken_is_told_of_a_gap() {
    let server = Server::start_with(As::Me, SMALL_LOG).await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10_485_760}})).await;
    let (path, token) = (format!("/api/v1/sessions/{id}/ws"), bearer(&local_token(&server)));
    let mut slow = open_with_buffer(&server, &path, &[("authorization", &token)], Some(4096)).await.expect("a socket");
    slow.next_of("ready").await;
    let (program, expected) = numbered(10_485_760 / 256, 256);
    assert!(run(&client, &id, &program).await.success, "nobody waits for the slow one");
    let (mut last, mut gaps, mut text) = (0, 0, String::new());
    loop {
        let message = slow.next().await.expect("it goes on");
        let number = |name: &str| message[name].as_u64().unwrap_or_default();
        if message["type"] == "gap" {
            assert!(number("from") == last + 1 && number("to") >= number("from"), "after {last}: {message}");
            (last, gaps) = (number("to"), gaps + 1);
            text.clear();
        } else {
            assert!(number("seq") > last, "after {last}: {message}");
            last = number("seq");
            text += message["data"].as_str().unwrap_or_default();
        }
        if message["type"] == "result" {
            break;
        }
    }
    assert!(gaps > 0, "it was never overtaken");
    assert!(expected.ends_with(&text), "what follows the last gap is whole");
}

#[tokio::test]
async fn socket_that_is_closed_in_good_order_is_answered() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut other = client.attach(&id, None).await.expect("a socket");
    let socket = client.attach(&id, None).await.expect("a socket");
    in_time("a goodbye", socket.close()).await.expect("answered");
    let execution = send(&mut other, "e1", "6 * 7").await;
    assert_eq!(outcome(&until_result(&mut other, &execution).await).result.0.get(), "42");
    client.delete(&id).await.expect("deleted");
    loop {
        if let Received::Closed(closed) = in_time("the end", other.receive()).await.expect("readable") {
            break assert_eq!(closed.code, Some(1000));
        }
    }
}

#[tokio::test]
async fn what_a_client_asked_for_before_it_left_is_done() {
    let server = Server::start_with(As::Me, "[sessions]\nqueue = 32\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for round in 0..20 {
        let path = format!("/api/v1/sessions/{id}/ws");
        let mut socket = open_as(&server, &path, &local_token(&server)).await.expect("a socket");
        let execute = json!({"type": "execute", "id": format!("e{round}"), "code": "1"}).to_string();
        socket.wire.feed(Message::text(execute)).await.expect("room for a message");
        // Both leave together.
        socket.wire.send(Message::Close(None)).await.expect("the messages are sent");
        while socket.next().await.is_ok() {}
    }
    eventually("every execution is in the history", || async {
        let history = client.history(&id, 100, 0).await.expect("a history");
        (history.total == 20).then_some(())
    })
    .await;
}
