//! Fresh tokens on open sockets: they keep a socket open, give and take rights, and are refused without harm.

use repltool::client::{Client, Received};
use repltool_protocol::ids::SessionId;
use serde_json::{Value, json};

use super::auth::bad_tokens;
use super::harness::{As, PATIENCE, Server, eventually, in_time, named, python, run};
use super::wire::{Raw, open_as};

/// Tokens end a second after their time.
const SHORT_LEEWAY: &str = "[auth]\nleeway_s = 1\n";

async fn socket(server: &Server, id: &SessionId, token: &str) -> Raw {
    let mut socket = open_as(server, &format!("/api/v1/sessions/{id}/ws"), token).await.expect("a socket");
    socket.next_of("ready").await;
    socket
}

/// Sends a token under the name `a` and gives the answer.
async fn renew(socket: &mut Raw, token: &str) -> Value {
    socket.send(json!({"type": "auth", "token": token, "id": "a"}).to_string()).await;
    let answer = socket.next().await.expect("an answer");
    assert_eq!(answer["id"], "a", "{answer}");
    answer
}

/// Runs something and gives its result, or the problem.
async fn execute(socket: &mut Raw, id: &str) -> Value {
    socket.send(json!({"type": "execute", "id": id, "code": "6 * 7"}).to_string()).await;
    loop {
        let message = socket.next().await.expect("an answer");
        if message["id"] == id && (message["type"] == "result" || message["type"] == "problem") {
            return message;
        }
    }
}

async fn until_lapsed(server: &Server, token: &str, id: &SessionId) {
    let client = Client::new(&server.url, Some(token)).expect("a client");
    eventually("the token has expired", || async { client.get(id).await.err() }).await;
}

