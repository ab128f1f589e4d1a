//! The id of a trace in the server's log: beside that of the request, where traces are taken.

use serde_json::Value;

use crate::harness::{As, Server, eventually};
use crate::wire::ask;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The id of the trace in the line of the answer to a request with this `traceparent`; null where there is none. The
/// header of the answer has the same one, or is not there.
async fn trace_of(server: &Server, traceparent: &str) -> Value {
    let reply = ask(server, "GET", "/healthz", &[("traceparent", traceparent)], b"").await;
    let id = reply.header("x-request-id").to_owned();
    let line = eventually("the answer is told", || async {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["message"] == "answered" && line["spans"][0]["request_id"] == id.as_str())
    })
    .await;
    let trace = line["spans"][0]["trace"].clone();
    let told = reply.header("traceresponse");
    match trace.as_str() {
        Some(trace) => assert!(told.len() == 55 && told.starts_with(&format!("00-{trace}-")), "{told}"),
        None => assert_eq!(told, ""),
    }
    assert!(!told.ends_with("-01"), "it is not sampled: {told}");
    trace
}

async fn server(more: &str) -> Server {
    Server::start_with(As::Me, &format!("[log]\nlevel = 'debug'\nformat = 'json'\n{more}")).await
}

#[tokio::test]
async fn the_trace_of_a_request_stands_in_its_lines() {
    // Nothing listens there, which nobody is to notice.
    let server = server("[traces]\notlp_url = 'http://127.0.0.1:9/v1/traces'\nsample_ratio = 0.0\n").await;
    assert_eq!(trace_of(&server, PARENT).await, "0af7651916cd43dd8448eb211c80319c");
    let own = trace_of(&server, "nonsense").await;
    assert!(own.as_str().is_some_and(|id| id.len() == 32 && id != "0af7651916cd43dd8448eb211c80319c"), "{own}");
}

#[tokio::test]
async fn without_an_address_no_trace_is_taken() {
    let server = server("").await;
    assert_eq!(trace_of(&server, PARENT).await, Value::Null);
}
