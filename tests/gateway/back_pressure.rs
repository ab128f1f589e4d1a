//! Readers that do not read: they slow nobody, cost the gateway next to nothing, and get everything in the end.

use repltool_protocol::event::{Event, LoggedEvent, StreamName};
use repltool_protocol::rest::SessionConfig;
use serde_json::json;

use super::harness::{
    Server, assert_log, event, exception, in_time, numbered, outcome, printed, python, send, told, until_result,
};
use super::wire::{Raw, bearer, local_token, open_with_buffer};

const OUTPUT_BYTES: usize = 10 * 1024 * 1024;
/// Readers that take nothing. If what they miss were queued for them, the gateway would grow by ten times that many MiB.
const STOPPED: usize = 12;
/// How much the gateway may grow: what everybody holds who has not taken his last batch, and the noise of an allocator.
const MAX_GROWTH_KIB: u64 = 48 * 1024;

fn large() -> serde_json::Value {
    json!({"resource_limits": {"max_output_size": OUTPUT_BYTES}})
}

/// Highest resident memory of a process so far, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Attaches a reader with a small buffer, which has taken its first message and nothing else.
async fn stopped(server: &Server, path: &str) -> Raw {
    let token = bearer(&local_token(server));
    let mut socket = open_with_buffer(server, path, &[("authorization", &token)], Some(4096)).await.expect("a socket");
    assert_eq!(socket.next().await.expect("the first message")["type"], "ready");
    socket
}

/// Reads on, up to the result of an execution.
async fn read_on(socket: &mut Raw) -> Vec<LoggedEvent> {
    let mut events: Vec<LoggedEvent> = Vec::new();
    while events.last().is_none_or(|it| !matches!(it.event, Event::Result(_))) {
        let message = socket.next().await.expect("it goes on");
        events.push(serde_json::from_value(message).expect("an event"));
    }
    events
}

#[tokio::test]
async fn slow_reader_gets_everything_and_slows_nobody() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, large()).await;
    let path = format!("/api/v1/sessions/{id}/ws");
    let mut readers = Vec::new();
    for _ in 0..STOPPED {
        readers.push(stopped(&server, &path).await);
    }
    let mut fast = client.attach(&id, None).await.expect("a socket");
    let gateway = server.gateway_pid(None).await;
    let before = peak_kib(gateway);

    let (text, expected) = numbered(OUTPUT_BYTES / 256, 256);
    let execution = send(&mut fast, "e1", &text).await;
    let events = until_result(&mut fast, &execution).await;
    assert!(outcome(&events).success && printed(&events, StreamName::Stdout) == expected, "{:?}", outcome(&events));
    let growth = peak_kib(gateway) - before;
    assert!(growth < MAX_GROWTH_KIB, "the gateway grew by {growth} KiB");

    let late = in_time("the one that had stopped reads on", read_on(&mut readers[0])).await;
    assert_log(&late);
    assert!(told(&late) == told(&events), "it got something else: {} bytes", printed(&late, StreamName::Stdout).len());
    let growth = peak_kib(gateway) - before;
    assert!(growth < MAX_GROWTH_KIB, "the gateway grew by {growth} KiB");
}

#[tokio::test]
async fn blocked_reader_is_listened_to() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, large()).await;
    let mut blocked = stopped(&server, &format!("/api/v1/sessions/{id}/ws")).await;
    let mut other = client.attach(&id, None).await.expect("a socket");
    let text = "import time\nprint('x' * (8 << 20))\nprint('all')\ntime.sleep(600)";
    let execution = send(&mut other, "e1", text).await;
    let mut bytes = 0;
    while bytes < (8 << 20) + 5 {
        bytes += printed(&[event(&mut other).await], StreamName::Stdout).len();
    }
    blocked.send(r#"{"type":"interrupt"}"#).await;
    let events = until_result(&mut other, &execution).await;
    assert_eq!(exception(outcome(&events)), "KeyboardInterrupt");
    assert_eq!(printed(&read_on(&mut blocked).await, StreamName::Stdout).len(), bytes);
}

#[tokio::test]
async fn sessions_do_not_wait_for_readers_of_others() {
    let server = Server::start().await;
    let client = server.client();
    let config: SessionConfig = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    let loud = python(&client, large()).await;
    let _readers = [stopped(&server, &format!("/api/v1/sessions/{loud}/ws")).await];
    let mut starter = client.attach(&loud, None).await.expect("a socket");
    send(&mut starter, "e1", "while True: print('x' * 100000)").await;
    let quiet = in_time("a session", client.create(&config)).await.expect("created").session_id;
    assert_eq!(super::harness::run(&client, &quiet, "6 * 7").await.result.0.get(), "42");
}
