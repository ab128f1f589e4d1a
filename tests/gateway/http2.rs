//! HTTP/2: many streams on one connection, its limits, and sockets beside it.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use repltool_protocol::rest::{ExecutionResult, Problem, ProblemCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::harness::tls::Authority;
use crate::harness::{Server, in_time, python, run};
use crate::wire::local_token;

/// A client of HTTP/2. Its connection is driven in a task of its own.
struct Talk {
    sender: SendRequest<Full<Bytes>>,
    server: String,
    token: String,
    _driven: JoinSet<()>,
}

impl Talk {
    async fn connect(server: &Server, authority: &Authority) -> Self {
        let stream = server.handshake(authority, &["h2", "http/1.1"], None).await.expect("a handshake");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "the server prefers it too");
        let (sender, connection) =
            in_time("a handshake", handshake(TokioExecutor::new(), TokioIo::new(stream))).await.expect("a handshake");
        let mut driven = JoinSet::new();
        driven.spawn(async move { drop(connection.await) });
        Self { sender, server: server.address().to_owned(), token: local_token(server), _driven: driven }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Response<Bytes> {
        let uri = format!("https://{}{path}", self.server);
        let mut request = Request::builder().method(method).uri(uri);
        request = request.header("authorization", format!("Bearer {}", self.token));
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let answer = in_time("an answer", self.sender.clone().send_request(request)).await.expect("an answer");
        let (head, body) = answer.into_parts();
        let body = in_time("its body", body.collect()).await.expect("its body").to_bytes();
        Response::from_parts(head, body)
    }
}

fn problem(answer: &Response<Bytes>) -> Problem {
    serde_json::from_slice(answer.body()).expect("a problem document")
}

