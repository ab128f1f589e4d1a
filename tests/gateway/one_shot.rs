//! One execution in a session of its own: what it answers, and who sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use repltool::client::{Client, EventStream};
use repltool_protocol::event::{Event, LoggedEvent, StreamName};
use repltool_protocol::frame::ServerFrame;
use repltool_protocol::rest::{OneShotRequest, ProblemCode};
use serde_json::{Value, json};

use super::harness::{
    As, Server, assert_log, descendants, eventually, exception_name, in_time, outcome, printed, python,
};
use super::lifecycle::traces;
use super::wire::{ask, ask_as_owner, bearer, local_token};

pub const EXECUTE: &str = "/api/v1/execute";
/// Says that it runs, and runs until it is ended.
const ENDLESS: &str = "import time\nprint('runs')\nwhile True: time.sleep(0.01)";

pub fn one_shot(language: &str, code: &str, more: Value) -> OneShotRequest {
    let mut body = json!({"language": language, "code": code, "timeout_ms": 20_000});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    serde_json::from_value(body).expect("a request")
}

pub fn endless() -> OneShotRequest {
    one_shot("python", ENDLESS, json!({"timeout_ms": 300_000}))
}

/// What the server holds at this moment: the names of sessions on its disk and in its store, and how many processes.
pub struct Holds {
    pub names: BTreeSet<String>,
    pub processes: usize,
}

impl Holds {
    pub fn now(server: &Server) -> Self {
        Self { names: names(server), processes: descendants(server.pid()).len() }
    }

    /// Waits until nothing more is held than this.
    pub async fn again(&self, server: &Server) {
        eventually("nothing is left", || async {
            let now = Self::now(server);
            (now.names == self.names && now.processes <= self.processes).then_some(())
        })
        .await;
    }
}

pub fn names(server: &Server) -> BTreeSet<String> {
    let store = server.data().join("store");
    let folders = std::fs::read_dir(store.join("sessions")).expect("the folder of logs").flatten();
    let mut names: BTreeSet<String> = folders.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.extend(rows(server, "SELECT id FROM session UNION SELECT session FROM execution"));
    names
}

pub fn database(server: &Server) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let path = server.data().join("store/store.sqlite");
    let db = rusqlite::Connection::open_with_flags(path, flags).expect("the store");
    db.busy_timeout(Duration::from_secs(5)).expect("a setting");
    db
}

fn rows(server: &Server, query: &str) -> Vec<String> {
    let db = database(server);
    let mut statement = db.prepare(query).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

async fn next(stream: &mut EventStream) -> Option<LoggedEvent> {
    in_time("an event", stream.next()).await.expect("a readable event").map(|frame| match frame {
        ServerFrame::Event(event) => event,
        ServerFrame::Notice(notice) => panic!("unexpected: {notice:?}"),
    })
}

/// A one-shot that runs at this moment.
pub async fn running(client: &Client) -> EventStream {
    let mut stream = client.one_shot_live(&endless()).await.expect("a stream");
    while !matches!(next(&mut stream).await.expect("an event").event, Event::Stream { .. }) {}
    stream
}

#[tokio::test]
async fn one_shot_answers_and_leaves_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let other = python(&client, json!({})).await;
    let before = Holds::now(&server);
    for (language, code) in
        [("python", "print('out')\n6 * 7"), ("javascript", "console.log('out'); 6 * 7"), ("shell", "echo out")]
    {
        let asked = one_shot(language, code, json!({"execution_id": "mine"}));
        let result = in_time("a result", client.one_shot(&asked)).await.expect("a result");
        assert_eq!((result.success, result.output.as_str(), result.execution_count), (true, "out\n", 1), "{result:?}");
        assert_eq!(result.execution_id.as_str(), "mine");
        let id = result.session_id;
        // At the moment of the answer nothing is left on the disk, and nobody finds it.
        assert_eq!(traces(&server, &id), Vec::<String>::new());
        assert_eq!(names(&server), before.names);
        for (method, rest) in [("GET", ""), ("GET", "/history"), ("GET", "/events"), ("DELETE", "")] {
            let path = format!("/api/v1/sessions/{id}{rest}");
            ask_as_owner(&server, method, &path, "").await.problem(ProblemCode::NotFound);
        }
        assert_eq!(client.list(10, 0).await.expect("a list").sessions[0].session_id, other);
        before.again(&server).await;
    }
    assert_eq!(client.list(10, 0).await.expect("a list").total, 1);
}

