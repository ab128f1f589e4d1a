//! The main promises, kept by a server that an ordinary user runs: no root, no cgroups.

use repltool_protocol::event::{Event, StatusReason};
use repltool_protocol::event::{Limit, Recovered, StreamName};
use serde_json::json;

use crate::escape;
use crate::follower::{Follower, whole_log};
use crate::harness::{
    As, NOBODY, Server, assert_root, descendants, eventually, printed, python, run, run_for, session,
};

async fn server() -> Server {
    assert_root();
    Server::start_with(As::OrdinaryUser, "").await
}

/// Waits until none of these processes is there.
async fn until_gone(pids: &[u32]) {
    let gone =
        || async { pids.iter().all(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)).then_some(()) };
    eventually("the processes are gone", gone).await;
}

#[tokio::test]
async fn an_ordinary_user_serves_sessions_and_runs_nothing_as_root() {
    let server = server().await;
    let client = server.client();
    for mode in ["standard", "relaxed"] {
        let session = python(&client, json!({"sandbox_mode": mode})).await;
        let result = run(&client, &session, "import os\nx = 41\nprint('out')\n[os.getuid(), x + 1]").await;
        assert_eq!((result.result_text.as_deref(), result.output.as_str()), (Some("[1000, 42]"), "out\n"));
        assert_eq!(run(&client, &session, "x").await.result_text.as_deref(), Some("41"));
    }
    let processes = descendants(server.pid());
    assert!(processes.len() >= 5, "a gateway, and for each session an init and an interpreter");
    for pid in processes.into_iter().chain([server.pid()]) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let uids = status.lines().find(|line| line.starts_with("Uid:")).expect("its users");
        let nobody = NOBODY.to_string();
        assert!(uids.split_whitespace().skip(1).all(|uid| uid == nobody), "{status}");
    }
}

#[tokio::test]
async fn an_ordinary_users_sessions_outlive_a_gateway_crash() {
    let server = server().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 41").await;
    let mut follower = Follower::new(&client, &session);
    let text = "import time\nfor i in range(300):\n    print(i)\n    time.sleep(0.002)\nx + 1";
    let id = follower.execute("e", text, 30_000).await;
    follower.started(&id).await;
    server.crash_gateway().await;
    let outcome = follower.result(&id).await;
    assert_eq!((outcome.result_text.as_deref(), outcome.state_lost), (Some("42"), false));
    let wanted: String = (0..300).map(|i| format!("{i}\n")).collect();
    assert_eq!(printed(&follower.seen, StreamName::Stdout), wanted);
    follower.assert_unchanged().await;
}

#[tokio::test]
async fn an_ordinary_users_timeouts_and_limits_strike() {
    let server = server().await;
    let client = server.client();
    let session = python(&client, json!({"resource_limits": {"max_memory_mb": 128, "max_output_size": 2048}})).await;
    run(&client, &session, "x = 41").await;
    let kept = run_for(&client, &session, 300, "print('before')\nwhile True: pass").await;
    assert_eq!((kept.limit, kept.state_lost, kept.output.as_str()), (Some(Limit::WallTime), false, "before\n"));
    let grandchild = "
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.fork()
while True: pass
";
    let before = descendants(server.pid());
    let killed = run_for(&client, &session, 300, grandchild).await;
    assert_eq!((killed.limit, killed.state_lost), (Some(Limit::WallTime), true));
    let gateway = server.gateway_pid(None).await;
    until_gone(&before.into_iter().filter(|pid| *pid != gateway).collect::<Vec<_>>()).await;

    let output = run(&client, &session, "while True: print('x' * 100)").await;
    assert_eq!((output.limit, output.truncated), (Some(Limit::Output), true));
    let memory = run(&client, &session, "len(bytearray(512 << 20))").await;
    assert!(!memory.success, "{memory:?}");
    assert!(run(&client, &session, "1").await.success);
}

#[tokio::test]
async fn what_an_ordinary_user_deletes_is_gone() {
    let server = server().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "import os\nif os.fork() == 0:\n    while True: pass").await;
    let gateway = server.gateway_pid(None).await;
    let of_session: Vec<_> = descendants(server.pid()).into_iter().filter(|pid| *pid != gateway).collect();
    assert!(of_session.len() >= 3, "an init, an interpreter and its child");
    client.delete(&session).await.expect("deleted");
    until_gone(&of_session).await;
    assert_eq!(std::fs::read_dir(server.data().join("store/sessions")).expect("the logs").count(), 0);
}

