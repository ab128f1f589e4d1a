//! Who may come in, and who may do what: tokens, scopes, owners, origins, hosts.

use futures::future::join;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use repltool::client::{Events, Received};
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};

use super::harness::{As, Server, in_time, named, python, run, send, until_printed, until_result};
use super::wire::{Raw, Reply, ask, bearer, local_token, open, open_as};

const SESSIONS: &str = "/api/v1/sessions";
/// `{"alg":"none"}` and `{"alg":"None"}`, as the first part of a token.
const NONE: [&str; 2] = ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0"];

/// Runs until it is interrupted.
const WAITS: &str = "import time\nprint('runs')\ntime.sleep(600)";

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// A token with any claims, signed by the server's own key.
fn signed(server: &Server, header: &Header, claims: &Value) -> String {
    let secret = repltool::keys::load(&server.data(), None).expect("the server's key");
    let key = EncodingKey::from_secret(&secret).expect("a key");
    jsonwebtoken::encode(header, claims, &key).expect("a token")
}

fn claims(more: Value) -> Value {
    let mut claims = json!({"sub": "eve", "scope": "tool:execute session:read admin", "exp": now() + 3600});
    claims.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    claims
}

fn status_of(outcome: Result<Raw, Reply>) -> u16 {
    match outcome {
        Ok(_) => 101,
        Err(reply) => reply.status,
    }
}

/// Tokens that must not be accepted, each with what is wrong with it.
pub fn bad_tokens(server: &Server) -> Vec<(&'static str, String)> {
    let good = server.token("eve", "tool:execute", "1h");
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, signature] = parts[..] else { panic!("{good}") };
    let last = if signature.ends_with('A') { 'E' } else { 'A' };
    let hs256 = Header::new(Algorithm::HS256);
    let with = |more| signed(server, &hs256, &claims(more));
    let without = |name: &str| {
        let mut claims = claims(json!({}));
        claims.as_object_mut().expect("an object").shift_remove(name);
        signed(server, &hs256, &claims)
    };
    let foreign = EncodingKey::from_secret(&[7; 32]).expect("a key");
    let foreign = jsonwebtoken::encode(&hs256, &claims(json!({})), &foreign).expect("a token");
    vec![
        ("no signature, alg none", format!("{}.{body}.", NONE[0])),
        ("no signature, alg None", format!("{}.{body}.", NONE[1])),
        ("a signature, alg none", format!("{}.{body}.{signature}", NONE[0])),
        ("no signature", format!("{head}.{body}.")),
        ("two parts", format!("{head}.{body}")),
        ("one part", head.to_owned()),
        ("another signature", format!("{head}.{body}.{}{last}", &signature[..signature.len() - 1])),
        ("another body", format!("{head}.{}.{signature}", body.replacen('e', "f", 1))),
        ("dots at the end", format!("{good}..")),
        ("a dot at the end", format!("{good}.")),
        ("no token at all", "abc".to_owned()),
        ("empty", String::new()),
        ("another key", foreign),
        ("another algorithm", signed(server, &Header::new(Algorithm::HS512), &claims(json!({})))),
        ("expired", with(json!({"exp": now() - 60}))),
        ("not valid yet", with(json!({"nbf": now() + 600}))),
        ("no exp", without("exp")),
        ("no sub", without("sub")),
        ("exp is text", with(json!({"exp": "never"}))),
        ("sub is empty", with(json!({"sub": ""}))),
        ("sub has a line break", with(json!({"sub": "a\nb"}))),
        ("too long", with(json!({"more": "x".repeat(9000)}))),
    ]
}