#[tokio::test]
async fn one_shot_has_the_shape_of_a_result_and_the_settings_of_a_session() {
    let server = Server::start().await;
    let body = json!({
        "language": "python", "code": "import os\n[os.environ['A'], os.getcwd()]", "timeout_ms": 20_000,
        "environment": {"A": "b"}, "working_directory": "deep/down", "sandbox_mode": "relaxed",
        "resource_limits": {"max_cpu_time": 5, "max_memory_mb": 64},
    });
    let reply = ask_as_owner(&server, "POST", EXECUTE, &body.to_string()).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    let result = reply.json();
    assert_eq!(result["result"], json!(["b", "/workspace/deep/down"]), "{result}");
    let names: Vec<_> = result.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(names.len(), 18, "{names:?}");
}

#[tokio::test]
async fn one_shot_streams_its_events_in_both_formats() {
    let server = Server::start().await;
    let client = server.client();
    let code = "print('a')\n6 * 7";
    let before = Holds::now(&server);
    let mut stream = client.one_shot_live(&one_shot("python", code, json!({}))).await.expect("a stream");
    let mut events = Vec::new();
    while let Some(event) = next(&mut stream).await {
        events.push(event);
    }
    // The stream has ended: so has its session.
    assert_eq!(names(&server), before.names);
    assert_log(&events);
    assert_eq!((printed(&events, StreamName::Stdout).as_str(), outcome(&events).result.0.get()), ("a\n", "42"));
    let token = bearer(&local_token(&server));
    let headers =
        [("authorization", token.as_str()), ("content-type", "application/json"), ("accept", "text/event-stream")];
    let body = json!({"language": "python", "code": code}).to_string();
    let reply = ask(&server, "POST", EXECUTE, &headers, body.as_bytes()).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/event-stream"));
    let text = reply.text();
    let kinds: Vec<_> = text.split("data: {\"type\":\"").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert_eq!(kinds, ["queued", "started", "stream", "result"]);
    assert_eq!(names(&server), before.names);
}

#[tokio::test]
async fn a_one_shot_reads_what_it_was_given_and_then_the_end() {
    let server = Server::start().await;
    let client = server.client();
    let reads = "import sys\nsys.stdin.read()";
    for (more, expected) in
        [(json!({}), "\"\""), (json!({"stdin": "a\nb"}), "\"a\\nb\""), (json!({"stdin": ""}), "\"\"")]
    {
        let asked = one_shot("python", reads, more);
        assert_eq!(client.one_shot(&asked).await.expect("a result").result.0.get(), expected);
        let mut stream = client.one_shot_live(&asked).await.expect("a stream");
        let mut events = Vec::new();
        while let Some(event) = next(&mut stream).await {
            events.push(event);
        }
        assert_eq!(outcome(&events).result.0.get(), expected);
    }
    let asks = client.one_shot(&one_shot("python", "input('name? ')", json!({}))).await.expect("a result");
    assert_eq!((exception_name(&asks), asks.output.as_str()), ("EOFError", "name? "));
    for (language, code, output, result) in [
        ("bash", "read -r x || echo ended", "ended\n", "null"),
        ("javascript", "require('fs').readFileSync(0).length", "", "0"),
    ] {
        let told = in_time(code, client.one_shot(&one_shot(language, code, json!({})))).await.expect("a result");
        assert_eq!((told.success, told.output.as_str(), told.result.0.get()), (true, output, result), "{told:?}");
    }
}

