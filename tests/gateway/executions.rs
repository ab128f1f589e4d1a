//! Executions of a session: results, history, order, names, cancelling and interrupting.

use futures::future::join;
use repltool::client::{Client, Socket};
use repltool_protocol::event::{Event, StreamName};
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, SessionId};
use repltool_protocol::rest::{ExecutionRequest, ExecutionResult, ProblemCode};
use serde_json::json;

use super::harness::{
    As, Server, assert_log, event, exception, frame, in_time, named, outcome, printed, python, run, send,
    until_printed, until_result,
};
use super::wire::ask_as_owner;

/// Runs until it is interrupted, and says so at its beginning.
const ENDLESS: &str = "print('runs')\nwhile True: pass";

async fn refusal(client: &Client, session: &SessionId, request: &ExecutionRequest) -> ProblemCode {
    let refused = in_time("a refusal", client.execute(session, request)).await;
    refused.expect_err("refused").problem().expect("a problem").code
}

async fn interrupt(socket: &mut Socket, id: Option<&ExecutionId>) {
    socket.send(&ClientFrame::Interrupt { id: id.cloned() }).await.expect("the frame is sent");
}

#[tokio::test]
async fn result_has_the_shape_of_the_contract() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let body = r#"{"code": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, None, 2.5]}", "timeout_ms": 20000}"#;
    let reply = ask_as_owner(&server, "POST", &format!("/api/v1/sessions/{id}/execute"), body).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    let result = reply.json();
    assert_eq!(result["session_id"], json!(id));
    insta::assert_json_snapshot!(result, {
        ".session_id" => "[id]", ".execution_id" => "[id]", ".timestamp" => "[time]", ".execution_time_ms" => "[ms]",
        ".usage.cpu_time_ms" => "[ms]", ".usage.peak_memory_bytes" => "[bytes]",
    }, @r#"
    {
      "session_id": "[id]",
      "execution_id": "[id]",
      "execution_count": 1,
      "success": true,
      "output": "out\n",
      "error": "err\n",
      "result": {
        "a": [
          1,
          null,
          2.5
        ]
      },
      "result_text": "{'a': [1, None, 2.5]}",
      "display": [],
      "exception": null,
      "exit_code": null,
      "limit": null,
      "violation": null,
      "truncated": false,
      "state_lost": false,
      "usage": {
        "cpu_time_ms": "[ms]",
        "peak_memory_bytes": "[bytes]",
        "output_bytes": 8
      },
      "execution_time_ms": "[ms]",
      "timestamp": "[time]"
    }
    "#);
    let failed = run(&client, &id, "import sys\nprint('err', end='', file=sys.stderr)\n1 / 0").await;
    assert!(!failed.success && failed.result.is_null() && !failed.state_lost);
    let exception = failed.exception.expect("an exception");
    assert_eq!((exception.name.as_str(), exception.message.as_str()), ("ZeroDivisionError", "division by zero"));
    assert_eq!(failed.error, format!("err\n{}\n", exception.traceback.join("\n")));
}

#[tokio::test]
async fn use_of_resources_is_told() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('é' * 100)";
    let result = run(&client, &id, burn).await;
    assert!((250..5_000).contains(&result.usage.cpu_time_ms), "{:?}", result.usage);
    assert!(result.execution_time_ms >= 250, "{result:?}");
    assert_eq!(result.usage.output_bytes, 201);
    let big = run(&client, &id, "len(b'x' * (100 << 20))").await.usage.peak_memory_bytes;
    assert!((100 << 20..256 << 20).contains(&big), "{big}");
}

