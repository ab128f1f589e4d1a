//! Violations: what a program tries against the rules of its sandbox is told, counted, and in the end costs the session.
//!
//! What the policy on imports finds comes from the driver, whose messages a program can imitate. Here it does: so the
//! tests choose what is found, and show that what a program chose is bounded.

use repltool::client::{Client, Events, Received, Socket};
use repltool_protocol::event::{Event, LoggedEvent, SessionStatus, StatusReason, ViolationLayer};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use super::harness::{
    As, Server, assert_log, code, descendants, event, eventually, in_time, python, run, send, type_in, until_result,
};
use super::lifecycle::traces;
use super::wire::{ask_as_owner, local_token, open_as};

/// The level whose policy is set here, and nowhere else.
const RELAXED: &str = r#"{"sandbox_mode": "relaxed"}"#;

/// Settings with a policy for the relaxed level, and a budget.
fn settings(policy: &str, per_minute: u32) -> String {
    format!("[sandbox]\nviolations_per_minute = {per_minute}\n[sandbox.relaxed]\npolicy = \"{policy}\"\n")
}

async fn relaxed(client: &Client) -> SessionId {
    python(client, serde_json::from_str(RELAXED).expect("JSON")).await
}

/// A program that speaks as its driver would at the end of execution `n`, after it has printed a line.
fn forged(n: u64, details: &[&str]) -> String {
    let findings: Vec<_> = details.iter().map(|detail| json!({"rule": "import", "detail": detail})).collect();
    let done = json!({"t": "done", "m": 10 + n, "n": n, "success": true, "end_ns": 1, "violations": findings});
    let done = done.to_string();
    format!(
        "import os, stat\nprint('before', flush=True)\nfor fd in range(3, 1100):\n  try:\n    if \
         stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'%08d' % {} + {done:?}.encode())\n  except OSError: pass\n",
        done.len()
    )
}

/// Layer, rule, detail, times and execution of the violations among events.
fn told(events: &[LoggedEvent]) -> Vec<(ViolationLayer, &str, &str, u32, Option<&str>)> {
    events
        .iter()
        .filter_map(|logged| match &logged.event {
            Event::Violation { id, rule, detail, layer, times } => {
                Some((*layer, rule.as_str(), detail.as_str(), *times, id.as_ref().map(|id| id.as_str())))
            }
            _ => None,
        })
        .collect()
}

async fn closed(socket: &mut Socket) -> (Vec<LoggedEvent>, Option<u16>) {
    let mut events = Vec::new();
    loop {
        match in_time("the end of the socket", socket.receive()).await.expect("readable") {
            Received::Closed(closed) => return (events, closed.code),
            Received::Frame(repltool_protocol::frame::ServerFrame::Event(event)) => events.push(event),
            Received::Frame(_) => {}
        }
    }
}

#[tokio::test]
async fn a_violation_is_an_event_before_the_result_that_names_it() {
    let server = Server::start_with(As::Me, &settings("warn", 100)).await;
    let client = server.client();
    let id = relaxed(&client).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let long = "x".repeat(400);
    let e1 = send(&mut socket, "e1", &forged(1, &["os\n\u{1b}[31m", "socket"])).await;
    let events = until_result(&mut socket, &e1).await;
    assert_log(&events);
    let expected = [
        (ViolationLayer::Policy, "import", "os\u{fffd}\u{fffd}[31m", 1, Some("e1")),
        (ViolationLayer::Policy, "import", "socket", 1, Some("e1")),
    ];
    assert_eq!(told(&events), expected);
    let Some(LoggedEvent { event: Event::Result(outcome), .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(outcome.violation.as_ref().map(|it| it.detail.as_str()), Some("os\u{fffd}\u{fffd}[31m"));
    assert!(outcome.success, "a warning ends nothing");
    let history = client.history(&id, 10, 0).await.expect("history");
    assert_eq!(history.executions[0].violation, outcome.violation);
    // One line of the log each, with the execution.
    let lines: Vec<_> =
        server.log().lines().filter(|line| line.contains("repltool::violation")).map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("e1") && line.contains(id.as_str()) && line.contains("Warn")));
    // The next execution has none, and what is too long costs the driver's word.
    assert_eq!(run(&client, &id, "1").await.violation, None);
    let refused = run(&client, &id, &forged(3, &[&long])).await;
    assert!(refused.violation.is_none() && refused.state_lost, "{refused:?}");
}

