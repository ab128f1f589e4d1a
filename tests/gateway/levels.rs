//! The levels of sandboxes: which are offered, and what `strict` takes away.

use repltool_protocol::rest::{ProblemCode, SandboxMode};
use serde_json::{Value, json};

use super::harness::{As, Server, binary_as, python, run, session};
use super::wire::{ask_as_owner, local_token, open_as};

const SESSIONS: &str = "/api/v1/sessions";

/// The field that a refusal blames, and what it says of it.
async fn blamed(server: &Server, path: &str, body: &Value) -> (String, String) {
    let problem = ask_as_owner(server, "POST", path, &body.to_string()).await.problem(ProblemCode::InvalidRequest);
    let error = problem.errors.into_iter().next().expect("a field");
    (error.field, error.message)
}

fn modes(capabilities: &Value) -> Vec<&str> {
    let modes = capabilities["sandbox"]["modes"].as_array().expect("a list");
    modes.iter().map(|mode| mode["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn only_the_levels_of_the_operator_are_offered() {
    let server = Server::start_with(As::Me, "[sandbox]\nlevels = [\"standard\", \"relaxed\"]\n").await;
    let strict = json!({"language": "python", "sandbox_mode": "strict", "code": "1"});
    let mut session = strict.clone();
    session.as_object_mut().expect("an object").remove("code");
    for (path, body) in [(SESSIONS, session), ("/api/v1/execute", strict)] {
        let (field, message) = blamed(&server, path, &body).await;
        assert_eq!(field, "sandbox_mode", "{path}");
        assert!(message.contains("standard, relaxed") && message.contains("operator"), "{message}");
    }
    let socket = "/api/v1/ws?language=python&sandbox_mode=strict";
    let refused = open_as(&server, socket, &local_token(&server)).await.expect_err("no socket");
    assert_eq!(refused.problem(ProblemCode::InvalidRequest).errors[0].field, "sandbox_mode");
    let told = ask_as_owner(&server, "GET", "/api/v1/capabilities", "").await.json();
    assert_eq!(modes(&told), ["standard", "relaxed"]);
    python(&server.client(), json!({})).await;
}

#[tokio::test]
async fn without_standard_a_client_has_to_name_a_level() {
    let server = Server::start_with(As::Me, "[sandbox]\nlevels = [\"relaxed\"]\n").await;
    let (field, message) = blamed(&server, SESSIONS, &json!({"language": "bash"})).await;
    assert_eq!(field, "sandbox_mode");
    assert!(message.starts_with("standard is not offered here"), "{message}");
    let client = server.client();
    let id = session(&client, "bash", json!({"sandbox_mode": "relaxed"})).await;
    assert_eq!(run(&client, &id, "echo here").await.output, "here\n");
}

#[tokio::test]
async fn a_strict_session_needs_no_scope_beyond_that_to_run_code() {
    let server = Server::start().await;
    let client = server.client_of("ada", "tool:execute");
    for (language, code, printed) in [
        ("python", "x = 41\nprint(x + 1)", "42\n"),
        ("javascript", "console.log([1, 2].map(x => x + 40).join())", "41,42\n"),
    ] {
        let id = session(&client, language, json!({"sandbox_mode": "strict"})).await;
        let result = run(&client, &id, code).await;
        assert_eq!((result.output.as_str(), result.success), (printed, true), "{language}: {result:?}");
        let seen = client.get(&id).await.expect("the session");
        assert_eq!((seen.sandbox_mode, seen.resource_limits.max_memory_mb), (SandboxMode::Strict, 128), "{language}");
        client.restart(&id).await.expect("restarted");
        assert_eq!(run(&client, &id, code).await.output, printed, "{language}, again");
    }
}

#[tokio::test]
async fn a_strict_shell_runs_forks_and_executes_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "bash", json!({"sandbox_mode": "strict"})).await;
    for _ in 0..2 {
        let result =
            run(&client, &id, "x=4; echo $((x * 10 + 2)) $(echo forked); /usr/bin/bash -c true; echo $?").await;
        assert_eq!((result.output.as_str(), result.success), ("42 forked\n126\n", true), "{result:?}");
        assert_eq!(result.violation.map(|it| it.detail).as_deref(), Some("execve /usr/bin/bash"));
    }
    let flood = run(&client, &id, "while :; do /usr/bin/bash -c true; done").await;
    assert!(!flood.success && flood.limit.is_none(), "{flood:?}");
    assert_eq!(flood.violation.map(|it| it.rule).as_deref(), Some("exec"));
}

