//! The WebSocket protocol: malformed frames, unknown frames, pings, sizes.

use futures::{SinkExt, StreamExt};
use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, MAX_CODE_CHARS, MAX_MESSAGE_BYTES, SandboxMode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::harness::{Server, eventually, frame, in_time, python, run};
use super::wire::{Raw, local_token, open_as};
use repltool_protocol::frame::{Notice, ServerFrame};

async fn socket(server: &Server, id: &SessionId) -> Raw {
    let token = local_token(server);
    let mut socket = open_as(server, &format!("/api/v1/sessions/{id}/ws"), &token).await.expect("a socket");
    socket.next_of("ready").await;
    socket
}

async fn session(server: &Server) -> (Client, SessionId) {
    let client = server.client();
    let id = python(&client, json!({})).await;
    (client, id)
}

async fn assert_usable(socket: &mut Raw, id: &str) {
    socket.send(json!({"type": "execute", "id": id, "code": "6 * 7"}).to_string()).await;
    let result = loop {
        // Other sockets of the session may have asked for something too.
        let result = socket.next_of("result").await;
        if result["id"] == id {
            break result;
        }
    };
    assert_eq!(result["result"], 42);
}

#[tokio::test]
async fn malformed_frames_are_answered_and_then_the_socket_is_closed() {
    let server = Server::start().await;
    let (_, id) = session(&server).await;
    let mut socket = socket(&server, &id).await;
    let frames = [
        ("{", Value::Null, ""),
        ("[]", Value::Null, ""),
        (r#"{"type":"dance","id":"q1"}"#, json!("q1"), "dance"),
        (r#"{"id":"q2"}"#, json!("q2"), "type"),
        (r#"{"type":"execute","id":"q3"}"#, json!("q3"), "code"),
        (r#"{"type":"execute","id":"q4","code":"1","timeout":5}"#, json!("q4"), "timeout"),
        (r#"{"type":"execute","id":"q 5","code":"1"}"#, Value::Null, "id"),
        (r#"{"type":"execute","code":"1"}"#, Value::Null, "id"),
        (r#"{"type":"ping","id":"q6","id":"q7"}"#, Value::Null, "id"),
        (r#"{"type":"execute","id":"q8","code":7}"#, json!("q8"), "code"),
    ];
    for (at, (text, id, named)) in frames.iter().enumerate() {
        socket.send(*text).await;
        let problem = socket.next_of("problem").await;
        assert_eq!((&problem["code"], &problem["id"]), (&json!("invalid_request"), id), "{text}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|it| it.contains(named)), "{text}: {problem}");
        if at == 5 {
            assert_usable(&mut socket, "between").await;
        }
    }
    assert_eq!(socket.close_code().await, Some(1008));
}

#[tokio::test]
async fn wrong_values_are_refused_and_the_socket_stays() {
    let server = Server::start().await;
    let (_, id) = session(&server).await;
    let mut socket = socket(&server, &id).await;
    for round in 0..20 {
        for (more, field) in [
            (json!({"code": ""}), "code"),
            (json!({"code": "1", "timeout_ms": 99}), "timeout_ms"),
            (json!({"code": "1", "timeout_ms": 300_001}), "timeout_ms"),
        ] {
            let mut frame = json!({"type": "execute", "id": format!("w{round}")});
            frame.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            socket.send(frame.to_string()).await;
            let problem = socket.next_of("problem").await;
            assert_eq!((&problem["id"], &problem["errors"][0]["field"]), (&frame["id"], &json!(field)), "{problem}");
        }
    }
    assert_usable(&mut socket, "after").await;
}

#[tokio::test]
async fn pings_are_answered_in_both_ways() {
    let server = Server::start().await;
    let (_, id) = session(&server).await;
    let mut socket = socket(&server, &id).await;
    // While something runs, too.
    socket.send(r#"{"type":"execute","id":"e","code":"import time; time.sleep(600)"}"#).await;
    socket.next_of("started").await;
    socket.send(r#"{"type":"ping","id":"p.1_-"}"#).await;
    assert_eq!(socket.next().await.expect("a message"), json!({"type": "pong", "id": "p.1_-"}));
    socket.wire.send(Message::Ping(b"payload"[..].into())).await.expect("sent");
    match in_time("a pong", socket.wire.next()).await {
        Some(Ok(Message::Pong(payload))) => assert_eq!(&payload[..], b"payload"),
        other => panic!("{other:?}"),
    }
    socket.wire.send(Message::Pong(b"unasked"[..].into())).await.expect("sent");
    socket.send(r#"{"type":"interrupt"}"#).await;
    assert_eq!(socket.next_of("result").await["exception"]["name"], "KeyboardInterrupt");
}

#[tokio::test]
async fn what_is_too_big_closes_the_socket_and_nothing_else() {
    let server = Server::start().await;
    let (client, id) = session(&server).await;
    run(&client, &id, "x = 7").await;
    let mut other = socket(&server, &id).await;
    // As large as it may be: read, and refused for its length in characters.
    let mut largest = socket(&server, &id).await;
    let shell = json!({"type": "execute", "id": "big", "code": ""}).to_string().len();
    let frame = json!({"type": "execute", "id": "big", "code": "#".repeat(MAX_MESSAGE_BYTES - shell)}).to_string();
    assert_eq!(frame.len(), MAX_MESSAGE_BYTES);
    largest.send(frame).await;
    assert_eq!(largest.next_of("problem").await["errors"][0]["field"], "code");
    assert_usable(&mut largest, "after").await;
    for bytes in [MAX_MESSAGE_BYTES + 1, 20 * 1024 * 1024] {
        let mut socket = socket(&server, &id).await;
        // The server may close before all is sent.
        let _ = socket.wire.send(Message::text("x".repeat(bytes))).await;
        assert_eq!(socket.close_code().await, Some(1009), "{bytes}");
    }
    assert_usable(&mut other, "still").await;
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "7");
}

#[tokio::test]
async fn code_as_long_as_it_may_be_is_run() {
    let server = Server::start().await;
    let (_, id) = session(&server).await;
    let mut socket = socket(&server, &id).await;
    let end = "\n6 * 7";
    for (n, filler) in ["#", "é", "😀"].into_iter().enumerate() {
        let code = format!("#{}{end}", filler.repeat(MAX_CODE_CHARS - end.len() - 1));
        socket.send(json!({"type": "execute", "id": format!("fits{n}"), "code": code}).to_string()).await;
        let result = socket.next_of("result").await;
        assert_eq!((&result["id"], &result["result"]), (&json!(format!("fits{n}")), &json!(42)), "{filler}");
        socket.send(json!({"type": "execute", "id": format!("over{n}"), "code": code + " "}).to_string()).await;
        let problem = socket.next_of("problem").await;
        assert_eq!((&problem["id"], &problem["code"]), (&json!(format!("over{n}")), &json!("invalid_request")));
        assert_eq!(problem["errors"][0]["field"], "code");
    }
    assert_usable(&mut socket, "after").await;
}

#[tokio::test]
async fn binary_and_broken_frames_are_refused() {
    let server = Server::start().await;
    let (_, id) = session(&server).await;
    let mut socket = socket(&server, &id).await;
    socket.wire.send(Message::Binary(b"{\"type\":\"ping\",\"id\":\"p\"}"[..].into())).await.expect("sent");
    assert_eq!(socket.next_of("problem").await["code"], "invalid_request");
    assert_usable(&mut socket, "after").await;
    for (bytes, code) in [
        // Text that is none; a frame that is not masked; an opcode that there is not; a reserved bit.
        (&b"\x81\x81\0\0\0\0\xff"[..], 1007),
        (b"\x81\x01x", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\xc1\x81\0\0\0\0x", 1002),
    ] {
        let mut socket = self::socket(&server, &id).await;
        tokio::io::AsyncWriteExt::write_all(socket.wire.get_mut(), bytes).await.expect("sent");
        assert_eq!(socket.close_code().await, Some(code), "{bytes:?}");
    }
}

#[tokio::test]
async fn socket_creates_and_terminates_a_session() {
    let server = Server::start().await;
    let client = server.client();
    let mut socket = client.attach_new(Language::Python, SandboxMode::Standard).await.expect("a socket");
    let ServerFrame::Notice(Notice::Ready { session, .. }) = frame(&mut socket).await else { panic!("not ready") };
    assert_eq!(client.get(&session.session_id).await.expect("it is there").owner, "local");
    drop(socket);
    assert_eq!(run(&client, &session.session_id, "6 * 7").await.result.0.get(), "42", "it outlives the socket");
    let mut socket = self::socket(&server, &session.session_id).await;
    socket.send(r#"{"type":"terminate"}"#).await;
    assert_eq!(socket.close_code().await, Some(1000));
    eventually("it is gone", || async { client.get(&session.session_id).await.err() }).await;
    for query in ["", "language=ruby", "language=Bash", "sandbox_mode=standard", "language=python&sandbox_mode=none"] {
        let refused = open_as(&server, &format!("/api/v1/ws?{query}"), &local_token(&server)).await;
        assert_eq!(refused.expect_err("no socket").status, 400, "{query}");
    }
}
