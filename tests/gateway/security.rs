//! The live stream of what concerns security, and alerts: told as it happens, to whoever may read the audit log.

use std::collections::BTreeSet;

use futures::StreamExt;
use repltool_protocol::security::SecurityItem;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::audit::of_kind;
use super::harness::{As, Server, in_time, python, run};
use super::metrics::exposition::scrape;
use super::wire::{Raw, address, ask, bearer, local_token, open, open_as, open_with_buffer};

const PATH: &str = "/api/v1/security/events";

/// A streamed answer, read line by line.
struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Begins it with the local token. HTTP/1.0: the body comes as it is and ends with the connection.
    async fn open(server: &Server, query: &str, accept: &str) -> Self {
        Self::open_with(server, query, accept, &local_token(server)).await
    }

    async fn open_with(server: &Server, query: &str, accept: &str, token: &str) -> Self {
        let mut stream = TcpStream::connect(address(server)).await.expect("the server accepts");
        let (host, token) = (address(server), bearer(token));
        let head =
            format!("GET {PATH}{query} HTTP/1.0\r\nhost: {host}\r\nauthorization: {token}\r\naccept: {accept}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("the server reads");
        let mut stream = Self(BufReader::new(stream));
        let mut head = Vec::new();
        while head.last().is_none_or(|line: &String| !line.is_empty()) {
            head.push(stream.line().await.expect("a head").trim_end().to_owned());
        }
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(head.contains(&format!("content-type: {accept}")), "{head:?}");
        stream
    }

    /// The next line with its break; none at the end.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        in_time("a line", self.0.read_line(&mut line)).await.expect("the stream goes on");
        Some(line).filter(|line| !line.is_empty())
    }

    /// The next server-sent event: its id, if it has one, and its data.
    async fn event(&mut self) -> (Option<String>, Value) {
        let mut id = None;
        loop {
            let line = self.line().await.expect("an event");
            if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.trim_end().to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (id, described(data));
            }
        }
    }
}

/// What a finished stream has.
async fn kept(server: &Server, query: &str) -> Vec<Value> {
    let token = bearer(&local_token(server));
    let reply = ask(server, "GET", &format!("{PATH}?once=true&{query}"), &[("authorization", &token)], b"").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"));
    reply.text().lines().map(described).collect()
}

/// An item of the stream, which is all that the description says of one, and nothing else.
fn described(text: &str) -> Value {
    let (value, item): (Value, SecurityItem) =
        (serde_json::from_str(text).expect("JSON"), serde_json::from_str(text).expect("an item"));
    assert_eq!(serde_json::to_value(item).expect("JSON"), value);
    value
}

/// The records up to the first of a kind.
async fn until(socket: &mut Raw, kind: &str) -> Vec<Value> {
    let mut records = Vec::new();
    while records.last().is_none_or(|record: &Value| record["kind"] != kind) {
        records.push(described(&socket.next().await.expect("a record").to_string()));
    }
    records
}

/// With `os` imported before, whose import is told of, too.
const EXEC: &str = "try: os.execv('/bin/true', ['true-4711'])\nexcept OSError: pass";

#[tokio::test]
async fn what_breaks_the_rules_is_told_as_it_happens_and_raises_an_alert_at_the_threshold() {
    let server = Server::start_with(As::Me, "[alerts]\nviolations_per_minute = 3\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "import os").await;
    let mut socket = open_as(&server, PATH, &local_token(&server)).await.expect("a socket");
    let mut stream = Stream::open(&server, "", "text/event-stream").await;
    for times in 1..=3 {
        run(&client, &id, EXEC).await;
        let told = until(&mut socket, "violation").await;
        let record = told.last().expect("the violation");
        assert_eq!((told.len(), &record["rule"], &record["session_id"]), (1, &json!("exec"), &json!(id)), "{told:?}");
        let (number, same) = stream.event().await;
        assert_eq!((number, &same), (Some(record["n"].to_string()), record), "{times}");
    }
    let alert = until(&mut socket, "alert").await.pop().expect("an alert");
    assert_eq!(stream.event().await.1, alert);
    for (field, is) in [
        ("alert", json!("violations")),
        ("subject", json!("local")),
        ("session_id", json!(id)),
        ("count", json!(3)),
        ("held_back", json!(0)),
    ] {
        assert_eq!(alert[field], is, "{alert}");
    }
    assert!(alert["first"].as_str() < alert["last"].as_str(), "{alert}");
    run(&client, &id, EXEC).await;
    let (_, next) = stream.event().await;
    assert_eq!(next["kind"], "violation");
    assert_eq!(scrape(&server).await.value("repl_alerts_total{kind=\"violations\"}"), 1.0);
    let lines: Vec<_> = server.log().lines().filter(|it| it.contains("repltool::alert")).map(str::to_owned).collect();
    assert!(lines.len() == 1 && lines[0].contains("violations") && !lines[0].contains("4711"), "{lines:?}");
    assert_eq!(kept(&server, &format!("after={}", alert["n"])).await, std::slice::from_ref(&next));
    assert_eq!(of_kind(&server, "alert"), [alert], "as in the audit log, and held back within the cool-down");
}

#[tokio::test]
async fn failed_logins_and_executions_that_limits_end_raise_alerts() {
    let server = Server::start_with(As::Me, "[alerts]\nlimit_kills_per_10min = 2\n").await;
    let mut socket = open_as(&server, PATH, &local_token(&server)).await.expect("a socket");
    for _ in 0..10 {
        ask(&server, "GET", "/api/v1/sessions", &[("authorization", "Bearer wrong-4711.x.y")], b"").await;
    }
    let told = until(&mut socket, "alert").await;
    assert_eq!(told.iter().filter(|it| it["kind"] == "auth_failed").count(), 10, "{told:?}");
    let alert = told.last().expect("an alert");
    assert_eq!(
        (&alert["alert"], &alert["peer"], &alert["count"]),
        (&json!("failed_logins"), &json!("127.0.0.1"), &json!(10))
    );
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 1024}})).await;
    for _ in 0..2 {
        run(&client, &id, "while True: print('out-4711' * 100)").await;
    }
    let told = until(&mut socket, "alert").await;
    assert!(told.iter().all(|it| it["kind"] != "login"), "not what is in order: {told:?}");
    let alert = told.last().expect("an alert");
    assert_eq!(
        (&alert["alert"], &alert["subject"], &alert["count"]),
        (&json!("limit_kills"), &json!("local"), &json!(2))
    );
    let text = serde_json::to_string(&kept(&server, "after=0").await).expect("JSON");
    assert!(text.contains("server_started") && !text.contains("4711"), "neither code nor output nor tokens: {text}");
}

