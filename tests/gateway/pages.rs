//! Web pages as clients: which may open sockets, how they carry a token, and how they learn why not.

use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use super::harness::{As, Server, python};
use super::wire::{Reply, ask, bearer, exchange, local_token, open};

const ALLOWED: &str = "https://ide.example";

async fn server() -> Server {
    Server::start_with(As::Me, &format!("[edge]\nallowed_origins = [\"{ALLOWED}\"]\n")).await
}

/// A subprotocol that carries a token, beside ours.
fn offer(token: &str) -> String {
    format!("repltool.v1, bearer.{token}")
}

#[tokio::test]
async fn a_page_brings_its_token_as_a_subprotocol() {
    let server = server().await;
    let id = python(&server.client(), json!({})).await;
    let path = format!("/api/v1/sessions/{id}/ws");
    let token = local_token(&server);
    let offer = offer(&token);
    for headers in [
        vec![("sec-websocket-protocol", offer.as_str())],
        vec![("sec-websocket-protocol", &offer), ("origin", &server.url)],
        vec![("sec-websocket-protocol", &offer), ("origin", ALLOWED)],
    ] {
        // That the answer names our subprotocol alone is seen to by `open`.
        let mut socket = open(&server, &path, &headers).await.expect("a socket");
        assert_eq!(socket.next_of("ready").await["session"]["session_id"], json!(id));
        socket.send(r#"{"type":"execute","id":"e","code":"6 * 7"}"#).await;
        assert_eq!(socket.next_of("result").await["result"], 42);
    }
    let both = [("sec-websocket-protocol", offer.as_str()), ("authorization", &*bearer(&token))];
    open(&server, &path, &both).await.expect_err("two tokens").problem(ProblemCode::Unauthorized);
    let none = [("sec-websocket-protocol", "chat"), ("authorization", &*bearer(&token))];
    open(&server, &path, &none).await.expect_err("not ours").problem(ProblemCode::InvalidRequest);
}

#[tokio::test]
async fn a_foreign_page_gets_no_socket_whatever_its_token() {
    let server = server().await;
    let id = python(&server.client(), json!({})).await;
    let port = server.url.rsplit(':').next().expect("a port");
    let offer = offer(&local_token(&server));
    let foreign = [
        "https://evil.example",
        "null",
        "http://localhost:9999",
        "https://ide.example.evil.example",
        "https://ide.example:8443",
        "http://ide.example",
        "https://sub.ide.example",
        "",
        &format!("http://127.0.0.1:{port}.evil.example"),
        &format!("http://evil.example:{port}"),
    ]
    .map(str::to_owned);
    for origin in &foreign {
        for path in [format!("/api/v1/sessions/{id}/ws"), "/api/v1/ws?language=python".to_owned()] {
            let headers = [("sec-websocket-protocol", offer.as_str()), ("origin", origin)];
            let reply = open(&server, &path, &headers).await.expect_err("no socket");
            assert_eq!(reply.status, 403, "{origin}");
            reply.problem(ProblemCode::Forbidden);
        }
    }
    assert_eq!(server.client().list(10, 0).await.expect("a list").total, 1, "no session was made");
    assert!(server.log().contains("a foreign page asked for a socket"));
}

#[tokio::test]
async fn a_page_learns_by_a_close_code_why_it_may_not() {
    let server = server().await;
    let id = python(&server.client_of("ada", "tool:execute"), json!({})).await;
    let (good, reader) = (server.token("ada", "tool:execute", "1h"), server.token("ada", "session:read", "1h"));
    let (attach, unknown) = (format!("/api/v1/sessions/{id}/ws"), "/api/v1/sessions/ABCDEFGH/ws".to_owned());
    let other = server.token("eve", "tool:execute", "1h");
    let new = "/api/v1/ws?language=python".to_owned();
    for (path, offer, code) in [
        (&attach, "repltool.v1".to_owned(), 4401),
        (&attach, offer("a.b.c"), 4401),
        (&attach, offer(&other), 4404),
        (&unknown, offer(&good), 4404),
        (&new, offer(&reader), 4403),
        (&format!("{new}&sandbox_mode=relaxed"), offer(&good), 4403),
        (&"/api/v1/ws?language=ruby".to_owned(), offer(&good), 1008),
    ] {
        let headers = [("sec-websocket-protocol", offer.as_str()), ("origin", ALLOWED)];
        let mut socket = open(&server, path, &headers).await.expect("it is accepted");
        assert_eq!(socket.next().await.expect_err("closed at once"), Some(code), "{path}");
        // A program, which has no origin, sees a status.
        let status = open(&server, path, &headers[..1]).await.expect_err("no socket").status;
        assert_eq!(status, if code == 1008 { 400 } else { code - 4000 }, "{path}");
    }
}

#[tokio::test]
async fn another_host_is_not_answered() {
    let server = server().await;
    let token = bearer(&local_token(&server));
    let port = server.url.rsplit(':').next().expect("a port");
    for (host, status) in [
        ("evil.example".to_owned(), 421),
        (format!("evil.example:{port}"), 421),
        ("127.0.0.1.evil.example".to_owned(), 421),
        ("localhost.evil.example".to_owned(), 421),
        ("10.1.2.3".to_owned(), 421),
        (format!("localhost:{port}"), 200),
        (format!("LOCALHOST:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
        ("[::1]".to_owned(), 200),
        ("127.0.0.1".to_owned(), 200),
        (String::new(), 400),
        ("a b".to_owned(), 400),
        ("user@localhost".to_owned(), 400),
    ] {
        for path in ["/api/v1/sessions", "/readyz"] {
            let reply = ask(&server, "GET", path, &[("host", &host), ("authorization", &token)], b"").await;
            assert_eq!(reply.status, status, "{host}: {reply:?}");
            match status {
                421 => drop(reply.problem(ProblemCode::MisdirectedRequest)),
                400 => drop(reply.problem(ProblemCode::InvalidRequest)),
                _ => {}
            }
        }
    }
    for hosts in ["", "host: localhost\r\nhost: localhost\r\n"] {
        let request = format!("GET /readyz HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let answer = String::from_utf8(exchange(&server, request.as_bytes()).await).expect("text");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{hosts}: {answer}");
    }
}

/// The headers of an answer by which a browser lets a page read it.
fn allowed(reply: &Reply) -> Vec<(&str, &str)> {
    let mut found: Vec<_> = reply
        .headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("access-control-"))
        .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
        .collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn a_listed_page_reads_answers_and_no_other_page_does() {
    let server = server().await;
    let token = bearer(&local_token(&server));
    let wanted = ("access-control-request-method", "POST");
    for path in ["/api/v1/sessions", "/api/v1/sessions/abcdefgh/execute"] {
        let reply = ask(&server, "OPTIONS", path, &[("origin", ALLOWED), wanted], b"").await;
        let headers = "authorization, content-type, if-match, if-none-match, last-event-id, range";
        let expected = [
            ("access-control-allow-headers", headers),
            ("access-control-allow-methods", "GET, HEAD, POST, PUT, DELETE"),
            ("access-control-allow-origin", ALLOWED),
            ("access-control-max-age", "600"),
        ];
        assert_eq!((reply.status, &allowed(&reply)[..]), (204, &expected[..]), "{reply:?}");
    }
    let exposed = "content-disposition, content-range, etag, location, ratelimit, ratelimit-policy, retry-after, traceresponse, \
         x-request-id";
    for (token, status) in [(token.as_str(), 200), ("Bearer a.b.c", 401)] {
        let headers = [("origin", ALLOWED), ("authorization", token)];
        let reply = ask(&server, "GET", "/api/v1/sessions", &headers, b"").await;
        let expected = [("access-control-allow-origin", ALLOWED), ("access-control-expose-headers", exposed)];
        assert_eq!((reply.status, &allowed(&reply)[..]), (status, &expected[..]), "a refusal is read too: {reply:?}");
        assert_eq!(reply.header("vary"), "origin");
    }
    for origin in ["https://evil.example", "null", "*", "https://ide.example.evil.example", "http://ide.example", ""] {
        for (method, more) in [("OPTIONS", wanted), ("GET", ("authorization", token.as_str()))] {
            let reply = ask(&server, method, "/api/v1/sessions", &[("origin", origin), more], b"").await;
            assert_eq!(allowed(&reply), [], "{origin}: {reply:?}");
            assert_eq!(reply.header("vary"), "origin");
        }
    }
    let both = [("origin", ALLOWED), ("origin", "https://evil.example")];
    assert_eq!(allowed(&ask(&server, "GET", "/readyz", &both, b"").await), []);
    let closed = Server::start().await;
    for origin in [ALLOWED, &closed.url] {
        assert_eq!(allowed(&ask(&closed, "GET", "/readyz", &[("origin", origin)], b"").await), []);
    }
}
