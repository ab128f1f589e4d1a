//! CPU time: limited for an execution and between two, counted for every process, and told as it was used.

use std::time::Duration;

use repltool_protocol::event::{Event, Limit, SessionStatus, StatusReason};
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;

use super::harness::{Server, descendants, event, eventually, in_time, python, run, run_for, session};

fn assert_ended(result: &ExecutionResult, state_lost: bool) {
    let told = (result.success, result.limit, result.state_lost);
    assert_eq!(told, (false, Some(Limit::CpuTime), state_lost), "{result:?}");
}

#[tokio::test]
async fn cpu_time_is_limited_in_every_language_and_the_state_stays() {
    let server = Server::start().await;
    let client = server.client();
    for (language, plant, burn, probe) in [
        ("python", "kept = 31", "print('before')\nwhile True: int()", "print(kept)"),
        ("javascript", "var kept = 31", "console.log('before'); for (;;) {}", "console.log(kept)"),
        ("bash", "kept=31", "echo before; while :; do :; done", "echo $kept"),
    ] {
        let id = session(&client, language, json!({"resource_limits": {"max_cpu_time": 1}})).await;
        run(&client, &id, plant).await;
        let result = run_for(&client, &id, 60_000, burn).await;
        assert_ended(&result, false);
        assert_eq!(result.output, "before\n", "{language}");
        assert!((900..5000).contains(&result.usage.cpu_time_ms), "{language}: {:?}", result.usage);
        assert_eq!(run(&client, &id, probe).await.output, "31\n", "{language}");
    }
}

#[tokio::test]
async fn waiting_is_not_cpu_time_and_each_execution_has_its_own() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_cpu_time": 1}})).await;
    let slept = run(&client, &id, "import time\ntime.sleep(2)").await;
    assert!(slept.success && slept.usage.cpu_time_ms < 500, "{slept:?}");
    for _ in 0..3 {
        let text = "import time\nt = time.process_time()\nwhile time.process_time() < t + 0.6: pass";
        let result = run(&client, &id, text).await;
        assert!(result.success && result.usage.cpu_time_ms >= 550, "{result:?}");
    }
}

#[tokio::test]
async fn cpu_time_of_children_counts_also_when_they_are_dead() {
    let server = Server::start().await;
    let client = server.client();
    let spin =
        "import os, time\ndef burn(s):\n    t = time.process_time()\n    while time.process_time() < t + s: pass\n";
    let id = python(&client, json!({"resource_limits": {"max_cpu_time": 2}})).await;
    // Many short-lived grandchildren, none of which uses much.
    let text = format!(
        "{spin}while True:\n    if os.fork() == 0:\n        if os.fork() == 0: burn(0.1)\n        os._exit(0)\n    try: os.wait()\n    except ChildProcessError: pass\n    time.sleep(0.1)"
    );
    let result = run_for(&client, &id, 60_000, &text).await;
    assert_ended(&result, result.state_lost);
    assert!((1900..8000).contains(&result.usage.cpu_time_ms), "{:?}", result.usage);
    assert!(run(&client, &id, "1").await.success);
    let counted =
        run(&client, &id, &format!("{spin}if os.fork() == 0:\n    burn(0.5)\n    os._exit(0)\n_ = os.wait()")).await;
    assert!(counted.success && (450..2000).contains(&counted.usage.cpu_time_ms), "{:?}", counted.usage);
}

#[tokio::test]
async fn usage_agrees_with_what_linux_tells_the_program() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "import resource, time").await;
    let text = "b = None\na = time.process_time()\nwhile time.process_time() < a + 1: pass\nb = bytearray(b'x') * (60 << 20)\ntime.process_time() - a";
    for _ in 0..3 {
        let result = run(&client, &id, text).await;
        let inside = result.result.0.get().parse::<f64>().expect("a number") * 1000.0;
        let told = result.usage.cpu_time_ms as f64;
        assert!((told - inside).abs() < 60.0 + inside / 10.0, "{told} ms told, {inside} ms inside");
        let peak = result.usage.peak_memory_bytes;
        assert!((60 << 20..120 << 20).contains(&peak), "{peak}");
    }
    let small = run(&client, &id, "del b").await;
    assert!(small.usage.peak_memory_bytes < 120 << 20 && small.usage.cpu_time_ms < 500, "{:?}", small.usage);
}