#[tokio::test]
async fn who_may_not_read_the_audit_log_gets_no_stream() {
    let server = Server::start().await;
    let all_others = server.token("eve", "tool:execute session:read sandbox:relaxed metrics:read admin", "1h");
    for (token, status) in [(Some(&all_others), 403), (None, 401)] {
        let token = token.map(|token| bearer(token));
        let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
        assert_eq!(ask(&server, "GET", PATH, &headers, b"").await.status, status);
        assert_eq!(open(&server, PATH, &headers).await.err().map(|reply| reply.status), Some(status));
    }
    let protocols = format!("repltool.v1, bearer.{}", server.token("eve", "audit:read", "1h"));
    let mut socket = open(&server, PATH, &[("sec-websocket-protocol", &protocols)]).await.expect("as a page does it");
    socket.send(r#"{"type":"ping","id":"1"}"#).await;
    assert_eq!(socket.close_code().await, Some(1008), "it has nothing to say");
}

#[tokio::test]
async fn streams_end_with_their_token_and_when_the_server_drains() {
    let mut server = Server::start_with(As::Me, "[auth]\nleeway_s = 0\n").await;
    let short = server.token("eve", "audit:read", "6s");
    let mut brief = Stream::open_with(&server, "", "application/x-ndjson", &short).await;
    let mut socket = open_as(&server, PATH, &short).await.expect("a socket");
    assert_eq!(socket.close_code().await, Some(4401));
    while brief.line().await.is_some() {}
    let mut stream = Stream::open(&server, "", "application/x-ndjson").await;
    let mut socket = open_as(&server, PATH, &local_token(&server)).await.expect("a socket");
    server.signal("TERM");
    assert_eq!(socket.close_code().await, Some(1001));
    while stream.line().await.is_some() {}
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn what_an_earlier_gateway_told_is_a_gap() {
    let server = Server::start().await;
    let last = kept(&server, "after=0").await.pop().expect("a record")["n"].clone();
    server.crash_gateway().await;
    let told = kept(&server, "after=0").await;
    assert_eq!((&told[0]["type"], &told[0]["from"]), (&json!("gap"), &json!(1)), "{told:?}");
    assert!(told[0]["to"].as_u64() >= last.as_u64(), "{told:?}");
    let started = told.iter().find(|it| it["kind"] == "gateway_started").expect("the new gateway");
    assert!(started["n"].as_u64() > told[0]["to"].as_u64(), "{told:?}");
    assert_eq!(kept(&server, &format!("after={}", told.last().expect("a record")["n"])).await, Vec::<Value>::new());
}

/// Refusals with a record each, of some 600 bytes: more than is kept in memory, and by a connection to a reader that takes
/// nothing.
const FLOOD: usize = 8000;

#[tokio::test]
async fn a_reader_that_stops_is_told_of_a_gap_and_others_miss_nothing() {
    let settings = "[rate_limit]\nenabled = false\nfailed_logins_per_minute = 1000000\n";
    let server = Server::start_with(As::Me, settings).await;
    let token = bearer(&local_token(&server));
    let headers = [("authorization", token.as_str())];
    let mut stopped = open_with_buffer(&server, PATH, &headers, Some(4096)).await.expect("a socket");
    let mut reads = open_as(&server, PATH, &local_token(&server)).await.expect("a socket");
    let origin = format!("https://{}.example", "x".repeat(240));
    let foreign = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "repltool.v1"),
        ("origin", origin.as_str()),
    ];
    let flood = futures::stream::iter(0..FLOOD)
        .map(|_| ask(&server, "GET", PATH, &foreign, b""))
        .buffer_unordered(64)
        .for_each(|reply| async move { assert_eq!(reply.status, 403) });
    let all = async {
        let mut numbers = Vec::new();
        while numbers.len() < FLOOD {
            let record = reads.next().await.expect("a record");
            assert_ne!(record["type"], "gap", "{record}");
            numbers.extend(record["n"].as_u64().filter(|_| record["kind"] == "refused"));
        }
        numbers
    };
    let ((), all) = tokio::join!(flood, all);
    let (mut met, mut gaps) = (Vec::new(), Vec::new());
    while met.last() != all.last() {
        let message = stopped.next().await.expect("it goes on");
        match message["type"] == "gap" {
            true => gaps.push(message["from"].as_u64().expect("from")..=message["to"].as_u64().expect("to")),
            false => met.extend(message["n"].as_u64().filter(|_| message["kind"] == "refused")),
        }
    }
    assert!(!gaps.is_empty(), "{} of {FLOOD} were met", met.len());
    let met: BTreeSet<_> = met.into_iter().collect();
    assert!(all.iter().all(|n| met.contains(n) != gaps.iter().any(|gap| gap.contains(n))), "either met, or in a gap");
}