#[tokio::test]
async fn the_api_is_served_on_many_streams_of_one_connection() {
    let (server, authority) = Server::start_with_tls("").await;
    let talk = Talk::connect(&server, &authority).await;
    let made = talk.ask("POST", "/api/v1/sessions", &[], br#"{"language":"python"}"#.to_vec()).await;
    assert_eq!(made.status(), 201, "{made:?}");
    let session: Value = serde_json::from_slice(made.body()).expect("JSON");
    let path = format!("/api/v1/sessions/{}", session["session_id"].as_str().expect("an id"));
    // One that takes its time holds up no other.
    let execute = format!("{path}/execute");
    let slow = talk.ask("POST", &execute, &[], br#"{"code":"input('?')","stdin":"x"}"#.to_vec());
    let others = (0..60).map(|_| talk.ask("GET", "/api/v1/sessions", &[], Vec::new()));
    let (slow, others) = tokio::join!(slow, futures::future::join_all(others));
    let result: ExecutionResult = serde_json::from_slice(slow.body()).expect("a result");
    assert!(result.success, "{result:?}");
    for answer in others {
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().contains_key("content-length") && answer.headers().contains_key("x-request-id"));
        assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    }
    // Bodies beyond the windows, in both directions, and one that streams.
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let binary = [("content-type", "application/octet-stream")];
    assert_eq!(talk.ask("PUT", &format!("{path}/files/large"), &binary, large.clone()).await.status(), 201);
    let read = talk.ask("GET", &format!("{path}/files/large"), &[], Vec::new()).await;
    assert!(read.body() == &large[..], "{} bytes", read.body().len());
    let lines = [("accept", "application/x-ndjson")];
    let live = talk.ask("POST", &format!("{path}/execute"), &lines, br#"{"code":"print(1)"}"#.to_vec()).await;
    let last = live.body().trim_ascii_end().rsplit(|byte| *byte == b'\n').next().expect("a line").to_vec();
    assert_eq!(serde_json::from_slice::<Value>(&last).expect("JSON")["type"], "result");
    let foreign = Request::get("https://evil.example/readyz").body(Full::default()).expect("a request");
    let foreign = in_time("an answer", talk.sender.clone().send_request(foreign)).await.expect("an answer");
    assert_eq!(foreign.status(), 421);
}

#[tokio::test]
async fn sockets_are_opened_beside_a_connection_of_http_2() {
    let (server, authority) = Server::start_with_tls("").await;
    let talk = Talk::connect(&server, &authority).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let path = format!("/api/v1/sessions/{id}/ws");
    let refused = talk.ask("GET", &path, &[("sec-websocket-version", "13")], Vec::new()).await;
    assert_eq!((refused.status().as_u16(), problem(&refused).code), (400, ProblemCode::InvalidRequest));
    // A client that could do both is given HTTP/1.1 where it asks for that alone, as browsers do.
    let stream = server.handshake(&authority, &["http/1.1"], None).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    client.attach(&id, None).await.expect("a socket").close().await.expect("it is closed");
    assert!(run(&client, &id, "1").await.success);
    let none = server.handshake(&authority, &["spdy/3"], None).await;
    assert!(none.is_err(), "no protocol in common");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Of a frame of headers: there is nothing after it, neither of them nor a body.
const ALL: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET / https` with an authority, in HPACK: three entries of its table, and one that is spelt out.
fn get(server: &Server) -> Vec<u8> {
    let authority = server.address().as_bytes();
    [&[0x82, 0x84, 0x87, 0x41, authority.len() as u8][..], authority].concat()
}

/// The frames that come until the end of the connection: kind and payload.
async fn frames(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = in_time("the end of the connection", stream.read_to_end(&mut bytes)).await;
    let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((head, more)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, after)) = more.split_at_checked(length) else { break };
        frames.push((head[3], payload.to_vec()));
        rest = after;
    }
    frames
}

#[tokio::test]
async fn streams_that_are_reset_at_once_end_their_connection() {
    let (server, authority) = Server::start_with_tls("").await;
    let mut stream = server.handshake(&authority, &["h2"], None).await.expect("a handshake");
    let mut flood = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let headers = get(&server);
    for id in (1..4000).step_by(2) {
        flood.extend(frame(HEADERS, ALL, id, &headers));
        flood.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    }
    // The server need not read all of it.
    let _ = in_time("the flood", stream.write_all(&flood)).await;
    let frames = frames(&mut stream).await;
    let settings = &frames.iter().find(|(kind, _)| *kind == SETTINGS).expect("settings").1;
    let settings: Vec<(u16, u32)> = settings
        .chunks_exact(6)
        .map(|it| (u16::from_be_bytes([it[0], it[1]]), u32::from_be_bytes([it[2], it[3], it[4], it[5]])))
        .collect();
    let value = |id| settings.iter().find(|(known, _)| *known == id).map(|(_, value)| *value);
    // Streams at once, the window of a stream, headers; and no sockets on streams.
    assert_eq!((value(3), value(4), value(6), value(8)), (Some(100), Some(128 << 10), Some(64 << 10), None));
    let goaway = frames.iter().find(|(kind, _)| *kind == GOAWAY).map(|(_, payload)| payload[4..8].to_vec());
    assert_eq!(goaway.as_deref(), Some(&11_u32.to_be_bytes()[..]), "it is told to keep calm: {frames:?}");
    assert!(server.client().is_ready().await.expect("others are served"));
}

#[tokio::test]
async fn large_heads_are_refused_and_frames_that_are_none_end_their_connection() {
    let (server, authority) = Server::start_with_tls("").await;
    let talk = Talk::connect(&server, &authority).await;
    let long = "a".repeat(80 << 10);
    let answer = talk.ask("GET", "/api/v1/sessions", &[("x-long", &long)], Vec::new()).await;
    assert_eq!(answer.status(), 431);
    assert_eq!(talk.ask("GET", "/api/v1/sessions", &[], Vec::new()).await.status(), 200, "the connection goes on");
    let open = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for wrong in [
        frame(HEADERS, ALL, 2, &get(&server)),
        frame(HEADERS, ALL, 1, &[0xff; 40]),
        frame(SETTINGS, 0, 0, &[1, 2, 3]),
        frame(0, 0, 1, b"a body of nothing"),
        vec![0xff; 20],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let mut stream = server.handshake(&authority, &["h2"], None).await.expect("a handshake");
        stream.write_all(&[&open[..], &wrong].concat()).await.expect("it is sent");
        let frames = frames(&mut stream).await;
        assert!(frames.iter().any(|(kind, _)| *kind == GOAWAY), "{wrong:?}: {frames:?}");
        assert!(!frames.iter().any(|(kind, _)| *kind == HEADERS), "{wrong:?}: {frames:?}");
    }
}

#[tokio::test]
async fn a_server_that_ends_lets_streams_end_first() {
    let (mut server, authority) = Server::start_with_tls("").await;
    let id = python(&server.client(), json!({})).await;
    let talk = Talk::connect(&server, &authority).await;
    let idle = Talk::connect(&server, &authority).await;
    assert_eq!(idle.ask("GET", "/readyz", &[], Vec::new()).await.status(), 200);
    let path = format!("/api/v1/sessions/{id}/execute");
    let body = br#"{"code":"open('runs', 'w').close(); import time; time.sleep(1); 'done'"}"#.to_vec();
    let files = format!("/api/v1/sessions/{id}/files");
    let (answer, ()) = tokio::join!(talk.ask("POST", &path, &[], body), async {
        crate::harness::eventually("it runs", || async {
            let listed = idle.ask("GET", &files, &[], Vec::new()).await;
            String::from_utf8_lossy(listed.body()).contains("runs").then_some(())
        })
        .await;
        server.signal("TERM");
    });
    let result: Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!(result["result"], "done", "{result}");
    assert_eq!(server.ended().await, Some(0));
}
