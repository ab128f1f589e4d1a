//! Refusals on a socket: each frame that is refused has its `problem`, with its id, and the socket stays.

use serde_json::{Value, json};

use super::harness::{As, Server, python};
use super::wire::{Raw, local_token, open_as};

/// The next problem, after whatever else comes.
async fn refused(socket: &mut Raw, frame: Value) -> Value {
    socket.send(frame.to_string()).await;
    socket.next_of("problem").await
}

async fn until(socket: &mut Raw, kind: &str, id: &str) -> Value {
    loop {
        let message = socket.next_of(kind).await;
        if message["id"] == id {
            return message;
        }
    }
}

#[tokio::test]
async fn every_refused_frame_is_told_with_its_id_and_its_code() {
    let server = Server::start_with(As::Me, "[sessions]\nqueue = 1\n").await;
    let id = python(&server.client(), json!({"resource_limits": {"max_expressions": 3}})).await;
    let path = format!("/api/v1/sessions/{id}/ws");
    let mut socket = open_as(&server, &path, &local_token(&server)).await.expect("a socket");
    socket.send(r#"{"type":"execute","id":"runs","code":"import time\ntime.sleep(600)"}"#).await;
    until(&mut socket, "started", "runs").await;
    socket.send(r#"{"type":"execute","id":"waits","code":"1"}"#).await;
    until(&mut socket, "queued", "waits").await;
    for (frame, id, code, field) in [
        (json!({"type": "execute", "id": "one-more", "code": "1"}), json!("one-more"), "busy", Value::Null),
        (json!({"type": "execute", "id": "runs", "code": "other()"}), json!("runs"), "conflict", Value::Null),
        (json!({"type": "execute", "id": "waits", "code": "2"}), json!("waits"), "conflict", Value::Null),
        (json!({"type": "execute", "id": "e", "code": ""}), json!("e"), "invalid_request", json!("code")),
        (
            json!({"type": "execute", "id": "e", "code": "1", "timeout_ms": 99}),
            json!("e"),
            "invalid_request",
            json!("timeout_ms"),
        ),
        (
            json!({"type": "complete", "id": "q", "code": "pri", "cursor": 4}),
            json!("q"),
            "invalid_request",
            json!("cursor"),
        ),
        (
            json!({"type": "inspect", "id": "q", "code": "pri", "cursor": u64::MAX}),
            json!("q"),
            "invalid_request",
            json!("cursor"),
        ),
        (json!({"type": "auth", "id": "a", "token": "x"}), json!("a"), "unauthorized", Value::Null),
        (json!({"type": "auth", "token": "x"}), Value::Null, "unauthorized", Value::Null),
    ] {
        let problem = refused(&mut socket, frame.clone()).await;
        assert_eq!((&problem["id"], &problem["code"]), (&id, &json!(code)), "{frame}: {problem}");
        assert_eq!(problem["errors"][0]["field"], field, "{frame}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|it| !it.is_empty()), "{frame}: {problem}");
    }
    let problem = refused(&mut socket, json!({"type": "stdin"})).await;
    assert_eq!((&problem["id"], &problem["code"]), (&Value::Null, &json!("invalid_request")), "{problem}");
    socket.send(r#"{"type":"interrupt","id":"runs"}"#).await;
    until(&mut socket, "result", "waits").await;
    let problem = refused(&mut socket, json!({"type": "stdin", "data": "nobody reads\n"})).await;
    assert_eq!((&problem["id"], &problem["code"]), (&Value::Null, &json!("conflict")), "{problem}");
    socket.send(r#"{"type":"execute","id":"third","code":"3"}"#).await;
    assert_eq!(until(&mut socket, "result", "third").await["result"], 3);
    let problem = refused(&mut socket, json!({"type": "execute", "id": "fourth", "code": "4"})).await;
    assert_eq!((&problem["id"], &problem["code"]), (&json!("fourth"), &json!("expression_limit")), "{problem}");
    socket.send(r#"{"type":"ping","id":"p"}"#).await;
    assert_eq!(socket.next_of("pong").await["id"], "p");
}
