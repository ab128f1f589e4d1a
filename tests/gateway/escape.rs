//! Attempts to get out of a sandbox, or to use more than it gives, from `escapes.toml`, through a running server.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use futures::StreamExt;
use repltool::client::Client;
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;

use crate::harness::{As, Server, python, run};

/// Settings within what the file assumes.
pub const LIMITS: &str = "[sandbox]\ndisk_mb = 32\n";
/// Attempts that are made at once.
const AT_ONCE: usize = 4;

/// The file, as it says at its beginning.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempts {
    prelude: String,
    escape: Vec<Attempt>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    name: String,
    modes: Vec<String>,
    #[serde(default)]
    dies: bool,
    code: String,
}

/// What is wrong with how an attempt ended, if anything is.
fn fault(attempt: &Attempt, result: &ExecutionResult) -> Option<&'static str> {
    let refused = result.output.lines().any(|line| line.starts_with("refused:"));
    let died = attempt.dies && (result.state_lost || result.limit.is_some());
    match () {
        () if result.output.contains("ESCAPED") => Some("it got through"),
        () if died => None,
        () if !refused => Some("nothing was refused"),
        () if !result.success => Some("it broke off before its end"),
        () => None,
    }
}

/// Makes every attempt that is wanted, each in a session of its own. Says how many there were.
pub async fn assert_refused(client: &Client, wanted: impl Fn(&str, &str) -> bool) -> usize {
    let attempts: Attempts = toml::from_str(include_str!("escapes.toml")).expect("a readable list of attempts");
    let each = attempts.escape.iter().flat_map(|attempt| attempt.modes.iter().map(move |mode| (attempt, mode)));
    let each: Vec<_> = each.filter(|(attempt, mode)| wanted(&attempt.name, mode)).collect();
    let count = each.len();
    let made = futures::stream::iter(each).map(async |(attempt, mode)| {
        let session = python(client, json!({"sandbox_mode": mode})).await;
        let result = run(client, &session, &format!("{}\n{}", attempts.prelude, attempt.code)).await;
        client.delete(&session).await.expect("the session is deleted, whatever was tried in it");
        fault(attempt, &result)
            .map(|fault| format!("{} ({mode}): {fault}: {}{}", attempt.name, result.output, result.error))
    });
    let faults: Vec<String> = made.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    count
}

#[tokio::test]
async fn every_attempt_to_escape_is_refused() {
    // The sockets that one attempt looks for are there.
    let address = SocketAddr::from_abstract_name("repltool-escape").expect("an address");
    let _stream = UnixListener::bind_addr(&address);
    let _datagram = UnixDatagram::bind_addr(&address);
    let server = Server::start_with(As::Me, LIMITS).await;
    let count = assert_refused(&server.client(), |_, _| true).await;
    assert!(count >= 2 * 20, "{count} attempts");
    assert!(server.client().list(10, 0).await.expect("a list").sessions.is_empty());
}
