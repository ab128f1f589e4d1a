//! Quotas: what a subject may use in a period. A period is a month here, so that hardly a test meets the end of one.

use std::time::Duration;

use repltool::client::{Client, ClientError};
use repltool_protocol::me::MeQuotaUsage;
use repltool_protocol::rest::{Problem, ProblemCode, SessionConfig};
use serde_json::{Value, json};

use super::audit::{of_kind, stop};
use super::harness::signer::Signer;
use super::harness::{As, Server, code, eventually, in_time, named, python, run};
use super::metrics::exposition::scrape;
use super::wire::{Reply, ask, bearer, open_as};

async fn server(settings: &str) -> Server {
    Server::start_with(As::Me, &format!("[quotas]\nperiod = 'month'\n{settings}\n")).await
}

fn ada(server: &Server) -> Client {
    server.client_of("ada", "tool:execute")
}

async fn used(client: &Client) -> MeQuotaUsage {
    client.me().await.expect("the caller").usage.quotas
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> Problem {
    let error = outcome.expect_err("refused");
    let problem = error.problem().unwrap_or_else(|| panic!("no problem document: {error:?}")).clone();
    assert_eq!((problem.status, problem.code), (429, ProblemCode::RateLimited), "{problem:?}");
    problem
}

async fn create(client: &Client) -> Result<(), ClientError> {
    let config: SessionConfig = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    client.create(&config).await.map(drop)
}

async fn one_shot(server: &Server, token: &str, code: &str) -> Reply {
    let body = json!({"language": "python", "code": code}).to_string();
    let headers = [("authorization", &*bearer(token)), ("content-type", "application/json")];
    ask(server, "POST", "/api/v1/execute", &headers, body.as_bytes()).await
}

/// Waits until the counts of a subject, executions and new sessions, are in the file of the store.
async fn until_stored(server: &Server, subject: &str, counts: (i64, i64)) {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let path = server.data().join("store/store.sqlite");
    let db = rusqlite::Connection::open_with_flags(path, flags).expect("the store");
    db.busy_timeout(Duration::from_secs(5)).expect("patience");
    eventually("the counts are stored", || async {
        let found: rusqlite::Result<(i64, i64)> = db.query_row(
            "SELECT executions, session_creations FROM quota_usage WHERE subject = ?1",
            [subject],
            |row| Ok((row.get(0)?, row.get(1)?)),
        );
        found.is_ok_and(|found| found == counts).then_some(())
    })
    .await;
}

#[tokio::test]
async fn executions_beyond_the_quota_are_refused_everywhere_until_the_period_ends() {
    let server = server("executions = 3").await;
    let client = ada(&server);
    let id = python(&client, json!({})).await;
    let first = client.execute(&id, &named("e1", "x = 1")).await.expect("run");
    let again = client.execute(&id, &named("e1", "x = 1")).await.expect("followed");
    assert_eq!(first.execution_count, again.execution_count, "what follows is not counted");
    assert!(client.execute(&id, &named("e1", "x = 2")).await.is_err(), "what is refused is not counted");
    run(&client, &id, "x").await;
    assert_eq!(used(&client).await.executions, 2);
    run(&client, &id, "x").await;

    let token = server.token("ada", "tool:execute", "1h");
    let (path, body) = (format!("/api/v1/sessions/{id}/execute"), br#"{"code":"x"}"#);
    let headers = [("authorization", &*bearer(&token)), ("content-type", "application/json")];
    let reply = ask(&server, "POST", &path, &headers, body).await;
    let problem = reply.problem(ProblemCode::RateLimited);
    let ends = used(&client).await.period_ends_at;
    let anew = ends.replace(".000Z", "Z");
    assert_eq!(
        problem.detail,
        format!("your quota of 3 executions a month is used up; it begins anew at {anew}"),
        "{reply:?}"
    );
    assert_eq!((&*problem.errors[0].field, &problem.errors[0].message), ("quotas.executions", &problem.detail));
    let wait_s: i64 = reply.header("retry-after").parse().expect("whole seconds");
    let left_s = ends.parse::<jiff::Timestamp>().expect("a time").as_second() - jiff::Timestamp::now().as_second();
    assert!((wait_s - left_s).abs() < 60, "{wait_s} {left_s}");

    one_shot(&server, &token, "1").await.problem(ProblemCode::RateLimited);
    let mut socket = open_as(&server, &format!("/api/v1/sessions/{id}/ws"), &token).await.expect("a socket");
    socket.next_of("ready").await;
    socket.send(r#"{"type":"execute","id":"e9","code":"x"}"#).await;
    let told = socket.next_of("problem").await;
    assert_eq!(
        (&told["code"], &told["id"], &told["detail"]),
        (&json!("rate_limited"), &json!("e9"), &json!(problem.detail))
    );
    // What was run can still be followed and read.
    assert!(client.execute(&id, &named("e1", "x = 1")).await.expect("followed").success);
    assert_eq!(client.history(&id, 10, 0).await.expect("the history").total, 3);

    let eve = server.client_of("eve", "tool:execute");
    assert!(run(&eve, &python(&eve, json!({})).await, "1").await.success, "another subject has its own");
    assert_eq!((used(&client).await.executions, used(&eve).await.executions), (3, 1));
    let found = scrape(&server).await;
    assert_eq!(found.value("repl_quota_refusals_total{quota=\"executions\"}"), 3.0, "{}", found.text);
    let recorded = eventually("the refusals are recorded", || async {
        let found: Vec<Value> = of_kind(&server, "refused");
        (found.len() == 3).then_some(found)
    })
    .await;
    assert!(recorded.iter().all(|it| it["subject"] == "ada" && it["reason"] == json!(problem.detail)), "{recorded:?}");
}

#[tokio::test]
async fn new_sessions_are_counted_also_those_of_a_request_and_of_administrators() {
    let server = server("session_creations = 2").await;
    let root = server.client_of("root", "tool:execute admin");
    let token = server.token("root", "tool:execute admin", "1h");
    assert_eq!(one_shot(&server, &token, "1").await.status, 200);
    let id = python(&root, json!({})).await;
    root.delete(&id).await.expect("deleted");
    let problem = refused(create(&root).await);
    assert!(problem.detail.starts_with("your quota of 2 new sessions a month is used up; "), "{problem:?}");
    one_shot(&server, &token, "1").await.problem(ProblemCode::RateLimited);
    let refusal = open_as(&server, "/api/v1/ws?language=python", &token).await.expect_err("no socket");
    refusal.problem(ProblemCode::RateLimited);
    // What an administrator runs in somebody's session is the administrator's.
    let client = ada(&server);
    let id = python(&client, json!({})).await;
    run(&root, &id, "x = 7").await;
    let (root, client) = (used(&root).await, used(&client).await);
    assert_eq!((root.executions, root.session_creations), (2, 2));
    assert_eq!((client.executions, client.session_creations), (0, 1));
}

#[tokio::test]
async fn many_at_once_get_no_more_than_the_quota() {
    let server = server("executions = 5").await;
    let client = ada(&server);
    let id = python(&client, json!({})).await;
    let other = python(&client, json!({})).await;
    let (one, two) = (code("1"), code("2"));
    let asked = (0..8).flat_map(|_| [client.execute(&id, &one), client.execute(&other, &two)]);
    let outcomes = in_time("all of them", futures::future::join_all(asked)).await;
    assert_eq!(outcomes.iter().filter(|it| it.is_ok()).count(), 5);
    assert_eq!(used(&client).await.executions, 5);
}

#[tokio::test]
async fn cpu_time_is_counted_for_whoever_used_it_and_refuses_what_is_new() {
    let server = server("cpu_seconds = 1").await;
    let client = ada(&server);
    let id = python(&client, json!({})).await;
    let burn = "import time\nwhile time.process_time() < 1.2: pass";
    let result = run(&client, &id, burn).await;
    assert!(result.success, "what runs is not cut: {result:?}");
    let counted = used(&client).await.cpu_time_ms;
    assert!(counted >= result.usage.cpu_time_ms, "{counted} {result:?}");
    let problem = refused(client.execute(&id, &code("1")).await);
    assert!(problem.detail.starts_with("your quota of 1 seconds of CPU time a month is used up; "), "{problem:?}");
    // A session that is deleted takes nothing back, and what ran in it then is counted.
    let eve = server.client_of("eve", "tool:execute");
    let id = python(&eve, json!({})).await;
    let endless = code("import time\nwhile time.process_time() < 0.7: pass\nprint('on')\nwhile True: pass");
    let ran = async { eve.execute(&id, &endless).await };
    let deleted = async {
        eventually("it uses time", || async {
            let result = eve.get(&id).await.expect("the session");
            (result.execution_state == repltool_protocol::event::ExecutionState::Busy && result.last_seq >= 3)
                .then_some(())
        })
        .await;
        eve.delete(&id).await.expect("deleted");
    };
    let (_, ()) = in_time("the deletion", async { tokio::join!(ran, deleted) }).await;
    let counted = used(&eve).await.cpu_time_ms;
    assert!(counted >= 600, "{counted}");
}

#[tokio::test]
async fn what_is_stored_is_a_level_that_deleting_lowers() {
    let server = server("stored_mb = 1").await;
    let client = ada(&server);
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10_485_760}})).await;
    run(&client, &id, "print('x' * 1_200_000)").await;
    let stored = used(&client).await.stored_bytes;
    assert!((1_200_000..2_000_000).contains(&stored), "{stored}");
    let token = server.token("ada", "tool:execute", "1h");
    let reply = one_shot(&server, &token, "1").await;
    let problem = reply.problem(ProblemCode::RateLimited);
    let detail = "your quota of 1 MiB in the logs of your sessions is used up; delete sessions that you need no longer";
    assert_eq!((&*problem.detail, reply.header("retry-after")), (detail, ""));
    assert_eq!(refused(client.execute(&id, &code("1")).await).detail, detail);
    refused(create(&client).await);
    client.delete(&id).await.expect("deleted");
    assert_eq!(used(&client).await.stored_bytes, 0);
    assert_eq!(one_shot(&server, &token, "1").await.status, 200);
}

