//! Clients that go away in the middle, and ask the same again.

use repltool::client::{Client, ClientError, Events};
use repltool_protocol::event::{Event, StatusReason};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::{ExecutionResult, ProblemCode};
use serde_json::json;

use super::harness::{As, Server, descendants, eventually, in_time, named, python, run};
use super::talk::{Talk, head, request};
use super::wire::{ask, ask_as_owner, bearer, local_token};

const SESSIONS: &str = "/api/v1/sessions";
/// Counts how often it was run, and takes its time.
const COUNTS: &str = "import time\nn = globals().get('n', 0) + 1\nprint('run', n)\ntime.sleep(1.5)\nn";

async fn until_runs(client: &Client, id: &SessionId) {
    eventually("it runs", || async {
        let session = client.get(id).await.ok()?;
        (session.expires_at.is_none() && session.expression_count > 0).then_some(())
    })
    .await;
}

/// Asks until a gateway lives to answer.
async fn follow(client: &Client, id: &SessionId, name: &str) -> ExecutionResult {
    let request = named(name, COUNTS);
    eventually("a result", || async {
        match client.execute(id, &request).await {
            Ok(result) => Some(result),
            Err(ClientError::Broken(_) | ClientError::Connect { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

#[tokio::test]
async fn a_client_that_does_not_wait_finds_its_result_later() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let body = serde_json::to_string(&named("once", COUNTS)).expect("JSON");
    for _ in 0..3 {
        let mut talk = Talk::connect(&server).await;
        talk.send(request(&server, "POST", &format!("{SESSIONS}/{id}/execute"), &body)).await;
        until_runs(&client, &id).await;
    }
    let result = follow(&client, &id, "once").await;
    assert_eq!((result.output.as_str(), result.result.0.get(), result.execution_count), ("run 1\n", "1", 1));
    assert_eq!(follow(&client, &id, "once").await, result);
    assert_eq!(run(&client, &id, "n").await.result.0.get(), "1");
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 2);
}

#[tokio::test]
async fn the_same_execution_is_asked_for_again_after_a_crash() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let request = named("once", COUNTS);
    let crash = async {
        until_runs(&client, &id).await;
        server.crash_gateway().await;
    };
    let (broken, ()) = futures::future::join(server.client().execute(&id, &request).into_future(), crash).await;
    assert!(matches!(broken, Err(ClientError::Broken(_))), "{broken:?}");
    let result = follow(&client, &id, "once").await;
    assert_eq!((result.output.as_str(), result.result.0.get(), result.state_lost), ("run 1\n", "1", false));
    // After its end, too.
    server.crash_gateway().await;
    assert_eq!(follow(&client, &id, "once").await, result);
    assert_eq!(run(&client, &id, "n").await.result.0.get(), "1");
}

#[tokio::test]
async fn a_body_that_breaks_off_does_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for (path, body) in [
        (format!("{SESSIONS}/{id}/execute"), r#"{"code":"open('ran', 'w')"}"#),
        (SESSIONS.to_owned(), r#"{"language":"python"}"#),
        ("/api/v1/execute".to_owned(), r#"{"language":"python","code":"1"}"#),
    ] {
        let whole = request(&server, "POST", &path, body);
        for cut in [1, body.len() / 2, body.len() - 1] {
            let mut talk = Talk::connect(&server).await;
            talk.send(&whole[..whole.len() - cut]).await;
        }
        let chunked = format!("{}transfer-encoding: chunked\r\n\r\n", head(&server, "POST", &path));
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{chunked}{:x}\r\n{body}\r\n", body.len())).await;
    }
    assert_eq!(run(&client, &id, "import os; os.listdir()").await.result.0.get(), "[]");
    let list = client.list(10, 0).await.expect("a list");
    assert_eq!((list.total, client.history(&id, 10, 0).await.expect("history").total), (1, 1));
}

#[tokio::test]
async fn a_client_that_leaves_while_its_session_is_made_leaves_nothing_else() {
    let server = Server::start().await;
    let client = server.client();
    let before = descendants(server.pid()).len();
    for wait_ms in [0, 1, 3, 10, 30, 60] {
        let mut talk = Talk::connect(&server).await;
        talk.send(request(&server, "POST", SESSIONS, r#"{"language":"python"}"#)).await;
        let _ = tokio::time::timeout(std::time::Duration::from_millis(wait_ms), talk.head()).await;
    }
    // Each of them is there, can be used, and can be deleted; one that was not read does not come.
    python(&client, json!({})).await;
    for session in client.list(10, 0).await.expect("a list").sessions {
        assert_eq!(run(&client, &session.session_id, "6 * 7").await.result.0.get(), "42");
    }
    eventually("nothing is left", || async {
        for session in client.list(10, 0).await.expect("a list").sessions {
            client.delete(&session.session_id).await.expect("deleted");
        }
        (descendants(server.pid()).len() == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn asking_twice_is_as_good_as_once() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let session = format!("{SESSIONS}/{id}");
    for (method, rest, body, statuses) in [
        ("POST", "/interrupt", "", [202, 202]),
        ("POST", "/interrupt", r#"{"execution_id":"unknown"}"#, [202, 202]),
        ("PUT", "/files/f", "text", [201, 204]),
        ("DELETE", "/files/f", "", [204, 404]),
        ("POST", "/restart", "", [200, 200]),
        ("POST", "/stdin", r#"{"eof":true}"#, [409, 409]),
        ("DELETE", "", "", [204, 404]),
    ] {
        for status in statuses {
            let reply = ask_as_owner(&server, method, &format!("{session}{rest}"), body).await;
            assert_eq!(reply.status, status, "{method} {rest}: {reply:?}");
        }
    }
    // At the same moment one of them ends it.
    let id = python(&client, json!({})).await;
    let both = futures::future::join(client.delete(&id), client.delete(&id)).await;
    let ended = [&both.0, &both.1].into_iter().filter(|it| it.is_ok()).count();
    assert!(ended >= 1, "{both:?}");
    for refused in [both.0, both.1].into_iter().filter_map(Result::err) {
        assert_eq!(refused.problem().expect("a problem").code, ProblemCode::NotFound);
    }
}

#[tokio::test]
async fn whoever_follows_is_told_the_end() {
    let mut server = Server::start_with(As::Me, "[edge]\ndrain_s = 5\n").await;
    let client = server.client();
    let (ends, stays) = (python(&client, json!({})).await, python(&client, json!({})).await);
    run(&client, &ends, "1").await;
    let mut lines = client.events(&ends, Events { follow: true, ..Events::default() }).await.expect("events");
    let mut browser = Talk::connect(&server).await;
    let follow = request(&server, "GET", &format!("{SESSIONS}/{ends}/events?follow=true"), "");
    browser.send(follow.replacen("\r\n", "\r\naccept: text/event-stream\r\n", 1)).await;
    assert_eq!(browser.head().await.0, 200);
    client.delete(&ends).await.expect("deleted");
    let mut last = None;
    while let Some(frame) = in_time("the end", lines.next()).await.expect("readable") {
        last = Some(frame);
    }
    let Some(ServerFrame::Event(last)) = last else { panic!("{last:?}") };
    assert!(matches!(last.event, Event::Status { reason: Some(StatusReason::Terminated), .. }), "{last:?}");
    let events = String::from_utf8(browser.chunks().await).expect("text");
    assert!(events.ends_with("\n\n") && events.contains(&format!("id: {}\ndata: ", last.seq)), "{events}");

    let mut live = client.events(&stays, Events { follow: true, ..Events::default() }).await.expect("events");
    server.signal("TERM");
    while in_time("the end", live.next()).await.expect("an answer that ends as it should").is_some() {}
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn a_browser_that_comes_back_too_late_is_told_of_a_gap() {
    let server = Server::start_with(As::Me, "[store]\nsession_mb = 1\n").await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10 << 20}})).await;
    run(&client, &id, "for n in range(3 << 10): print('x' * 1023)").await;
    let path = format!("{SESSIONS}/{id}/events?limit=1");
    let token = bearer(&local_token(&server));
    let ask_after = async |last: &str, path: &str| {
        let headers = [("authorization", token.as_str()), ("accept", "text/event-stream"), ("last-event-id", last)];
        ask(&server, "GET", path, &headers, b"").await
    };
    let reply = ask_after("1", &path).await;
    assert!(reply.text().starts_with("data: {\"type\":\"gap\",\"from\":2,"), "{}", reply.text());
    // What a client asks for itself is refused, and goes before what its browser remembers.
    ask_after("1", &format!("{path}&after=1")).await.problem(ProblemCode::Gone);
    let last = client.get(&id).await.expect("the session").last_seq;
    assert!(ask_after("1", &format!("{path}&after={last}")).await.body.is_empty());
    for odd in ["", "x", "-1", "1e3"] {
        assert!(ask_after(odd, &path).await.text().starts_with("data: {\"type\":\"gap\",\"from\":1,"), "{odd}");
    }
    let mut gap = client.events(&id, Events { limit: Some(1), ..Events::default() }).await.expect("events");
    let first = in_time("a gap", gap.next()).await.expect("readable");
    assert!(matches!(first, Some(ServerFrame::Notice(Notice::Gap { from: Seq(1), .. }))), "{first:?}");
}
