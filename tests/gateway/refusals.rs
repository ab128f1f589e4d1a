//! Calls that Linux refuses to a program: each is told, before the end of the execution that made it.

use repltool_protocol::event::{Event, LoggedEvent, SessionStatus, StatusReason, ViolationLayer};
use serde_json::json;

use super::follower::Follower;
use super::harness::{As, Server, event, eventually, python, run, run_for, send, session, until_result};

/// So that a program of the level `strict` may import what leads to the walls.
const LENIENT_IN_STRICT: &str = "sandbox.strict.policy = \"record\"\n";

/// Tries to become another program, and says what came of it.
const TRY: &str =
    "import os\ntry:\n    os.execv('/usr/bin/id', ['id'])\nexcept OSError as error:\n    print(error.errno)\n";

fn details(events: &[LoggedEvent]) -> Vec<(&str, &str, ViolationLayer)> {
    let told = |logged: &'_ LoggedEvent| matches!(logged.event, Event::Violation { .. });
    let fields = events.iter().filter(|it| told(it)).filter_map(|it| match &it.event {
        Event::Violation { rule, detail, layer, .. } => Some((rule.as_str(), detail.as_str(), *layer)),
        _ => None,
    });
    fields.collect()
}

#[tokio::test]
async fn a_refused_call_is_told_and_named_and_ends_nothing() {
    let server = Server::start_with(As::Me, LENIENT_IN_STRICT).await;
    let client = server.client();
    for (language, mode, code, rule, detail) in [
        ("python", "standard", TRY, "exec", "execve /usr/bin/id"),
        (
            "javascript",
            "standard",
            "console.log(require('child_process').spawnSync('/usr/bin/id').error.code)",
            "exec",
            "execve /usr/bin/id",
        ),
        (
            "python",
            "strict",
            "import socket\ntry: socket.socket(socket.AF_INET)\nexcept OSError: pass",
            "network",
            "socket",
        ),
    ] {
        let id = session(&client, language, json!({"sandbox_mode": mode})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let e1 = send(&mut socket, "e1", code).await;
        let events = until_result(&mut socket, &e1).await;
        assert_eq!(details(&events), [(rule, detail, ViolationLayer::Kernel)], "{language}: {events:?}");
        let Some(LoggedEvent { event: Event::Result(outcome), .. }) = events.last() else { panic!("{events:?}") };
        assert!(outcome.success, "{language}: {outcome:?}");
        assert_eq!(outcome.violation.as_ref().map(|it| it.detail.as_str()), Some(detail), "{language}");
        assert_eq!(client.history(&id, 1, 0).await.expect("history").executions[0].violation, outcome.violation);
        let next = run(&client, &id, "1").await;
        assert_eq!((next.violation, next.state_lost), (None, false), "{language}");
    }
    assert!(server.log().contains("repltool::violation"), "an operator is told");
}

/// The refusal is the last thing that the program does: its word races with the end.
#[tokio::test]
async fn no_result_overtakes_the_word_on_a_refusal() {
    let server = Server::start_with(As::Me, "[sandbox]\nviolations_per_minute = 1000\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for n in 0..100 {
        let result = run(&client, &id, TRY).await;
        assert!(result.violation.is_some(), "{n}: {result:?}");
    }
    assert!(!server.log().contains("nothing was told of refused calls"), "each word came in time");
}

#[tokio::test]
async fn a_refusal_while_nothing_runs_belongs_to_nobody() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let later = "import threading, time\ndef later():\n    time.sleep(1)\n    try: os.execv('/usr/bin/id', ['id'])\n    \
                 except OSError: pass\nimport os\nthreading.Thread(target=later).start()";
    let e1 = send(&mut socket, "e1", later).await;
    assert_eq!(details(&until_result(&mut socket, &e1).await), []);
    let told = event(&mut socket).await;
    assert!(matches!(&told.event, Event::Violation { id: None, rule, .. } if rule == "exec"), "{told:?}");
    assert_eq!(run(&client, &id, "1").await.violation, None);
}

#[tokio::test]
async fn a_flood_of_refused_calls_ends_the_session() {
    let server = Server::start_with(As::Me, LENIENT_IN_STRICT).await;
    let client = server.client();
    let python_code = "import os\nwhile True:\n  try: os.execv('/usr/bin/id', ['id'])\n  except OSError: pass";
    for (language, mode, code, rule) in [
        ("python", "standard", python_code, "exec"),
        ("javascript", "strict", "for (;;) require('child_process').spawnSync('/usr/bin/id')", "process"),
    ] {
        let id = session(&client, language, json!({"sandbox_mode": mode})).await;
        let result = run_for(&client, &id, 60_000, code).await;
        assert!(!result.success && result.limit.is_none() && result.state_lost, "{language}: {result:?}");
        assert_eq!(result.violation.as_ref().map(|it| it.rule.as_str()), Some(rule), "{language}: {result:?}");
        eventually("the session has ended", || async {
            (client.get(&id).await.expect("it is kept").status == SessionStatus::Terminated).then_some(())
        })
        .await;
        let mut late = client.attach(&id, Some(repltool_protocol::ids::Seq(0))).await.expect("a socket");
        loop {
            if let Event::Status { reason, .. } = event(&mut late).await.event {
                assert_eq!(reason, Some(StatusReason::Violations), "{language}");
                break;
            }
        }
    }
    let id = python(&client, json!({})).await;
    assert_eq!(run(&client, &id, "40 + 2").await.result_text.as_deref(), Some("42"), "others are left alone");
}

#[tokio::test]
async fn a_crash_of_the_gateway_forgets_no_refusal_of_what_runs() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &id);
    let waits =
        format!("{TRY}import time\ntry:\n    while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n    pass\n");
    let e1 = follower.execute("e1", &waits, 30_000).await;
    follower.until(|event| matches!(event, Event::Violation { .. })).await;
    server.crash_gateway().await;
    eventually("it is interrupted", || async { client.interrupt(&id, None).await.ok() }).await;
    let outcome = follower.result(&e1).await;
    assert!(outcome.success, "{outcome:?}");
    assert_eq!(outcome.violation.expect("from before the crash").detail, "execve /usr/bin/id");
    assert_eq!(details(&follower.seen).len(), 1, "told once: {:?}", follower.seen);
}
