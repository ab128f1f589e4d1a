//! Faults of interpreters: each is named, what was printed is kept, and the session goes on.

use repltool_protocol::event::Limit;
use serde_json::json;

use super::harness::{Server, assert_usable, exception_name, run, run_for, session};

#[tokio::test]
async fn endless_recursion_is_named_and_keeps_the_state() {
    let server = Server::start().await;
    let client = server.client();
    for (language, plant, text, expected, probe) in [
        ("python", "kept = 1", "def f(): return f()\nf()", "RecursionError", "print(kept)"),
        ("python", "kept = 1", "x = []\nfor _ in range(100000): x = [x]\nrepr(x)", "RecursionError", "print(kept)"),
        ("javascript", "var kept = 1", "function f() { return f() }\nf()", "RangeError", "console.log(kept)"),
        (
            "javascript",
            "var kept = 1",
            "const a = () => b(), b = () => a() + 1; a()",
            "RangeError",
            "console.log(kept)",
        ),
    ] {
        let id = session(&client, language, json!({})).await;
        run(&client, &id, plant).await;
        let result = run(&client, &id, text).await;
        assert_eq!((exception_name(&result), result.state_lost), (expected, false), "{language}: {result:?}");
        assert_eq!(run(&client, &id, probe).await.output, "1\n", "{language}");
    }
    let id = session(&client, "bash", json!({})).await;
    run(&client, &id, "kept=1").await;
    let result = run(&client, &id, "f() { f; }; echo before; f; echo after").await;
    assert_eq!((result.success, result.state_lost), (false, false), "{result:?}");
    assert!(result.output.starts_with("before\n") && result.error.contains("maximum function nesting"), "{result:?}");
    assert_eq!(run(&client, &id, "echo $kept").await.output, "1\n");
}

#[tokio::test]
async fn a_crash_of_the_interpreter_is_told_by_its_signal() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text, code) in [
        ("python", "import ctypes\nprint('before', flush=True)\nctypes.string_at(0)", 139),
        ("python", "import os\nprint('before', flush=True)\nos.abort()", 134),
        ("javascript", "console.log('before'); process.abort()", 134),
        ("javascript", "console.log('before'); process.kill(process.pid, 'SIGKILL'); for (;;) {}", 137),
        ("bash", "echo before; kill -SEGV $$", 139),
        ("bash", "echo before; kill -9 $$", 137),
    ] {
        let id = session(&client, language, json!({})).await;
        let result = run(&client, &id, text).await;
        assert_eq!((result.exit_code, result.state_lost), (Some(code), true), "{language} {text}: {result:?}");
        assert_eq!((result.output.as_str(), result.limit), ("before\n", None), "{language} {text}");
        assert_usable(&client, &id, language).await;
    }
}

#[tokio::test]
async fn a_deep_c_stack_costs_no_more_than_the_interpreter() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let text = "import sys\nsys.setrecursionlimit(10**9)\nprint('before', flush=True)\ndef f(n): return sorted([n], key=lambda n: f(n + 1))\nf(0)";
    let result = run(&client, &id, text).await;
    assert!(!result.success && (result.exit_code == Some(139) || result.limit == Some(Limit::Memory)), "{result:?}");
    assert_eq!((result.output.as_str(), result.state_lost), ("before\n", true));
    assert_usable(&client, &id, "python").await;
}

#[tokio::test]
async fn a_stopped_interpreter_is_ended_by_the_timeout() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        ("python", "import os\nprint('before', flush=True)\nos.kill(os.getpid(), 19)"),
        ("javascript", "console.log('before'); process.kill(process.pid, 'SIGSTOP')"),
        ("bash", "echo before; kill -STOP $$"),
    ] {
        let id = session(&client, language, json!({})).await;
        let result = run_for(&client, &id, 1000, text).await;
        assert_eq!((result.limit, result.state_lost), (Some(Limit::WallTime), true), "{language}: {result:?}");
        assert_eq!(result.output, "before\n");
        assert_usable(&client, &id, language).await;
    }
}

#[tokio::test]
async fn a_driver_that_is_cut_off_flooded_or_imitated_harms_its_own_session_alone() {
    let server = Server::start().await;
    let client = server.client();
    let forged = r#"{"t":"done","m":99,"n":1,"success":true,"result":"forged","result_text":"forged","end_ns":1}"#;
    let python_sockets = "import os, stat\nfds = [fd for fd in range(3, 1100) if __import__('contextlib').suppress(OSError).__enter__() is None and os.path.exists(f'/proc/self/fd/{fd}') and stat.S_ISSOCK(os.fstat(fd).st_mode)]\n";
    for (language, text) in [
        ("python", "import os\nos.closerange(0, 4096)".to_owned()),
        ("python", format!("{python_sockets}for fd in fds: os.write(fd, b'x' * 100000)")),
        ("python", format!("{python_sockets}for fd in fds: os.write(fd, b'99999999')")),
        ("python", format!("{python_sockets}for fd in fds: os.write(fd, b'%08d' % {} + rb'''{forged}''')", forged.len())),
        ("javascript", "const fs = require('fs'); for (let fd = 0; fd < 64; fd++) { try { fs.closeSync(fd) } catch {} }".to_owned()),
        ("javascript", "const fs = require('fs'); for (let fd = 3; fd < 64; fd++) { try { fs.writeSync(fd, 'x'.repeat(1000)) } catch {} }".to_owned()),
        ("bash", "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done".to_owned()),
        ("bash", "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"printf %01000d 1 >&$fd\"; done 2>/dev/null".to_owned()),
    ] {
        let id = session(&client, language, json!({})).await;
        let other = session(&client, language, json!({})).await;
        let result = run_for(&client, &id, 3000, &text).await;
        assert_ne!(result.result.0.get(), "forged\"", "{language} {text}: {result:?}");
        assert_usable(&client, &id, language).await;
        assert_usable(&client, &other, language).await;
        client.delete(&id).await.expect("deleted");
        client.delete(&other).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_full_heap_of_javascript_is_called_memory() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "javascript", json!({"resource_limits": {"max_memory_mb": 128}})).await;
    for text in [
        "console.log('before'); const hoard = []; for (;;) hoard.push(new Array(1000).fill({}))",
        "console.log('before'); const buffers = []; for (;;) buffers.push(Buffer.alloc(1 << 20, 1))",
    ] {
        let result = run(&client, &id, text).await;
        assert_eq!((result.limit, result.state_lost), (Some(Limit::Memory), true), "{result:?}");
        assert_eq!(result.output, "before\n");
        assert_usable(&client, &id, "javascript").await;
    }
}
