//! Traces: spans of requests, sessions, executions and drivers, as a collector gets them from a real server.

mod collector;

use opentelemetry_proto::tonic::trace::v1::Span;
use repltool::client::Client;
use serde_json::json;

use self::collector::{Collector, text};
use crate::harness::site::Site;
use crate::harness::{As, Server, eventually, python, run, send, until_result};
use crate::wire::{ask, bearer, local_token, open};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn server(collector: &Collector, more: &str) -> Server {
    let settings = format!("[log]\nlevel = 'debug'\nformat = 'json'\n[traces]\notlp_url = '{}'\n{more}", collector.url);
    Server::start_with(As::Me, &settings).await
}

/// The first span of this name that lies in another one.
async fn within(collector: &Collector, outer: &Span, name: &str) -> Span {
    eventually(&format!("{name} within {}", outer.name), || async {
        let of_outer = |span: &Span| span.name == name && span.parent_span_id == outer.span_id;
        collector.spans().into_iter().find(of_outer)
    })
    .await
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trace(span: &Span) -> String {
    hex(&span.trace_id)
}

fn milliseconds(span: &Span, attribute: &str) -> f64 {
    text(span, attribute).unwrap_or_else(|| panic!("{attribute}: {span:?}")).parse().expect("a number")
}

#[tokio::test]
async fn a_request_its_session_its_execution_and_its_driver_are_one_trace() {
    let collector = Collector::start().await;
    let server = server(&collector, "").await;
    let token = bearer(&local_token(&server));
    let headers = [("authorization", &*token), ("content-type", "application/json"), ("traceparent", PARENT)];
    let body = json!({"language": "python", "code": "import time; time.sleep(0.05); print(1)"}).to_string();
    let reply = ask(&server, "POST", "/api/v1/execute", &headers, body.as_bytes()).await;
    assert_eq!(reply.status, 200, "{reply:?}");

    let request = collector.span("request", "request_id", reply.header("x-request-id")).await;
    assert_eq!(trace(&request), TRACE);
    assert_eq!(reply.header("traceresponse"), format!("00-{TRACE}-{}-01", hex(&request.span_id)));
    assert_eq!(request.parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    let of_request = ["http.route", "http.request.method", "http.response.status_code"].map(|it| text(&request, it));
    assert_eq!(of_request.map(Option::unwrap_or_default), ["/api/v1/execute", "POST", "200"]);
    let created = within(&collector, &request, "create_session").await;
    let execution = within(&collector, &request, "execution").await;
    let driver = within(&collector, &execution, "driver").await;
    let session = text(&request, "session").expect("its session");
    for (span, outcome) in [(&created, "success"), (&execution, "success")] {
        assert_eq!((trace(span), text(span, "session")), (TRACE.to_owned(), Some(session.clone())));
        let told = ["language", "sandbox_mode", "outcome"].map(|it| text(span, it).unwrap_or_default());
        assert_eq!(told, ["python", "standard", outcome]);
    }
    assert_eq!(trace(&driver), TRACE);
    assert!(milliseconds(&execution, "queue_ms") >= 0.0);
    assert!(milliseconds(&execution, "first_output_ms") >= 50.0, "{execution:?}");
    let took = driver.end_time_unix_nano - driver.start_time_unix_nano;
    assert!(took >= 50_000_000, "{took}");
    let lies_in = |inner: &Span, outer: &Span| {
        outer.start_time_unix_nano <= inner.start_time_unix_nano && inner.end_time_unix_nano <= outer.end_time_unix_nano
    };
    assert!(lies_in(&created, &request) && lies_in(&execution, &request) && lies_in(&driver, &execution));
}

#[tokio::test]
async fn the_handshake_of_a_socket_is_the_parent_of_its_executions() {
    let collector = Collector::start().await;
    let server = server(&collector, "").await;
    let id = python(&server.client(), json!({})).await;
    let token = bearer(&local_token(&server));
    let path = format!("/api/v1/sessions/{id}/ws");
    let headers = [("authorization", &*token), ("traceparent", PARENT)];
    let mut socket = open(&server, &path, &headers).await.expect("a socket");
    socket.send(json!({"type": "execute", "id": "e1", "code": "1/0"}).to_string()).await;
    // It has come before the socket has ended.
    let execution = collector.span("execution", "execution", "e1").await;
    assert_eq!((trace(&execution), text(&execution, "outcome").as_deref()), (TRACE.to_owned(), Some("error")));
    let handshake = collector.span("request", "http.response.status_code", "101").await;
    assert_eq!(handshake.span_id, execution.parent_span_id);
    drop(socket);
}

#[tokio::test]
async fn no_span_has_what_a_client_sent_but_names() {
    let collector = Collector::start().await;
    let server = server(&collector, "").await;
    let token = server.token("canary-subject", "tool:execute", "1h");
    let client = Client::new(&server.url, Some(&token)).expect("a client");
    let environment = json!({"environment": {"NAME": "canary-environment"}, "working_directory": "canary-folder"});
    let id = python(&client, environment).await;
    client.write_file(&id, "canary-file", b"canary-content".to_vec()).await.expect("written");
    run(&client, &id, "print('canary-output'); raise ValueError('canary-x')").await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", "'canary-result'").await;
    until_result(&mut socket, &execution).await;
    client.delete(&id).await.expect("deleted");
    collector.span("execution", "execution", "e1").await;
    collector.span("request", "http.request.method", "DELETE").await;
    for body in collector.bodies() {
        for secret in [&b"canary"[..], token.as_bytes(), b"127.0.0.1"] {
            assert!(!body.windows(secret.len()).any(|it| it == secret), "{:?}", collector.spans());
        }
    }
}

#[tokio::test]
async fn a_share_of_nothing_sends_nothing() {
    let collector = Collector::start().await;
    let mut server = server(&collector, "sample_ratio = 0\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "1").await;
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0), "what waits would be sent by then");
    assert!(collector.bodies().is_empty(), "{:?}", collector.spans());
}

#[tokio::test]
async fn a_request_right_before_a_stop_is_in_the_collector_when_the_server_has_ended() {
    let collector = Collector::start().await;
    let mut server = server(&collector, "").await;
    let reply = ask(&server, "GET", "/healthz", &[("traceparent", PARENT)], b"").await;
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    let id = reply.header("x-request-id");
    let told = collector.spans().into_iter().any(|span| text(&span, "request_id").as_deref() == Some(id));
    assert!(told, "{:?}", collector.spans());
}

#[tokio::test]
async fn a_stop_waits_for_no_collector_that_says_nothing() {
    let silent = Site::new().await;
    let settings = format!("[traces]\notlp_url = 'http://127.0.0.1:{}/v1/traces'\n", silent.port);
    let mut server = Server::start_with(As::Me, &settings).await;
    ask(&server, "GET", "/healthz", &[], b"").await;
    let begun = tokio::time::Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    // Two tries, of ten seconds each, would take longer.
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    assert!(!silent.asked().is_empty(), "it was tried");
}
