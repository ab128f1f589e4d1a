//! Output on its way: at once, whole, in order, in every form in which it can be read.

use repltool::client::{EventStream, Events};
use repltool_protocol::event::{Event, LoggedEvent, StreamName};
use repltool_protocol::frame::ServerFrame;
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};

use super::harness::{
    Server, assert_log, event, in_time, named, numbered, outcome, printed, python, run, send, told, until_printed,
    until_result,
};
use super::wire::{ask, ask_as_owner, bearer, local_token};

/// Ends only when it is interrupted, which a test does when it has seen the beginning.
const GATED: &str = "import time\ntry:\n    print('first', end='')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('second')\n6 * 7";
/// The largest output that can be asked for.
const MOST_BYTES: usize = 10 * 1024 * 1024;

async fn next(stream: &mut EventStream) -> Option<LoggedEvent> {
    in_time("an event", stream.next()).await.expect("a readable event").map(|frame| match frame {
        ServerFrame::Event(event) => event,
        ServerFrame::Notice(notice) => panic!("unexpected: {notice:?}"),
    })
}

async fn rest(stream: &mut EventStream) -> Vec<LoggedEvent> {
    let mut events = Vec::new();
    while let Some(event) = next(stream).await {
        events.push(event);
    }
    events
}

fn execute_path(id: &SessionId) -> String {
    format!("/api/v1/sessions/{id}/execute")
}

#[tokio::test]
async fn output_arrives_while_the_program_runs() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", GATED).await;
    until_printed(&mut socket).await;
    client.interrupt(&id, None).await.expect("accepted");
    let events = until_result(&mut socket, &execution).await;
    assert_eq!(printed(&events, StreamName::Stdout), "second\n");
    assert_eq!(outcome(&events).result.0.get(), "42");
}

#[tokio::test]
async fn an_execution_streams_its_events_as_lines() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "print('earlier')").await;
    let mut stream = client.execute_live(&id, &named("e1", GATED)).await.expect("a stream");
    let mut events = Vec::new();
    while events.last().is_none_or(|it: &LoggedEvent| !matches!(it.event, Event::Stream { .. })) {
        events.push(next(&mut stream).await.expect("the stream goes on"));
    }
    client.interrupt(&id, None).await.expect("accepted");
    events.extend(rest(&mut stream).await);
    assert_log(&events);
    assert!(matches!(events[0].event, Event::Queued { .. }) && matches!(events[1].event, Event::Started { .. }));
    assert_eq!(printed(&events, StreamName::Stdout), "firstsecond\n");
    assert_eq!(outcome(&events).result.0.get(), "42");
}