#[tokio::test]
async fn one_shots_name_the_wrong_field_and_need_their_scopes() {
    let server = Server::start().await;
    let before = Holds::now(&server);
    for (body, field) in [
        (r#"{"code":"1"}"#, "language"),
        (r#"{"language":"python"}"#, "code"),
        (r#"{"language":"ruby","code":"1"}"#, "language"),
        (r#"{"language":"python","code":""}"#, "code"),
        (r#"{"language":"bash","code":"\u0000"}"#, "code"),
        (r#"{"language":"python","code":"1","session_id":"abcdefgh"}"#, "session_id"),
        (r#"{"language":"python","code":"1","timeout":5}"#, "timeout"),
        (r#"{"language":"python","code":"1","timeout_ms":99}"#, "timeout_ms"),
        (r#"{"language":"python","code":"1","execution_id":"a b"}"#, "execution_id"),
        (r#"{"language":"python","code":"1","stdin":5}"#, "stdin"),
        (r#"{"language":"python","code":"1","sandbox_mode":"strict","working_directory":"a"}"#, "working_directory"),
        (r#"{"language":"python","code":"1","environment":{"LD_PRELOAD":"x"}}"#, "environment.LD_PRELOAD"),
        (r#"{"language":"python","code":"1","working_directory":".."}"#, "working_directory"),
        (r#"{"language":"python","code":"1","resource_limits":{"max_cpu_time":0}}"#, "resource_limits.max_cpu_time"),
        (r#"{"language":"python","code":"1","resource_limits":{"max_disk":0}}"#, "resource_limits.max_disk"),
    ] {
        let problem = ask_as_owner(&server, "POST", EXECUTE, body).await.problem(ProblemCode::InvalidRequest);
        assert_eq!(problem.errors[0].field, field, "{body}");
    }
    let code = async |scope: &str, more| {
        let refused = server.client_of("ada", scope).one_shot(&one_shot("python", "1", more)).await;
        refused.err().map(|error| error.problem().expect("a problem").code)
    };
    assert_eq!(code("session:read", json!({})).await, Some(ProblemCode::Forbidden));
    assert_eq!(code("tool:execute", json!({"sandbox_mode": "relaxed"})).await, Some(ProblemCode::Forbidden));
    assert_eq!(code("tool:execute sandbox:relaxed", json!({"sandbox_mode": "relaxed"})).await, None);
    ask(&server, "POST", EXECUTE, &[], b"{}").await.problem(ProblemCode::Unauthorized);
    before.again(&server).await;
}

#[tokio::test]
async fn one_shots_count_to_the_caps_and_are_seen_by_nobody() {
    let server = Server::start_with(As::Me, "[sessions]\nmax = 2\nmax_per_subject = 1\n").await;
    let (ada, bob) = (server.client_of("ada", "tool:execute"), server.client_of("bob", "tool:execute"));
    let stream = running(&ada).await;
    let refused = async |client: &Client| {
        let refused = client.one_shot(&one_shot("python", "1", json!({}))).await.expect_err("too many");
        refused.problem().expect("a problem").code
    };
    assert_eq!(refused(&ada).await, ProblemCode::SessionLimit, "its own");
    let config = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    let problem = ada.create(&config).await.expect_err("too many");
    assert_eq!(
        problem.problem().expect("a problem").code,
        ProblemCode::SessionLimit,
        "sessions and one-shots together"
    );
    let admin = server.client_of("root", "admin tool:execute");
    let name = names(&server).into_iter().next().expect("the session that runs").parse().expect("an id");
    for client in [&ada, &admin] {
        assert_eq!(client.list(10, 0).await.expect("a list").total, 0);
        assert_eq!(
            client.get(&name).await.expect_err("hidden").problem().expect("a problem").code,
            ProblemCode::NotFound
        );
    }
    let second = running(&bob).await;
    assert_eq!(refused(&admin).await, ProblemCode::SessionLimit, "the server's");
    drop((stream, second));
    eventually("the places are free again", || async {
        let both = [ada.create(&config).await, bob.create(&config).await];
        both.iter().all(|it| it.as_ref().err().is_none_or(|it| it.problem().is_some())).then_some(())?;
        (ada.list(1, 0).await.ok()?.total == 1 && bob.list(1, 0).await.ok()?.total == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_shots_at_once_do_not_disturb_each_other() {
    let server = Server::start().await;
    let client = server.client();
    let before = Holds::now(&server);
    let asked: Vec<_> = (0..12).map(|n| one_shot("python", &format!("{n}"), json!({"execution_id": "same"}))).collect();
    let results = futures::future::join_all(asked.iter().map(|it| client.one_shot(it))).await;
    let mut sessions = BTreeSet::new();
    for (n, result) in results.into_iter().enumerate() {
        let result = result.expect("a result");
        assert_eq!(result.result.0.get(), n.to_string());
        assert!(sessions.insert(result.session_id.to_string()), "each in a session of its own");
    }
    before.again(&server).await;
}
