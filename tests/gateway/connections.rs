//! HTTP connections: one request after the other, several at once, and what is no request.

use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use super::harness::{Server, python};
use super::talk::{Talk, head, request};
use super::wire::{address, exchange};

const SESSIONS: &str = "/api/v1/sessions";

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let mut talk = Talk::connect(&server).await;
    let execute = format!("{SESSIONS}/{id}/execute");
    for n in 0..5 {
        talk.send(request(&server, "POST", &execute, &format!(r#"{{"code":"{n}"}}"#))).await;
        assert_eq!(talk.reply().await.json()["result"], json!(n));
        for (method, path, status) in [("GET", SESSIONS, 200), ("GET", "/nowhere", 404), ("POST", SESSIONS, 400)] {
            talk.send(request(&server, method, path, if method == "POST" { "{" } else { "" })).await;
            assert_eq!(talk.reply().await.status, status, "{method} {path}");
        }
    }
    // An answer in pieces ends as clearly as one with a length.
    talk.send(request(&server, "GET", &format!("{SESSIONS}/{id}/events"), "")).await;
    assert_eq!(talk.reply().await.text().lines().count(), 15);
    talk.send(request(&server, "GET", "/readyz", "").replacen("\r\n", "\r\nconnection: close\r\n", 1)).await;
    assert_eq!(talk.reply().await.status, 200);
    assert!(talk.until_closed().await.is_empty());
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let session = format!("{SESSIONS}/{id}");
    let slow = r#"{"code":"import time; time.sleep(0.5); 'slow'"}"#;
    let all = [
        request(&server, "POST", &format!("{session}/execute"), slow),
        request(&server, "GET", &format!("{session}/history"), ""),
        request(&server, "POST", &format!("{session}/execute"), r#"{"code":"'quick'"}"#),
        request(&server, "POST", SESSIONS, "{"),
        request(&server, "DELETE", &session, ""),
        request(&server, "GET", &session, ""),
        request(&server, "HEAD", "/readyz", ""),
    ];
    let mut talk = Talk::connect(&server).await;
    talk.send(all.concat()).await;
    assert_eq!(talk.reply().await.json()["result"], "slow");
    assert_eq!(talk.reply().await.json()["total"], 1);
    assert_eq!(talk.reply().await.json()["result"], "quick");
    talk.reply().await.problem(ProblemCode::InvalidRequest);
    assert_eq!(talk.reply().await.status, 204);
    talk.reply().await.problem(ProblemCode::NotFound);
    assert_eq!(talk.head().await.0, 200);
    // In pieces of any size it is the same.
    let whole = [request(&server, "GET", "/readyz", ""), request(&server, "GET", SESSIONS, "")].concat();
    for piece in whole.as_bytes().chunks(7) {
        talk.send(piece).await;
    }
    assert_eq!(talk.reply().await.json()["status"], "ready");
    assert_eq!(talk.reply().await.json()["total"], 0);
}

#[tokio::test]
async fn http_1_0_ends_with_its_answer() {
    let server = Server::start().await;
    let address = address(&server);
    let old = format!("GET /readyz HTTP/1.0\r\nhost: {address}\r\n\r\n");
    let mut talk = Talk::connect(&server).await;
    talk.send(&old).await;
    assert_eq!(talk.reply().await.status, 200);
    assert!(talk.until_closed().await.is_empty());
    // Unless both want it to go on.
    let mut talk = Talk::connect(&server).await;
    for _ in 0..2 {
        talk.send(old.replacen("\r\n", "\r\nconnection: keep-alive\r\n", 1)).await;
        assert_eq!(talk.reply().await.header("connection"), "keep-alive");
    }
    let mut talk = Talk::connect(&server).await;
    talk.send("GET /readyz HTTP/1.0\r\n\r\n").await;
    talk.reply().await.problem(ProblemCode::InvalidRequest);
}

#[tokio::test]
async fn targets_have_four_forms_and_two_are_answered() {
    let server = Server::start().await;
    let address = address(&server);
    for (target, status) in [
        ("/readyz".to_owned(), 200),
        (format!("http://{address}/readyz"), 200),
        ("HTTP://LOCALHOST/readyz?x".to_owned(), 200),
        (format!("http://{address}"), 200),
        (format!("http://x@{address}/readyz"), 400),
        ("http://evil.example/readyz".to_owned(), 421),
        ("*".to_owned(), 404),
        ("readyz".to_owned(), 421),
        ("".to_owned(), 400),
    ] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("GET {target} HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
        assert_eq!(talk.reply().await.status, status, "{target}");
    }
    let mut talk = Talk::connect(&server).await;
    talk.send(format!("CONNECT {address} HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert_eq!(talk.head().await.0, 404);
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_ends_its_connection() {
    let server = Server::start().await;
    let host = format!("host: {}\r\n", address(&server));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "a".repeat(200 << 10));
    for (line, headers, status) in [
        ("GET /readyz HTTP/1.1", "", 400),
        ("GET /readyz HTTP/1.1", "host: localhost\r\nhost: localhost\r\n", 400),
        ("GET /readyz HTTP/1.1", "host: \r\n", 400),
        ("POST /readyz HTTP/1.1", "content-length: 1\r\ncontent-length: 2\r\n", 400),
        ("POST /readyz HTTP/1.1", "content-length: -1\r\n", 400),
        ("POST /readyz HTTP/1.1", "content-length: +1\r\n", 400),
        ("POST /readyz HTTP/1.1", "content-length: 0x1\r\n", 400),
        ("POST /readyz HTTP/1.1", "content-length: 18446744073709551616\r\n", 400),
        ("POST /readyz HTTP/1.1", "transfer-encoding: gzip\r\n", 400),
        ("POST /readyz HTTP/1.1", "transfer-encoding: chunked, gzip\r\n", 400),
        ("POST /readyz HTTP/1.0", "transfer-encoding: chunked\r\n", 400),
        ("GET /readyz HTTP/1.1", "x: a\r\n b\r\n", 400),
        ("GET /readyz HTTP/1.1", "x : a\r\n", 400),
        ("GET /readyz HTTP/1.1", "x: a\0b\r\n", 400),
        ("GET /readyz HTTP/1.1", "no colon\r\n", 400),
        ("GET /readyz HTTP/1.1", &many, 431),
        ("GET /readyz HTTP/1.1", &long, 431),
        ("GET /ready z HTTP/1.1", "", 400),
        ("GET\0 /readyz HTTP/1.1", "", 400),
        ("G(T /readyz HTTP/1.1", "", 400),
        ("GET /readyz HTTP/9.9", "", 400),
        ("GET /readyz", "", 400),
    ] {
        let host = if headers.starts_with("host") || headers.is_empty() && status == 400 { "" } else { &host };
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{line}\r\n{host}{headers}\r\n")).await;
        let (got, _) = talk.head().await;
        assert_eq!(got, status, "{line} {}", headers.get(..80).unwrap_or(headers));
    }
    assert!(server.client().is_ready().await.expect("an answer"));
}

#[tokio::test]
async fn a_message_has_one_length() {
    let server = Server::start().await;
    let post = head(&server, "POST", SESSIONS);
    let next = request(&server, "GET", "/readyz", "");
    let body = r#"{"language":"x"}"#;
    let length = format!("content-length: {}\r\n", body.len());
    let chunked = "transfer-encoding: chunked\r\n";
    let pieces = format!("{:x};name=value\r\n{body}\r\n0\r\nx-trailer: 1\r\n\r\n", body.len());

    // The same one twice is one, and a body in pieces ends where it says.
    for message in [format!("{post}{length}{length}\r\n{body}"), format!("{post}{chunked}\r\n{pieces}")] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{message}{next}")).await;
        talk.reply().await.problem(ProblemCode::InvalidRequest);
        assert_eq!(talk.reply().await.status, 200, "{message}");
    }
    // With both, the pieces count, and nothing that follows on the connection is believed.
    for both in [format!("{length}{chunked}"), format!("{chunked}{length}")] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{post}{both}\r\n{pieces}{next}")).await;
        talk.reply().await.problem(ProblemCode::InvalidRequest);
        assert!(talk.until_closed().await.is_empty(), "{both}");
    }
    // Pieces that are none end the message and the connection.
    for pieces in ["g\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "1\r\nabc\r\n0\r\n\r\n", "1\nx\n0\n\n"] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{post}{chunked}\r\n{pieces}{next}")).await;
        talk.reply().await.problem(ProblemCode::InvalidRequest);
        assert!(talk.until_closed().await.is_empty(), "{pieces:?}");
    }
}

#[tokio::test]
async fn a_line_may_end_with_its_feed_alone_and_hides_nothing() {
    let server = Server::start().await;
    let address = address(&server);
    let answer =
        exchange(&server, format!("GET /readyz HTTP/1.1\nhost: {address}\nconnection: close\n\n").as_bytes()).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.matches("HTTP/1.1 ").count() == 1, "{text}");
    // A carriage return alone ends no line.
    let answer = exchange(&server, format!("GET /readyz HTTP/1.1\r\nhost: {address}\rx: y\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
}
