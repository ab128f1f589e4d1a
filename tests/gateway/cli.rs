//! The command line, as people and scripts use it.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{As, Server, binary_as, eventually, in_time, kill, python};

/// The binary with these arguments, and nothing of the tests' environment that would lead it to a server.
pub fn repltool(arguments: &[&str]) -> Command {
    let mut command = Command::from(binary_as(As::Me));
    command.args(arguments).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub async fn output_of(mut command: Command) -> Output {
    in_time("the end of the command", command.output()).await.expect("it runs")
}

/// `repltool execute` with these arguments, as a client of this server.
fn execute(server: &Server, arguments: &[&str]) -> Command {
    let mut command = repltool(&["execute"]);
    command.args(arguments).arg("--data-dir").arg(server.data());
    command
}

#[track_caller]
pub fn assert_output(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((told.0.as_ref(), told.1.as_ref(), output.status.code()), (stdout, stderr, Some(code)));
}

#[tokio::test]
async fn code_comes_from_a_file_an_argument_or_standard_input() {
    let server = Server::start().await;
    let text = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7\n";
    let file = server.dir.path().join("script.py");
    std::fs::write(&file, text).expect("the file is written");

    let by_file = output_of(execute(&server, &["--file", file.to_str().expect("a path")])).await;
    assert_output(&by_file, 0, "out\n42\n", "err\n");
    let by_argument = output_of(execute(&server, &["--language", "python", "-c", text])).await;
    assert_output(&by_argument, 0, "out\n42\n", "err\n");
    let mut child = execute(&server, &[]).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its standard input");
    stdin.write_all(text.as_bytes()).await.expect("the code is written");
    drop(stdin);
    let by_input = in_time("the end of the command", child.wait_with_output()).await.expect("it runs");
    assert_output(&by_input, 0, "out\n42\n", "err\n");
    assert_eq!(server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
}

#[tokio::test]
async fn exit_codes_tell_success_failure_and_timeout() {
    let server = Server::start().await;
    let fails = output_of(execute(&server, &["-c", "print('so far')\n1 / 0"])).await;
    assert_eq!((fails.status.code(), fails.stdout.as_slice()), (Some(1), &b"so far\n"[..]));
    let said = String::from_utf8_lossy(&fails.stderr);
    assert!(said.starts_with("Traceback (most recent call last):\n"), "{said}");
    assert!(said.ends_with("ZeroDivisionError: division by zero\n"), "{said}");

    let late = output_of(execute(&server, &["--timeout", "0.3", "-c", "print('so far')\nwhile True: pass"])).await;
    assert_eq!((late.status.code(), late.stdout.as_slice()), (Some(124), &b"so far\n"[..]));
    let said = String::from_utf8_lossy(&late.stderr);
    assert!(said.ends_with("repltool: ended by the limit on time (--timeout)\n"), "{said}");

    let exits = output_of(execute(&server, &["-c", "raise SystemExit(3)"])).await;
    assert_eq!(exits.status.code(), Some(1));
    let absent = output_of(execute(&server, &["--file", "/nonexistent.py"])).await;
    assert_output(&absent, 1, "", "repltool: cannot read /nonexistent.py: No such file or directory (os error 2)\n");
    assert_eq!(server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
}

/// A command whose program has printed a line and goes on.
async fn running(server: &Server) -> Child {
    let text = "import time\nprint('now', end='\\n')\nwhile True: time.sleep(0.01)";
    let mut child = execute(server, &["-c", text]).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("its standard output")).lines();
    let line = in_time("a line of a program that still runs", lines.next_line()).await.expect("readable");
    assert_eq!(line.as_deref(), Some("now"));
    child
}

#[tokio::test]
async fn output_is_printed_while_the_program_runs_and_ctrl_c_leaves_no_session() {
    let server = Server::start().await;
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut child = running(&server).await;
        kill(child.id().expect("it runs"), signal);
        let ended = in_time("the end of the command", child.wait()).await.expect("it ends");
        assert_eq!(ended.code(), Some(code));
        assert_eq!(server.client().list(10, 0).await.expect("a list").total, 0, "{signal}");
    }
}

#[tokio::test]
async fn a_server_that_goes_away_is_told() {
    let mut server = Server::start().await;
    let mut child = running(&server).await;
    server.signal("KILL");
    server.ended().await;
    let ended = in_time("the end of the command", child.wait()).await.expect("it ends");
    let mut said = String::new();
    child.stderr.take().expect("its standard error").read_to_string(&mut said).await.expect("readable");
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("repltool: "), "{said}");
}

#[tokio::test]
async fn json_output_is_the_whole_result() {
    let server = Server::start().await;
    let output = output_of(execute(&server, &["--output", "json", "-c", "print('out')\n[1, None, 'x']"])).await;
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!((&result["output"], &result["result"]), (&json!("out\n"), &json!([1, null, "x"])));
    assert_eq!((&result["success"], &result["execution_count"]), (&json!(true), &json!(1)));

    let failed = output_of(execute(&server, &["--output", "json", "-c", "1 / 0"])).await;
    assert_eq!(failed.status.code(), Some(1));
    let result: serde_json::Value = serde_json::from_slice(&failed.stdout).expect("one JSON value");
    assert_eq!(result["exception"]["name"], "ZeroDivisionError");
}

