//! `kill -9` of the gateway: what the clients of a session may rely on when it is back.

use std::collections::BTreeSet;
use std::time::Duration;

use repltool_protocol::event::{Event, Limit, SessionStatus, StreamName};
use serde_json::json;

use crate::follower::{Follower, Outage};
use crate::harness::{Server, code, descendants, eventually, in_time, kill, named_process, printed, python, run};

/// Runs until it is interrupted, which it takes for a good end once it has said that it waits.
const GATE: &str = "
import time
try:
    print('waiting')
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    pass
";

#[tokio::test]
async fn gateway_crash_keeps_variables_files_and_history() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 41\nprint(open('kept', 'w').write('on disk'))").await;
    server.crash_gateway().await;

    let after = run(&client, &session, "x + 1, open('kept').read()").await;
    assert_eq!(after.result_text.as_deref(), Some("(42, 'on disk')"));
    assert_eq!((after.success, after.state_lost, after.execution_count), (true, false, 2));
    let history = client.history(&session, 10, 0).await.expect("history");
    let counts: Vec<_> = history.executions.iter().map(|entry| entry.execution_count).collect();
    assert_eq!(counts, [1, 2]);
    let seen = client.get(&session).await.expect("the session");
    assert_eq!((seen.status, seen.expression_count), (SessionStatus::Active, 2));
}

#[tokio::test]
async fn output_written_around_a_crash_is_all_there_once_and_in_order() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let talker = "
import sys, time
for i in range(1500):
    print('out', i)
    print('err', i, file=sys.stderr)
    time.sleep(0.001)
'said'
";
    let id = follower.execute("talker", talker, 30_000).await;
    follower.until(|event| matches!(event, Event::Stream { .. })).await;
    server.crash_gateway().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.result_text.as_deref()), (true, Some("'said'")));
    for (stream, word) in [(StreamName::Stdout, "out"), (StreamName::Stderr, "err")] {
        let wanted: String = (0..1500).map(|i| format!("{word} {i}\n")).collect();
        assert_eq!(printed(&follower.seen, stream), wanted);
    }
    follower.assert_unchanged().await;
    let results = follower.seen.iter().filter(|logged| matches!(logged.event, Event::Result(_))).count();
    assert_eq!(results, 1);
}

#[tokio::test]
async fn an_end_that_was_told_is_in_the_history_and_known_by_its_name_after_a_crash() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "ran = []").await;
    // A store that is slow: nothing more is written into it before the gateway dies.
    let store = rusqlite::Connection::open(server.data().join("store/store.sqlite")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("it is ours");
    let mut follower = Follower::new(&client, &session);
    let text = "ran.append(1)\nlen(ran)";
    let id = follower.execute("once", text, 10_000).await;
    // Whether the end is told before it is stored is not for a client to know.
    let _ = tokio::time::timeout(Duration::from_secs(1), follower.result(&id)).await;
    let gateway = server.gateway_pid(None).await;
    kill(gateway, "KILL");
    store.execute_batch("ROLLBACK").expect("it is given back");
    drop(store);
    server.gateway_pid(Some(gateway)).await;
    server.until_ready().await;

    let mut again = code(text);
    again.execution_id = Some(id);
    let told = in_time("the result", client.execute(&session, &again)).await.expect("it is followed");
    assert_eq!((told.execution_count, told.result_text.as_deref()), (2, Some("1")), "it ran once");
    let history = in_time("history", client.history(&session, 10, 0)).await.expect("history");
    assert_eq!(history.executions.iter().map(|entry| entry.execution_count).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn an_execution_that_ends_while_there_is_no_gateway_is_told_to_the_next() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let text = "import time\ntime.sleep(0.3)\nprint('last words')\n6 * 7";
    let id = follower.execute("short", text, 10_000).await;
    follower.started(&id).await;
    let outage = Outage::begin(&server).await;
    outage.starts(2).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.result_text.as_deref(), outcome.state_lost), (true, Some("42"), false));
    assert!(outcome.execution_time_ms < 60_000, "{outcome:?}");
    assert_eq!(printed(&follower.seen, StreamName::Stdout), "last words\n");
    // A client that was cut off in its request asks again by the same name and gets the same end.
    let mut again = code(text);
    again.execution_id = Some(id);
    let told = in_time("the result", client.execute(&session, &again)).await.expect("it is followed");
    assert_eq!((told.execution_count, told.output.as_str()), (1, "last words\n"));
}

#[tokio::test]
async fn an_interpreter_that_ends_while_there_is_no_gateway_leaves_its_last_words() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id =
        follower.execute("exit", "import os, time\ntime.sleep(0.3)\nprint('last words')\nos._exit(7)", 10_000).await;
    follower.started(&id).await;
    let outage = Outage::begin(&server).await;
    outage.starts(2).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!(printed(&follower.seen, StreamName::Stdout), "last words\n");
    assert_eq!((outcome.success, outcome.state_lost, outcome.exit_code), (false, true, Some(7)));
}

