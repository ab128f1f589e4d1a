//! The user stories, told once from their beginning to their end.

use repltool_protocol::event::Limit;
use serde_json::json;

use super::harness::{Server, code, python, run, run_for, session};

#[tokio::test]
async fn a_developer_evaluates_python_expressions() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let result = run(&client, &id, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsum(range(10))").await;
    assert!(result.success, "{result:?}");
    assert_eq!((result.output.as_str(), result.error.as_str()), ("out\n", "err\n"));
    assert_eq!((result.result.0.get(), result.result_text.as_deref()), ("45", Some("45")));
    let statement = run(&client, &id, "x = 5").await;
    assert!(statement.success && statement.result.is_null() && statement.result_text.is_none(), "{statement:?}");
}

#[tokio::test]
async fn a_frontend_developer_defines_functions_in_javascript() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "javascript", json!({})).await;
    let text = "function fib(n) {\n  if (n < 2) return n;\n  return fib(n - 1) + fib(n - 2);\n}\nconst memo = new Map();\nclass Box {\n  constructor(v) { this.v = v }\n}";
    assert!(run(&client, &id, text).await.success);
    assert_eq!(run(&client, &id, "fib(10)").await.result.0.get(), "55");
    assert!(run(&client, &id, "memo.set('a', new Box(fib(5)))").await.success);
    assert_eq!(run(&client, &id, "({got: memo.get('a').v})").await.result.0.get(), r#"{"got":5}"#);
}

#[tokio::test]
async fn a_devops_engineer_runs_bash_within_limits() {
    let server = Server::start().await;
    let client = server.client();
    let limits = json!({"resource_limits": {"max_memory_mb": 64, "max_cpu_time": 1, "max_output_size": 1024}});
    let id = session(&client, "bash", limits).await;
    let result = run(&client, &id, "for f in /usr/bin/env /nonexistent; do ls \"$f\"; done").await;
    assert_eq!((result.output.as_str(), result.exit_code), ("/usr/bin/env\n", Some(2)), "{result:?}");
    assert!(result.error.contains("No such file or directory"), "{result:?}");
    for (text, limit) in [
        ("echo begun; sleep 600", Limit::WallTime),
        ("echo begun; while :; do :; done", Limit::CpuTime),
        ("echo begun; head -c 900000000 /dev/zero | tail -c 800000000 >/dev/null", Limit::Memory),
        ("echo begun; yes", Limit::Output),
    ] {
        let timeout_ms = if limit == Limit::WallTime { 500 } else { 20_000 };
        let result = run_for(&client, &id, timeout_ms, text).await;
        assert_eq!((result.success, result.limit), (false, Some(limit)), "{text}: {result:?}");
        assert!(result.output.starts_with("begun\n"), "{text}: {result:?}");
    }
    assert_eq!(run(&client, &id, "echo fine").await.output, "fine\n");
}

#[tokio::test]
async fn a_data_scientist_builds_on_what_was_there_before() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for text in ["import math as m", "values = [1, 4, 9]", "def roots(xs): return [m.sqrt(x) for x in xs]"] {
        assert!(run(&client, &id, text).await.success, "{text}");
    }
    assert_eq!(run(&client, &id, "roots(values)").await.result.0.get(), "[1.0,2.0,3.0]");
    client.delete(&id).await.expect("deleted");
    assert!(client.execute(&id, &code("values")).await.is_err(), "nothing is left");
    let next = python(&client, json!({})).await;
    assert_eq!(run(&client, &next, "'values' in globals()").await.result.0.get(), "false");
}
