//! The end of a server, in good order and by force, and the next start on the same data; starts that are refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use repltool::client::{Client, Received};
use repltool_protocol::event::{Event, Recovered, StatusReason, StreamName};
use repltool_protocol::ids::{Seq, SessionId};
use serde_json::{Value, json};

use crate::follower::whole_log;
use crate::harness::{As, Server, assert_log, binary_as, code, descendants, eventually, in_time, printed, python, run};
use crate::harness::{send, until_result};
use crate::wire::{ask, bearer, local_token};

/// What a server has made on its host: processes, with the time of their start, and cgroups.
pub struct Footprint {
    processes: Vec<(u32, String)>,
    cgroups: String,
}

impl Footprint {
    fn of(server: &Server) -> Self {
        Self::below(server.pid())
    }

    /// Of a server with this pid.
    pub fn below(server: u32) -> Self {
        let processes = descendants(server).into_iter().filter_map(|pid| Some((pid, start_of(pid)?))).collect();
        Self { processes, cgroups: format!("repltool-{server}") }
    }

    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    pub async fn assert_no_process_is_left(&self) {
        let gone =
            || async { self.processes.iter().all(|(pid, start)| start_of(*pid).as_ref() != Some(start)).then_some(()) };
        eventually("every process is gone", gone).await;
    }

    pub fn has_cgroup(&self) -> bool {
        fn below(folder: &Path, name: &str, depth: usize) -> bool {
            let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut folders = folders.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
            folders.any(|entry| entry.file_name() == name || depth > 0 && below(&entry.path(), name, depth - 1))
        }
        below(Path::new("/sys/fs/cgroup"), &self.cgroups, 4)
    }
}

/// Field 22 of proc(5), `stat`; none once the process is gone or a zombie.
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    if fields[0] == "Z" { None } else { fields.get(19).map(|it| (*it).to_owned()) }
}

/// The mounts of the host that have to do with a folder.
fn mounts_with(folder: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().filter(|line| line.contains(&*folder.to_string_lossy())).map(str::to_owned).collect()
}

async fn ends_in_good_order(signal: &str) {
    let mut server = Server::start_with(As::Me, "[edge]\ndrain_s = 2\n").await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut socket = client.attach(&session, None).await.expect("a socket");
    let id = send(&mut socket, "busy", "import time\nprint('on')\nwhile True: time.sleep(0.01)").await;
    loop {
        if matches!(crate::harness::event(&mut socket).await.event, Event::Stream { .. }) {
            break;
        }
    }
    let footprint = Footprint::of(&server);
    assert!(footprint.processes.len() >= 3, "a gateway, an init and an interpreter");

    let told = tokio::time::Instant::now();
    server.signal(signal);
    let closed = loop {
        match in_time("a close", socket.receive()).await.expect("a readable frame") {
            Received::Closed(closed) => break closed,
            Received::Frame(_) => {}
        }
    };
    assert_eq!(closed.code, Some(1001), "{closed:?}");
    assert_eq!(server.ended().await, Some(0), "{}", server.log());
    // Twice the time that it has: a machine under load is slower, one that hangs takes the harness's minute.
    assert!(told.elapsed() < Duration::from_secs(2 * (2 + 5)), "{:?}", told.elapsed());
    footprint.assert_no_process_is_left().await;
    assert!(!footprint.has_cgroup(), "{}", footprint.cgroups);
    assert!(mounts_with(server.dir.path()).is_empty());
    assert!(!server.data().join("url").exists(), "clients are not led to a server that is not there");

    let server = server.restart().await;
    let client = server.client();
    let mut socket = client.attach(&session, Some(Seq(0))).await.expect("a socket");
    let events = until_result(&mut socket, &id).await;
    let Some(Event::Result(outcome)) = events.last().map(|logged| &logged.event) else { panic!("{events:?}") };
    assert_eq!(outcome.exception.as_ref().map(|it| it.name.as_str()), Some("StateLost"));
    assert_eq!(
        (outcome.success, outcome.state_lost, printed(&events, StreamName::Stdout)),
        (false, true, "on\n".into())
    );
    assert_recovered(&client, &session, 2).await;
}