#[tokio::test]
async fn what_is_recorded_alone_is_told_to_nobody_and_costs_nothing() {
    let server = Server::start_with(As::Me, &settings("record", 1)).await;
    let client = server.client();
    let id = relaxed(&client).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let e1 = send(&mut socket, "e1", &forged(1, &["os"; 16])).await;
    let events = until_result(&mut socket, &e1).await;
    assert_eq!(told(&events), []);
    let Some(LoggedEvent { event: Event::Result(outcome), .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(outcome.violation, None);
    assert_eq!(server.log().matches("repltool::violation").count(), 16);
    assert!(run(&client, &id, "1").await.success);
}

#[tokio::test]
async fn too_many_violations_end_a_session_for_good() {
    let server = Server::start_with(As::Me, &settings("refuse", 3)).await;
    let client = server.client();
    let before = descendants(server.pid()).len();
    let id = relaxed(&client).await;
    assert!(run(&client, &id, &forged(1, &["a", "b", "c"])).await.violation.is_some(), "as many as are allowed");
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let waiting = format!("input()\n{}import time\ntime.sleep(60)", forged(2, &["d"]));
    send(&mut socket, "e2", &waiting).await;
    let e3 = send(&mut socket, "e3", "1").await;
    while event(&mut socket).await.event != (Event::Queued { id: e3.clone() }) {}
    type_in(&mut socket, "\n").await;
    let (events, code) = closed(&mut socket).await;
    assert_log(&events);
    assert_eq!(code, Some(4403));
    assert_eq!(told(&events).iter().map(|it| it.2).collect::<Vec<_>>(), ["d"]);
    let results: Vec<_> = events
        .iter()
        .filter_map(|it| match &it.event {
            Event::Result(outcome) => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(
        results.iter().map(|it| (it.id.as_str(), it.success)).collect::<Vec<_>>(),
        [("e2", false), ("e3", false)]
    );
    assert_eq!(results[0].violation.as_ref().map(|it| it.detail.as_str()), Some("d"));
    assert!(results[0].state_lost && results[1].execution_count == 0, "{results:?}");
    assert_ended(&server, &client, &id).await;
    eventually("its processes are gone", || async { (descendants(server.pid()).len() == before).then_some(()) }).await;

    server.crash_gateway().await;
    let client = server.client();
    assert_ended(&server, &client, &id).await;
    client.delete(&id).await.expect("deleted");
    assert_eq!(traces(&server, &id), Vec::<String>::new());
}

/// It can be read and not be used, and a socket is told once more.
async fn assert_ended(server: &Server, client: &Client, id: &SessionId) {
    let session = client.get(id).await.expect("still there");
    assert_eq!(session.status, SessionStatus::Terminated);
    assert_eq!(client.history(id, 10, 0).await.expect("history").total, 3);
    for (path, body) in [("/execute", r#"{"code":"1"}"#), ("/interrupt", ""), ("/restart", "")] {
        let reply = ask_as_owner(server, "POST", &format!("/api/v1/sessions/{id}{path}"), body).await;
        reply.problem(ProblemCode::Gone);
    }
    ask_as_owner(server, "GET", &format!("/api/v1/sessions/{id}/files"), "").await.problem(ProblemCode::Gone);
    let mut events = client.events(id, Events { follow: true, ..Events::default() }).await.expect("events");
    let mut last = None;
    while let Some(frame) = in_time("an event", events.next()).await.expect("readable") {
        last = Some(frame);
    }
    assert!(format!("{last:?}").contains(&format!("{:?}", StatusReason::Violations)), "{last:?}");
    let path = format!("/api/v1/sessions/{id}/ws?after=0");
    let mut late = open_as(server, &path, &local_token(server)).await.expect("a socket");
    assert_eq!(late.next_of("ready").await["session"]["status"], "terminated");
    assert_eq!(late.next_of("status").await["reason"], "violations");
    assert_eq!(late.next().await.expect_err("the end"), Some(4403));
}

#[tokio::test]
async fn violations_of_one_session_cost_no_other_one_anything() {
    let server = Server::start_with(As::Me, &settings("refuse", 3)).await;
    let client = server.client();
    let (one, other) = (relaxed(&client).await, relaxed(&client).await);
    let (first, second) = (forged(1, &["a", "b", "c"]), forged(1, &["a", "b", "c", "d"]));
    let (kept, lost) = tokio::join!(run(&client, &one, &first), run(&client, &other, &second));
    assert!(kept.success && !lost.success, "{kept:?} {lost:?}");
    assert_eq!(run(&client, &one, "40 + 2").await.result_text.as_deref(), Some("42"));
    let ended = client.execute(&other, &code("1")).await.expect_err("it has ended");
    assert_eq!(ended.problem().expect("a problem").code, ProblemCode::Gone);
}

#[tokio::test]
async fn a_one_shot_with_too_many_violations_is_answered_and_gone() {
    let server = Server::start_with(As::Me, &settings("refuse", 2)).await;
    let before = descendants(server.pid()).len();
    let body = json!({"language": "python", "sandbox_mode": "relaxed", "code": forged(1, &["a", "b", "c"])});
    let reply = ask_as_owner(&server, "POST", "/api/v1/execute", &body.to_string()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let result = reply.json();
    assert_eq!((&result["success"], &result["violation"]["detail"]), (&json!(false), &json!("a")));
    assert_eq!(result["output"], "before\n");
    let id: SessionId = result["session_id"].as_str().expect("an id").parse().expect("an id");
    assert_eq!(traces(&server, &id), Vec::<String>::new());
    eventually("its processes are gone", || async { (descendants(server.pid()).len() == before).then_some(()) }).await;
}

#[tokio::test]
async fn a_draining_server_does_not_wait_for_a_session_that_was_ended() {
    let mut server = Server::start_with(As::Me, &settings("refuse", 1)).await;
    let client = server.client();
    let id = relaxed(&client).await;
    assert!(!run(&client, &id, &forged(1, &["a", "b"])).await.success);
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    let server = server.restart().await;
    let session = server.client().get(&id).await.expect("it is kept");
    assert_eq!(session.status, SessionStatus::Terminated);
    let mut late = server.client().attach(&id, Some(Seq(0))).await.expect("a socket");
    assert_eq!(closed(&mut late).await.1, Some(4403));
}
