//! Ceilings on processes, descriptors, files and memory: the program is told, the limit is named, the session goes on.

use repltool_protocol::event::{Event, Limit, StatusReason};
use serde_json::json;

use super::harness::{
    As, Server, assert_usable, descendants, event, eventually, exception_name, python, run, run_for, session,
};

#[tokio::test]
async fn runaway_processes_are_called_by_their_name_and_are_gone() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        ("python", "import os, time\nprint('before', flush=True)\nwhile True:\n    if os.fork() == 0: time.sleep(600)"),
        ("bash", "echo before; for ((;;)); do sleep 600 & done"),
        ("bash", "echo before; bomb() { bomb | bomb & }; bomb; wait; sleep 600"),
    ] {
        let id = session(&client, language, json!({})).await;
        let before = descendants(server.pid());
        let result = run_for(&client, &id, 30_000, text).await;
        assert_eq!((result.success, result.limit), (false, Some(Limit::Processes)), "{language}: {result:?}");
        assert!(result.output.starts_with("before\n"), "{result:?}");
        assert_usable(&client, &id, language).await;
        // Dead children that nobody waits for would count as well.
        eventually("all of them are gone", || async {
            let after = descendants(server.pid());
            (after.len() <= before.len() + 2).then_some(())
        })
        .await;
        client.delete(&id).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_bomb_that_goes_off_between_executions_is_cleared_away() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "bash", json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    assert!(run(&client, &id, "kept=1; (sleep 0.5; for ((;;)); do sleep 600 & done) 2>/dev/null &").await.success);
    loop {
        if let Event::Status { reason: Some(StatusReason::Limit), .. } = event(&mut socket).await.event {
            break;
        }
    }
    assert_usable(&client, &id, "bash").await;
}

#[tokio::test]
async fn threads_count_as_processes() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let text = "import threading, time\nfor _ in range(10000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()";
    let result = run_for(&client, &id, 30_000, text).await;
    assert_eq!((result.success, result.limit), (false, Some(Limit::Processes)), "{result:?}");
    assert_usable(&client, &id, "python").await;
}

#[tokio::test]
async fn a_program_without_descriptors_is_told_and_goes_on() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let result = run(&client, &id, "import os\nhoard = []\nwhile True: hoard.append(os.open('/dev/null', 0))").await;
    assert_eq!((exception_name(&result), result.state_lost), ("OSError", false), "{result:?}");
    assert!(result.error.contains("Too many open files"), "{result:?}");
    let count = run(&client, &id, "len(hoard)").await;
    let count: u64 = count.result.0.get().parse().expect("a number");
    assert!((900..1024).contains(&count), "{count}");
    let shell = session(&client, "bash", json!({})).await;
    let result =
        run(&client, &shell, "for ((i = 10; i < 3000; i++)); do eval \"exec $i</dev/null\" || break; done; echo $i")
            .await;
    assert!(
        result.success && result.error.contains("ad file descriptor") || result.error.contains("Too many"),
        "{result:?}"
    );
    assert_usable(&client, &id, "python").await;
}