/// The next execution runs in an empty interpreter and its numbers go on; that the state is gone is told once, by it or
/// by the execution that was cut off.
async fn assert_recovered(client: &Client, session: &SessionId, count: u64) {
    let before = whole_log(client, session).await;
    let status = before.iter().rev().find_map(|logged| match &logged.event {
        Event::Status { reason, recovered, .. } => Some((*reason, *recovered)),
        _ => None,
    });
    assert_eq!(status, Some((Some(StatusReason::Recovered), Some(Recovered::Empty))));
    let fresh = run(client, session, "'x' in globals()").await;
    assert_eq!((fresh.success, fresh.result_text.as_deref(), fresh.execution_count), (true, Some("False"), count));
    let told_before = before.iter().any(|logged| matches!(&logged.event, Event::Result(outcome) if outcome.state_lost));
    assert!(fresh.state_lost || told_before);
    let after = whole_log(client, session).await;
    assert_log(&after);
    assert_eq!(after[..before.len()], before[..]);
}

#[tokio::test]
async fn sigterm_drains_and_leaves_nothing_but_the_data() {
    ends_in_good_order("TERM").await;
}

#[tokio::test]
async fn sigint_drains_and_leaves_nothing_but_the_data() {
    ends_in_good_order("INT").await;
}

#[tokio::test]
async fn an_execution_that_ends_within_the_drain_is_answered() {
    let mut server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut socket = client.attach(&session, None).await.expect("a socket");
    let ends = async {
        while !matches!(crate::harness::event(&mut socket).await.event, Event::Stream { .. }) {}
        server.signal("TERM");
    };
    let (result, ()) = tokio::join!(run(&client, &session, "import time\nprint('on')\ntime.sleep(0.5)\n'done'"), ends);
    assert_eq!(result.result_text.as_deref(), Some("'done'"));
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn kill_9_of_the_supervisor_leaves_no_process_and_the_data_readable() {
    let mut server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 1\nprint('kept')").await;
    run(&client, &session, "import os\npid = os.fork()\nif pid == 0:\n    while True: os.getpid()").await;
    let before = whole_log(&client, &session).await;
    let footprint = Footprint::of(&server);
    assert!(footprint.processes.len() >= 4, "a gateway, an init, an interpreter and its child");
    server.signal("KILL");
    server.ended().await;
    footprint.assert_no_process_is_left().await;
    assert!(mounts_with(server.dir.path()).is_empty());
    eventually("no cgroup is left", || async { (!footprint.has_cgroup()).then_some(()) }).await;

    let server = server.restart().await;
    let client = server.client();
    let listed = in_time("a list", client.list(10, 0)).await.expect("a list");
    assert_eq!(listed.sessions.iter().map(|it| &it.session_id).collect::<Vec<_>>(), [&session]);
    let history = in_time("history", client.history(&session, 10, 0)).await.expect("history");
    assert_eq!(history.executions.iter().map(|it| it.execution_count).collect::<Vec<_>>(), [1, 2]);
    assert!(history.executions[0].code.contains("kept"));
    let after = whole_log(&client, &session).await;
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(printed(&after, StreamName::Stdout), "kept\n");
    assert_recovered(&client, &session, 3).await;
    let fresh = run(&client, &session, "1").await;
    assert!(!fresh.state_lost, "it is told once");
}

#[tokio::test]
async fn kill_9_of_the_supervisor_settles_what_ran_and_what_waited() {
    let mut server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut socket = client.attach(&session, None).await.expect("a socket");
    let runs = send(&mut socket, "runs", "print('begun')\nwhile True: pass").await;
    let waits = send(&mut socket, "waits", "print('never')").await;
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        match crate::harness::event(&mut socket).await.event {
            Event::Stream { .. } => drop(told.insert("output")),
            Event::Queued { id } if id == waits => drop(told.insert("queued")),
            _ => {}
        }
    }
    server.signal("KILL");
    server.ended().await;

    let server = server.restart().await;
    let client = server.client();
    let mut socket = client.attach(&session, Some(Seq(0))).await.expect("a socket");
    let events = until_result(&mut socket, &waits).await;
    let lost = events.iter().filter_map(|logged| match &logged.event {
        Event::Result(it) => Some((it.id.clone(), it.execution_count, it.exception.as_ref()?.name.clone())),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [(runs, 1, "StateLost".to_owned()), (waits, 0, "StateLost".to_owned())]);
    assert_eq!(printed(&events, StreamName::Stdout), "begun\n");
    // The name of what never ran is not free: its client, who asks again, is told that it was not run.
    let mut again = code("print('never')");
    again.execution_id = Some("waits".parse().expect("an id"));
    let told = in_time("an answer", client.execute(&session, &again)).await.expect("an answer");
    assert_eq!((told.exception.map(|it| it.name).as_deref(), told.output.as_str()), (Some("StateLost"), ""));
}

/// Runs a server that is not expected to start.
async fn refused(arguments: &[&str], dir: &Path, settings: &str) -> Output {
    let config = dir.join("refused.toml");
    std::fs::write(&config, settings).expect("the configuration is written");
    let mut command = binary_as(As::Me);
    command.args(["serve", "--config"]).arg(&config).args(arguments).env("REPLTOOL_EDGE__METRICS_ADDR", "127.0.0.1:0");
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = in_time("a server that does not start", output).await.expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "no link for a browser is printed: {output:?}");
    output
}

