//! Limits on clients: requests of a subject, failed logins of a peer, messages of a socket, sessions and sockets at once.

use std::time::Duration;

use futures::future::join_all;
use futures::{SinkExt, StreamExt};
use repltool::client::{Client, ClientError, Events};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::harness::{As, Server, code, eventually, named, python};
use super::wire::{Raw, Reply, ask, bearer, open, open_as};

const SESSIONS: &str = "/api/v1/sessions";
const PAGE: &str = "https://ide.example";

async fn server(settings: &str) -> Server {
    Server::start_with(As::Me, settings).await
}

/// Six requests a minute, so that none comes back in the middle of a test, and a burst.
async fn slow(burst: u32) -> Server {
    server(&format!("[rate_limit]\nrequests_per_minute = 6\nburst = {burst}\n")).await
}

async fn get(server: &Server, token: &str, path: &str) -> Reply {
    ask(server, "GET", path, &[("authorization", &bearer(token))], b"").await
}

/// Checks a refusal; gives the seconds after which the client may come back.
fn refused(reply: &Reply) -> u64 {
    reply.problem(ProblemCode::RateLimited);
    assert_eq!(reply.status, 429);
    reply.header("retry-after").parse().expect("whole seconds")
}

fn refusal(error: &ClientError) -> ProblemCode {
    error.problem().unwrap_or_else(|| panic!("no problem document: {error:?}")).code
}

#[tokio::test]
async fn requests_beyond_the_burst_are_refused_until_their_time_has_come() {
    let server = server("[rate_limit]\nrequests_per_minute = 30\nburst = 3\n").await;
    let (ada, eve) = (server.token("ada", "session:read", "1h"), server.token("eve", "session:read", "1h"));
    let mut granted = 0;
    let first = loop {
        let reply = get(&server, &ada, SESSIONS).await;
        assert_eq!(reply.header("ratelimit-policy"), "\"default\";q=3;w=6");
        if reply.status == 429 {
            break reply;
        }
        assert_eq!(reply.status, 200);
        granted += 1;
        assert!(granted < 30, "nothing is refused");
    };
    assert!(granted >= 3, "{granted}");
    let wait_s = refused(&first);
    assert!((1..=2).contains(&wait_s), "{wait_s}");
    assert_eq!(first.header("ratelimit"), format!("\"default\";r=0;t={wait_s}"));
    assert_eq!(get(&server, &eve, SESSIONS).await.header("ratelimit"), "\"default\";r=2;t=2", "everybody has a burst");
    // The claim is about time, so time has to pass.
    tokio::time::sleep(Duration::from_secs(wait_s)).await;
    assert_eq!(get(&server, &ada, SESSIONS).await.status, 200);
}

