//! What keeps a session from its idle timeout, and what does not.

use std::time::Duration;

use jiff::Timestamp;
use repltool::client::{Client, Events, Received};
use repltool_protocol::event::SessionStatus;
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use crate::harness::{As, Server, code, eventually, in_time, named, python, run};

#[tokio::test]
async fn no_session_ends_while_something_runs_or_waits() {
    let server = Server::start_with(As::Me, "[sessions]\nidle_timeout_s = 1\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    // One execution is longer than the timeout, and so is the queue behind it; nobody looks on.
    let first = code("import time\ntime.sleep(2.5)");
    drop(client.execute_live(&id, &first).await.expect("accepted"));
    for n in 0..3 {
        let request = named(&format!("e{n}"), "time.sleep(0.7)");
        drop(client.execute_live(&id, &request).await.expect("accepted"));
    }
    let session = client.get(&id).await.expect("the session");
    assert_eq!((session.status, session.expires_at), (SessionStatus::Active, None), "busy sessions do not expire");
    terminated(&client, &id).await;
    let history = client.history(&id, 10, 0).await.expect("history");
    let ended: Vec<_> = history.executions.iter().map(|it| (it.execution_count, it.success)).collect();
    assert_eq!(ended, [(1, true), (2, true), (3, true), (4, true)], "everything ran before the session ended");
}

/// Waits for the idle timeout; gives the session as it is listed then.
async fn terminated(client: &Client, id: &SessionId) {
    eventually("the idle timeout", || async {
        let session = client.get(id).await.expect("still readable");
        (session.status == SessionStatus::Terminated).then_some(())
    })
    .await;
}

#[tokio::test]
async fn reading_pinging_and_attaching_keep_no_session() {
    let server = Server::start_with(As::Me, "[sessions]\nidle_timeout_s = 2\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "1").await;
    let expires = client.get(&id).await.expect("the session").expires_at;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let closed = loop {
        let ping = ClientFrame::Ping { id: "p".parse().expect("an id") };
        if socket.send(&ping).await.is_err() {
            break None;
        }
        match in_time("an answer", socket.receive()).await.expect("readable") {
            Received::Closed(closed) => break closed.code,
            Received::Frame(ServerFrame::Notice(Notice::Ready { .. } | Notice::Pong { .. })) => {}
            Received::Frame(_) => continue,
        }
        let Ok(session) = client.get(&id).await else { continue };
        assert!(session.status == SessionStatus::Terminated || session.expires_at == expires, "{session:?}");
        client.list(10, 0).await.expect("a list");
        client.history(&id, 10, 0).await.expect("history");
        let mut events = client.events(&id, Events::default()).await.expect("events");
        while in_time("an event", events.next()).await.expect("readable").is_some() {}
        drop(client.attach(&id, Some(Seq(0))).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(matches!(closed, None | Some(4408)), "{closed:?}");
    terminated(&client, &id).await;
}

#[tokio::test]
async fn accepted_commands_are_activity_and_refused_ones_are_not() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_expressions": 1}})).await;
    let last = async || -> Timestamp {
        // The clock of the wire has milliseconds; it moves on before the next command.
        tokio::time::sleep(Duration::from_millis(2)).await;
        client.get(&id).await.expect("the session").last_activity.parse().expect("a time")
    };
    let mut before = last().await;
    let mut grew = async |what: &str| {
        let now = last().await;
        assert!(now > before, "{what} is activity");
        before = now;
    };
    run(&client, &id, "1").await;
    grew("an execution").await;
    client.interrupt(&id, None).await.expect("accepted");
    grew("an interrupt").await;
    client.write_file(&id, "f", "x").await.expect("written");
    grew("writing a file").await;
    client.remove_file(&id, "f").await.expect("removed");
    grew("removing a file").await;
    client.is_complete(&id, "1 +").await.expect("an answer");
    grew("a question").await;
    client.restart(&id).await.expect("restarted");
    grew("a restart").await;
    let quiet = last().await;
    let refused = client.execute(&id, &code("1")).await.expect_err("there was one execution already");
    assert_eq!(refused.problem().expect("a problem").code, ProblemCode::ExpressionLimit);
    assert!(client.stdin(&id, Some("x"), false).await.is_err(), "nothing reads");
    assert_eq!(last().await, quiet, "what is refused is no activity");
}

#[tokio::test]
async fn an_ended_session_is_readable_for_its_time_and_then_gone_everywhere() {
    let settings = "[sessions]\nidle_timeout_s = 1\n[store]\nkeep_ended_s = 3\n";
    let server = Server::start_with(As::Me, settings).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "print('kept')").await;
    terminated(&client, &id).await;
    let ended = tokio::time::Instant::now();
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 1);
    assert_eq!(client.list(10, 0).await.expect("a list").total, 1);
    let mut events = client.events(&id, Events::default()).await.expect("events");
    let mut seen = String::new();
    while let Some(event) = in_time("an event", events.next()).await.expect("readable") {
        seen += &format!("{event:?}");
    }
    assert!(seen.contains("kept"), "{seen}");
    eventually("it is forgotten", || async {
        let error = client.get(&id).await.err()?;
        (error.problem().map(|problem| problem.code) == Some(ProblemCode::NotFound)).then_some(())
    })
    .await;
    assert!(ended.elapsed() > Duration::from_secs(1), "it was readable for its time: {:?}", ended.elapsed());
    assert_eq!(client.list(10, 0).await.expect("a list").total, 0);
    assert!(client.history(&id, 10, 0).await.is_err() && client.events(&id, Events::default()).await.is_err());
    assert!(!server.data().join("store/sessions").join(id.as_str()).exists(), "its log is deleted");
}
