//! HTTP in all its forms: methods, bodies, fields, refusals, and what every answer has.

use std::collections::HashSet;

use repltool_protocol::rest::{MAX_CODE_CHARS, MAX_MESSAGE_BYTES, ProblemCode};
use serde_json::json;

use super::harness::{Server, python, run};
use super::wire::{ask, ask_as_owner, bearer, exchange, local_token};

const SESSIONS: &str = "/api/v1/sessions";

#[tokio::test]
async fn other_methods_are_told_which_are_allowed() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    for (method, path, allow) in [
        ("PUT", SESSIONS.to_owned(), "GET, HEAD, POST, OPTIONS"),
        ("PATCH", format!("{SESSIONS}/{id}"), "GET, HEAD, DELETE, OPTIONS"),
        ("GET", format!("{SESSIONS}/{id}/execute"), "POST, OPTIONS"),
        ("HEAD", format!("{SESSIONS}/{id}/execute"), "POST, OPTIONS"),
        ("POST", format!("{SESSIONS}/{id}/history"), "GET, HEAD, OPTIONS"),
        ("DELETE", format!("{SESSIONS}/{id}/events"), "GET, HEAD, OPTIONS"),
        ("GET", format!("{SESSIONS}/{id}/interrupt"), "POST, OPTIONS"),
        ("GET", format!("{SESSIONS}/{id}/restart"), "POST, OPTIONS"),
        ("POST", format!("{SESSIONS}/{id}/ws"), "GET, OPTIONS"),
        ("POST", "/readyz".to_owned(), "GET, HEAD, OPTIONS"),
        ("POST", "/api/v1/ws".to_owned(), "GET, OPTIONS"),
        ("GET", "/api/v1/execute".to_owned(), "POST, OPTIONS"),
        ("POST", "/api/v1/capabilities".to_owned(), "GET, HEAD, OPTIONS"),
    ] {
        let reply = ask_as_owner(&server, method, &path, "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, allow), "{method} {path}: {reply:?}");
        if method != "HEAD" {
            reply.problem(ProblemCode::MethodNotAllowed);
        }
    }
}

#[tokio::test]
async fn unknown_places_are_not_found() {
    let server = Server::start().await;
    let long = "A".repeat(33);
    for id in [
        "..",
        "../../etc",
        "..%2f..%2fetc",
        "%2e%2e%2f",
        "a/b",
        "a%5Cb",
        "abc%00def",
        "",
        &long,
        "ABCDEFGH",
        "short",
        "ABCDEFG\u{e9}",
        "x%0A%7B%22event%22%3A%22login%22%7D",
    ] {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/execute"), ("GET", "/history"), ("GET", "/ws")] {
            let id: String =
                id.chars().map(|c| if c.is_ascii() { c.to_string() } else { "%C3%A9".to_owned() }).collect();
            let reply = ask_as_owner(&server, method, &format!("{SESSIONS}/{id}{rest}"), "").await;
            assert!(matches!(reply.status, 400 | 404 | 405), "{method} {id}{rest}: {reply:?}");
            assert_eq!(reply.header("content-type"), "application/problem+json");
        }
    }
    for path in ["/api", "/api/v1", "/api/v1/", "/api/v2/sessions", "/api/v1/sessions/", "//api/v1/sessions"] {
        ask_as_owner(&server, "GET", path, "").await.problem(ProblemCode::NotFound);
    }
}

