//! Peers that are slow, silent or many, and requests in disguise: each costs its own connection and nobody else's. Over
//! plain text, and over TLS where that makes a difference.

use std::time::Duration;

use futures::StreamExt as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::tls::Authority;
use crate::harness::{As, Server, eventually, in_time, python, run};
use crate::talk::{Talk, head, request};

const SESSIONS: &str = "/api/v1/sessions";

/// Either kind of connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection to a server that speaks TLS, or not.
async fn connect(server: &Server, authority: Option<&Authority>) -> Box<dyn Stream> {
    match authority {
        Some(authority) => Box::new(server.handshake(authority, &["http/1.1"], None).await.expect("a handshake")),
        None => Box::new(TcpStream::connect(server.address()).await.expect("the server accepts")),
    }
}

/// What comes until the end of the connection, which must come.
async fn rest(stream: &mut Box<dyn Stream>) -> String {
    let mut answer = Vec::new();
    // A reset is an end as well.
    let _ = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server of each kind, with the same settings.
async fn both(settings: &str) -> [(Server, Option<Authority>); 2] {
    let (encrypted, authority) = Server::start_with_tls(settings).await;
    [(Server::start_with(As::Me, settings).await, None), (encrypted, Some(authority))]
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_runs_out_of_time() {
    for (server, authority) in both("edge.header_timeout_s = 1\n").await {
        let mut stream = connect(&server, authority.as_ref()).await;
        let begin = Instant::now();
        let trickle = async {
            let head = b"GET /readyz HTTP/1.1\r\nx-long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
            for byte in head.iter().cycle() {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        // Each byte that arrives gives it no more time.
        in_time("the end of the connection", trickle).await;
        assert!(begin.elapsed() >= Duration::from_secs(1));
        assert!(!rest(&mut stream).await.contains(" 200 "));
        assert!(server.client().is_ready().await.expect("an answer"));
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_told_so_and_ends_its_connection() {
    for (server, authority) in both("edge.body_timeout_s = 1\n").await {
        let id = python(&server.client(), serde_json::json!({})).await;
        let json = head(&server, "POST", SESSIONS);
        let file = head(&server, "PUT", &format!("{SESSIONS}/{id}/files/f"));
        for head in [json, file] {
            for (length, begun) in
                [("content-length: 100", "{\"lan"), ("transfer-encoding: chunked", "5\r\n{\"lan\r\n")]
            {
                let mut stream = connect(&server, authority.as_ref()).await;
                let begun = format!("{head}{length}\r\n\r\n{begun}");
                stream.write_all(begun.as_bytes()).await.expect("it is sent");
                let answer = rest(&mut stream).await;
                assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
                assert!(answer.contains("the body took too long"), "{answer}");
                assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
            }
        }
        assert!(run(&server.client(), &id, "1").await.success);
    }
}

/// A request in which another one is hidden, for servers that do not agree on where it ends.
fn disguises(server: &Server) -> Vec<(String, u16)> {
    let hidden = request(server, "GET", "/api/v1/me", "");
    let post = head(server, "POST", SESSIONS);
    let length = hidden.len();
    let chunked = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let with = |fields: &str, body: &str| format!("{post}{fields}\r\n{body}");
    let both = format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n");
    vec![
        (with(&both, &format!("0\r\n\r\n{hidden}")), 400),
        (with(&format!("content-length: 4\r\ncontent-length: {length}\r\n"), &hidden), 400),
        (with(&format!("content-length: 4, {length}\r\n"), &hidden), 400),
        (with("content-length: 0x4\r\n", &hidden), 400),
        (with("content-length : 4\r\n", &hidden), 400),
        (with("transfer-encoding : chunked\r\n", &chunked), 400),
        (with("transfer-encoding: xchunked\r\n", &chunked), 400),
        (with("transfer-encoding: chunked, identity\r\n", &chunked), 400),
        (with("transfer-encoding: \x0bchunked\r\n", &chunked), 400),
        (with("transfer-encoding:\r\n chunked\r\n", &chunked), 400),
        (with("x: y\r\n z: content-length: 4\r\n", &hidden), 400),
        (with("transfer-encoding: chunked\r\n", &format!("1;a=\nb\r\nx\r\n0\r\n\r\n{hidden}")), 400),
        (with("transfer-encoding: chunked\r\n", &format!("2\r\nxyz\r\n0\r\n\r\n{hidden}")), 400),
        (with("transfer-encoding: chunked\r\n", &format!(" 1\r\nx\r\n0\r\n\r\n{hidden}")), 400),
        (with("transfer-encoding: chunked\r\n", &format!("0x1\r\nx\r\n0\r\n\r\n{hidden}")), 400),
        (with("\0: y\r\n", &hidden), 400),
        (format!("{post}x: a\rcontent-length: 4\r\n\r\n{hidden}"), 400),
    ]
}

#[tokio::test]
async fn a_request_in_disguise_gets_one_answer_and_hides_no_other() {
    for (server, authority) in both("").await {
        for (bytes, status) in disguises(&server) {
            let mut stream = connect(&server, authority.as_ref()).await;
            let _ = stream.write_all(bytes.as_bytes()).await;
            let answer = rest(&mut stream).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{bytes:?}: {answer}");
            assert!(!answer.contains("subject"), "what was hidden is not carried out: {bytes:?}: {answer}");
        }
        assert!(server.client().is_ready().await.expect("an answer"));
    }
}

/// Resident memory of a process, in KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Opens so many connections on which nothing is said, some at a time.
async fn idle(server: &Server, authority: Option<&Authority>, count: usize) -> Vec<Box<dyn Stream>> {
    futures::stream::iter(0..count).map(|_| connect(server, authority)).buffer_unordered(100).collect().await
}

#[tokio::test]
async fn ten_thousand_connections_that_say_nothing_cost_little_and_slow_nobody() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("the limit is raised");
    let most = limit.maximum.unwrap_or(20_000).saturating_sub(3000);
    let settings = "edge.header_timeout_s = 300\nsessions.max = 50\n";
    for ((server, authority), count) in both(settings).await.into_iter().zip([10_000, 1000]) {
        let count = count.min(usize::try_from(most).expect("a number"));
        let client = server.client();
        let id = python(&client, serde_json::json!({})).await;
        let gateway = server.gateway_pid(None).await;
        let before = memory_kib(gateway);
        let held = idle(&server, authority.as_ref(), count).await;
        assert!(run(&client, &id, "1").await.success);
        let open = || std::fs::read_dir(format!("/proc/{gateway}/fd")).map_or(0, Iterator::count);
        eventually("all are accepted", || async { (open() >= count).then_some(()) }).await;
        let each = memory_kib(gateway).saturating_sub(before) * 1024 / count as u64;
        let kind = if authority.is_some() { "TLS" } else { "plain text" };
        eprintln!("{count} idle connections in {kind}: {each} bytes each");
        assert!(each < 128 * 1024, "{each} bytes each in {kind}");
        drop(held);
        eventually("all are closed", || async { (open() < 200).then_some(()) }).await;
        assert!(run(&client, &id, "1").await.success);
    }
}

/// CPU time of a process so far, in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[tokio::test]
async fn without_descriptors_accepting_rests_and_goes_on_when_there_are_some() {
    let settings = "edge.header_timeout_s = 300\nsessions.max = 1\n";
    let server = Server::start_with(As::FewFiles, settings).await;
    let gateway = server.gateway_pid(None).await;
    let ready = request(&server, "GET", "/readyz", "");
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut talk = Talk::connect(&server).await;
        talk.send(&ready).await;
        held.push(talk);
    }
    let told = || async { server.log().contains("no connection can be accepted now").then_some(()) };
    eventually("it is told", told).await;
    let waiting = held.split_off(150);
    let known = held.last_mut().expect("it was accepted");
    assert_eq!(known.reply().await.status, 200);
    let before = cpu_ticks(gateway);
    for _ in 0..20 {
        known.send(&ready).await;
        assert_eq!(known.reply().await.status, 200, "what is open is served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let busy = cpu_ticks(gateway) - before;
    assert!(busy < 100, "{busy} hundredths of a second of CPU in two seconds");
    drop(held);
    for mut talk in waiting {
        assert_eq!(talk.reply().await.status, 200, "who waited is served");
    }
    assert_eq!(server.log().matches("no connection can be accepted now").count(), 1, "it is told once in a while");
}
