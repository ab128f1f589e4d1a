//! Code is read before it runs: what breaks the policy of its level ends with a reason and never reaches the interpreter.

use repltool::client::{Client, Socket};
use repltool_protocol::event::{Event, ViolationLayer};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;

use crate::harness::{Server, code, event, frame, in_time, named, python, run, send, session, until_result};
use crate::one_shot::one_shot;

/// A server with a policy for standard.
async fn server(policy: &str) -> Server {
    Server::start_as_shipped(&format!("[sandbox.standard]\npolicy = \"{policy}\"\n")).await
}

fn assert_refused(result: &ExecutionResult, rule: &str, detail: &str) {
    assert!(!result.success, "{result:?}");
    let violation = result.violation.as_ref().expect("a violation");
    assert_eq!((violation.rule.as_str(), violation.detail.as_str()), (rule, detail));
    assert_eq!(violation.layer, ViolationLayer::Policy);
    let exception = result.exception.as_ref().expect("an exception");
    assert_eq!(exception.name, if rule == "import" { "ImportError" } else { "PolicyViolation" });
    assert_eq!(exception.traceback.len(), 1);
    assert!(!result.state_lost);
}

async fn assert_says(client: &Client, session: &SessionId, text: &str, output: &str) {
    let result = run(client, session, text).await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, output);
}

#[tokio::test]
async fn malicious_code_is_refused_in_every_language_and_the_session_goes_on() {
    let server = server("refuse").await;
    let client = server.client();
    for (language, before, attacks, after) in [
        (
            "python",
            "x = 6 * 7",
            [
                ("import math\nimport subprocess\nprint('ran')", "import", "subprocess"),
                ("while True: __import__('json').fork()\nwhile True: os.fork()", "fork_bomb", "while True: os.fork()"),
                ("print('ran'); open('../../../etc/passwd')", "path_traversal", "../../../etc/passwd"),
                ("print('ran'); os.system('ls ' + input())", "shell_injection", "os.system('ls ' + input())"),
            ],
            "print(x)",
        ),
        (
            "javascript",
            "var x = 6 * 7",
            [
                ("console.log('ran'); require('child_process')", "import", "child_process"),
                ("for (;;) { fork(__filename) }", "fork_bomb", "for (;;) { fork(__filename) }"),
                ("console.log('ran'); fs.readFileSync('/etc/shadow')", "path_traversal", "/etc/shadow"),
                ("exec(`ls ${req.query.x}`)", "shell_injection", "exec(`ls ${req.query.x}`)"),
            ],
            "console.log(x)",
        ),
        (
            "bash",
            "x=42",
            [
                ("echo ran; enable -f ./evil.so evil", "import", "./evil.so"),
                (":(){ :|:& };:", "fork_bomb", ":(){ :|:& }"),
                ("echo ran; cat /etc/shadow", "path_traversal", "/etc/shadow"),
                ("echo ran; eval \"$QUERY_STRING\"", "shell_injection", "eval \"$QUERY_STRING\""),
            ],
            "echo $x",
        ),
    ] {
        let id = session(&client, language, json!({})).await;
        run(&client, &id, before).await;
        for (attack, rule, detail) in attacks {
            let result = run(&client, &id, attack).await;
            assert_refused(&result, rule, detail);
            assert_eq!(result.output, "", "nothing of it ran");
        }
        assert_says(&client, &id, after, "42\n").await;
    }
}