#[tokio::test]
async fn kill_9_of_an_ordinary_users_supervisor_leaves_nothing_but_the_data() {
    let mut server = server().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "print('kept')\nimport os\nif os.fork() == 0:\n    while True: pass").await;
    let processes = descendants(server.pid());
    server.signal("KILL");
    server.ended().await;
    until_gone(&processes).await;

    let server = server.restart().await;
    let client = server.client();
    let log = whole_log(&client, &session).await;
    assert_eq!(printed(&log, StreamName::Stdout), "kept\n");
    let last = log.last().map(|logged| &logged.event);
    let empty = Some(Recovered::Empty);
    assert!(
        matches!(last, Some(Event::Status { reason: Some(StatusReason::Recovered), recovered, .. }) if *recovered == empty),
        "{last:?}"
    );
    let next = run(&client, &session, "1 + 1").await;
    assert_eq!((next.result_text.as_deref(), next.state_lost, next.execution_count), (Some("2"), true, 2));
}

#[tokio::test]
async fn an_ordinary_users_sandboxes_refuse_every_attempt_to_escape() {
    assert_root();
    let server = Server::start_with(As::OrdinaryUser, escape::SETTINGS).await;
    // Where no cgroup counts processes, a shell that is refused one waits and tries again, until its time is over.
    let wanted = |case: &escape::Case<'_>| {
        case.level == "standard" && !(case.language == "bash" && case.code.contains("attempt 'for ((i = 0; i < 300"))
    };
    assert!(escape::assert_refused(&server.client(), escape::WALLS, escape::Refusal::AsTold, wanted).await >= 100);
}

#[tokio::test]
async fn limits_are_watched_and_named_without_cgroups() {
    let server = server().await;
    let client = server.client();
    for (language, plant, burn, probe) in [
        ("python", "kept = 31", "while True: int()", "print(kept)"),
        ("javascript", "var kept = 31", "for (;;) {}", "console.log(kept)"),
        ("bash", "kept=31", "(while :; do :; done) & (while :; do :; done) & wait", "echo $kept"),
    ] {
        let id = session(&client, language, json!({"resource_limits": {"max_cpu_time": 1}})).await;
        run(&client, &id, plant).await;
        let result = run_for(&client, &id, 60_000, burn).await;
        assert_eq!((result.limit, result.state_lost), (Some(Limit::CpuTime), false), "{language}: {result:?}");
        assert!((900..5000).contains(&result.usage.cpu_time_ms), "{language}: {:?}", result.usage);
        assert_eq!(run(&client, &id, probe).await.output, "31\n", "{language}");
        client.delete(&id).await.expect("deleted");
    }
    let family = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        hoard = b'x' * (60 << 20)\n        time.sleep(600)\ntime.sleep(600)";
    // What fills memory between two looks is ended by its rlimit; only what takes a moment is surely seen.
    for (language, text) in [
        ("python", "hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"),
        ("python", family),
        (
            "javascript",
            "const hoard = []; for (;;) { hoard.push(Buffer.alloc(1 << 20, 1)); await new Promise(r => setTimeout(r, 5)) }",
        ),
        (
            "javascript",
            "const hoard = []; for (;;) { hoard.push(new Array(100000).fill(1.5)); await new Promise(r => setTimeout(r, 5)) }",
        ),
    ] {
        let id = session(&client, language, json!({"resource_limits": {"max_memory_mb": 128}})).await;
        let result = run_for(&client, &id, 60_000, text).await;
        assert_eq!((result.success, result.limit), (false, Some(Limit::Memory)), "{language} {text}: {result:?}");
        assert!(result.usage.peak_memory_bytes > 20 << 20, "{language}: {:?}", result.usage);
        let next = run(&client, &id, if language == "python" { "print(1)" } else { "console.log(1)" }).await;
        assert_eq!(next.output, "1\n", "{language}: {next:?}");
        client.delete(&id).await.expect("deleted");
    }
}