#[tokio::test]
async fn memory_in_strict_is_lowered_in_effect_and_in_what_is_shown() {
    let server = Server::start().await;
    let client = server.client();
    let grow = "x = b'x' * (160 << 20)\nlen(x)";
    let asked = |mode: &str, mb: u64| json!({"sandbox_mode": mode, "resource_limits": {"max_memory_mb": mb}});
    let strict = python(&client, asked("strict", 1024)).await;
    assert_eq!(client.get(&strict).await.expect("the session").resource_limits.max_memory_mb, 128);
    let refused = run(&client, &strict, grow).await;
    assert_eq!(refused.limit, Some(repltool_protocol::event::Limit::Memory), "{refused:?}");
    let standard = python(&client, asked("standard", 1024)).await;
    assert!(run(&client, &standard, grow).await.success);
    let less = python(&client, asked("strict", 64)).await;
    assert_eq!(client.get(&less).await.expect("the session").resource_limits.max_memory_mb, 64);
}

#[tokio::test]
async fn a_strict_session_has_no_files_and_no_directory() {
    let server = Server::start().await;
    let directory = json!({"language": "python", "sandbox_mode": "strict", "working_directory": "a"});
    assert_eq!(blamed(&server, SESSIONS, &directory).await.0, "working_directory");
    let mut one_shot = directory.clone();
    one_shot["code"] = json!("1");
    assert_eq!(blamed(&server, "/api/v1/execute", &one_shot).await.0, "working_directory");
    let id = python(&server.client(), json!({"sandbox_mode": "strict"})).await;
    for (method, path) in [("GET", ""), ("GET", "/a"), ("PUT", "/a"), ("DELETE", "/a")] {
        let reply = ask_as_owner(&server, method, &format!("{SESSIONS}/{id}/files{path}"), "").await;
        reply.problem(ProblemCode::Forbidden);
    }
    let head = ask_as_owner(&server, "HEAD", &format!("{SESSIONS}/{id}/files/a"), "").await;
    assert_eq!(head.status, 403);
    let client = server.client();
    let wrote = run(&client, &id, "open('a', 'w')").await;
    assert!(!wrote.success, "nor has its program: {wrote:?}");
}

#[tokio::test]
async fn every_way_to_make_a_session_makes_a_strict_one() {
    let server = Server::start().await;
    let body = json!({"language": "python", "sandbox_mode": "strict", "code": "print('here')"});
    let reply = ask_as_owner(&server, "POST", "/api/v1/execute", &body.to_string()).await;
    assert_eq!(reply.json()["output"], "here\n", "{reply:?}");
    let path = "/api/v1/ws?language=javascript&sandbox_mode=strict";
    let mut socket = open_as(&server, path, &local_token(&server)).await.expect("a socket");
    let session = &socket.next_of("ready").await["session"];
    assert_eq!(
        (&session["sandbox_mode"], &session["resource_limits"]["max_memory_mb"]),
        (&json!("strict"), &json!(128))
    );
    let token = local_token(&server);
    let mut command = binary_as(As::Me);
    command.args(["execute", "--sandbox-mode", "strict", "-c", "print('by hand')"]);
    let output = command.args(["--url", &server.url, "--token", &token]).output().expect("the command runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "by hand\n", "{output:?}");
    let told = ask_as_owner(&server, "GET", "/api/v1/capabilities", "").await.json();
    assert_eq!(modes(&told), ["strict", "standard", "relaxed"]);
    let strict = &told["sandbox"]["modes"][0];
    assert_eq!((&strict["max_memory_mb"], &strict["max_processes"]), (&json!(128), &json!(32)));
}
