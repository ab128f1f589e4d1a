//! How sockets end besides the ways that other parts show: faults of the server, no room, a session that has ended, a
//! peer that is silent. And how a handshake is refused, to a program by a status, to a page by a close code.

use std::time::Duration;

use repltool_protocol::close::CloseCode;
use repltool_protocol::event::SessionStatus;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::harness::{As, Server, eventually, numbered, python, run};
use super::wire::{Raw, bearer, local_token, open, open_as};

const PAGE: &str = "https://ide.example";

fn allowing_pages(settings: &str) -> String {
    format!("[edge]\nallowed_origins = [\"{PAGE}\"]\n{settings}")
}

fn path_of(id: &SessionId) -> String {
    format!("/api/v1/sessions/{id}/ws")
}

/// What a program and a page are told that ask for this socket: the status with this problem, and the close code.
async fn assert_refused(server: &Server, path: &str, status: u16, problem: ProblemCode, code: CloseCode) {
    let token = local_token(server);
    let reply = open_as(server, path, &token).await.expect_err("no socket");
    assert_eq!(reply.status, status, "{reply:?}");
    reply.problem(problem);
    let offer = format!("repltool.v1, bearer.{token}");
    let mut page = open(server, path, &[("sec-websocket-protocol", &offer), ("origin", PAGE)]).await.expect("accepted");
    assert_eq!(page.next().await.expect_err("closed at once"), Some(code.code()));
    // A page of a foreign origin learns nothing.
    let foreign = [("sec-websocket-protocol", offer.as_str()), ("origin", "https://evil.example")];
    open(server, path, &foreign).await.expect_err("no socket").problem(ProblemCode::Forbidden);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_closes_with_1011() {
    let server = Server::start_with(As::Me, "[store]\nsession_mb = 4\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, &numbered(15_000, 64).0).await;
    // A segment that is full, so that nobody holds it open.
    let folder = server.data().join("store/sessions").join(id.as_str());
    let names = std::fs::read_dir(&folder).expect("the log").flatten().map(|it| it.path());
    let mut output: Vec<_> = names.filter(|it| it.display().to_string().contains("/stdout.")).collect();
    output.sort();
    assert!(output.len() > 1, "{output:?}");
    std::fs::remove_file(&output[0]).expect("the output is there");
    // Relative, since the gateway sees other paths than the host.
    let name = output[0].file_name().expect("a name");
    std::os::unix::fs::symlink(name, &output[0]).expect("a link to itself");
    let mut socket = open_as(&server, &format!("{}?after=0", path_of(&id)), &local_token(&server)).await.expect("open");
    assert_eq!(socket.close_code().await, Some(1011));
    // What is not in that file is told.
    let mut other = open_as(&server, &path_of(&id), &local_token(&server)).await.expect("a socket");
    other.next_of("ready").await;
    other.send(r#"{"type":"ping","id":"p"}"#).await;
    other.next_of("pong").await;
}

#[tokio::test]
async fn a_full_store_refuses_new_sessions_with_1013() {
    let server = Server::start_with(As::Me, &allowing_pages("[store]\nsession_mb = 1\ntotal_mb = 1\n")).await;
    let client = server.client();
    let (text, _) = numbered(16_000, 64);
    // The first fills nearly all, and each of the others keeps the end of what it wrote.
    let mut ids = Vec::new();
    let config = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    while let Ok(created) = client.create(&config).await {
        assert!(ids.len() < 4, "there is room for everything");
        run(&client, &created.session_id, &text).await;
        ids.push(created.session_id);
    }
    let new = "/api/v1/ws?language=python";
    assert_refused(&server, new, 507, ProblemCode::StorageFull, CloseCode::Overloaded).await;
    client.delete(&ids[0]).await.expect("deleted");
    eventually("there is room again", || async { open_as(&server, new, &local_token(&server)).await.ok() }).await;
}

#[tokio::test]
async fn too_many_sessions_refuse_with_4429() {
    let server = Server::start_with(As::Me, &allowing_pages("[sessions]\nmax_per_subject = 1\n")).await;
    python(&server.client(), json!({})).await;
    let new = "/api/v1/ws?language=python";
    assert_refused(&server, new, 429, ProblemCode::SessionLimit, CloseCode::RateLimited).await;
}

#[tokio::test]
async fn a_session_that_has_ended_is_told_and_closed_with_4408() {
    let server = Server::start_with(As::Me, &allowing_pages("[sessions]\nidle_timeout_s = 1\n")).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "print('kept')").await;
    eventually("the session has ended", || async {
        let session = client.get(&id).await.expect("it is listed");
        (session.status == SessionStatus::Terminated).then_some(())
    })
    .await;
    let token = bearer(&local_token(&server));
    let headers: [&[(&str, &str)]; 2] = [&[("authorization", &token)], &[("authorization", &token), ("origin", PAGE)]];
    for headers in headers {
        let mut past = open(&server, &format!("{}?after=0", path_of(&id)), headers).await.expect("a socket");
        assert_eq!(past.next_of("ready").await["session"]["status"], "terminated");
        assert_eq!(past.next_of("stream").await["data"], "kept\n");
        assert_eq!(past.next_of("status").await["reason"], "idle_timeout");
        assert_eq!(past.next().await.expect_err("the end"), Some(4408));
        let mut end = open(&server, &path_of(&id), headers).await.expect("a socket");
        assert_eq!(end.next_of("ready").await["session"]["status"], "terminated");
        assert_eq!(end.next().await.expect_err("the end"), Some(4408));
    }
}

/// All that comes on the wire until the other end closes it, and when.
async fn until_closed(mut socket: Raw) -> (Vec<u8>, Instant) {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(150), socket.wire.get_mut().read_to_end(&mut bytes));
    read.await.expect("it is closed").expect("readable");
    (bytes, Instant::now())
}

/// Takes a minute, which it spends waiting: the times are those that clients are promised.
#[tokio::test]
async fn a_silent_peer_is_pinged_and_closed_and_one_that_answers_is_kept() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let token = local_token(&server);
    let begin = Instant::now();
    let mut silent = open_as(&server, &path_of(&id), &token).await.expect("a socket");
    silent.next_of("ready").await;
    let mut kept = open_as(&server, &path_of(&id), &token).await.expect("a socket");
    kept.next_of("ready").await;
    // Reading is what answers pings.
    let (bytes, end) = tokio::select! {
        closed = until_closed(silent) => closed,
        told = kept.next() => panic!("the one that answers got {told:?}"),
    };
    let waited = end.duration_since(begin);
    assert!((Duration::from_secs(59)..Duration::from_secs(120)).contains(&waited), "{waited:?}");
    let pings = bytes.chunks(2).filter(|frame| *frame == [0x89, 0]).count();
    assert!(pings >= 2 && bytes.len() == 2 * pings, "{bytes:?}");
    kept.send(r#"{"type":"ping","id":"p"}"#).await;
    kept.next_of("pong").await;
}
