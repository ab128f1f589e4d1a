use std::process::Command;

use repltool_protocol::rest::ProblemCode;

use crate::harness::{As, Server, binary_as, in_time};
use crate::wire::ask;

#[tokio::test]
async fn a_host_without_user_namespaces_is_refused_with_what_is_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let binary = binary_as(As::Me);
    // In a user namespace of its own, a process may forbid further ones, which is what a host does for ordinary users.
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "sh", "-c"])
        .arg("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"")
        .arg(binary.get_program())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data);
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = in_time("a server that does not start", output).await.expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty() && !data.exists(), "nothing is begun: {output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["repltool: ", "missing: user_namespace, ", "user.max_user_namespaces=0", "`repltool doctor`"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}

#[tokio::test]
async fn what_was_found_is_logged_once_and_every_setting_has_an_effect() {
    let settings =
        "[rate_limit]\nburst = 7\n[edge]\nmax_sockets_per_subject = 3\ntrusted_proxies = ['10.0.0.0/8']\ndrain_s = 9\n";
    let server = Server::start_with(As::Me, settings).await;
    let log = server.log();
    let lines = |part: &str| log.lines().filter(|line| line.contains(part)).collect::<Vec<_>>();
    assert_eq!(lines("every wall of a sandbox stands here").len(), 1, "{log}");
    assert_eq!(lines("without effect"), [""; 0], "{log}");
}

#[tokio::test]
async fn listed_host_names_are_answered() {
    let server = Server::start_with(As::Me, "[edge]\nallowed_hosts = ['Repl.example', 'odd.example:81']\n").await;
    for (host, status) in [
        ("repl.example", 200),
        ("REPL.example:443", 200),
        ("odd.example:81", 200),
        ("localhost", 200),
        ("odd.example", 421),
        ("evil.repl.example", 421),
    ] {
        let reply = ask(&server, "GET", "/healthz", &[("host", host)], b"").await;
        assert_eq!(reply.status, status, "{host}");
        if status == 421 {
            reply.problem(ProblemCode::MisdirectedRequest);
        }
    }
}