#[tokio::test]
async fn a_fresh_token_keeps_a_socket_open() {
    let server = Server::start_with(As::Me, SHORT_LEEWAY).await;
    let id = python(&server.client_of("ada", "tool:execute"), json!({})).await;
    let old = server.token("ada", "tool:execute", "4s");
    let mut silent = socket(&server, &id, &old).await;
    let mut told = socket(&server, &id, &old).await;
    let mut left = socket(&server, &id, &old).await;
    let before = jiff::Timestamp::now();
    let fresh = server.token("ada", "tool:execute", "1h");
    let answer = renew(&mut told, &fresh).await;
    assert_eq!(answer["type"], "authenticated", "{answer}");
    let expires: jiff::Timestamp = answer["expires_at"].as_str().and_then(|it| it.parse().ok()).expect("a time");
    assert!((3595..3700).contains(&(expires.as_second() - before.as_second())), "{answer}");
    // Without an id there is no answer: what comes next is that of the next frame.
    silent.send(json!({"type": "auth", "token": fresh}).to_string()).await;
    silent.send(r#"{"type":"ping","id":"p"}"#).await;
    assert_eq!(silent.next().await.expect("a message")["type"], "pong");

    until_lapsed(&server, &old, &id).await;
    assert_eq!(left.close_code().await, Some(4401), "nobody has renewed this one");
    for (n, socket) in [&mut silent, &mut told].into_iter().enumerate() {
        assert_eq!(execute(socket, &format!("e{n}")).await["result"], 42);
    }
}

#[tokio::test]
async fn a_renewed_socket_ends_with_its_last_token() {
    let server = Server::start_with(As::Me, SHORT_LEEWAY).await;
    let owner = server.client_of("ada", "tool:execute");
    let id = python(&owner, json!({})).await;
    let mut socket = socket(&server, &id, &server.token("ada", "tool:execute", "1h")).await;
    let begin = tokio::time::Instant::now();
    for ttl in ["2s", "30m", "3s"] {
        assert_eq!(renew(&mut socket, &server.token("ada", "tool:execute", ttl)).await["type"], "authenticated");
    }
    assert_eq!(socket.close_code().await, Some(4401));
    assert!(begin.elapsed() < PATIENCE, "the last token counts, not the longest");
    assert_eq!(run(&owner, &id, "6 * 7").await.result.0.get(), "42");
}

#[tokio::test]
async fn a_token_that_is_refused_changes_nothing() {
    let server = Server::start_with(As::Me, "[log]\nlevel = \"trace\"\n").await;
    let id = python(&server.client_of("eve", "tool:execute"), json!({})).await;
    let mut socket = socket(&server, &id, &server.token("eve", "tool:execute", "1h")).await;
    let bad = bad_tokens(&server).into_iter().map(|(what, token)| (what, token, "unauthorized"));
    let more = [
        ("another subject", server.token("ada", "tool:execute admin", "1h"), "forbidden"),
        ("no scope to read", server.token("eve", "sandbox:relaxed", "1h"), "forbidden"),
        ("as long as a message may be", "x".repeat(1 << 20), "unauthorized"),
    ];
    for (n, (what, token, code)) in bad.chain(more).enumerate() {
        let answer = renew(&mut socket, &token).await;
        assert_eq!((&answer["type"], &answer["code"]), (&json!("problem"), &json!(code)), "{what}: {answer}");
        assert!(token.len() < 4 || !answer.to_string().contains(&token), "{what}: {answer}");
        // Refusals are told by their code, not counted as malformed messages, and leave the old token in force.
        assert_eq!(execute(&mut socket, &format!("e{n}")).await["result"], 42, "{what}");
        assert!(token.len() < 20 || !server.log().contains(&token), "{what}: the token is in the log");
    }
    assert!(server.log().contains("authentication failed"));
    let good = server.token("eve", "tool:execute", "2h");
    assert_eq!(renew(&mut socket, &good).await["type"], "authenticated");
    assert!(!server.log().contains(good.rsplit('.').next().expect("a signature")), "the token is in the log");
    for (text, named) in [
        (r#"{"type":"auth","id":"a"}"#, "token"),
        (r#"{"type":"auth","id":"a","token":7}"#, "token"),
        (r#"{"type":"auth","id":"a","token":null}"#, "token"),
        (r#"{"type":"auth","id":"a","token":"x","scope":"admin"}"#, "scope"),
    ] {
        socket.send(text).await;
        let problem = socket.next_of("problem").await;
        assert_eq!((&problem["id"], &problem["code"]), (&json!("a"), &json!("invalid_request")), "{text}");
        assert!(problem["detail"].as_str().is_some_and(|it| it.contains(named)), "{problem}");
    }
}

#[tokio::test]
async fn scopes_are_those_of_the_token_in_force() {
    let server = Server::start().await;
    let id = python(&server.client_of("ada", "tool:execute"), json!({})).await;
    let mut socket = socket(&server, &id, &server.token("ada", "session:read", "1h")).await;
    assert_eq!(execute(&mut socket, "e1").await["code"], "forbidden");
    renew(&mut socket, &server.token("ada", "tool:execute", "1h")).await;
    assert_eq!(execute(&mut socket, "e2").await["result"], 42);
    renew(&mut socket, &server.token("ada", "session:read", "1h")).await;
    assert_eq!(execute(&mut socket, "e3").await["code"], "forbidden");

    // Whoever saw it as an administrator keeps it as one only.
    let (admin, plain) =
        (server.token("root", "admin session:read", "1h"), server.token("root", "tool:execute session:read", "1h"));
    let mut socket = self::socket(&server, &id, &admin).await;
    assert_eq!(renew(&mut socket, &plain).await["code"], "forbidden");
    assert_eq!(renew(&mut socket, &admin).await["type"], "authenticated");
}

#[tokio::test]
async fn a_streamed_execution_ends_with_its_token_and_goes_on_by_itself() {
    let server = Server::start_with(As::Me, SHORT_LEEWAY).await;
    let owner = server.client_of("ada", "tool:execute");
    let id = python(&owner, json!({})).await;
    let token = server.token("ada", "tool:execute", "4s");
    let client = Client::new(&server.url, Some(&token)).expect("a client");
    let text = "import time\nwhile True:\n    print('on')\n    time.sleep(0.01)";
    let mut stream = client.execute_live(&id, &named("e1", text)).await.expect("a stream");
    let mut last = String::new();
    while let Some(frame) = in_time("the end of the token", stream.next()).await.expect("readable") {
        last = format!("{frame:?}");
    }
    assert!(last.contains("Stream"), "no result: {last}");
    let mut socket = owner.attach(&id, None).await.expect("a socket");
    while !matches!(in_time("output", socket.receive()).await.expect("readable"), Received::Frame(it) if format!("{it:?}").contains("Stream"))
    {
    }
    owner.interrupt(&id, None).await.expect("accepted");
}