#[tokio::test]
async fn bad_tokens_are_refused_everywhere() {
    // This peer fails more often than a peer may.
    let server = Server::start_with(As::Me, "[rate_limit]\nfailed_logins_per_minute = 1000\n").await;
    let id = python(&server.client(), json!({})).await;
    let path = format!("{SESSIONS}/{id}");
    let refused = |reply: Reply, what: &str| {
        assert_eq!((reply.status, reply.header("www-authenticate").starts_with("Bearer")), (401, true), "{what}");
        reply.problem(ProblemCode::Unauthorized);
    };
    refused(ask(&server, "GET", &path, &[], b"").await, "none");
    refused(open(&server, &format!("{path}/ws"), &[]).await.expect_err("no socket"), "none");
    for (what, token) in bad_tokens(&server) {
        refused(ask(&server, "GET", &path, &[("authorization", &bearer(&token))], b"").await, what);
        refused(open_as(&server, &format!("{path}/ws"), &token).await.expect_err("no socket"), what);
        if token.len() > 20 {
            assert!(!server.log().contains(&token), "{what}: the token is in the log");
        }
    }
    let good = bearer(&local_token(&server));
    refused(ask(&server, "GET", &path, &[("authorization", &good), ("authorization", &good)], b"").await, "two");
    for scheme in ["Basic YTpi", "Bearer", "bearer ", &good["Bearer ".len()..]] {
        refused(ask(&server, "GET", &path, &[("authorization", scheme)], b"").await, scheme);
    }
    let in_url = format!("{path}?access_token={0}&token={0}", local_token(&server));
    refused(ask(&server, "GET", &in_url, &[], b"").await, "in the url");
    assert!(server.log().contains("authentication failed"));
    let kid = Header { kid: Some("../../etc/passwd".to_owned()), ..Header::new(Algorithm::HS256) };
    let kid = bearer(&signed(&server, &kid, &claims(json!({"sub": "local"}))));
    assert_eq!(ask(&server, "GET", &path, &[("authorization", &kid)], b"").await.status, 200, "a kid leads nowhere");
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(&server, "GET", path, &[], b"").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn each_route_needs_its_scope() {
    let server = Server::start().await;
    let id = python(&server.client_of("ada", "tool:execute"), json!({})).await;
    let path = format!("{SESSIONS}/{id}");
    let (create, code) = (r#"{"language":"python"}"#, r#"{"code":"1"}"#);
    let relaxed = r#"{"language":"python","sandbox_mode":"relaxed"}"#;
    // The rights that a route needs, in the order none, reading, running.
    let routes = [
        ("GET", SESSIONS.to_owned(), "", [403, 200, 200]),
        ("GET", path.clone(), "", [403, 200, 200]),
        ("GET", format!("{path}/history"), "", [403, 200, 200]),
        ("GET", format!("{path}/events"), "", [403, 200, 200]),
        ("POST", SESSIONS.to_owned(), create, [403, 403, 201]),
        ("POST", SESSIONS.to_owned(), relaxed, [403, 403, 403]),
        ("POST", format!("{path}/execute"), code, [403, 403, 200]),
        ("POST", format!("{path}/interrupt"), "", [403, 403, 202]),
        ("POST", format!("{path}/restart"), "", [403, 403, 200]),
    ];
    let scopes = ["metrics:read nonsense", "session:read", "tool:execute"];
    for (column, scope) in scopes.into_iter().enumerate() {
        let token = server.token("ada", scope, "1h");
        let headers = [("authorization", &*bearer(&token)), ("content-type", "application/json")];
        for (method, path, body, expected) in &routes {
            let reply = ask(&server, method, path, &headers, body.as_bytes()).await;
            assert_eq!(reply.status, expected[column], "{scope}: {method} {path}: {reply:?}");
            if reply.status == 403 {
                reply.problem(ProblemCode::Forbidden);
            }
        }
        let attach = status_of(open_as(&server, &format!("{path}/ws"), &token).await);
        assert_eq!(attach, [403, 101, 101][column], "{scope}");
        let new = status_of(open_as(&server, "/api/v1/ws?language=python", &token).await);
        assert_eq!(new, [403, 403, 101][column], "{scope}");
        let new = status_of(open_as(&server, "/api/v1/ws?language=python&sandbox_mode=relaxed", &token).await);
        assert_eq!(new, 403, "{scope}");
    }
    let reader = [("authorization", &*bearer(&server.token("ada", "session:read", "1h")))];
    assert_eq!(ask(&server, "DELETE", &path, &reader, b"").await.status, 403);
    let relaxing = server.client_of("ada", "tool:execute sandbox:relaxed");
    python(&relaxing, json!({"sandbox_mode": "relaxed"})).await;
}

#[tokio::test]
async fn a_reader_on_a_socket_can_only_read() {
    let server = Server::start().await;
    let owner = server.client_of("ada", "tool:execute");
    let id = python(&owner, json!({})).await;
    let token = server.token("ada", "session:read", "1h");
    let mut socket = open_as(&server, &format!("{SESSIONS}/{id}/ws"), &token).await.expect("a socket");
    for (kind, more) in
        [("execute", r#","code":"open('f','w')""#), ("interrupt", ""), ("restart", ""), ("terminate", "")]
    {
        socket.send(format!(r#"{{"type":"{kind}","id":"q"{more}}}"#)).await;
        let problem = socket.next_of("problem").await;
        assert_eq!((&problem["code"], &problem["id"]), (&json!("forbidden"), &json!("q")), "{kind}");
    }
    socket.send(r#"{"type":"ping","id":"p"}"#).await;
    socket.next_of("pong").await;
    run(&owner, &id, "print('seen')").await;
    assert_eq!(socket.next_of("stream").await["data"], "seen\n");
    assert_eq!(run(&owner, &id, "import os; os.listdir('.')").await.result.0.get(), "[]");
}

#[tokio::test]
async fn sessions_of_others_are_as_good_as_none() {
    let server = Server::start().await;
    let owner = server.client_of("ada", "tool:execute");
    let id = python(&owner, json!({})).await;
    run(&owner, &id, "secret = 'a-only'").await;
    let token = server.token("eve", "tool:execute session:read sandbox:relaxed", "1h");
    let headers = [("authorization", &*bearer(&token)), ("content-type", "application/json")];
    let code = r#"{"code":"secret","execution_id":"e"}"#;
    for (method, rest, body) in [
        ("GET", "", ""),
        ("GET", "?owner=ada&sub=ada&user_id=ada", ""),
        ("POST", "/execute", code),
        ("GET", "/history", ""),
        ("GET", "/events", ""),
        ("GET", "/events?follow=true", ""),
        ("POST", "/interrupt", ""),
        ("POST", "/restart", ""),
        ("DELETE", "", ""),
        ("HEAD", "", ""),
    ] {
        let mut answers = Vec::new();
        for session in [id.as_str(), "ABCDEFGHIJKLMNOPQRSTUV"] {
            let reply = ask(&server, method, &format!("{SESSIONS}/{session}{rest}"), &headers, body.as_bytes()).await;
            assert_eq!(reply.status, 404, "{method} {rest}: {reply:?}");
            let mut told = if method == "HEAD" { json!({}) } else { reply.json() };
            told["request_id"] = Value::Null;
            let mut names: Vec<_> = reply.headers.keys().map(ToString::to_string).collect();
            names.sort();
            answers.push((told, names));
        }
        assert_eq!(answers[0], answers[1], "{method} {rest}");
    }
    for session in [id.as_str(), "ABCDEFGHIJKLMNOPQRSTUV"] {
        let reply = open_as(&server, &format!("{SESSIONS}/{session}/ws?after=0"), &token).await.expect_err("no socket");
        reply.problem(ProblemCode::NotFound);
    }
    let listed = ask(&server, "GET", SESSIONS, &headers, b"").await.json();
    assert_eq!((&listed["total"], &listed["sessions"]), (&json!(0), &json!([])));
    assert_eq!(run(&owner, &id, "secret").await.result.0.get(), r#""a-only""#);
    assert_eq!(owner.history(&id, 10, 0).await.expect("history").total, 2, "nothing of it was run");
}

#[tokio::test]
async fn an_admin_sees_everybodys_sessions() {
    let server = Server::start().await;
    let (ada, bob) = (server.client_of("ada", "tool:execute"), server.client_of("bob", "tool:execute"));
    let ids = [python(&ada, json!({})).await, python(&bob, json!({})).await];
    let admin = server.client_of("root", "admin tool:execute");
    let list = admin.list(10, 0).await.expect("a list");
    assert_eq!(list.sessions.iter().map(|it| it.owner.as_str()).collect::<Vec<_>>(), ["ada", "bob"]);
    assert_eq!(run(&admin, &ids[0], "6 * 7").await.result.0.get(), "42");
    admin.delete(&ids[1]).await.expect("deleted");
    assert_eq!(bob.list(10, 0).await.expect("a list").total, 0);
    // Seeing all is not doing all.
    let looker = server.client_of("root", "admin session:read");
    assert_eq!(looker.get(&ids[0]).await.expect("the session").owner, "ada");
    let refused = looker.execute(&ids[0], &named("e", "1")).await.expect_err("refused");
    assert_eq!(refused.problem().expect("a problem").code, ProblemCode::Forbidden);
}

#[tokio::test]
async fn token_that_expires_closes_what_it_opened() {
    let server = Server::start_with(As::Me, "[auth]\nleeway_s = 1\n").await;
    let owner = server.client_of("ada", "tool:execute");
    let id = python(&owner, json!({})).await;
    let token = server.token("ada", "tool:execute", "5s");
    let client = repltool::client::Client::new(&server.url, Some(&token)).expect("a client");
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let mut follow = client.events(&id, Events { follow: true, ..Events::default() }).await.expect("events");
    send(&mut socket, "e1", WAITS).await;
    until_printed(&mut socket).await;
    let closed = loop {
        match in_time("the end of the token", socket.receive()).await.expect("readable") {
            Received::Closed(closed) => break closed,
            Received::Frame(_) => {}
        }
    };
    assert_eq!(closed.code, Some(4401), "{closed:?}");
    while in_time("the end of the token", follow.next()).await.expect("readable").is_some() {}
    let refused = client.get(&id).await.expect_err("refused");
    assert_eq!(refused.problem().expect("a problem").code, ProblemCode::Unauthorized);
    // What it had started goes on.
    let request = named("e1", WAITS);
    let (result, interrupted) = join(owner.execute(&id, &request), owner.interrupt(&id, None)).await;
    interrupted.expect("accepted");
    assert_eq!(result.expect("a result").exception.expect("an exception").name, "KeyboardInterrupt");
}

#[tokio::test]
async fn the_log_holds_neither_code_nor_output_nor_tokens() {
    let server = Server::start_with(As::Me, "[log]\nlevel = \"trace\"\n").await;
    let token = server.token("ada", "tool:execute", "1h");
    let client = repltool::client::Client::new(&server.url, Some(&token)).expect("a client");
    let id = python(&client, json!({"environment": {"NAME": "canary-environment"}})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let code = "print('canary-'[:6] + '-output')\nraise ValueError('canary-code')";
    let execution = send(&mut socket, "e1", code).await;
    until_result(&mut socket, &execution).await;
    run(&client, &id, code).await;
    let path = format!("{SESSIONS}/{id}/ws");
    let page = [("sec-websocket-protocol", &*format!("repltool.v1, bearer.{token}"))];
    drop(open(&server, &path, &page).await.expect("a socket"));
    client.delete(&id).await.expect("deleted");
    let log = server.log();
    assert!(log.contains(id.as_str()), "{log}");
    let secrets = ["canary", token.as_str(), token.rsplit('.').next().expect("a signature")];
    let told: Vec<_> = log.lines().filter(|line| secrets.iter().any(|secret| line.contains(secret))).collect();
    assert!(told.is_empty(), "{told:?}");
}
