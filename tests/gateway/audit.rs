//! The audit log of a server that runs: what is recorded, and what is not.

use std::process::Output;

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};

use super::harness::{As, Server, binary_as, code, eventually, exception_name, in_time, python, run, run_for};
use super::wire::{Raw, ask, ask_as_owner, bearer, local_token, open, open_as};

/// Runs `repltool audit` on the server's data directory.
pub fn audit(server: &Server, args: &[&str]) -> Output {
    let mut command = binary_as(As::Me);
    command.arg("audit").args(args).arg("--data-dir").arg(server.data()).output().expect("the command runs")
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The records that these filters find.
pub fn records(server: &Server, filters: &[&str]) -> Vec<Value> {
    let output = audit(server, &[&["search"], filters].concat());
    assert!(output.status.success(), "{}", text(&output));
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

pub fn of_kind(server: &Server, kind: &str) -> Vec<Value> {
    records(server, &["--kind", kind])
}

pub fn assert_whole(server: &Server) {
    let output = audit(server, &["verify"]);
    assert!(output.status.success(), "{}", text(&output));
}

pub fn sha256(text: &str) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stops the server in good order.
pub async fn stop(server: &mut Server) {
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn the_life_of_a_session_is_recorded_with_hashes_limits_and_use() {
    let server = Server::start_as_shipped("").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let text = "x = 40 + 2\nprint('é')";
    run(&client, &id, text).await;
    assert_eq!(exception_name(&run(&client, &id, "1 / 0").await), "ZeroDivisionError");
    run_for(&client, &id, 300, "while True: pass").await;
    run(&client, &id, "import subprocess").await;
    in_time("a restart", client.restart(&id)).await.expect("restarted");
    client.delete(&id).await.expect("deleted");
    // What is not waited for is there within a second.
    let all = eventually("the story is told", || async {
        let found = records(&server, &["--session", id.as_str()]);
        found.iter().any(|it| it["kind"] == "session_restarted").then_some(found)
    })
    .await;
    let kinds: Vec<_> = all.iter().map(|it| it["kind"].as_str().expect("a kind")).collect();
    let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
    assert_eq!((kinds[0], *kinds.last().expect("the end")), ("session_created", "session_ended"), "{kinds:?}");
    assert_eq!((count("execution"), count("violation"), count("session_restarted")), (4, 1, 1), "{kinds:?}");
    assert!(all.iter().all(|it| it["subject"] == "local" && it["language"] == "python"), "{all:?}");
    assert!(
        all.iter().all(|it| it["sandbox_mode"] == "standard" && it["time"].as_str().is_some_and(|it| it.len() == 27))
    );
    let executions = records(&server, &["--session", id.as_str(), "--kind", "execution"]);
    let first = &executions[0];
    assert_eq!((&first["event_type"], &first["success"]), (&json!("repl_execution"), &json!(true)));
    assert_eq!((first["code_sha256"].as_str(), &first["execution_count"]), (Some(&*sha256(text)), &json!(1)));
    assert_eq!((&first["limits"]["max_memory_mb"], &first["usage"]["output_bytes"]), (&json!(256), &json!(3)));
    assert!(first["duration_ms"].is_u64() && first["execution_id"].is_string(), "{first:?}");
    assert_eq!(executions[1]["exception"], "ZeroDivisionError");
    assert_eq!((&executions[2]["limit"], &executions[2]["success"]), (&json!("wall_time"), &json!(false)));
    assert_eq!(executions[3]["rule"], "import");
    let violation = &all[kinds.iter().position(|it| *it == "violation").expect("one")];
    assert_eq!((&violation["rule"], &violation["detail"]), (&json!("import"), &json!("subprocess")));
    assert_eq!(
        (&violation["layer"], &violation["reason"], &violation["times"]),
        (&json!("policy"), &json!("refuse"), &json!(1))
    );
    assert_eq!(all.last().expect("the end")["reason"], "terminated");
    let same = records(&server, &["--code-sha256", &sha256(text).to_uppercase()]);
    assert_eq!(same.len(), 1);
    assert_whole(&server);
}

#[tokio::test]
async fn a_server_records_its_start_its_settings_its_gateways_and_its_end() {
    let mut server = Server::start().await;
    server.crash_gateway().await;
    stop(&mut server).await;
    assert_whole(&server);
    let first = of_kind(&server, "config")[0]["config_sha256"].clone();
    assert_eq!(first.as_str().map(str::len), Some(64));
    let counts = |kind: &str| of_kind(&server, kind).len();
    assert_eq!(["server_started", "gateway_started", "server_stopped"].map(counts), [1, 2, 1]);
    let mut server = server.restart().await;
    stop(&mut server).await;
    let configs = of_kind(&server, "config");
    assert_eq!(configs.len(), 3, "one for each gateway");
    assert!(configs.iter().all(|it| it["config_sha256"] == first), "the same settings");
    assert_whole(&server);
    let numbers: Vec<_> = records(&server, &[]).iter().map(|it| it["n"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

/// The refusal of one request in the log, by the name that its answer carries.
fn refusal(server: &Server, request_id: &str) -> Value {
    let all = records(server, &[]);
    all.into_iter().find(|it| it["request_id"] == *request_id).unwrap_or_else(|| panic!("no record of {request_id}"))
}

#[tokio::test]
async fn logins_and_refusals_are_on_the_disk_before_they_are_answered() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let path = format!("/api/v1/sessions/{id}");
    // A wrong token.
    let wrong = bearer("a.b.c");
    let reply = ask(&server, "GET", &path, &[("authorization", &wrong)], b"").await;
    let record = refusal(&server, &reply.problem(ProblemCode::Unauthorized).request_id);
    assert_eq!(
        (&record["kind"], &record["status"], &record["peer"]),
        (&json!("auth_failed"), &json!(401), &json!("127.0.0.1"))
    );
    assert_eq!((&record["route"], &record["method"]), (&json!("/api/v1/sessions/{id}"), &json!("GET")));
    assert_eq!((&record["reason"], record.get("subject")), (&json!("token malformed"), None));
    // The first request of a token, and no other.
    let eve = bearer(&server.token("eve", "session:read", "1h"));
    for _ in 0..3 {
        assert_eq!(ask(&server, "GET", "/api/v1/me", &[("authorization", &eve)], b"").await.status, 200);
    }
    let logins = records(&server, &["--kind", "login", "--subject", "eve"]);
    assert_eq!((logins.len(), &logins[0]["route"]), (1, &json!("/api/v1/me")));
    // A scope that is missing.
    let reply = ask(&server, "POST", "/api/v1/sessions", &[("authorization", &eve)], b"{}").await;
    let record = refusal(&server, &reply.problem(ProblemCode::Forbidden).request_id);
    assert_eq!(
        (&record["kind"], &record["subject"], &record["status"]),
        (&json!("refused"), &json!("eve"), &json!(403))
    );
    assert!(record["reason"].as_str().is_some_and(|it| it.contains("tool:execute")), "{record:?}");
    // Another host.
    let reply = ask(&server, "GET", "/healthz", &[("host", "evil.example")], b"").await;
    let record = refusal(&server, &reply.problem(ProblemCode::MisdirectedRequest).request_id);
    assert_eq!((&record["kind"], &record["status"]), (&json!("refused"), &json!(421)));
    // A foreign page.
    let token = bearer(&local_token(&server));
    let headers = [("authorization", token.as_str()), ("origin", "https://evil.example")];
    let reply = open(&server, &format!("{path}/ws"), &headers).await.expect_err("refused");
    let record = refusal(&server, &reply.problem(ProblemCode::Forbidden).request_id);
    assert_eq!(record["detail"], "origin https://evil.example");
    // A socket.
    let _socket: Raw = open_as(&server, &format!("{path}/ws"), &local_token(&server)).await.expect("a socket");
    let sockets = records(&server, &["--kind", "login", "--session", id.as_str()]);
    assert_eq!((sockets.len(), &sockets[0]["subject"], &sockets[0]["status"]), (1, &json!("local"), &json!(101)));
    // The end of a session.
    assert_eq!(ask_as_owner(&server, "DELETE", &path, "").await.status, 204);
    assert_eq!(records(&server, &["--kind", "session_ended", "--session", id.as_str()]).len(), 1);
    assert_whole(&server);
}

#[tokio::test]
async fn who_asks_for_somebody_elses_session_is_recorded() {
    let server = Server::start().await;
    let id = python(&server.client(), json!({})).await;
    let path = format!("/api/v1/sessions/{id}");
    let eve = bearer(&server.token("eve", "tool:execute", "1h"));
    ask(&server, "DELETE", &path, &[("authorization", &eve)], b"").await.problem(ProblemCode::NotFound);
    ask(&server, "DELETE", "/api/v1/sessions/ABCDEFGH12345678", &[("authorization", &eve)], b"").await;
    let root = bearer(&server.token("root", "admin session:read", "1h"));
    assert_eq!(ask(&server, "GET", &path, &[("authorization", &root)], b"").await.status, 200);
    let found = eventually("both are recorded", || async {
        let found = records(&server, &["--session", id.as_str()]);
        found.iter().any(|it| it["kind"] == "admin_access").then_some(found)
    })
    .await;
    let refused: Vec<_> = found.iter().filter(|it| it["kind"] == "refused").collect();
    assert_eq!((refused.len(), &refused[0]["subject"], &refused[0]["status"]), (1, &json!("eve"), &json!(404)));
    assert!(found.iter().any(|it| it["kind"] == "admin_access" && it["subject"] == "root"), "{found:?}");
    let unknown = records(&server, &["--kind", "refused", "--subject", "eve"]);
    assert_eq!(unknown.len(), 1, "a session that is not there is nobody's");
}

#[tokio::test]
async fn a_flood_of_refusals_is_counted_and_does_not_fill_the_disk() {
    let server = Server::start().await;
    for _ in 0..80 {
        assert_eq!(ask(&server, "GET", "/healthz", &[("host", "evil.example")], b"").await.status, 421);
    }
    let refused = of_kind(&server, "refused");
    assert!((60..75).contains(&refused.len()), "{}", refused.len());
    // It hides neither a failed login nor what somebody with a name is refused.
    ask(&server, "GET", "/api/v1/me", &[("authorization", "Bearer a.b.c")], b"")
        .await
        .problem(ProblemCode::Unauthorized);
    let failed = of_kind(&server, "auth_failed");
    let untold: u64 = refused.iter().chain(&failed).filter_map(|it| it["untold"].as_u64()).sum();
    assert_eq!((failed.len(), untold), (1, 80 - refused.len() as u64), "each is recorded or counted");
    let eve = bearer(&server.token("eve", "session:read", "1h"));
    ask(&server, "POST", "/api/v1/sessions", &[("authorization", &eve)], b"{}").await.problem(ProblemCode::Forbidden);
    assert_eq!(records(&server, &["--kind", "refused", "--subject", "eve"]).len(), 1);
}

#[tokio::test]
async fn no_secret_and_nothing_that_was_typed_or_printed_is_recorded() {
    let mut server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({"environment": {"NOTE": "env-4711\n{\"kind\":\"login\"}"}})).await;
    let mut request = code("secret = 'code-4711'\nprint('out-' + '4711', input())\nraise ValueError('mess-4711')");
    request.stdin = Some("in-4711\n".to_owned());
    let result = in_time("a result", client.execute(&id, &request)).await.expect("served");
    assert!(result.output.contains("out-4711 in-4711"), "{result:?}");
    let token = server.token("eve", "tool:execute", "1h");
    let path = format!("/api/v1/sessions/{id}/files/path-4711?query-4711");
    ask(&server, "GET", &path, &[("authorization", &bearer(&token))], b"").await;
    ask(&server, "GET", &path, &[("authorization", "Bearer wrong-4711.x.y")], b"").await;
    stop(&mut server).await;
    let text = std::fs::read_to_string(super::audit_files::file(&server)).expect("the log");
    assert!(!text.contains("4711") && !text.contains(&token) && !text.contains(&local_token(&server)), "{text}");
    let key = std::fs::read_to_string(server.data().join("audit.key")).expect("the key");
    assert!(!text.contains(key.trim()));
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|it| it["n"].is_u64())));
    assert!(of_kind(&server, "execution")[0]["exception"] == "ValueError");
}

#[tokio::test]
async fn the_story_of_a_session_is_told_for_people_and_for_programs() {
    let mut server = Server::start_as_shipped("").await;
    let client = server.client();
    let id: SessionId = python(&client, json!({})).await;
    run(&client, &id, "1").await;
    run(&client, &id, "import subprocess").await;
    client.delete(&id).await.expect("deleted");
    stop(&mut server).await;
    let told = text(&audit(&server, &["report", "--session", id.as_str()]));
    for part in ["owner      local", "executions 2, of which 1 failed", "violations 1", ", terminated", &sha256("1")] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let output = audit(&server, &["report", "--session", id.as_str(), "--output", "json"]);
    let story: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&story["owner"], &story["end_reason"]), (&json!("local"), &json!("terminated")));
    assert_eq!(story["records"].as_array().map(Vec::len), Some(5), "{story}");
    let nothing = audit(&server, &["report", "--session", "ABCDEFGH12345678"]);
    assert!(!nothing.status.success() && text(&nothing).contains("nothing about this session"));
    let lines = audit(&server, &["search", "--output", "text", "--limit", "3"]);
    assert_eq!(text(&lines).lines().count(), 3);
    let verdict = text(&audit(&server, &["verify"]));
    assert!(verdict.contains("as it was written") && verdict.contains("signed up to record"), "{verdict}");
}
