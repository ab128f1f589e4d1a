//! Metrics: who gets them, that they are those of the document, that no client invents a label, and what they count.

pub mod exposition;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use self::exposition::{Exposition, address, ask, scrape};
use crate::harness::{As, Server, eventually, python, run, run_for, send, until_result};
use crate::wire::{ask as ask_api, ask_as_owner, bearer};

const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// What the document says of a metric: its kind, its labels and its unit.
fn documented() -> BTreeMap<&'static str, (&'static str, Vec<&'static str>, &'static str)> {
    let chapter = OPERATIONS.split("\n## Metrics\n").nth(1).expect("a chapter").split("\n## ").next().expect("one");
    let rows = chapter.lines().filter(|line| line.starts_with("| `repl_"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .map(|cells| {
            let [name, kind, labels, unit, says] = cells[..] else { panic!("{cells:?}") };
            assert!(!says.is_empty(), "{name}");
            let quoted = |text: &'static str| text.split('`').skip(1).step_by(2).collect::<Vec<_>>();
            (quoted(name)[0], (kind, quoted(labels), unit))
        })
        .collect()
}

#[tokio::test]
async fn every_metric_is_documented_and_has_help_type_and_unit() {
    let server = Server::start().await;
    let found = scrape(&server).await;
    let documented = documented();
    let names = |of: Vec<&str>| of.join("\n");
    assert_eq!(
        names(found.families.keys().map(String::as_str).collect()),
        names(documented.keys().copied().collect()),
        "those of the server and those of docs/operations.md"
    );
    for (name, family) in &found.families {
        let (kind, labels, unit) = &documented[name.as_str()];
        assert_eq!(family.kind, *kind, "{name}");
        assert_eq!(family.labels.iter().map(String::as_str).collect::<Vec<_>>(), sorted(labels), "{name}");
        assert!(family.help.len() > 10 && family.help.ends_with('.'), "{name}: {}", family.help);
        // What is measured has its unit in its name; what is counted has none there.
        if ["seconds", "bytes"].contains(unit) {
            assert_eq!(family.unit, *unit, "{name}");
            assert!(name.trim_end_matches("_total").ends_with(unit), "{name}");
        }
    }
}

fn sorted<'a>(labels: &[&'a str]) -> Vec<&'a str> {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels
}

/// Every value that a label may have. Those of statuses are numbers.
const CLOSED: &[(&str, &[&str])] = &[
    ("language", &["python", "javascript", "bash"]),
    ("sandbox_mode", &["strict", "standard", "relaxed"]),
    (
        "outcome",
        &[
            "delivered",
            "failed",
            "dropped",
            "success",
            "error",
            "refused",
            "cancelled",
            "state_lost",
            "wall_time",
            "cpu_time",
            "memory",
            "output",
            "processes",
        ],
    ),
    ("limit", &["wall_time", "cpu_time", "memory", "output", "processes"]),
    ("cause", &["wall_time", "cpu_time", "memory", "output", "processes", "violations", "restart", "fault", "exit"]),
    ("layer", &["kernel", "policy"]),
    ("over", &["http", "socket"]),
    ("process", &["supervisor", "gateway"]),
    ("quota", &["executions", "session_creations", "cpu_seconds", "stored_mb"]),
    (
        "kind",
        &[
            "violations",
            "policy_violations",
            "failed_logins",
            "limit_kills",
            "session_killed",
            "audit_failed",
            "audit_damaged",
        ],
    ),
    ("method", &["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "other"]),
    ("tier", &["A", "B", "C"]),
    ("target", &["keys", "webhook", "traces"]),
    ("version", &[env!("CARGO_PKG_VERSION")]),
    (
        "reason",
        &[
            "terminated",
            "idle_timeout",
            "violations",
            "missing",
            "ambiguous",
            "too_long",
            "malformed",
            "algorithm",
            "signature",
            "key",
            "no_keys",
            "kind",
            "expired",
            "revoked",
            "early",
            "claim",
            "issuer",
            "audience",
            "subject",
        ],
    ),
];

/// Rules that a violation may have, as the sources name them.
fn rules() -> Vec<String> {
    let policy = include_str!("../../src/sandbox/policy.rs").split("mod names {").nth(1).expect("names of rules");
    let kernel = policy.split("\n}").next().expect("an end").split('"').skip(1).step_by(2);
    let screens = [
        include_str!("../../src/runtime/screen/python.scm"),
        include_str!("../../src/runtime/screen/javascript.scm"),
        include_str!("../../src/runtime/screen/bash.scm"),
    ];
    let screened = screens.into_iter().flat_map(|text| text.split("(#set! rule \"").skip(1));
    let screened = screened.map(|rest| rest.split('"').next().expect("a name"));
    let beside = ["unscreened", "other"];
    kernel.chain(screened).chain(beside).map(str::to_owned).collect()
}

fn assert_closed(found: &Exposition) {
    let codes: Vec<String> = ProblemCode::ALL
        .iter()
        .map(|code| serde_json::to_value(code).expect("JSON").as_str().expect("a name").to_owned())
        .collect();
    let rules = rules();
    let api: serde_json::Value =
        serde_json::from_str(&repltool_protocol::openapi::document()).expect("the description of the API");
    let paths = api["paths"].as_object().expect("paths");
    for (label, values) in &found.values {
        for value in values {
            let known = match label.as_str() {
                "rule" => rules.contains(value),
                "code" => codes.contains(value),
                "status" => value.parse::<u16>().is_ok_and(|status| (100..600).contains(&status)),
                "route" => {
                    ["none", "page"].contains(&&**value) || paths.contains_key(&value.replace("{*path}", "{path}"))
                }
                _ => CLOSED.iter().any(|(name, of)| name == label && of.contains(&&**value)),
            };
            assert!(known, "{label}=\"{value}\" is from no closed set");
        }
    }
    // And no rule is missing that could be told by its name.
    let told: Vec<_> = found.values["rule"].iter().collect();
    assert!(rules.iter().all(|rule| told.contains(&rule)), "{told:?}");
}

#[tokio::test]
async fn no_client_can_make_up_a_label() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for path in ["/api/v1/sessions/invented-path/x", "/invented", "/api/v1/sessions/invented/files/in%22vented"] {
        for method in ["GET", "INVENTED", "PATCH"] {
            ask_as_owner(&server, method, path, "").await;
        }
    }
    for token in ["invented", "in.vent.ed", ""] {
        ask_api(&server, "GET", "/api/v1/sessions", &[("authorization", &bearer(token))], b"").await;
    }
    ask_api(&server, "GET", "/healthz", &[("host", "invented.example")], b"").await;
    ask(&address(&server), "INVENTED /invented", &[]).await;
    run(&client, &id, "class invented(Exception): pass\nraise invented('invented')").await;
    run(&client, &id, "import socket\nsocket.socket(socket.AF_PACKET)").await;
    let found = scrape(&server).await;
    assert!(!found.text.contains("invented") && !found.text.contains("INVENTED"), "{}", found.text);
    assert_closed(&found);
    assert_eq!(found.value("repl_authentication_failures_total{reason=\"malformed\"}"), 3.0, "{}", found.text);
    assert!(found.value("repl_http_requests_total{route=\"none\",method=\"other\",status=\"404\"}") > 0.0);
}

#[tokio::test]
async fn what_clients_do_is_counted() {
    let server = Server::start_with(As::Me, "[log]\nlevel = 'warn'\n").await;
    let client = server.client();
    let before = scrape(&server).await;
    assert_eq!(before.value("repl_sessions_created_total{language=\"python\",sandbox_mode=\"standard\"}"), 0.0);
    let id = python(&client, json!({"resource_limits": {"max_output_size": 2048}})).await;
    assert!(run(&client, &id, "print('12345')").await.success);
    run(&client, &id, "1/0").await;
    run_for(&client, &id, 300, "while True: pass").await;
    run(&client, &id, "while True: print('x' * 100)").await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", "2").await;
    until_result(&mut socket, &execution).await;

    let during = scrape(&server).await;
    let python_of = |name: &str, more: &str| format!("{name}{{language=\"python\",sandbox_mode=\"standard\"{more}}}");
    let outcome = |name: &str, of: &str| python_of(name, &format!(",outcome=\"{of}\""));
    assert_eq!(during.value(&python_of("repl_sessions_created_total", "")), 1.0);
    assert_eq!(during.value(&python_of("repl_active_sessions", "")), 1.0);
    for (of, times) in [("success", 2.0), ("error", 1.0), ("wall_time", 1.0), ("output", 1.0), ("memory", 0.0)] {
        assert_eq!(during.value(&outcome("repl_executions_total", of)), times, "{of}");
        assert_eq!(during.value(&outcome("repl_execution_duration_seconds_count", of)), times, "{of}");
    }
    let timed_out = during.value(&outcome("repl_execution_duration_seconds_sum", "wall_time"));
    assert!((0.3..60.0).contains(&timed_out), "{timed_out}");
    assert_eq!(during.value("repl_limit_hits_total{language=\"python\",limit=\"wall_time\"}"), 1.0);
    assert_eq!(during.value("repl_output_bytes_total{language=\"python\"}"), 2054.0);
    assert_eq!(during.value("repl_execution_queue_seconds_count{language=\"python\"}"), 5.0);
    assert_eq!(during.value("repl_execution_first_output_seconds_count{language=\"python\"}"), 2.0);
    assert_eq!(during.value(&outcome("repl_sandbox_starts_total", "success")), 1.0);
    assert_eq!(during.value("repl_sandbox_start_seconds_count{language=\"python\"}"), 1.0);
    assert_eq!(during.value("repl_sockets_open"), 1.0);
    assert!(during.value("repl_log_bytes") > 1000.0 && during.value("repl_log_limit_bytes") > 4e9);
    assert!(during.value("repl_reader_lag_events_count") > 0.0);
    assert_eq!(during.value("repl_sessions_limit"), 1000.0);
    let executed = "{route=\"/api/v1/sessions/{id}/execute\",method=\"POST\"";
    assert_eq!(during.value(&format!("repl_http_requests_total{executed},status=\"200\"}}")), 4.0);
    assert_eq!(during.value(&format!("repl_http_request_duration_seconds_count{executed}}}")), 4.0);

    drop(socket);
    client.delete(&id).await.expect("deleted");
    let after = eventually("the socket is closed", || async {
        let after = scrape(&server).await;
        (after.value("repl_sockets_open") == 0.0).then_some(after)
    })
    .await;
    assert_eq!(after.value(&python_of("repl_active_sessions", "")), 0.0);
    assert_eq!(after.value("repl_sessions_ended_total{reason=\"terminated\"}"), 1.0);
    let (good, all) = ("repl_availability_good_requests_total", "repl_availability_requests_total");
    assert!(after.value(good) == after.value(all) && after.value(all) >= 7.0, "{}", after.text);
}

#[tokio::test]
async fn refusals_violations_and_lost_interpreters_are_counted() {
    let server = Server::start_with(As::Me, "[sessions]\nmax_per_subject = 1\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let config = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    assert!(client.create(&config).await.is_err());
    ask_api(&server, "GET", "/api/v1/sessions", &[], b"").await;
    run(&client, &id, "import os\ntry: os.execv('/bin/true', ['true'])\nexcept OSError: pass").await;
    run(&client, &id, "import os\nos._exit(3)").await;
    client.restart(&id).await.expect("restarted");
    let found = scrape(&server).await;
    for (sample, times) in [
        ("repl_refusals_total{code=\"session_limit\",over=\"http\"}", 1.0),
        ("repl_refusals_total{code=\"unauthorized\",over=\"http\"}", 1.0),
        ("repl_authentication_failures_total{reason=\"missing\"}", 1.0),
        ("repl_violations_total{rule=\"exec\",layer=\"kernel\"}", 1.0),
        ("repl_interpreters_lost_total{language=\"python\",cause=\"exit\"}", 1.0),
        ("repl_interpreters_lost_total{language=\"python\",cause=\"restart\"}", 1.0),
        ("repl_executions_total{language=\"python\",sandbox_mode=\"standard\",outcome=\"state_lost\"}", 1.0),
    ] {
        assert_eq!(found.value(sample), times, "{sample}: {}", found.text);
    }
    assert!(found.value("repl_violations_total{rule=\"import\",layer=\"policy\"}") >= 1.0, "recorded ones too");
}

#[tokio::test]
async fn a_crash_of_the_gateway_is_counted_and_the_address_stays() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let place = address(&server);
    assert_eq!(scrape(&server).await.value("repl_gateway_restarts_total"), 0.0);
    server.crash_gateway().await;
    assert_eq!(address(&server), place);
    let found = eventually("the restart is told", || async {
        let found = scrape(&server).await;
        (found.value("repl_gateway_restarts_total") == 1.0).then_some(found)
    })
    .await;
    assert_eq!(found.value("repl_active_sessions{language=\"python\",sandbox_mode=\"standard\"}"), 1.0);
    assert!(run(&client, &id, "1").await.success);
    let found = eventually("both processes are told of", || async {
        let found = scrape(&server).await;
        let of = |name: &str, process: &str| found.value(&format!("{name}{{process=\"{process}\"}}"));
        let told = ["supervisor", "gateway"].iter().all(|process| {
            of("repl_process_resident_memory_bytes", process) > 1e6 && of("repl_process_open_files", process) > 5.0
        });
        (told && found.value("repl_event_loop_delay_seconds_count") >= 1.0).then_some(found)
    })
    .await;
    assert_eq!(found.value("repl_sandboxes"), 1.0);
}

#[tokio::test]
async fn metrics_are_for_the_loopback_address_and_for_the_scope() {
    let server = Server::start().await;
    for (scope, status) in [(None, 401), (Some("session:read tool:execute admin"), 403), (Some("metrics:read"), 200)] {
        let token = scope.map(|scope| bearer(&server.token("ada", scope, "1h")));
        let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
        let reply = ask_api(&server, "GET", "/metrics", &headers, b"").await;
        assert_eq!(reply.status, status, "{scope:?}");
        assert_eq!(reply.text().contains("repl_sessions_created_total"), status == 200, "{scope:?}");
    }
    let bound = address(&server);
    let place = bound.as_str();
    for (head, host, status) in [
        ("GET /metrics", place, 200),
        ("HEAD /metrics", place, 200),
        ("POST /metrics", place, 405),
        ("GET /", place, 404),
        ("GET /healthz", place, 404),
        ("GET /api/v1/sessions", place, 404),
        ("GET /metrics", "page.example", 421),
    ] {
        assert_eq!(ask(place, head, &[("host", host)]).await.status, status, "{head} {host}");
    }
    let older = ask(place, "GET /metrics", &[("accept", "text/plain")]).await;
    assert_eq!(older.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(older.text.contains("\n# TYPE repl_executions_total counter\n") && !older.text.contains("# EOF"));
}

#[tokio::test]
async fn on_any_other_address_metrics_need_a_token() {
    let server = Server::start_with_variables(&[("REPLTOOL_EDGE__METRICS_ADDR", "0.0.0.0:0")]).await;
    let place = address(&server);
    assert!(place.starts_with("127.0.0.1:"), "{place}");
    assert_eq!(ask(&place, "GET /metrics", &[]).await.status, 401);
    let wrong = bearer(&server.token("ada", "admin", "1h"));
    assert_eq!(ask(&place, "GET /metrics", &[("authorization", &wrong)]).await.status, 403);
    let right = bearer(&server.token("ada", "metrics:read", "1h"));
    let scrape = ask(&place, "GET /metrics", &[("authorization", &right)]).await;
    assert!(scrape.status == 200 && scrape.text.contains("repl_build_info"), "{scrape:?}");
}

#[tokio::test]
async fn prometheus_itself_finds_no_fault() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return eprintln!("promtool is not installed (Debian: prometheus): metrics are not given to it");
    }
    let server = Server::start().await;
    let text = ask(&address(&server), "GET /metrics", &[]).await.text;
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = command.spawn().expect("promtool runs");
    promtool.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    let output = promtool.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