#[tokio::test]
async fn every_answer_of_a_limited_route_tells_the_rate() {
    let server = Server::start().await;
    let token = bearer(&server.token("ada", "tool:execute", "1h"));
    let reader = bearer(&server.token("bob", "session:read", "1h"));
    let json = ("content-type", "application/json");
    for (method, path, body, token, status) in [
        ("GET", SESSIONS, "", &token, 200),
        ("HEAD", "/api/v1/me", "", &token, 200),
        ("GET", "/api/v1/sessions?limit=0", "", &token, 400),
        ("POST", SESSIONS, "{", &token, 400),
        ("POST", SESSIONS, r#"{"language":"python"}"#, &token, 201),
        ("POST", SESSIONS, r#"{"language":"python"}"#, &reader, 403),
        ("GET", "/api/v1/sessions/ABCDEFGH", "", &token, 404),
        ("GET", "/api/v1/sessions/ABCDEFGH/ws", "", &token, 400),
    ] {
        let reply = ask(&server, method, path, &[json, ("authorization", token)], body.as_bytes()).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        if status == 400 && path.ends_with("/ws") {
            // No handshake at all: nobody was asked for a token.
            assert_eq!(reply.header("ratelimit"), "");
            continue;
        }
        assert_eq!(reply.header("ratelimit-policy"), "\"default\";q=200;w=2", "{method} {path}");
        assert!(reply.header("ratelimit").starts_with("\"default\";r=1"), "{method} {path}: {reply:?}");
    }
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/api/v1/nothing", 404)] {
        let reply = ask(&server, "GET", path, &[], b"").await;
        assert_eq!((reply.status, reply.header("ratelimit"), reply.header("ratelimit-policy")), (status, "", ""));
    }
    let refused = open(&server, "/api/v1/sessions/ABCDEFGH/ws", &[("authorization", &token)]).await;
    assert!(refused.expect_err("no such session").header("ratelimit").starts_with("\"default\";r="));
}

#[tokio::test]
async fn fifty_requests_at_once_get_no_more_than_the_burst() {
    let server = slow(6).await;
    let token = server.token("ada", "session:read", "1h");
    let begin = Instant::now();
    let replies = join_all((0..50).map(|_| get(&server, &token, SESSIONS))).await;
    let granted = replies.iter().filter(|reply| reply.status == 200).count() as u64;
    let most = 6 + begin.elapsed().as_secs() / 10;
    assert!((6..=most).contains(&granted), "{granted}");
    replies.iter().filter(|reply| reply.status != 200).for_each(|reply| assert!(refused(reply) <= 10));
}

#[tokio::test]
async fn fifty_sessions_at_once_are_no_more_than_the_cap() {
    let server = server("[sessions]\nmax_per_subject = 3\n").await;
    let ada = server.client_of("ada", "tool:execute");
    let config = serde_json::from_value(json!({ "language": "bash" })).expect("a configuration");
    let made = join_all((0..50).map(|_| ada.create(&config))).await;
    assert_eq!(made.iter().filter(|it| it.is_ok()).count(), 3);
    for error in made.iter().filter_map(|it| it.as_ref().err()) {
        assert_eq!(refusal(error), ProblemCode::SessionLimit);
    }
    assert_eq!(ada.list(10, 0).await.expect("a list").total, 3);
}

#[tokio::test]
async fn failed_logins_cost_their_peer_and_no_good_token() {
    let settings = format!(
        "[log]\nlevel = 'info'\n[rate_limit]\nfailed_logins_per_minute = 4\n[edge]\nallowed_origins = ['{PAGE}']\n"
    );
    let server = server(&settings).await;
    let ada = server.client_of("ada", "tool:execute");
    let good = server.token("ada", "tool:execute", "1h");
    let id = python(&ada, json!({})).await;
    let socket = format!("{SESSIONS}/{id}/ws");
    for (n, token) in ["a.b.c", "", "x", "a.b.c"].iter().enumerate() {
        let reply = get(&server, token, SESSIONS).await;
        reply.problem(ProblemCode::Unauthorized);
        assert_eq!(reply.header("ratelimit-policy"), "\"failed-logins\";q=4;w=60");
        assert!(reply.header("ratelimit").starts_with(&format!("\"failed-logins\";r={}", 3 - n)), "{reply:?}");
    }
    assert!((1..=15).contains(&refused(&get(&server, "a.b.c", SESSIONS).await)));
    assert!(
        (1..=15).contains(&refused(&ask(&server, "GET", SESSIONS, &[], b"").await)),
        "no token is none that is good"
    );
    refused(&open_as(&server, &socket, "a.b.c").await.expect_err("no socket"));
    let page = [("sec-websocket-protocol", "repltool.v1, bearer.a.b.c"), ("origin", PAGE)];
    let mut told = open(&server, &socket, &page).await.expect("it is accepted, to be told why not");
    assert_eq!(told.next().await, Err(Some(4429)));
    assert_eq!(get(&server, &good, SESSIONS).await.status, 200);
    open_as(&server, &socket, &good).await.expect("a socket").next_of("ready").await;
    assert_eq!(server.log().matches("authentication failed").count(), 4, "nobody fills the log by guessing");
}

#[tokio::test]
async fn a_made_up_address_lifts_no_limit() {
    let server = server("[rate_limit]\nrequests_per_minute = 6\nfailed_logins_per_minute = 4\n").await;
    let token = bearer(&server.token("ada", "session:read", "1h"));
    let mut answers = Vec::new();
    for n in 0..15 {
        let (address, forwarded) = (format!("203.0.113.{n}"), format!("for=203.0.113.{n}"));
        let invented = [("x-forwarded-for", &*address), ("x-real-ip", &address), ("forwarded", &forwarded)];
        let with = |token| [&[("authorization", token)], &invented[..]].concat();
        let good = ask(&server, "GET", SESSIONS, &with(&token), b"").await.status;
        let bad = ask(&server, "GET", SESSIONS, &with("Bearer x"), b"").await.status;
        answers.push((good, bad));
    }
    let count = |answer| answers.iter().filter(|it| **it == answer).count();
    assert!(answers.iter().all(|(good, bad)| matches!(good, 200 | 429) && matches!(bad, 401 | 429)), "{answers:?}");
    assert_eq!((answers[0], count((429, 429)) >= 5), ((200, 401), true), "{answers:?}");
    assert!(!server.log().contains("203.0.113."), "{}", server.log());
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_has_its_own_failures() {
    let server =
        server("[rate_limit]\nfailed_logins_per_minute = 2\n[edge]\ntrusted_proxies = ['127.0.0.0/8']\n").await;
    let fail = async |header: (&str, &str)| ask(&server, "GET", SESSIONS, &[header], b"").await.status;
    let listed = |address| ("x-forwarded-for", address);
    assert_eq!(fail(listed("203.0.113.1")).await, 401);
    assert_eq!(fail(listed("198.51.100.7, 203.0.113.1, 127.0.0.9")).await, 401);
    assert_eq!(fail(("forwarded", "for=198.51.100.8, for=203.0.113.1")).await, 429, "the same client");
    assert_eq!(fail(listed("203.0.113.2")).await, 401, "another one");
    // Who has one address of an IPv6 network has all of it.
    assert_eq!(fail(listed("2001:db8:0:1::1")).await, 401);
    assert_eq!(fail(listed("[2001:db8:0:1:9::2]:4711")).await, 401);
    assert_eq!(fail(("forwarded", "for=\"[2001:db8:0:1::3]\"")).await, 429);
    assert_eq!(fail(listed("2001:db8:0:2::1")).await, 401);
    let log = server.log();
    assert!(log.contains("peer=203.0.113.1") && log.contains("peer=2001:db8:0:1:9::2"), "{log}");
    assert!(!log.contains("198.51.100."), "what stands left of it was invented: {log}");
}

/// A session of a subject, and its socket.
async fn attached(server: &Server, subject: &str) -> (Client, String, Raw) {
    let client = server.client_of(subject, "tool:execute");
    let path = format!("{SESSIONS}/{}/ws", python(&client, json!({})).await);
    let mut socket = open_as(server, &path, &server.token(subject, "tool:execute", "1h")).await.expect("a socket");
    socket.next_of("ready").await;
    (client, path, socket)
}

#[tokio::test]
async fn messages_beyond_the_rate_are_refused_by_id_and_not_carried_out() {
    let server = slow(6).await;
    let (client, path, mut socket) = attached(&server, "ada").await;
    for n in 0..6 {
        socket.send(format!(r#"{{"type":"ping","id":"p{n}"}}"#)).await;
        assert_eq!(socket.next().await.expect("an answer")["id"], format!("p{n}"));
    }
    for (message, id) in [
        (r#"{"type":"execute","id":"e1","code":"1"}"#, json!("e1")),
        (r#"{"type":"interrupt","id":"e2"}"#, json!("e2")),
        (r#"{"type":"ping","id":"p9"}"#, json!("p9")),
        (r#"{"type":"stdin","eof":true}"#, json!(null)),
        ("{", json!(null)),
    ] {
        socket.send(message).await;
        let told = socket.next().await.expect("an answer");
        assert_eq!((&told["type"], &told["code"], &told["id"]), (&json!("problem"), &json!("rate_limited"), &id));
        assert!(told["detail"].as_str().expect("text").contains("try again in "), "{told}");
    }
    let mut other = open_as(&server, &path, &server.token("ada", "session:read", "1h")).await.expect("another socket");
    other.next_of("ready").await;
    other.send(r#"{"type":"ping","id":"p"}"#).await;
    assert_eq!(other.next_of("pong").await["id"], "p", "each socket has its own");
    let id = path.split('/').nth(4).and_then(|id| id.parse().ok()).expect("an id");
    assert_eq!(client.history(&id, 10, 0).await.expect("the history").total, 0);
}

#[tokio::test]
async fn a_socket_that_does_not_heed_refusals_is_closed() {
    let server = slow(6).await;
    let (_, _, mut socket) = attached(&server, "ada").await;
    let begin = Instant::now();
    for n in 0..40 {
        // The server may have closed it by now.
        let _ = socket.wire.send(Message::text(format!(r#"{{"type":"execute","id":"e{n}","code":"{n}"}}"#))).await;
    }
    let mut problems = 0;
    let code = loop {
        match socket.next().await {
            Ok(message) => problems += u64::from(message["code"] == "rate_limited"),
            Err(code) => break code,
        }
    };
    assert_eq!(code, Some(4429));
    assert!((6..=6 + begin.elapsed().as_secs() / 10).contains(&problems), "{problems}");
    let (_, _, mut other) = attached(&server, "eve").await;
    for _ in 0..40 {
        let _ = other.wire.send(Message::Ping(vec![1; 125].into())).await;
    }
    assert_eq!(other.close_code().await, Some(4429), "pings of the protocol below count too");
}

#[tokio::test]
async fn sockets_and_streams_of_a_subject_have_a_cap() {
    let server = server(&format!("[edge]\nmax_sockets_per_subject = 2\nallowed_origins = ['{PAGE}']\n")).await;
    let (client, path, socket) = attached(&server, "ada").await;
    let id = path.split('/').nth(4).and_then(|id| id.parse().ok()).expect("an id");
    let token = server.token("ada", "tool:execute", "1h");
    let live = Events { follow: true, ..Events::default() };
    let stream = client.events(&id, live).await.expect("a stream");
    assert_eq!(client.me().await.expect("the caller").usage.sockets, 2);

    assert_eq!(refused(&open_as(&server, &path, &token).await.expect_err("no socket")), 1);
    let new = "/api/v1/ws?language=python";
    refused(&open_as(&server, new, &token).await.expect_err("no socket"));
    let offer = format!("repltool.v1, bearer.{token}");
    let page = [("sec-websocket-protocol", offer.as_str()), ("origin", PAGE)];
    let mut told = open(&server, &path, &page).await.expect("it is accepted, to be told why not");
    assert_eq!(told.next().await, Err(Some(4429)));
    assert_eq!(refusal(&client.events(&id, live).await.err().expect("no stream")), ProblemCode::RateLimited);
    let streamed = client.execute_live(&id, &named("e1", "1")).await;
    assert_eq!(refusal(&streamed.err().expect("no stream")), ProblemCode::RateLimited);
    assert_eq!(client.list(10, 0).await.expect("a list").total, 1, "nothing was created");
    assert_eq!(client.history(&id, 10, 0).await.expect("the history").total, 0, "nothing was run");
    client.events(&id, Events::default()).await.expect("what does not wait needs no place");
    client.execute(&id, &code("1")).await.expect("nor does what waits for one execution");
    attached(&server, "eve").await;

    drop((socket, stream));
    let usage = || async { client.me().await.expect("the caller").usage };
    eventually("the places are given back", || async { (usage().await.sockets == 0).then_some(()) }).await;
    let sockets = join_all((0..20).map(|_| open_as(&server, &path, &token))).await;
    assert_eq!(sockets.iter().filter(|it| it.is_ok()).count(), 2, "also of those who come together");
}

#[tokio::test]
async fn rates_can_be_switched_off_and_caps_stay() {
    let settings = "[rate_limit]\nenabled = false\nrequests_per_minute = 1\nfailed_logins_per_minute = 1\n[edge]\nmax_sockets_per_subject = 1\n";
    let server = server(settings).await;
    let (client, path, mut socket) = attached(&server, "ada").await;
    let token = server.token("ada", "tool:execute", "1h");
    for _ in 0..20 {
        let (good, bad) = (get(&server, &token, SESSIONS).await, get(&server, "x", SESSIONS).await);
        assert_eq!((good.status, bad.status), (200, 401));
        assert_eq!((good.header("ratelimit"), bad.header("ratelimit-policy")), ("", ""));
    }
    for n in 0..500 {
        socket.send(format!(r#"{{"type":"ping","id":"p{n}"}}"#)).await;
        assert_eq!(socket.next_of("pong").await["id"], format!("p{n}"));
    }
    refused(&open_as(&server, &path, &token).await.expect_err("one socket is all"));
    let me = client.me().await.expect("the caller");
    assert_eq!((me.limits.requests_per_minute, me.limits.burst, me.usage.requests_left), (None, None, None));
}

#[tokio::test]
async fn me_tells_who_asks_and_what_is_left() {
    let server = slow(4).await;
    let reply = get(&server, &server.token("ada", "tool:execute admin other", "1h"), "/api/v1/me").await;
    insta::assert_json_snapshot!(reply.json(), { ".expires_at" => "[time]", ".usage.quotas.period_ends_at" => "[time]" }, @r#"
    {
      "subject": "ada",
      "scopes": [
        "tool:execute",
        "session:read",
        "admin"
      ],
      "expires_at": "[time]",
      "limits": {
        "sessions": 100,
        "sockets": 2000,
        "requests_per_minute": 6,
        "burst": 4,
        "session": {
          "max_cpu_time": 300,
          "max_memory_mb": 4096,
          "max_output_size": 10485760,
          "max_expressions": 10000
        },
        "quotas": {
          "period": "day",
          "executions": null,
          "session_creations": null,
          "cpu_seconds": null,
          "stored_mb": null
        }
      },
      "usage": {
        "sessions": 0,
        "sockets": 0,
        "requests_left": 3,
        "quotas": {
          "period_ends_at": "[time]",
          "executions": 0,
          "session_creations": 0,
          "cpu_time_ms": 0,
          "stored_bytes": 0
        }
      }
    }
    "#);
    assert!(reply.json()["expires_at"].as_str().is_some_and(|it| it.parse::<jiff::Timestamp>().is_ok()));
    let (client, _, _socket) = attached(&server, "bob").await;
    let usage = client.me().await.expect("the caller").usage;
    assert_eq!(
        (usage.sessions, usage.sockets, usage.requests_left),
        (1, 1, Some(1)),
        "a session, a socket, a question"
    );
    let nothing = server.client_of("eve", "other").me().await.expect("any token will do");
    assert!(nothing.scopes.is_empty(), "{nothing:?}");
    ask(&server, "GET", "/api/v1/me", &[], b"").await.problem(ProblemCode::Unauthorized);
}

#[tokio::test]
async fn limits_begin_anew_with_the_gateway() {
    let server = slow(2).await;
    let token = server.token("ada", "session:read", "1h");
    let status = async || get(&server, &token, SESSIONS).await.status;
    assert_eq!([status().await, status().await, status().await], [200, 200, 429]);
    server.crash_gateway().await;
    assert_eq!(status().await, 200);
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_back() {
    let server = server("[edge]\nmax_sockets_per_subject = 1\n").await;
    let (client, path, mut socket) = attached(&server, "ada").await;
    let token = server.token("ada", "tool:execute", "1h");
    socket.send(r#"{"type":"execute","id":"e1","code":"input()"}"#).await;
    socket.next_of("input_request").await;
    // Without a word, while something runs.
    drop(socket);
    let again = || async { open_as(&server, &path, &token).await.ok() };
    let mut socket = eventually("there is room again", again).await;
    assert_eq!(client.me().await.expect("the caller").usage.sockets, 1);
    socket.wire.close(None).await.expect("a goodbye");
    while let Some(Ok(_)) = socket.wire.next().await {}
    let usage = || async { client.me().await.expect("the caller").usage };
    eventually("the place is given back", || async { (usage().await.sockets == 0).then_some(()) }).await;
}