#[tokio::test]
async fn counts_outlive_the_gateway_and_the_server() {
    let server = server("executions = 2").await;
    let client = ada(&server);
    let id = python(&client, json!({})).await;
    run(&client, &id, "x = 31").await;
    until_stored(&server, "ada", (1, 1)).await;
    server.crash_gateway().await;
    assert_eq!(run(&client, &id, "x").await.result_text.as_deref(), Some("31"));
    refused(client.execute(&id, &code("x")).await);
    let stored = used(&client).await.stored_bytes;
    assert!(stored > 0);
    until_stored(&server, "ada", (2, 1)).await;
    let mut server = server;
    stop(&mut server).await;
    let server = server.restart().await;
    let client = ada(&server);
    let usage = used(&client).await;
    assert_eq!((usage.executions, usage.session_creations), (2, 1));
    assert!(usage.cpu_time_ms > 0 && usage.stored_bytes > 0, "{usage:?}");
    refused(client.execute(&id, &code("x")).await);
}

#[tokio::test]
async fn a_token_lowers_the_quotas_of_its_holder_and_raises_none() {
    let server = server("executions = 2").await;
    let secret = repltool::keys::load(&server.data(), None).expect("the server's key");
    let holder = |limits: Value| {
        let exp = jiff::Timestamp::now().as_second() + 3600;
        let claims = json!({"sub": "ada", "scope": "tool:execute", "exp": exp, "repl_limits": limits});
        Client::new(&server.url, Some(&Signer::secret(&secret).token(None, &claims))).expect("a client")
    };
    let little = holder(json!({"executions": 1, "session_creations": 1, "stored_mb": 5}));
    let id = python(&little, json!({})).await;
    let problem = refused(create(&little).await);
    assert_eq!(problem.errors[0].field, "quotas.session_creations");
    run(&little, &id, "1").await;
    assert!(refused(little.execute(&id, &code("1")).await).detail.starts_with("your quota of 1 executions a month "));
    let limits = little.me().await.expect("the caller").limits.quotas;
    assert_eq!((limits.executions, limits.session_creations, limits.stored_mb), (Some(1), Some(1), Some(5)));
    let much = holder(json!({"executions": 1000, "session_creations": null}));
    run(&much, &id, "1").await;
    assert!(refused(much.execute(&id, &code("1")).await).detail.starts_with("your quota of 2 executions a month "));
    let none = holder(json!({"cpu_seconds": 0, "executions": 0}));
    assert_eq!(refused(none.execute(&id, &code("1")).await).errors[0].field, "quotas.cpu_seconds");
}
