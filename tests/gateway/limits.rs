//! Limits strike, are named, keep what was printed, cost no more state than they must, and leave nothing running.

use futures::future::join;
use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{ExecutionRequest, ExecutionResult};
use serde_json::json;

use super::harness::{
    Server, descendants, in_time, lives, named, python, run, run_for, send, until_printed, until_result,
};
use repltool::client::Client;

fn exception(result: &ExecutionResult) -> &str {
    result.exception.as_ref().map_or("", |exception| exception.name.as_str())
}

/// What every execution has in common that a limit ended.
fn assert_ended(result: &ExecutionResult, limit: Limit, state_lost: bool) {
    assert_eq!((result.success, result.limit, result.state_lost), (false, Some(limit), state_lost), "{result:?}");
}

async fn assert_usable(client: &Client, id: &SessionId) {
    let result = run(client, id, "6 * 7").await;
    assert_eq!((result.result.0.get(), result.state_lost), ("42", false), "{result:?}");
}

#[tokio::test]
async fn timeout_keeps_the_state_and_what_was_printed() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for text in ["x = 5\nprint('partial')\nwhile True: pass", "import time\nprint('partial')\ntime.sleep(600)"] {
        let result = run_for(&client, &id, 500, text).await;
        assert_ended(&result, Limit::WallTime, false);
        assert_eq!((result.output.as_str(), exception(&result)), ("partial\n", "KeyboardInterrupt"));
        assert!((500..20_000).contains(&result.execution_time_ms), "{result:?}");
    }
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "5");
    let history = client.history(&id, 10, 0).await.expect("history").executions;
    assert_eq!(
        history.iter().map(|it| it.limit).collect::<Vec<_>>(),
        [Some(Limit::WallTime), Some(Limit::WallTime), None]
    );
}

#[tokio::test]
async fn what_does_not_heed_an_interrupt_is_killed() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let stubborn = [
        "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass",
        "import itertools\nsum(itertools.repeat(0))",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        "import ctypes\nlibc = ctypes.PyDLL(None)\nwhile True:\n    try: libc.sleep(600)\n    except BaseException: pass",
    ];
    for text in stubborn {
        let result = run_for(&client, &id, 300, &format!("kept = 1\nprint('partial', flush=True)\n{text}")).await;
        assert_ended(&result, Limit::WallTime, true);
        assert_eq!(result.output, "partial\n", "{text}");
        let next = run(&client, &id, "'kept' in globals()").await;
        assert_eq!((next.result.0.get(), next.state_lost), ("false", false), "{next:?}");
    }
}

/// Starts children and grandchildren that are hard to kill: in sessions of their own, deaf to signals. Says when all are there.
const FAMILY: &str = "import os, signal, time
def hide(depth):
    os.setsid()
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    if depth and os.fork() == 0: hide(depth - 1)
    os.write(tell, b'.')
    while True: time.sleep(600)
here, tell = os.pipe()
for _ in range(3):
    if os.fork() == 0: hide(2)
there = 0
while there < 9: there += len(os.read(here, 9))
print('all')
";

#[tokio::test]
async fn timeout_takes_grandchildren_along() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let stubborn = "while True:\n    try: time.sleep(600)\n    except BaseException: pass";
    for (name, end, state_lost) in [("willing", "time.sleep(600)", false), ("stubborn", stubborn, true)] {
        let before = descendants(server.pid());
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let request = ExecutionRequest { timeout_ms: Some(3000), ..named(name, &format!("{FAMILY}{end}")) };
        let watch = async {
            until_printed(&mut socket).await;
            let mut family = descendants(server.pid());
            family.retain(|pid| !before.contains(pid));
            assert_eq!(family.len(), 9, "they are there, as the host sees it");
            until_result(&mut socket, &name.parse().expect("an id")).await;
            assert!(!family.iter().any(|pid| lives(*pid)), "the family is dead before the end is told");
        };
        let (result, ()) = in_time("the timeout", join(client.execute(&id, &request), watch)).await;
        assert_ended(&result.expect("a result"), Limit::WallTime, state_lost);
    }
    assert_usable(&client, &id).await;
}

#[tokio::test]
async fn timeout_counts_from_the_start_and_not_from_the_waiting() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    send(&mut socket, "first", "import time\nprint('runs')\ntime.sleep(3)").await;
    until_printed(&mut socket).await;
    let waited = run_for(&client, &id, 1500, "'in time'").await;
    assert!(waited.success && waited.limit.is_none(), "{waited:?}");
    assert!(waited.execution_time_ms < 1500, "{waited:?}");
}

#[tokio::test]
async fn output_ends_at_its_limit_with_a_whole_character() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 1024}})).await;
    for head in ["", "a", "ab"] {
        let result = run(&client, &id, &format!("x = 7\nprint('{head}' + '中' * 5000, end='')")).await;
        assert_ended(&result, Limit::Output, false);
        let kept = head.len() + (1024 - head.len()) / 3 * 3;
        let expected = head.to_owned() + &"中".repeat((kept - head.len()) / 3);
        assert_eq!(result.output, expected);
        assert!(result.truncated && (kept as u64..=1024).contains(&result.usage.output_bytes), "{result:?}");
    }
    // Exactly as much is not too much, and both streams count together.
    let result =
        run(&client, &id, "import sys\nprint('x' * 512, end='')\nprint('y' * 512, end='', file=sys.stderr)").await;
    assert_eq!((result.success, result.truncated, result.usage.output_bytes), (true, false, 1024), "{result:?}");
    let result = run(&client, &id, "print('x' * 600)\nprint('y' * 600, file=sys.stderr)").await;
    assert_ended(&result, Limit::Output, false);
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "7");
}

#[tokio::test]
async fn endless_output_is_ended() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 100_000}})).await;
    let willing = run(&client, &id, "x = 7\nwhile True: print('spam')").await;
    assert_ended(&willing, Limit::Output, false);
    assert_eq!(willing.output, "spam\n".repeat(20_000), "what came before is kept");
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "7");
    let stubborn = "while True:\n    try:\n        while True: print('spam')\n    except BaseException: pass";
    let killed = run(&client, &id, stubborn).await;
    assert_ended(&killed, Limit::Output, true);
    assert_eq!(killed.output, "spam\n".repeat(20_000));
    assert_usable(&client, &id).await;
}

#[tokio::test]
async fn memory_limit_is_named() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_memory_mb": 64}})).await;
    let fits = run(&client, &id, "len(b'x' * (20 << 20))").await;
    assert!(fits.success, "{fits:?}");
    let result =
        run(&client, &id, "print('before', flush=True)\nhoard = []\nwhile True: hoard.append(b'x' * (1 << 20))").await;
    assert_eq!((result.success, result.limit), (false, Some(Limit::Memory)), "{result:?}");
    assert_eq!(result.output, "before\n");
    assert!(result.usage.peak_memory_bytes <= 80 << 20, "{:?}", result.usage);
    assert_usable(&client, &id).await;
}