#[track_caller]
fn assert_says(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    let told = said.lines().any(|line| line.starts_with("repltool: "));
    assert!(told && !said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused_by_name() {
    let server = Server::start().await;
    let data = server.data();
    let data = data.to_str().expect("a path");
    let output = refused(&["--listen", "127.0.0.1:0", "--data-dir", data], server.dir.path(), "").await;
    assert_says(&output, &["another server uses", data, "--data-dir"]);
    let client = server.client();
    let session = python(&client, json!({})).await;
    assert!(run(&client, &session, "1").await.success, "the first one serves on");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let data = data.to_str().expect("a path");
    let output = refused(&["--listen", &address, "--data-dir", data], dir.path(), "").await;
    assert_says(&output, &["cannot listen on", &address, "--listen", "in use"]);
    let arguments = ["--listen", "127.0.0.1:0", "--metrics-addr", &address, "--data-dir", data];
    let output = refused(&arguments, dir.path(), "").await;
    assert_says(&output, &["cannot serve metrics on", &address, "--metrics-addr", "in use"]);
}

#[tokio::test]
async fn a_wrong_setting_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let data = data.to_str().expect("a path");
    let cases = [
        ("[sessions]\nmax = 'many'\n", &["sessions.max", "many", "refused.toml"][..]),
        ("[sessions]\nmaximum = 5\n", &["sessions.maximum", "no setting", "refused.toml"]),
        ("[edge\n", &["refused.toml", "not valid TOML"]),
        ("[edge]\nlisten = '0.0.0.0:8000'\n", &["edge.listen", "auth.key_file"]),
        ("[runtimes]\npython = '/nonexistent/python'\n", &["/nonexistent/python", "runtimes.python"]),
        ("[runtimes]\npython = '/bin/true'\n", &["/bin/true", "runtimes.python"]),
        ("[runtimes]\npython = '/etc/passwd'\n", &["/etc/passwd", "runtimes.python"]),
    ];
    for (settings, parts) in cases {
        assert_says(&refused(&["--data-dir", data], dir.path(), settings).await, parts);
    }
}

#[tokio::test]
async fn a_machine_that_went_down_loses_no_session_and_tells_a_gap() {
    let mut server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 1\nprint('kept')").await;
    let last = in_time("a session", client.get(&session)).await.expect("a session").last_seq;
    server.signal("KILL");
    server.ended().await;
    let mark = server.data().join("store/running");
    assert!(mark.exists(), "it did not end in good order");
    std::fs::write(mark, "another boot").expect("the mark is written");

    let server = server.restart().await;
    let client = server.client();
    let path = format!("/api/v1/sessions/{session}/events?after=0");
    let answer = ask(&server, "GET", &path, &[("authorization", &bearer(&local_token(&server)))], b"").await;
    let events: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let gap = events.iter().find(|it| it["type"] == "gap").expect("a gap");
    assert_eq!(gap["from"], json!(last + 1));
    assert!(gap["to"].as_u64() >= Some(last + (1 << 20) - 1), "{gap}");
    assert!(events.iter().any(|it| it["data"] == "kept\n"), "{events:?}");
    let fresh = run(&client, &session, "'x' in globals()").await;
    assert_eq!((fresh.success, fresh.result_text.as_deref(), fresh.execution_count), (true, Some("False"), 2));
}
