//! What becomes of executions when their interpreter ends, of itself or because a client wants a fresh one.

use futures::future::join;
use repltool::client::Client;
use repltool_protocol::event::{Event, LoggedEvent, Outcome, StatusReason, StreamName};
use repltool_protocol::ids::SessionId;
use serde_json::json;

use super::harness::{
    Server, assert_log, event, exception, named, outcome, printed, python, run, send, until_printed, until_result,
};

#[tokio::test]
async fn sys_exit_ends_the_execution_and_not_the_session() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for (text, success, exit_code) in [
        ("x = 7\nimport sys; sys.exit()", true, 0),
        ("sys.exit(3)", false, 3),
        ("sys.exit('no')", false, 1),
        ("exit(0)", true, 0),
    ] {
        let result = run(&client, &id, text).await;
        assert_eq!(
            (result.success, result.exit_code, result.state_lost),
            (success, Some(exit_code), false),
            "{text}: {result:?}"
        );
    }
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "7");
}

#[tokio::test]
async fn lost_interpreter_is_told_and_replaced() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let endings = [
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import ctypes; ctypes.string_at(0)", 139),
    ];
    for (n, (text, exit_code)) in endings.iter().enumerate() {
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let lost = send(&mut socket, &format!("lost{n}"), &format!("x = 1\nprint('before', flush=True)\n{text}")).await;
        let events = until_result(&mut socket, &lost).await;
        let ended = outcome(&events);
        assert_eq!(
            (ended.success, ended.state_lost, ended.exit_code, ended.limit),
            (false, true, Some(*exit_code), None)
        );
        assert_eq!(printed(&events, StreamName::Stdout), "before\n");
        let next = send(&mut socket, &format!("next{n}"), "x").await;
        let events = until_result(&mut socket, &next).await;
        let restarted =
            |it: &LoggedEvent| matches!(it.event, Event::Status { reason: Some(StatusReason::Restarted), .. });
        let restarted = events.iter().position(restarted).expect("a status event");
        let started = events.iter().position(|it| matches!(it.event, Event::Started { .. })).expect("it starts");
        assert!(restarted < started, "{events:?}");
        assert_eq!((exception(outcome(&events)), outcome(&events).state_lost), ("NameError", false));
        assert_eq!(outcome(&events).execution_count, 2 * n as u64 + 2, "the count goes on");
    }
}

/// Checks that two executions wait behind `first` and end without being run when `lose` takes the interpreter away.
async fn assert_waiting_is_lost(first: &str, lose: impl AsyncFn(&Client, &SessionId), told: &str) {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let running = send(&mut socket, "first", first).await;
    until_printed(&mut socket).await;
    for name in ["a", "b"] {
        send(&mut socket, name, "import os; os.remove('precious')").await;
        assert!(matches!(event(&mut socket).await.event, Event::Queued { .. }));
    }
    let (events, ()) = join(until_result(&mut socket, &"b".parse().expect("an id")), lose(&client, &id)).await;
    assert_log(&events);
    let ended = client.execute(&id, &named(running.as_str(), first)).await.expect("it is followed");
    assert_eq!((ended.exception.map_or(String::new(), |it| it.name), ended.state_lost), (told.to_owned(), true));
    let unrun: Vec<&Outcome> = events.iter().filter_map(|it| outcome_of(it, &["a", "b"])).collect();
    assert_eq!(unrun.len(), 2, "{events:?}");
    for unrun in unrun {
        let fact = (exception(unrun), unrun.success, unrun.execution_count, unrun.state_lost);
        assert_eq!(fact, ("StateLost", false, 0, false), "{unrun:?}");
    }
    assert_eq!(run(&client, &id, "open('precious').read()").await.result.0.get(), r#""kept""#, "nothing of it was run");
    let history = client.history(&id, 10, 0).await.expect("history").executions;
    let mut counts: Vec<_> = history.iter().map(|it| it.execution_count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 1, 2]);
}

fn outcome_of<'a>(logged: &'a LoggedEvent, ids: &[&str]) -> Option<&'a Outcome> {
    match &logged.event {
        Event::Result(outcome) if ids.contains(&outcome.id.as_str()) => Some(outcome),
        _ => None,
    }
}

#[tokio::test]
async fn what_waits_for_a_lost_interpreter_ends_unrun() {
    let dies = "import os, time\nopen('precious', 'w').write('kept')\ntry:\n print('runs')\n time.sleep(600)\nfinally: os._exit(1)";
    let interrupt = async |client: &Client, id: &SessionId| client.interrupt(id, None).await.expect("accepted");
    assert_waiting_is_lost(dies, interrupt, "").await;
}

#[tokio::test]
async fn what_waits_at_a_restart_ends_unrun() {
    let sleeps = "import time\nopen('precious', 'w').write('kept')\nprint('runs')\ntime.sleep(600)";
    let restart = async |client: &Client, id: &SessionId| drop(client.restart(id).await.expect("restarted"));
    assert_waiting_is_lost(sleeps, restart, "StateLost").await;
}