#[tokio::test]
async fn a_full_disk_is_told_to_the_program() {
    let server = Server::start_with(As::Me, "[sandbox]\ndisk_mb = 8\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let fill = "with open('big', 'wb') as f:\n    for _ in range(100): f.write(b'x' * (1 << 20))";
    let result = run(&client, &id, fill).await;
    assert_eq!((exception_name(&result), result.state_lost), ("OSError", false), "{result:?}");
    let many = "import os\nos.remove('big')\ni = 0\nwhile True:\n    i += 1\n    open(f'f{i}', 'w').close()";
    let result = run(&client, &id, many).await;
    assert!(result.error.contains("No space left on device") && !result.state_lost, "{result:?}");
    let count = run(&client, &id, "i").await;
    let count: u64 = count.result.0.get().parse().expect("a number");
    assert!((100..=8 * 256).contains(&count), "{count} files");
    assert_usable(&client, &id, "python").await;
    let shell = session(&client, "bash", json!({})).await;
    let result = run(&client, &shell, "head -c 20000000 /dev/zero >big; echo $?; stat -c %s big").await;
    assert_eq!(result.output, "1\n8388608\n", "{result:?}");
    let node = session(&client, "javascript", json!({})).await;
    let result = run(&client, &node, "require('fs').writeFileSync('big', Buffer.alloc(20000000))").await;
    assert!(result.error.contains("ENOSPC"), "{result:?}");
}

#[tokio::test]
async fn memory_is_called_by_its_name_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        ("python", "print('before', flush=True)\nhoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"),
        (
            "python",
            "import os\nprint('before', flush=True)\nif os.fork() == 0:\n    hoard = []\n    while True: hoard.append(b'x' * (1 << 20))\n_ = os.wait()",
        ),
        (
            "python",
            "import mmap\nprint('before', flush=True)\nm = mmap.mmap(-1, 512 << 20)\nfor i in range(0, 512 << 20, 4096): m[i] = 1",
        ),
        ("bash", "echo before; x=a; while :; do x=$x$x; done"),
        ("bash", "echo before; head -c 500000000 /dev/zero | tail -c 400000000 | wc -c; sleep 600"),
        ("javascript", "console.log('before'); const hoard = []; for (;;) hoard.push(Buffer.alloc(1 << 20, 1))"),
    ] {
        let id = session(&client, language, json!({"resource_limits": {"max_memory_mb": 96}})).await;
        let result = run(&client, &id, text).await;
        assert_eq!((result.success, result.limit), (false, Some(Limit::Memory)), "{language} {text}: {result:?}");
        assert!(result.output.starts_with("before\n"), "{result:?}");
        assert!(result.usage.peak_memory_bytes <= 97 << 20, "{:?}", result.usage);
        assert_usable(&client, &id, language).await;
        client.delete(&id).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_kill_is_not_called_memory() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_memory_mb": 96}})).await;
    let result = run(&client, &id, "import os\nhoard = b'x' * (60 << 20)\nos.kill(os.getpid(), 9)").await;
    assert_eq!((result.limit, result.exit_code, result.state_lost), (None, Some(137), true), "{result:?}");
}

#[tokio::test]
async fn every_runtime_does_ordinary_work_with_the_defaults() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text, output) in [
        (
            "python",
            "import json, re, decimal, sqlite3, unittest, asyncio, concurrent.futures as c\nwith c.ThreadPoolExecutor(4) as p: print(sum(p.map(int, '1234')))",
            "10\n",
        ),
        (
            "javascript",
            "const a = []; for (let i = 0; i < 2e6; i++) a.push({i}); console.log(a.length); const s = 'x'.repeat(5e7); console.log(s.length)",
            "2000000\n50000000\n",
        ),
        (
            "javascript",
            "for (let i = 0; i < 300; i++) { Buffer.alloc(1 << 20, 1); 'y'.repeat(1 << 20).split('') } console.log('done')",
            "done\n",
        ),
        ("bash", "seq 100000 | sort -rn | head -1; for i in {1..50}; do (exit 0); done; echo $?", "100000\n0\n"),
    ] {
        let id = session(&client, language, json!({})).await;
        let result = run(&client, &id, text).await;
        assert_eq!((result.success, result.output.as_str()), (true, output), "{language}: {result:?}");
    }
}

#[tokio::test]
async fn a_ceiling_below_which_a_runtime_cannot_start_is_refused_by_name() {
    let server = Server::start().await;
    let client = server.client();
    for language in ["python", "javascript", "bash"] {
        let mut works = 0;
        for megabytes in [16_u64, 24, 32, 48, 64, 96, 128] {
            let config = json!({"language": language, "resource_limits": {"max_memory_mb": megabytes}});
            let config = serde_json::from_value(config).expect("a configuration");
            match client.create(&config).await {
                Ok(session) => {
                    works += 1;
                    assert_usable(&client, &session.session_id, language).await;
                    client.delete(&session.session_id).await.expect("deleted");
                }
                Err(error) => {
                    assert_eq!(works, 0, "{language}: {megabytes} MB does not start and less did");
                    let problem = error.problem().expect("a problem document").clone();
                    let field = problem.errors.first().map(|it| it.field.as_str());
                    assert_eq!(field, Some("resource_limits.max_memory_mb"), "{language} {megabytes}: {problem:?}");
                }
            }
        }
        assert!(works > 0, "{language} starts with 128 MB");
    }
}