#[tokio::test]
async fn queued_executions_run_in_order_after_a_crash() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let gate = follower.execute("gate", &format!("order = []\n{GATE}"), 30_000).await;
    let mut last = gate.clone();
    for i in 0..8 {
        last = follower.execute(&format!("q{i}"), &format!("order.append({i})"), 10_000).await;
    }
    let mut waits = BTreeSet::from(["gate's output", "the last one's place"]);
    while !waits.is_empty() {
        match follower.try_next().await.map(|logged| logged.event) {
            Some(Event::Stream { .. }) => drop(waits.remove("gate's output")),
            Some(Event::Queued { id }) if id == last => drop(waits.remove("the last one's place")),
            _ => {}
        }
    }
    server.crash_gateway().await;
    client.interrupt(&session, None).await.expect("the gate is opened");

    assert!(follower.result(&last).await.success);
    follower.assert_unchanged().await;
    let started = follower.seen.iter().filter_map(|logged| match &logged.event {
        Event::Started { id, execution_count, .. } => Some((id.to_string(), *execution_count)),
        _ => None,
    });
    let wanted = (0..8).map(|i| (format!("q{i}"), i + 2));
    assert_eq!(started.collect::<Vec<_>>(), std::iter::once(("gate".into(), 1)).chain(wanted).collect::<Vec<_>>());
    let order = run(&client, &session, "order").await;
    assert_eq!(order.result_text.as_deref(), Some("[0, 1, 2, 3, 4, 5, 6, 7]"));
}

#[tokio::test]
async fn a_timeout_that_falls_into_the_gap_strikes_and_keeps_the_state() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("late", "x = 5\nwhile True: pass", 1_000).await;
    follower.started(&id).await;
    let begun = tokio::time::Instant::now();
    let gateway = server.gateway_pid(None).await;
    // One that stands still does no more than one that is not there, and no other takes its place.
    kill(gateway, "STOP");
    tokio::time::sleep_until(begun + Duration::from_millis(1_200)).await;
    kill(gateway, "KILL");

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.limit, outcome.state_lost), (false, Some(Limit::WallTime), false));
    assert!(outcome.execution_time_ms >= 1_000, "{outcome:?}");
    let after = run(&client, &session, "x").await;
    assert_eq!((after.result_text.as_deref(), after.state_lost), (Some("5"), false));
}

#[tokio::test]
async fn without_a_gateway_the_supervisor_ends_what_is_over_its_time() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let gateway = server.gateway_pid(None).await;
    let mut sandbox = descendants(server.pid());
    sandbox.retain(|pid| *pid != gateway && !named_process(*pid, "janitor"));
    assert!(!sandbox.is_empty());
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("late", "print('on')\nwhile True: pass", 500).await;
    follower.until(|event| matches!(event, Event::Stream { .. })).await;
    let outage = Outage::begin(&server).await;
    let gone =
        || async { sandbox.iter().all(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)).then_some(()) };
    eventually("the sandbox is killed", gone).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.limit, outcome.state_lost), (false, Some(Limit::WallTime), true));
    let after = run(&client, &session, "'goes on'").await;
    assert_eq!((after.result_text.as_deref(), after.state_lost), (Some("'goes on'"), false));
}

#[tokio::test]
async fn an_interrupt_after_a_crash_reaches_what_runs() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("loop", "x = 5\nwhile True: pass", 30_000).await;
    follower.started(&id).await;
    server.crash_gateway().await;
    client.interrupt(&session, Some(&id)).await.expect("interrupted");

    let outcome = follower.result(&id).await;
    assert_eq!(outcome.exception.map(|it| it.name).as_deref(), Some("KeyboardInterrupt"));
    assert_eq!((outcome.limit, outcome.state_lost), (None, false));
    assert_eq!(run(&client, &session, "x").await.result_text.as_deref(), Some("5"));
}

#[tokio::test]
async fn an_interrupt_just_before_a_crash_hits_no_other_execution() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    for round in 0..4 {
        let gate = follower.execute(&format!("gate{round}"), GATE, 30_000).await;
        follower.until(|event| matches!(event, Event::Stream { .. })).await;
        let next = follower.execute(&format!("next{round}"), "time.sleep(0.2)\n'whole'", 10_000).await;
        let named = next.clone();
        follower.until(|event| matches!(event, Event::Queued { id } if *id == named)).await;
        let gateway = server.gateway_pid(None).await;
        client.interrupt(&session, Some(&gate)).await.expect("interrupted");
        kill(gateway, "KILL");
        let outcome = follower.result(&next).await;
        assert_eq!(outcome.result_text.as_deref(), Some("'whole'"), "{outcome:?}");
        server.gateway_pid(Some(gateway)).await;
        server.until_ready().await;
    }
    follower.assert_unchanged().await;
}