#[tokio::test]
async fn without_a_server_the_message_names_the_next_step() {
    let dir = tempfile::tempdir().expect("a directory");
    let nothing = dir.path().join("nothing");
    let nothing = nothing.to_str().expect("a path");
    for command in
        [&["sessions"][..], &["create"], &["history", "abcdefgh"], &["execute", "--session", "abcdefgh", "-c", "1"]]
    {
        let output = output_of(repltool(&[command, &["--data-dir", nothing]].concat())).await;
        assert_says(&output, &["no server runs", nothing, "repltool serve", "--url"]);
    }

    // One that ended without a word leaves its address behind.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let url = format!("http://127.0.0.1:{port}");
    let output = output_of(repltool(&["execute", "-c", "1", "--url", &url, "--token", "abc"])).await;
    assert_says(&output, &["no server answers", "repltool serve", &port.to_string()]);

    let output = output_of(repltool(&["token", "--subject", "me", "--data-dir", nothing])).await;
    assert_says(&output, &[nothing, "repltool serve"]);
    assert!(!Path::new(nothing).exists(), "no command but `serve` makes a data directory");
}

#[track_caller]
pub fn assert_says(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}

#[tokio::test]
async fn token_prints_the_token_alone_and_it_works() {
    let server = Server::start().await;
    let data = server.data();
    let data = data.to_str().expect("a path");
    let output = output_of(repltool(&["token", "--subject", "ada", "--ttl", "5m", "--data-dir", data])).await;
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let token = String::from_utf8(output.stdout).expect("text");
    let token = token.strip_suffix('\n').expect("one line");
    assert_eq!(token.split('.').count(), 3);
    assert!(token.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{token}");

    let client = repltool::client::Client::new(&server.url, Some(token)).expect("a client");
    let session = python(&client, json!({})).await;
    assert_eq!(client.get(&session).await.expect("the session").owner, "ada");
    let output = output_of(repltool(&["execute", "-c", "1 + 1", "--url", &server.url, "--token", token])).await;
    assert_output(&output, 0, "2\n", "");
    // The server's own token is for the local user, who does not see it.
    let other = server.client();
    assert_eq!(other.list(10, 0).await.expect("a list").total, 0);

    let reader = server.token("ada", "session:read", "5m");
    let output = output_of(repltool(&["execute", "-c", "1", "--url", &server.url, "--token", &reader])).await;
    assert_says(&output, &["scope", "repltool token"]);
    let output = output_of(repltool(&["execute", "-c", "1", "--url", &server.url, "--token", "not.a.token"])).await;
    assert_says(&output, &["token", "repltool token"]);
}

#[tokio::test]
async fn doctor_tells_tier_and_layers_to_programs() {
    let output = output_of(repltool(&["doctor", "--output", "json"])).await;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let tier = report["tier"].as_str().expect("a tier");
    assert!(["A", "B"].contains(&tier), "{report}");
    assert_eq!(output.status.code(), Some(0));
    let layers = report["layers"].as_array().expect("layers");
    for wanted in ["seccomp", "landlock", "user_namespace"] {
        let layer = layers.iter().find(|layer| layer["name"].as_str().is_some_and(|name| name.contains(wanted)));
        assert_eq!(layer.map(|layer| &layer["active"]), Some(&json!(true)), "{wanted}: {report}");
    }
    let text = output_of(repltool(&["doctor"])).await;
    assert!(String::from_utf8_lossy(&text.stdout).starts_with(&format!("Isolation: tier {tier}\n")));
}

#[tokio::test]
async fn without_arguments_there_is_help() {
    let output = output_of(repltool(&[])).await;
    let said = String::from_utf8_lossy(&output.stderr);
    for command in ["serve", "execute", "token", "doctor"] {
        assert!(said.contains(&format!("  {command} ")), "{said}");
    }
    assert!(!said.contains("gateway"), "what is not for people is not shown");
    assert_eq!(output.status.code(), Some(2));
    let asked = output_of(repltool(&["--help"])).await;
    assert_eq!(asked.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&asked.stdout).contains("Usage: repltool"));
    let version = output_of(repltool(&["--version"])).await;
    assert_output(&version, 0, &format!("repltool {}\n", env!("CARGO_PKG_VERSION")), "");
}

#[tokio::test]
async fn serve_prints_a_ready_link_whose_token_works() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut command = repltool(&["serve", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--data-dir"]);
    let mut child = command.arg(&data).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its standard output")).lines();
    let link = in_time("the link", lines.next_line()).await.expect("readable").expect("a line");
    let (url, token) = link.split_once("/#token=").expect("a token in the fragment");
    let client = repltool::client::Client::new(url, Some(token)).expect("a client");
    eventually("it is ready", || async { client.is_ready().await.unwrap_or(false).then_some(()) }).await;
    python(&client, json!({"sandbox_mode": "relaxed"})).await;
    kill(child.id().expect("it runs"), "TERM");
    assert_eq!(in_time("its end", child.wait()).await.expect("it ends").code(), Some(0));
    assert_eq!(in_time("the end of its words", lines.next_line()).await.expect("readable"), None, "and nothing else");
}