#[tokio::test]
async fn the_wrong_field_is_named() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let execute = format!("{SESSIONS}/{id}/execute");
    let interrupt = format!("{SESSIONS}/{id}/interrupt");
    for (path, body, field) in [
        (SESSIONS, r#"{"language":"ruby"}"#, "language"),
        (
            SESSIONS,
            r#"{"language":"javascript","resource_limits":{"max_memory_mb":63}}"#,
            "resource_limits.max_memory_mb",
        ),
        (SESSIONS, r#"{"language":"bash","environment":{"PROMPT_COMMAND":"ls"}}"#, "environment.PROMPT_COMMAND"),
        (SESSIONS, r#"{}"#, "language"),
        (SESSIONS, r#"{"language":"python","user_id":"ada"}"#, "user_id"),
        (SESSIONS, r#"{"language":"python","sandbox_mode":"none"}"#, "sandbox_mode"),
        (SESSIONS, r#"{"language":"python","sandbox_mode":"strict","working_directory":"a"}"#, "working_directory"),
        (SESSIONS, r#"{"language":"python","resource_limits":{"max_memory_mb":15}}"#, "resource_limits.max_memory_mb"),
        (SESSIONS, r#"{"language":"python","resource_limits":{"max_cpu_time":301}}"#, "resource_limits.max_cpu_time"),
        (
            SESSIONS,
            r#"{"language":"python","resource_limits":{"max_output_size":"1"}}"#,
            "resource_limits.max_output_size",
        ),
        (SESSIONS, r#"{"language":"python","resource_limits":{"max_disk":1}}"#, "resource_limits.max_disk"),
        (SESSIONS, r#"{"language":"python","environment":{"LD_PRELOAD":"x"}}"#, "environment.LD_PRELOAD"),
        (SESSIONS, r#"{"language":"python","environment":{"A":1}}"#, "environment.A"),
        (SESSIONS, r#"{"language":"python","working_directory":"../.."}"#, "working_directory"),
        (SESSIONS, r#"{"language":"python","working_directory":"/proc/1/root"}"#, "working_directory"),
        (&execute, r#"{}"#, "code"),
        (&execute, r#"{"code":""}"#, "code"),
        (&execute, r#"{"code":1}"#, "code"),
        (&execute, r#"{"code":"1","timeout":5}"#, "timeout"),
        (&execute, r#"{"code":"1","timeout_ms":99}"#, "timeout_ms"),
        (&execute, r#"{"code":"1","timeout_ms":300001}"#, "timeout_ms"),
        (&execute, r#"{"code":"1","timeout_ms":1.5}"#, "timeout_ms"),
        (&execute, r#"{"code":"1","execution_id":"a b"}"#, "execution_id"),
        (&execute, r#"{"code":"1","session_id":"somebody"}"#, "session_id"),
        (&interrupt, r#"{"execution_id":""}"#, "execution_id"),
        (&interrupt, r#"{"id":"e1"}"#, "id"),
    ] {
        let reply = ask_as_owner(&server, "POST", path, body).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        let problem = reply.problem(ProblemCode::InvalidRequest);
        assert_eq!(problem.errors.iter().map(|it| it.field.as_str()).collect::<Vec<_>>(), [field], "{body}");
        assert!(problem.detail.starts_with(&format!("{field}: ")), "{problem:?}");
    }
    let client = server.client();
    assert_eq!(client.list(10, 0).await.expect("a list").total, 1, "nothing was created");
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 0, "nothing was run");
    // The session may be named in the body, if it is this one.
    let own = json!({"session_id": id, "code": "6 * 7"}).to_string();
    assert_eq!(ask_as_owner(&server, "POST", &execute, &own).await.json()["result"], 42);
}

#[tokio::test]
async fn malformed_bodies_are_refused() {
    let server = Server::start().await;
    let token = bearer(&local_token(&server));
    for body in
        ["", "{", "[]", "null", "\"x\"", "{\"language\":\"python\",}", "{'language':'python'}", "\u{feff}{}", "{}{}"]
    {
        let reply = ask_as_owner(&server, "POST", SESSIONS, body).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        reply.problem(ProblemCode::InvalidRequest);
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [&b"{\"language\":\"\xff\"}"[..], b"\x00", deep.as_bytes()] {
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let reply = ask(&server, "POST", SESSIONS, &headers, body).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-encoding", "gzip"),
    ] {
        let reply = ask(&server, "POST", SESSIONS, &[("authorization", &token), (name, value)], b"{}").await;
        assert_eq!(reply.status, 415, "{name}: {value}: {reply:?}");
        reply.problem(ProblemCode::UnsupportedMediaType);
    }
    for request in
        ["GARBAGE\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /readyz HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n"]
    {
        let answer = exchange(&server, request.as_bytes()).await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.1 5"),
            "{request}"
        );
    }
    assert!(server.client().is_ready().await.expect("an answer"));
}

#[tokio::test]
async fn large_bodies_have_an_end() {
    let server = Server::start().await;
    let token = bearer(&local_token(&server));
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    let mut body = br#"{"language":"python","#.to_vec();
    body.resize(MAX_MESSAGE_BYTES - 1, b' ');
    body.push(b'}');
    let reply = ask(&server, "POST", SESSIONS, &headers, &body).await;
    assert_eq!(reply.status, 400, "as large as it may be, and read: {reply:?}");
    body.push(b' ');
    let reply = ask(&server, "POST", SESSIONS, &headers, &body).await;
    assert_eq!(reply.status, 413, "{reply:?}");
    reply.problem(ProblemCode::TooLarge);
    // The same without a length.
    let head = format!(
        "POST {SESSIONS} HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\nconnection: close\r\n\
                        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
        body.len()
    );
    let answer = exchange(&server, &[head.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn code_is_counted_in_characters() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let path = format!("{SESSIONS}/{id}/execute");
    let end = "\n6 * 7";
    for filler in ["#", "é", "😀"] {
        let code = format!("#{}{end}", filler.repeat(MAX_CODE_CHARS - end.len() - 1));
        assert_eq!(run(&client, &id, &code).await.result.0.get(), "42", "{filler}");
        let reply = ask_as_owner(&server, "POST", &path, &json!({"code": code + " "}).to_string()).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(reply.problem(ProblemCode::InvalidRequest).errors[0].field, "code", "{filler}");
    }
}

#[tokio::test]
async fn every_answer_has_an_id_and_stays_private() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let mut ids = HashSet::new();
    for (method, path, body, status) in [
        ("GET", "/readyz".to_owned(), "", 200),
        ("GET", SESSIONS.to_owned(), "", 200),
        ("GET", format!("{SESSIONS}/{id}/events"), "", 200),
        ("POST", format!("{SESSIONS}/{id}/interrupt"), "", 202),
        ("GET", "/nowhere".to_owned(), "", 404),
        ("PUT", SESSIONS.to_owned(), "", 405),
        ("POST", SESSIONS.to_owned(), "{", 400),
        ("DELETE", format!("{SESSIONS}/{id}"), "", 204),
    ] {
        let reply = ask_as_owner(&server, method, &path, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        assert_eq!((reply.header("cache-control"), reply.header("x-content-type-options")), ("no-store", "nosniff"));
        let id = reply.header("x-request-id");
        assert!(id.len() >= 16 && ids.insert(id.to_owned()), "{id}");
        if status >= 400 {
            let problem: serde_json::Value = reply.json();
            assert_eq!((&problem["status"], &problem["type"]), (&json!(status), &json!("about:blank")));
            assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        }
    }
    // A client's own id is not taken for ours, and what it holds goes nowhere.
    let reply = ask(&server, "GET", "/readyz", &[("x-request-id", "forged")], b"").await;
    assert_ne!(reply.header("x-request-id"), "forged");
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "open('f', 'w').write('text')").await;
    let session = format!("{SESSIONS}/{id}");
    for (path, has_length) in [
        ("/healthz".to_owned(), true),
        ("/readyz".to_owned(), true),
        ("/api/v1/capabilities".to_owned(), true),
        (SESSIONS.to_owned(), true),
        (session.clone(), true),
        (format!("{session}/history"), true),
        (format!("{session}/events"), false),
        (format!("{session}/files"), true),
        (format!("{session}/files/f"), true),
        (format!("{session}/files/missing"), true),
        ("/nowhere".to_owned(), true),
    ] {
        let (head, get) =
            (ask_as_owner(&server, "HEAD", &path, "").await, ask_as_owner(&server, "GET", &path, "").await);
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        let names = |headers: &http::HeaderMap| headers.keys().map(|it| it.as_str().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&head.headers), names(&get.headers), "{path}");
        let length = if has_length { get.body.len().to_string() } else { String::new() };
        assert_eq!(head.header("content-length"), length, "{path}");
        for (name, value) in &get.headers {
            // Each request is charged, and has a name and a time of its own.
            if name != "x-request-id" && name != "date" && name != "ratelimit" {
                assert_eq!(head.headers.get(name), Some(value), "{path}");
            }
        }
    }
    // It does not follow what never ends.
    let head = ask_as_owner(&server, "HEAD", &format!("{session}/events?follow=true"), "").await;
    assert_eq!((head.status, head.header("content-type"), head.body.len()), (200, "application/x-ndjson", 0));
}

#[tokio::test]
async fn options_are_told_to_everybody() {
    let server = Server::start().await;
    for (path, allow) in [
        (SESSIONS, "GET, HEAD, POST, OPTIONS"),
        ("/api/v1/sessions/abcdefgh", "GET, HEAD, DELETE, OPTIONS"),
        ("/api/v1/sessions/abcdefgh/files/a/b", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/api/v1/sessions/abcdefgh/ws", "GET, OPTIONS"),
        ("/api/v1/execute", "POST, OPTIONS"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("*", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
    ] {
        let reply = ask(&server, "OPTIONS", path, &[], b"").await;
        assert_eq!((reply.status, reply.header("allow"), reply.body.len()), (204, allow, 0), "{path}: {reply:?}");
        assert!(!reply.header("x-request-id").is_empty());
    }
    for path in ["/nowhere", "/api/v1/sessions/", "/api/v1/sessions/a/b"] {
        ask(&server, "OPTIONS", path, &[], b"").await.problem(ProblemCode::NotFound);
    }
    let reply = ask(&server, "OPTIONS", SESSIONS, &[("host", "evil.example")], b"").await;
    reply.problem(ProblemCode::MisdirectedRequest);
}

#[tokio::test]
async fn paths_are_compared_as_they_are_meant() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let escaped: String = id.as_str().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let reply = ask_as_owner(&server, "GET", &format!("{SESSIONS}/{escaped}"), "").await;
    assert_eq!((reply.status, reply.json()["session_id"].as_str()), (200, Some(id.as_str())));
    // Decoded once and not twice, and nothing else is taken for the same.
    let twice = escaped.replace('%', "%25");
    for path in [
        format!("{SESSIONS}/{twice}"),
        format!("{SESSIONS}/{id}/"),
        format!("{SESSIONS}//{id}"),
        format!("/api/v1//sessions/{id}"),
        format!("/api/v1/./sessions/{id}"),
        format!("/api/v1/x/../sessions/{id}"),
        format!("{SESSIONS}/{id}%00"),
        format!("{SESSIONS}/{id}%2fhistory"),
        format!("{SESSIONS}/{id};v=1"),
        format!("{SESSIONS}/{id}/history/"),
        format!("{SESSIONS}/{id}%"),
        "/API/V1/SESSIONS".to_owned(),
        "/api/v1/execute/".to_owned(),
    ] {
        ask_as_owner(&server, "GET", &path, "").await.problem(ProblemCode::NotFound);
    }
    // A name that is not known is left alone, one that is known may be there once.
    let reply = ask_as_owner(&server, "GET", &format!("{SESSIONS}?utm=1&utm=2&limit=5"), "").await;
    assert_eq!((reply.status, &reply.json()["limit"]), (200, &json!(5)));
    let reply = ask_as_owner(&server, "GET", &format!("{SESSIONS}?limit=5&limit=5"), "").await;
    assert_eq!(reply.problem(ProblemCode::InvalidRequest).errors[0].field, "limit");
}
