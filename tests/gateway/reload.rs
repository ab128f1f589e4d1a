//! What SIGHUP changes in a server that runs, and what it leaves.

use repltool::client::ClientError;
use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use crate::audit::of_kind;
use crate::harness::{As, Server, eventually, python, run};
use crate::wire::ask;

/// Has the server read these settings; waits until its log has this line.
async fn reload(server: &Server, settings: &str, told: &str) {
    std::fs::write(server.dir.path().join("repltool.toml"), settings).expect("the file is written");
    let before = server.log().matches(told).count();
    server.signal("HUP");
    eventually(told, || async { (server.log().matches(told).count() > before).then_some(()) }).await;
}

#[tokio::test]
async fn a_hangup_changes_what_can_change_at_once_and_ends_nothing() {
    let server = Server::start_with(As::Me, "[log]\nlevel = 'info'\n[sessions]\nmax = 1\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let foreign = async || ask(&server, "GET", "/healthz", &[("host", "a.example")], b"").await.status;
    assert_eq!(foreign().await, 421);
    let settings = "sessions.max = 2\nedge.allowed_hosts = ['a.example']\nlog.level = 'debug'\n";
    reload(&server, settings, "the configuration was read again").await;
    let log = server.log();
    assert!(log.contains("edge.allowed_hosts, log.level"), "{log}");
    assert!(log.contains("take effect at the next start") && log.contains("sessions.max"), "{log}");
    eventually("the name is answered", async || (foreign().await == 200).then_some(())).await;
    eventually("the gateway tells more", || async { server.log().contains("answered").then_some(()) }).await;
    assert!(run(&client, &id, "1").await.success);
    let config = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    assert!(client.create(&config).await.is_err(), "the setting of the start holds");
    // The next gateway has the same.
    server.crash_gateway().await;
    assert_eq!(foreign().await, 200);
}

#[tokio::test]
async fn each_configuration_that_comes_in_force_is_recorded_by_its_hash() {
    let server = Server::start_with(As::Me, "").await;
    let hashes = || -> Vec<String> {
        let records = of_kind(&server, "config");
        records.iter().map(|it| it["config_sha256"].as_str().expect("a hash").to_owned()).collect()
    };
    let recorded = async |count: usize| {
        eventually("a record", || async { (hashes().len() >= count).then_some(()) }).await;
        hashes()
    };
    assert_eq!(recorded(1).await.len(), 1, "at the start");
    reload(&server, "rate_limit.burst = 7\n", "the configuration was read again").await;
    let hashes_then = recorded(2).await;
    assert_ne!(hashes_then[0], hashes_then[1]);
    reload(&server, "rate_limit.burst = 7\n", "the configuration was read again").await;
    assert_eq!(recorded(3).await[1], hashes_then[1], "nothing has changed");
}

#[tokio::test]
async fn rates_change_while_a_server_runs() {
    let server = Server::start_with(As::Me, "").await;
    let client = server.client();
    let list = async || client.list(1, 0).await;
    assert!(list().await.is_ok());
    let few = "rate_limit.requests_per_minute = 2\nrate_limit.burst = 1\n";
    reload(&server, few, "the configuration was read again").await;
    let refused = async || match list().await {
        Err(ClientError::Refused(problem)) => (problem.code == ProblemCode::RateLimited).then_some(()),
        _ => None,
    };
    eventually("it is refused", refused).await;
    reload(&server, "rate_limit.enabled = false\n", "the configuration was read again").await;
    eventually("it is granted", async || list().await.is_ok().then_some(())).await;
    for _ in 0..10 {
        list().await.expect("there is no rate");
    }
}

#[tokio::test]
async fn settings_that_are_no_good_leave_those_before_in_force() {
    let server = Server::start_with(As::Me, "edge.allowed_hosts = ['a.example']\n").await;
    let told = "the configuration is not taken";
    for bad in ["edge.allowed_hosts = [7]\n", "edge.allowed_host = []\n", "[["] {
        reload(&server, bad, told).await;
    }
    std::fs::remove_file(server.dir.path().join("repltool.toml")).expect("removed");
    server.signal("HUP");
    eventually("all four are told", || async { (server.log().matches(told).count() == 4).then_some(()) }).await;
    let named = ask(&server, "GET", "/healthz", &[("host", "a.example")], b"").await;
    assert_eq!(named.status, 200);
}
