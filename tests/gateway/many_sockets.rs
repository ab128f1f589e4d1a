//! Many sockets on one session: all see the same, from wherever they begin.

use futures::future::join_all;
use repltool::client::{Client, Received, Socket};
use repltool_protocol::event::{Event, LoggedEvent};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;
use tokio::time::Instant;

use super::harness::{As, Server, assert_log, event, frame, in_time, python, run, send, told, until_result};
use super::wire::{Raw, local_token, open_as};

const SOCKETS: usize = 1000;

/// The sockets need descriptors on both sides, and are more than a client may open in one go.
const SETTINGS: &str = "[sessions]\nmax = 10\n[rate_limit]\nenabled = false\n";

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, all).expect("a soft limit may be raised");
}

async fn attached(client: &Client, id: &SessionId) -> Socket {
    let mut socket = client.attach(id, None).await.expect("a socket");
    let ServerFrame::Notice(Notice::Ready { .. }) = frame(&mut socket).await else { panic!("not ready") };
    socket
}

async fn until_closed(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Received::Closed(closed) = in_time("the end", socket.receive()).await.expect("readable") {
            return closed.code;
        }
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test]
async fn a_thousand_sockets_get_every_event_of_one_session() {
    raise_open_files();
    let server = Server::start_with(As::Me, SETTINGS).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let gateway = server.gateway_pid(None).await;
    let (before, begin) = (resident_kib(gateway), Instant::now());
    let mut sockets: Vec<Socket> = Vec::with_capacity(SOCKETS);
    while sockets.len() < SOCKETS {
        sockets.extend(join_all((0..50).map(|_| attached(&client, &id))).await);
    }
    let (attach, memory) = (begin.elapsed(), resident_kib(gateway).saturating_sub(before));

    let begin = Instant::now();
    let text = "import time\nfor n in range(50):\n    print(n, flush=True)\n    time.sleep(0.01)\n'end'";
    let execution = send(&mut sockets[0], "e1", text).await;
    let logs = join_all(sockets.iter_mut().map(|socket| until_result(socket, &execution))).await;
    let spread = begin.elapsed();
    let (first, last) = (told(&logs[0]), logs[0].last().expect("events").seq);
    for (n, log) in logs.iter().enumerate() {
        assert_log(log);
        assert_eq!(told(log), first, "socket {n}");
        assert_eq!((log[0].seq, log.last().expect("events").seq), (logs[0][0].seq, last), "socket {n}");
    }

    let begin = Instant::now();
    sockets[SOCKETS - 1].send_text(r#"{"type":"terminate"}"#).await.expect("sent");
    let codes = join_all(sockets.iter_mut().map(until_closed)).await;
    assert!(codes.iter().all(|code| *code == Some(1000)), "{codes:?}");
    println!(
        "attach {attach:?}, memory {} KiB a socket, events {spread:?}, end {:?}",
        memory / SOCKETS as u64,
        begin.elapsed()
    );
    // Two buffers of 4 KiB and a little more; what a socket would queue for itself would show here.
    assert!(memory / (SOCKETS as u64) < 64, "{memory} KiB");
}

async fn numbers(socket: &mut Raw, last: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::new();
    while numbers.last() != Some(&last) {
        let message = socket.next().await.expect("an event");
        numbers.extend(message["seq"].as_u64());
    }
    numbers
}

#[tokio::test]
async fn after_is_a_place_in_the_log_in_all_its_forms() {
    let server = Server::start().await;
    let client = server.client();
    let token = local_token(&server);
    let id = python(&client, json!({})).await;
    run(&client, &id, "print('one')").await;
    let mut all = client.attach(&id, Some(Seq(0))).await.expect("a socket");
    let mut past: Vec<LoggedEvent> = Vec::new();
    while past.last().is_none_or(|it| !matches!(it.event, Event::Result(_))) {
        past.push(event(&mut all).await);
    }
    let past: Vec<u64> = past.iter().map(|it| it.seq.0).collect();
    let last = past[past.len() - 1];
    let path = format!("/api/v1/sessions/{id}/ws");
    let mut sockets = Vec::new();
    for (query, expected) in [
        (String::new(), &past[past.len()..]),
        ("?after=0".to_owned(), &past[..]),
        ("?after=00".to_owned(), &past[..]),
        ("?other=1&after=0".to_owned(), &past[..]),
        (format!("?after={}", past[0]), &past[1..]),
        (format!("?after={last}"), &past[past.len()..]),
        (format!("?after={}", last + 1000), &past[past.len()..]),
        (format!("?after={}", u64::MAX), &past[past.len()..]),
    ] {
        let mut socket = open_as(&server, &format!("{path}{query}"), &token).await.expect("a socket");
        assert_eq!(socket.next_of("ready").await["last_seq"], last, "{query}");
        sockets.push((query, expected, socket));
    }
    let result = run(&client, &id, "print('two')").await;
    let mut new = Vec::new();
    while new
        .last()
        .is_none_or(|it: &LoggedEvent| !matches!(&it.event, Event::Result(it) if it.id == result.execution_id))
    {
        new.push(event(&mut all).await);
    }
    let new: Vec<u64> = new.iter().map(|it| it.seq.0).collect();
    for (query, expected, mut socket) in sockets {
        assert_eq!(numbers(&mut socket, new[new.len() - 1]).await, [expected, &new].concat(), "{query}");
    }
    let big = format!("?after={}0", u64::MAX);
    for query in ["?after=", "?after=-1", "?after=x", "?after=1.5", "?after=%00", "?after=1&after=1", "?after=+1", &big]
    {
        for path in [format!("{path}{query}"), format!("/api/v1/ws{query}&language=python")] {
            let problem =
                open_as(&server, &path, &token).await.expect_err("no socket").problem(ProblemCode::InvalidRequest);
            assert_eq!(problem.errors[0].field, "after", "{path}");
        }
    }
    assert_eq!(client.list(10, 0).await.expect("a list").total, 1, "no session was made");
}

#[tokio::test]
async fn a_socket_that_creates_a_session_begins_where_it_asks_to() {
    let server = Server::start().await;
    let token = local_token(&server);
    for query in
        ["language=python", "language=python&after=0", "language=python&after=1000000", "after=7&language=bash"]
    {
        let mut socket = open_as(&server, &format!("/api/v1/ws?{query}"), &token).await.expect("a socket");
        socket.next_of("ready").await;
        let code = if query.ends_with("bash") { "echo $((6 * 7))" } else { "print(6 * 7)" };
        socket.send(json!({"type": "execute", "id": "e", "code": code}).to_string()).await;
        let mut kinds = Vec::new();
        while kinds.last().is_none_or(|kind| kind != "result") {
            let message = socket.next().await.expect("an event");
            kinds.extend(message["type"].as_str().map(str::to_owned));
        }
        assert!(kinds.ends_with(&["queued", "started", "stream", "result"].map(str::to_owned)), "{query}: {kinds:?}");
    }
}