#[tokio::test]
async fn history_is_paged_oldest_first() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for n in 1..=5 {
        run(&client, &id, &format!("{n}")).await;
    }
    let page = async |limit, offset| {
        let page = client.history(&id, limit, offset).await.expect("history");
        assert_eq!((page.total, page.limit, page.offset, &page.session_id), (5, limit, offset, &id));
        page.executions.into_iter().map(|it| (it.execution_count, it.code)).collect::<Vec<_>>()
    };
    let all: Vec<_> = (1..=5).map(|n: u64| (n, n.to_string())).collect();
    for (limit, offset, expected) in
        [(1000, 0, &all[..]), (2, 0, &all[..2]), (2, 2, &all[2..4]), (2, 4, &all[4..]), (2, 5, &[]), (2, 1000, &[])]
    {
        assert_eq!(page(limit, offset).await, expected, "limit={limit} offset={offset}");
    }
    let path = format!("/api/v1/sessions/{id}/history");
    let first = ask_as_owner(&server, "GET", &path, "").await.json();
    assert_eq!((&first["limit"], &first["offset"], &first["total"]), (&json!(100), &json!(0), &json!(5)));
    let entry = &first["executions"][0];
    assert!(entry["timestamp"].as_str().is_some_and(|it| it.parse::<jiff::Timestamp>().is_ok()), "{entry}");
    insta::assert_json_snapshot!(entry, {
        ".execution_id" => "[id]", ".timestamp" => "[time]", ".execution_time_ms" => "[ms]",
        ".usage.cpu_time_ms" => "[ms]", ".usage.peak_memory_bytes" => "[bytes]",
    }, @r#"
    {
      "execution_id": "[id]",
      "execution_count": 1,
      "code": "1",
      "success": true,
      "execution_time_ms": "[ms]",
      "timestamp": "[time]",
      "limit": null,
      "violation": null,
      "usage": {
        "cpu_time_ms": "[ms]",
        "peak_memory_bytes": "[bytes]",
        "output_bytes": 0
      }
    }
    "#);
}

#[tokio::test]
async fn odd_pages_of_the_history_are_refused_by_name() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let big = "18446744073709551616";
    let limits = ["0", "-1", "1001", "100000", "abc", "1.5", "", "%00", "+1", "0x1", " 1", "1e3", "١", big];
    let offsets = ["-5", "abc", "", "9223372036854775808", big];
    let queries = limits.iter().map(|it| ("limit", it)).chain(offsets.iter().map(|it| ("offset", it)));
    for (field, value) in queries {
        let value = value.replace(' ', "%20").replace('١', "%D9%A1");
        let path = format!("/api/v1/sessions/{id}/history?{field}={value}");
        let problem = ask_as_owner(&server, "GET", &path, "").await.problem(ProblemCode::InvalidRequest);
        assert_eq!(problem.errors[0].field, field, "{path}");
    }
}

#[tokio::test]
async fn expression_limit_refuses_what_is_beyond_it() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_expressions": 2}})).await;
    assert_eq!(run(&client, &id, "1 / 0").await.execution_count, 1, "failed ones count");
    assert_eq!(run(&client, &id, "2").await.execution_count, 2);
    let reply = ask_as_owner(&server, "POST", &format!("/api/v1/sessions/{id}/execute"), r#"{"code":"3"}"#).await;
    assert_eq!(reply.status, 429);
    reply.problem(ProblemCode::ExpressionLimit);
    let mut socket = client.attach(&id, None).await.expect("a socket");
    send(&mut socket, "e3", "3").await;
    let problem = loop {
        if let ServerFrame::Notice(Notice::Problem { id, code, .. }) = frame(&mut socket).await {
            break (id, code);
        }
    };
    assert_eq!(problem, (Some("e3".to_owned()), ProblemCode::ExpressionLimit));
    assert_eq!(client.get(&id).await.expect("the session").expression_count, 2);
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 2);
}

#[tokio::test]
async fn same_id_follows_and_runs_nothing_twice() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "n = 0").await;
    let request = named("once", "import time\nn += 1\nprint('n is', n)\ntime.sleep(1)\nn");
    // While it runs, and after its end.
    let (one, two) = join(client.execute(&id, &request), client.execute(&id, &request)).await;
    let later = client.execute(&id, &request).await;
    let results: Vec<ExecutionResult> = [one, two, later].map(|it| it.expect("a result")).into();
    assert_eq!(results[0].output, "n is 1\n");
    assert!(results.iter().all(|it| *it == results[0]), "{results:?}");
    assert_eq!(run(&client, &id, "n").await.result.0.get(), "1");
    assert_eq!(refusal(&client, &id, &named("once", "n += 1")).await, ProblemCode::Conflict);

    // A socket that comes later gets the events of the past, and the conflict as a message.
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let once = send(&mut socket, "once", &request.code).await;
    let events = until_result(&mut socket, &once).await;
    assert_log(&events);
    assert_eq!(printed(&events, StreamName::Stdout), "n is 1\n");
    assert!(matches!(events[0].event, Event::Queued { .. }), "{events:?}");
    send(&mut socket, "once", "other()").await;
    let ServerFrame::Notice(Notice::Problem { code, .. }) = frame(&mut socket).await else { panic!("no problem") };
    assert_eq!(code, ProblemCode::Conflict);
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 3);
}