#[tokio::test]
async fn an_execution_streams_its_events_as_server_sent_events() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let (token, path) = (bearer(&local_token(&server)), execute_path(&id));
    let mut headers = vec![("authorization", token.as_str()), ("content-type", "application/json")];
    headers.push(("accept", "text/event-stream"));
    let reply = ask(&server, "POST", &path, &headers, br#"{"code":"print('a\\n\\nb')"}"#).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/event-stream"));
    let mut kinds = Vec::new();
    for event in reply.text().split_terminator("\n\n") {
        let (seq, data) = event.split_once('\n').expect("two lines");
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(seq, format!("id: {}", data["seq"]));
        kinds.push(data["type"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(kinds, ["queued", "started", "stream", "result"]);

    // A browser that comes back says what it has seen in a header.
    headers.push(("last-event-id", "2"));
    let reply = ask(&server, "GET", &format!("/api/v1/sessions/{id}/events"), &headers, b"").await;
    assert!(reply.text().starts_with("id: 3\n"), "{}", reply.text());
}

#[tokio::test]
async fn a_client_that_goes_away_stops_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut stream = client.execute_live(&id, &named("e1", GATED)).await.expect("a stream");
    while !matches!(next(&mut stream).await.expect("an event").event, Event::Stream { .. }) {}
    drop(stream);
    let mut again = client.execute_live(&id, &named("e1", GATED)).await.expect("a stream");
    while !matches!(next(&mut again).await.expect("an event").event, Event::Stream { .. }) {}
    client.interrupt(&id, None).await.expect("accepted");
    assert_eq!(outcome(&rest(&mut again).await).result.0.get(), "42");
}

#[tokio::test]
async fn events_are_read_from_any_place() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for n in 0..3 {
        run(&client, &id, &format!("print({n})")).await;
    }
    let read = async |events| rest(&mut client.events(&id, events).await.expect("events")).await;
    let every = read(Events::default()).await;
    assert_log(&every);
    assert_eq!(every.len(), 12, "{every:?}");
    let (after, last) = (Some(every[4].seq), Some(every[11].seq));
    assert_eq!(read(Events { after: Some(Seq(0)), ..Events::default() }).await, every);
    assert_eq!(read(Events { after, ..Events::default() }).await, every[5..]);
    assert_eq!(read(Events { after, limit: Some(3), ..Events::default() }).await, every[5..8]);
    assert_eq!(read(Events { after, limit: Some(2), follow: true }).await, every[5..7]);
    assert_eq!(read(Events { after: last, ..Events::default() }).await, []);
    assert_eq!(read(Events { after: Some(Seq(1 << 40)), ..Events::default() }).await, []);
    for query in ["after=-1", "after=x", "limit=0", "limit=1001", "follow=maybe", "after=1&after=2"] {
        let reply = ask_as_owner(&server, "GET", &format!("/api/v1/sessions/{id}/events?{query}"), "").await;
        let problem = reply.problem(ProblemCode::InvalidRequest);
        assert!(query.starts_with(&problem.errors[0].field), "{query}: {problem:?}");
    }

    // Live, until the session ends.
    let mut live = client.events(&id, Events { after: last, limit: None, follow: true }).await.expect("events");
    run(&client, &id, "print('live')").await;
    while next(&mut live).await.is_some_and(|it| !matches!(it.event, Event::Result(_))) {}
    client.delete(&id).await.expect("deleted");
    for event in rest(&mut live).await {
        assert!(matches!(event.event, Event::Status { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn ten_mebibytes_arrive_whole() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": MOST_BYTES}})).await;
    let (text, expected) = numbered(MOST_BYTES / 256, 256);
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", &text).await;
    let events = until_result(&mut socket, &execution).await;
    assert_log(&events);
    assert!(printed(&events, StreamName::Stdout) == expected, "over the socket");
    let ended = outcome(&events);
    assert_eq!((ended.success, ended.truncated, ended.usage.output_bytes), (true, false, MOST_BYTES as u64));

    let blocking = client.execute(&id, &named("e1", &text)).await.expect("the same execution");
    assert!(blocking.output == expected, "in the blocking answer");
    let mut lines = client.events(&id, Events { follow: true, ..Events::default() }).await.expect("events");
    let mut read = Vec::new();
    while read.last().is_none_or(|it: &LoggedEvent| !matches!(it.event, Event::Result(_))) {
        read.push(next(&mut lines).await.expect("an event"));
    }
    assert!(told(&read) == told(&events), "as lines");
}

#[tokio::test]
async fn nothing_of_an_execution_follows_its_result() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let text = "import threading, time\ndef chat():\n    while True:\n        print('background')\n        time.sleep(0.002)\n\
                threading.Thread(target=chat, daemon=True).start()";
    let mut events = Vec::new();
    let first = send(&mut socket, "e0", text).await;
    events.extend(until_result(&mut socket, &first).await);
    for n in 1..=20 {
        // It prints at its very end, and while nothing runs only the thread does.
        let execution =
            send(&mut socket, &format!("e{n}"), &format!("print('{}', end='last')", "x".repeat(5000))).await;
        events.extend(until_result(&mut socket, &execution).await);
        let own: Vec<_> = events.iter().filter(|it| stream_id(it) == Some(Some(execution.as_str()))).cloned().collect();
        assert!(printed(&own, StreamName::Stdout).contains("xlast"), "{own:?}");
        loop {
            let between = event(&mut socket).await;
            assert_eq!(stream_id(&between), Some(None), "{between:?}");
            events.push(between);
            if printed(&events[events.len() - 1..], StreamName::Stdout).contains("background") {
                break;
            }
        }
    }
    assert_log(&events);
    let slow = send(&mut socket, "slow", "time.sleep(0.5)").await;
    let events = until_result(&mut socket, &slow).await;
    let inside = events.iter().any(|it| stream_id(it) == Some(Some("slow")));
    assert!(inside, "what the thread prints while another execution runs has that one's id: {events:?}");
}

/// The id of a stream event, which may be null; nothing for other events.
fn stream_id(logged: &LoggedEvent) -> Option<Option<&str>> {
    match &logged.event {
        Event::Stream { id, .. } => Some(id.as_ref().map(|id| id.as_str())),
        _ => None,
    }
}