/// CPU time of a process so far, in milliseconds, as the host counts it: proc(5), in ticks of 10 ms.
fn cpu_ms_of(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_ascii_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    (ticks(11) + ticks(12)) * 10
}

#[tokio::test]
async fn usage_agrees_with_what_the_host_counts() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "import time").await;
    let interpreter = descendants(server.pid())
        .into_iter()
        .find(|pid| {
            let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.contains("/run/repltool/driver.py")
        })
        .expect("an interpreter runs");
    for seconds in [0.3, 1.0, 0.6] {
        let before = cpu_ms_of(interpreter);
        let text = format!("t = time.process_time()\nwhile time.process_time() < t + {seconds}: int()");
        let result = run(&client, &id, &text).await;
        let outside = cpu_ms_of(interpreter) - before;
        let told = result.usage.cpu_time_ms;
        assert!(told.abs_diff(outside) <= 40 + outside / 10, "{told} ms told, {outside} ms by the host's count");
    }
}

#[tokio::test]
async fn cpu_time_between_executions_costs_the_interpreter_and_says_so() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        (
            "python",
            "import threading\ndef burn():\n    while True: int()\nthreading.Thread(target=burn, daemon=True).start()",
        ),
        ("bash", "while :; do :; done &"),
    ] {
        let id = session(&client, language, json!({"resource_limits": {"max_cpu_time": 1}})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let started = run(&client, &id, text).await;
        assert!(started.success, "{language}: {started:?}");
        let mut reasons = Vec::new();
        while reasons.last() != Some(&Some(StatusReason::Restarted)) {
            if let Event::Status { status, reason, .. } = event(&mut socket).await.event {
                assert_eq!(status, SessionStatus::Active);
                reasons.push(reason);
            }
        }
        assert_eq!(reasons, [Some(StatusReason::Limit), Some(StatusReason::Restarted)], "{language}");
        let next = run(&client, &id, if language == "bash" { "echo a" } else { "print('a')" }).await;
        assert_eq!((next.success, next.state_lost, next.output.as_str()), (true, true, "a\n"), "{language}: {next:?}");
    }
}

#[tokio::test]
async fn output_between_executions_has_the_same_limit() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10_000}})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let text = "import threading, time\ndef flood():\n    time.sleep(0.3)\n    while True: print('spam')\nthreading.Thread(target=flood, daemon=True).start()";
    assert!(run(&client, &id, text).await.success);
    let (mut bytes, mut limited) = (0, false);
    loop {
        match event(&mut socket).await.event {
            Event::Stream { id: None, data, .. } => bytes += data.len(),
            Event::Status { reason: Some(StatusReason::Limit), .. } => limited = true,
            Event::Status { reason: Some(StatusReason::Restarted), .. } => break,
            _ => {}
        }
    }
    assert!(limited && bytes <= 10_000, "{bytes} bytes");
    assert!(run(&client, &id, "1").await.state_lost);
}

#[tokio::test]
async fn cpu_time_goes_on_counting_while_the_gateway_is_replaced() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_cpu_time": 2}})).await;
    run(&client, &id, "kept = 1").await;
    let text = "while True: int()";
    let request = super::harness::named("burn", text);
    let request = repltool_protocol::rest::ExecutionRequest { timeout_ms: Some(60_000), ..request };
    let crash = async {
        eventually("it burns", || async { (!descendants(server.pid()).is_empty()).then_some(()) }).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.crash_gateway().await;
    };
    let (lost, ()) = futures::future::join(client.execute(&id, &request), crash).await;
    assert!(lost.is_err(), "its connection went with the gateway: {lost:?}");
    let result = in_time("the limit", client.execute(&id, &request)).await.expect("the same execution is followed");
    assert_eq!(result.limit, Some(Limit::CpuTime), "{result:?}");
}