#[tokio::test]
async fn queue_keeps_the_order_and_has_an_end() {
    let server = Server::start_with(As::Me, "[sessions]\nqueue = 3\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let first = send(&mut socket, "e0", ENDLESS).await;
    until_printed(&mut socket).await;
    for n in 1..=3 {
        send(&mut socket, &format!("e{n}"), &format!("print({n})")).await;
        let queued = event(&mut socket).await.event;
        assert_eq!(queued, Event::Queued { id: format!("e{n}").parse().expect("an id") });
    }
    let reply = ask_as_owner(&server, "POST", &format!("/api/v1/sessions/{id}/execute"), r#"{"code":"4"}"#).await;
    assert_eq!(reply.status, 409);
    reply.problem(ProblemCode::Busy);
    // What is known already is followed, although the queue is full.
    let known = named("e3", "print(3)");
    let follow = client.execute(&id, &known);
    let rest = async {
        interrupt(&mut socket, None).await;
        until_result(&mut socket, &first).await;
        until_result(&mut socket, &"e3".parse().expect("an id")).await
    };
    let (followed, events) = in_time("all of them", join(follow, rest)).await;
    assert_eq!(followed.expect("a result").output, "3\n");
    let started: Vec<_> = events.iter().filter_map(|it| started_id(&it.event)).collect();
    assert_eq!(started, ["e1", "e2", "e3"]);
    assert_log(&events);
    let history = client.history(&id, 10, 0).await.expect("history").executions;
    assert_eq!(history.iter().map(|it| it.execution_count).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

fn started_id(event: &Event) -> Option<&str> {
    match event {
        Event::Started { id, .. } => Some(id.as_str()),
        _ => None,
    }
}

#[tokio::test]
async fn cancelled_execution_never_runs() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let first = send(&mut socket, "e0", ENDLESS).await;
    until_printed(&mut socket).await;
    let second = send(&mut socket, "e1", "print('never')").await;
    let third = send(&mut socket, "e2", "print('third')").await;
    while event(&mut socket).await.event != (Event::Queued { id: third.clone() }) {}
    client.interrupt(&id, Some(&second)).await.expect("accepted");
    let events = until_result(&mut socket, &second).await;
    let cancelled = outcome(&events);
    assert_eq!((cancelled.success, cancelled.execution_count, exception(cancelled)), (false, 0, "Interrupted"));
    assert!(!cancelled.state_lost);
    interrupt(&mut socket, Some(&first)).await;
    let events = until_result(&mut socket, &third).await;
    assert_eq!(printed(&events, StreamName::Stdout), "third\n", "{events:?}");
    assert_eq!(outcome(&events).execution_count, 2);
    // One that has ended is left, and so is one that never was.
    for name in ["e2", "unknown"] {
        client.interrupt(&id, Some(&name.parse().expect("an id"))).await.expect("accepted");
    }
    assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
}

#[tokio::test]
async fn interrupt_ends_an_execution_and_keeps_the_state() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    for (n, text) in
        ["x = 1\nprint('runs')\nwhile True: x += 1", "import time\nprint('runs')\ntime.sleep(600)"].iter().enumerate()
    {
        let endless = send(&mut socket, &format!("e{n}"), text).await;
        until_printed(&mut socket).await;
        client.interrupt(&id, None).await.expect("accepted");
        let events = until_result(&mut socket, &endless).await;
        let ended = outcome(&events);
        assert_eq!((exception(ended), ended.state_lost, ended.limit), ("KeyboardInterrupt", false, None), "{ended:?}");
    }
    assert_eq!(run(&client, &id, "x > 0").await.result.0.get(), "true");
    // With nothing running it hits nothing.
    let reply = ask_as_owner(&server, "POST", &format!("/api/v1/sessions/{id}/interrupt"), "").await;
    assert_eq!(reply.status, 202, "{reply:?}");
    for _ in 0..20 {
        client.interrupt(&id, None).await.expect("accepted");
        assert!(run(&client, &id, "sum(range(1000))").await.success);
    }
}
