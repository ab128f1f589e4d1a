//! Requests that are told to wait with their body, that are too large, or that are refused before they are read.

use repltool_protocol::rest::{MAX_MESSAGE_BYTES, ProblemCode};
use serde_json::json;

use super::harness::{Server, python};
use super::talk::{Talk, head, request};
use super::wire::{ask, bearer, exchange, local_token};

const SESSIONS: &str = "/api/v1/sessions";
const CREATE: &str = r#"{"language":"python"}"#;

#[tokio::test]
async fn a_body_is_asked_for_only_if_it_is_wanted() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let post = head(&server, "POST", SESSIONS);
    let file = format!("{SESSIONS}/{id}/files/f");
    let put = head(&server, "PUT", &file);
    let waits = "expect: 100-continue\r\n";
    let length = format!("content-length: {}\r\n", CREATE.len());
    let too_long = format!("content-length: {}\r\n", 1_u64 << 40);
    for (head, status) in [
        (format!("{post}{too_long}"), 413),
        (format!("{put}{too_long}"), 413),
        (format!("{post}{length}content-encoding: gzip\r\n"), 415),
        (format!("{put}{length}content-encoding: gzip\r\n"), 415),
        (format!("{post}{length}").replace("application/json", "text/plain"), 415),
        (format!("{post}{length}").replace("Bearer ", "Bearer x"), 401),
        (format!("{post}{length}").replace("host: ", "host: evil.example:"), 400),
        (format!("{post}{length}").replace("POST", "PATCH"), 405),
        (format!("{post}{length}").replace(SESSIONS, "/nowhere"), 404),
        (format!("{post}{length}").replace(SESSIONS, "/api/v1/sessions/abcdefgh/execute"), 404),
    ] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{head}{waits}\r\n")).await;
        let reply = talk.reply().await;
        assert_eq!((reply.status, reply.header("content-type")), (status, "application/problem+json"), "{head}");
        assert!(talk.until_closed().await.is_empty(), "a body that was not sent cannot be told from a request: {head}");
    }
    for (head, status) in [(post, 201), (put, 201)] {
        let mut talk = Talk::connect(&server).await;
        talk.send(format!("{head}{length}{waits}\r\n")).await;
        assert_eq!(talk.head().await.0, 100, "{head}");
        talk.send(CREATE).await;
        assert_eq!(talk.reply().await.status, status, "{head}");
        // One that does not wait to be asked is answered as well, and any other expectation is left alone.
        for expect in [waits, "expect: 200-ok\r\n"] {
            talk.send(format!("{head}{length}{expect}\r\n{CREATE}")).await;
            let mut status = talk.head().await;
            if status.0 == 100 {
                status = talk.head().await;
            }
            assert!(matches!(status.0, 201 | 204), "{expect} {status:?}");
            talk = Talk::connect(&server).await;
        }
    }
}

#[tokio::test]
async fn too_much_is_refused_before_it_has_arrived() {
    let server = Server::start().await;
    let post = head(&server, "POST", SESSIONS);
    let body = vec![b' '; MAX_MESSAGE_BYTES + 1];
    let mut talk = Talk::connect(&server).await;
    talk.send(format!("{post}content-length: {}\r\n\r\n", body.len())).await;
    talk.reply().await.problem(ProblemCode::TooLarge);
    // Whoever sends it all the same goes on with the next request.
    talk.send(&body).await;
    talk.send(request(&server, "GET", "/readyz", "")).await;
    assert_eq!(talk.reply().await.status, 200);

    let mut talk = Talk::connect(&server).await;
    talk.send(format!("{post}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len() + 5)).await;
    talk.send(&body).await;
    talk.reply().await.problem(ProblemCode::TooLarge);
    talk.send("     \r\n0\r\n\r\n").await;
    talk.send(request(&server, "GET", "/readyz", "")).await;
    assert_eq!(talk.reply().await.status, 200);
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_no_request() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let inner = request(&server, "DELETE", &format!("{SESSIONS}/{id}"), "");
    let padded = format!("{inner}{}", "x".repeat(300 << 10));
    for body in [inner, padded] {
        for (method, path, status) in [
            ("POST", "/nowhere".to_owned(), 404),
            ("PATCH", SESSIONS.to_owned(), 405),
            ("OPTIONS", SESSIONS.to_owned(), 204),
            ("GET", SESSIONS.to_owned(), 200),
            ("HEAD", SESSIONS.to_owned(), 200),
            ("POST", format!("{SESSIONS}/{id}/restart"), 200),
            ("DELETE", format!("{SESSIONS}/abcdefgh"), 404),
            ("POST", format!("{SESSIONS}/abcdefgh/execute"), 404),
            ("GET", format!("{SESSIONS}/{id}/ws"), 400),
        ] {
            let mut talk = Talk::connect(&server).await;
            let next = request(&server, "GET", &format!("{SESSIONS}/{id}"), "");
            talk.send(format!("{}{next}", request(&server, method, &path, &body))).await;
            let first = if method == "HEAD" { talk.head().await.0 } else { talk.reply().await.status };
            assert_eq!(first, status, "{method} {path}");
            let second = talk.reply().await;
            assert_eq!(
                (second.status, second.json()["session_id"].as_str()),
                (200, Some(id.as_str())),
                "{method} {path}"
            );
        }
        let anonymous = request(&server, "POST", SESSIONS, &body).replacen("Bearer ", "Bearer x", 1);
        let mut talk = Talk::connect(&server).await;
        talk.send(anonymous + &request(&server, "GET", &format!("{SESSIONS}/{id}"), "")).await;
        talk.reply().await.problem(ProblemCode::Unauthorized);
        assert_eq!(talk.reply().await.status, 200);
    }
}

#[tokio::test]
async fn bodies_say_what_they_are() {
    let server = Server::start().await;
    let token = bearer(&local_token(&server));
    let owner = ("authorization", token.as_str());
    for (headers, status) in [
        (&[][..], 415),
        (&[("content-type", "")], 415),
        (&[("content-type", "text/json")], 415),
        (&[("content-type", "application/json"), ("content-type", "text/plain")], 415),
        (&[("content-type", "application/json"), ("content-encoding", "identity"), ("content-encoding", "br")], 415),
        (&[("content-type", "application/json"), ("content-encoding", "identity, gzip")], 415),
        (&[("content-type", "application/json"), ("content-encoding", "identity")], 201),
        (&[("content-type", "application/json;charset=UTF-8")], 201),
        (&[("content-type", "APPLICATION/json ; x=\"y\"")], 201),
    ] {
        let headers: Vec<_> = std::iter::once(owner).chain(headers.iter().copied()).collect();
        let reply = ask(&server, "POST", SESSIONS, &headers, CREATE.as_bytes()).await;
        assert_eq!(reply.status, status, "{headers:?} {reply:?}");
    }
    // Where there is nothing, there is nothing to say about it.
    ask(&server, "POST", SESSIONS, &[owner], b"").await.problem(ProblemCode::InvalidRequest);
    let id = python(&server.client(), json!({})).await;
    let path = format!("{SESSIONS}/{id}/interrupt");
    assert_eq!(ask(&server, "POST", &path, &[owner], b"").await.status, 202);
    assert_eq!(ask(&server, "POST", &path, &[owner], b"{}").await.status, 415);
    let empty = "transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n";
    let answer = exchange(&server, format!("{}{empty}", head(&server, "POST", &path)).as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 202 "), "{}", String::from_utf8_lossy(&answer));
}