#[tokio::test]
async fn refused_code_is_told_in_order_counted_and_kept_in_the_history() {
    let server = server("refuse").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    frame(&mut socket).await;
    let first = send(&mut socket, "first", "import time; time.sleep(0.3); print('one')").await;
    let bad = send(&mut socket, "bad", "import subprocess").await;
    let last = send(&mut socket, "last", "print('three')").await;
    until_result(&mut socket, &first).await;
    let told = until_result(&mut socket, &bad).await;
    let kinds: Vec<_> = told
        .iter()
        .filter_map(|logged| match &logged.event {
            Event::Started { id, execution_count, .. } if *id == bad => Some(format!("started {execution_count}")),
            Event::Result(outcome) if outcome.id == bad => Some(format!("result {}", outcome.execution_count)),
            Event::Stream { .. } => Some("output".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["started 2", "result 2"]);
    until_result(&mut socket, &last).await;
    let history = in_time("the history", client.history(&id, 10, 0)).await.expect("the history");
    let entries: Vec<_> = history.executions.iter().map(|it| (it.execution_count, it.success)).collect();
    assert_eq!(entries, [(1, true), (2, false), (3, true)]);
    assert_eq!(history.executions[1].violation.as_ref().map(|it| it.rule.as_str()), Some("import"));
    let shown = in_time("the session", client.get(&id)).await.expect("the session");
    assert_eq!(shown.expression_count, 3);
}

#[tokio::test]
async fn the_policy_of_a_level_decides_whether_code_is_refused_warned_of_or_recorded() {
    const CODE: &str = "try:\n    open('/etc/shadow')\nexcept OSError:\n    print('ran')";
    for (policy, runs, is_told) in [("refuse", false, true), ("warn", true, true), ("record", true, false)] {
        let server = server(policy).await;
        let client = server.client();
        let id = python(&client, json!({})).await;
        let result = run(&client, &id, CODE).await;
        assert_eq!(result.success, runs, "{policy}: {result:?}");
        assert_eq!(result.output, if runs { "ran\n" } else { "" }, "{policy}");
        assert_eq!(result.violation.is_some(), is_told, "{policy}");
        let logged = server.log().contains("path_traversal");
        assert!(logged, "{policy}: the operator reads of it");
        assert!(!server.log().contains("except OSError"), "code is never logged");
    }
}

#[tokio::test]
async fn relaxed_runs_what_standard_refuses() {
    let server = server("refuse").await;
    let client = server.client();
    let id = python(&client, json!({"sandbox_mode": "relaxed"})).await;
    assert_says(&client, &id, "import subprocess, os\nprint(os.sep)", "/\n").await;
    let result = run(&client, &id, "try:\n    open('/etc/shadow')\nexcept OSError:\n    print('ran')").await;
    assert!(result.success && result.violation.is_none(), "{result:?}");
}

#[tokio::test]
async fn suspicious_code_runs_in_standard_and_the_result_says_so() {
    let server = server("refuse").await;
    let client = server.client();
    let id = session(&client, "bash", json!({})).await;
    let result = run(&client, &id, "command='echo hello'; eval $command").await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, "hello\n");
    assert_eq!(result.violation.expect("a warning").rule, "shell_injection");
}

#[tokio::test]
async fn a_session_of_one_request_is_screened_too() {
    let server = server("refuse").await;
    let client = server.client();
    let request = one_shot("bash", "echo ran; rm -rf /", json!({}));
    let result = in_time("one shot", client.one_shot(&request)).await.expect("the request is served");
    assert_refused(&result, "destruction", "rm -rf /");
    assert_eq!(result.output, "");
}

#[tokio::test]
async fn refused_code_stays_refused_when_the_gateway_dies() {
    let server = server("refuse").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    send(&mut socket, "slow", "import time; time.sleep(3); x = 1").await;
    send(&mut socket, "bad", "print('ran'); import subprocess").await;
    until_queued(&mut socket, "bad").await;
    server.crash_gateway().await;
    let request = named("bad", "print('ran'); import subprocess");
    let result = in_time("the refused one", client.execute(&id, &request)).await.expect("the request is served");
    assert_refused(&result, "import", "subprocess");
    assert_eq!(result.output, "");
    assert_says(&client, &id, "print(x)", "1\n").await;
}

async fn until_queued(socket: &mut Socket, name: &str) {
    while !matches!(event(socket).await.event, Event::Queued { id } if id.as_str() == name) {}
}

#[tokio::test]
async fn long_code_is_screened_beside_what_is_short() {
    let server = server("refuse").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let long = "x = 1\n".repeat(5000);
    let result = run(&client, &id, &(long.clone() + "import subprocess")).await;
    assert_refused(&result, "import", "subprocess");
    assert!(result.exception.expect("an exception").message.contains("(line 5001)"));
    assert_says(&client, &id, &(long + "print(x)"), "1\n").await;
    let hostile = "[{(".repeat(300_000);
    let result = in_time("hostile code", client.execute(&id, &code(&hostile))).await.expect("the request is served");
    assert_eq!(result.exception.expect("an exception").name, "SyntaxError");
    assert_says(&client, &id, "print(x)", "1\n").await;
}
