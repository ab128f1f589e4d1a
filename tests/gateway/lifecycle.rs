//! The life of a session, from its creation to the last trace of it.

use repltool_protocol::event::{Event, ExecutionState, SessionStatus, StatusReason, StreamName};
use repltool_protocol::ids::{Seq, SessionId};
use repltool_protocol::rest::ProblemCode;
use serde_json::json;

use super::harness::{self, As, Server, eventually, frame, in_time, python, run, running_with, send, until_result};
use super::wire::ask_as_owner;
use repltool::client::{Client, ClientError, Events, Received};

#[tokio::test]
async fn created_session_has_the_shape_of_the_contract() {
    let server = Server::start().await;
    let body = r#"{"language": "python", "sandbox_mode": "standard",
        "resource_limits": {"max_cpu_time": 20, "max_memory_mb": 128, "max_output_size": 1048576}}"#;
    let reply = ask_as_owner(&server, "POST", "/api/v1/sessions", body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/json");
    let session = reply.json();
    let id = session["session_id"].as_str().expect("an id");
    assert_eq!(reply.header("location"), format!("/api/v1/sessions/{id}"));
    assert!((8..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    for time in ["created_at", "last_activity", "expires_at"] {
        let text = session[time].as_str().expect("a time");
        assert!(text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok(), "{text}");
    }
    insta::assert_json_snapshot!(session, {
        ".session_id" => "[id]", ".created_at" => "[time]", ".last_activity" => "[time]", ".expires_at" => "[time]",
    }, @r#"
    {
      "session_id": "[id]",
      "language": "python",
      "created_at": "[time]",
      "last_activity": "[time]",
      "status": "active",
      "execution_state": "idle",
      "resource_limits": {
        "max_cpu_time": 20,
        "max_memory_mb": 128,
        "max_output_size": 1048576,
        "max_expressions": 1000
      },
      "sandbox_mode": "standard",
      "owner": "local",
      "expression_count": 0,
      "last_seq": 0,
      "expires_at": "[time]"
    }
    "#);
    let again = ask_as_owner(&server, "GET", reply.header("location"), "").await;
    assert_eq!((again.status, again.json()), (200, session));
}

#[tokio::test]
async fn a_language_is_all_that_a_session_needs() {
    let server = Server::start().await;
    let client = server.client();
    let session = client.get(&python(&client, json!({})).await).await.expect("the session");
    let limits = serde_json::to_value(session.resource_limits).expect("JSON");
    let defaults =
        json!({"max_cpu_time": 30, "max_memory_mb": 256, "max_output_size": 1_048_576, "max_expressions": 1000});
    assert_eq!(limits, defaults);
    assert_eq!(serde_json::to_value(session.sandbox_mode).expect("JSON"), "standard");
}

#[tokio::test]
async fn settings_of_a_session_reach_its_program() {
    let server = Server::start().await;
    let client = server.client();
    let more = json!({"environment": {"GREETING": "hé\nllo"}, "working_directory": "deep/down"});
    let session = python(&client, more).await;
    let result = run(&client, &session, "import os; [os.environ['GREETING'], os.getcwd()]").await;
    assert_eq!(result.result.0.get(), r#"["hé\nllo","/workspace/deep/down"]"#, "{result:?}");
}

#[tokio::test]
async fn sessions_are_listed_in_pages_oldest_first() {
    let server = Server::start().await;
    let client = server.client();
    assert_eq!(client.list(10, 0).await.expect("a list").total, 0);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = python(&client, json!({})).await;
        // 22 letters and digits hold 128 random bits; no two begin alike.
        assert!(
            id.as_str().len() >= 22 && !ids.iter().any(|it: &SessionId| it.as_str()[..6] == id.as_str()[..6]),
            "{id}"
        );
        ids.push(id);
    }
    let listed = async |limit, offset| {
        let page = client.list(limit, offset).await.expect("a list");
        assert_eq!((page.total, page.limit, page.offset), (3, limit, offset));
        page.sessions.into_iter().map(|session| session.session_id).collect::<Vec<_>>()
    };
    assert_eq!(listed(100, 0).await, ids);
    assert_eq!(listed(2, 0).await, ids[..2]);
    assert_eq!(listed(2, 2).await, ids[2..]);
    assert!(listed(1000, 3).await.is_empty());
    let first = ask_as_owner(&server, "GET", "/api/v1/sessions", "").await.json();
    assert_eq!((&first["limit"], &first["offset"]), (&json!(100), &json!(0)));
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("limit=x", "limit")]
    {
        let reply = ask_as_owner(&server, "GET", &format!("/api/v1/sessions?{query}"), "").await;
        assert_eq!(reply.problem(ProblemCode::InvalidRequest).errors[0].field, field, "{query}");
    }
    client.delete(&ids[1]).await.expect("deleted");
    let page = client.list(10, 0).await.expect("a list");
    assert_eq!(
        page.sessions.into_iter().map(|it| it.session_id).collect::<Vec<_>>(),
        [&ids[0], &ids[2]].map(Clone::clone)
    );
}

#[tokio::test]
async fn state_stays_from_one_execution_to_the_next() {
    let server = Server::start().await;
    let client = server.client();
    let (one, other) = (python(&client, json!({})).await, python(&client, json!({})).await);
    run(&client, &one, "import math\nx = 20\ndef double(n): return 2 * n\nopen('note', 'w').write('kept')").await;
    let result = run(&client, &one, "[double(x) + 2, math.floor(1.5), open('note').read()]").await;
    assert_eq!(result.result.0.get(), r#"[42,1,"kept"]"#, "{result:?}");
    assert_eq!(result.execution_count, 2);
    let alone = run(&client, &other, "import os; ['x' in globals(), os.listdir('.')]").await;
    assert_eq!(alone.result.0.get(), "[false,[]]", "a session sees nothing of another");
}

#[tokio::test]
async fn use_counts_as_activity_and_reading_does_not() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let fresh = client.get(&id).await.expect("the session");
    run(&client, &id, "1").await;
    let used = client.get(&id).await.expect("the session");
    assert!(used.last_activity > fresh.last_activity && used.expires_at > fresh.expires_at, "{fresh:?} {used:?}");
    assert_eq!((used.expression_count, used.execution_state), (1, ExecutionState::Idle));
    assert!(used.last_seq > 0);
    client.history(&id, 10, 0).await.expect("history");
    drop(client.attach(&id, None).await.expect("a socket"));
    assert_eq!(client.get(&id).await.expect("the session"), used);
}

#[tokio::test]
async fn a_subject_has_so_many_sessions_and_the_server_too() {
    let server = Server::start_with(As::Me, "[sessions]\nmax = 3\nmax_per_subject = 2\n").await;
    let (ada, bob) = (server.client_of("ada", "tool:execute"), server.client_of("bob", "tool:execute"));
    let first = python(&ada, json!({})).await;
    python(&ada, json!({})).await;
    assert_eq!(refused_to_create(&ada).await, ProblemCode::SessionLimit);
    python(&bob, json!({})).await;
    assert_eq!(refused_to_create(&bob).await, ProblemCode::SessionLimit);
    ada.delete(&first).await.expect("deleted");
    eventually("the place is free again", || async { try_create(&bob).await.ok() }).await;
    assert_eq!(refused_to_create(&ada).await, ProblemCode::SessionLimit);
}

async fn try_create(client: &Client) -> Result<SessionId, ClientError> {
    let config = serde_json::from_value(json!({"language": "python"})).expect("a configuration");
    client.create(&config).await.map(|session| session.session_id)
}

async fn refused_to_create(client: &Client) -> ProblemCode {
    try_create(client).await.expect_err("too many").problem().expect("a problem").code
}

#[tokio::test]
async fn deleted_session_leaves_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let before = harness::descendants(server.pid()).len();
    let id = python(&client, json!({})).await;
    let fork =
        "import os, time\nopen('f', 'w').write('x' * 4096)\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)";
    assert!(run(&client, &id, fork).await.success);
    assert!(harness::descendants(server.pid()).len() > before);
    let mut socket = client.attach(&id, None).await.expect("a socket");
    assert!(traces(&server, &id).iter().any(|it| it.starts_with("folder")), "{:?}", traces(&server, &id));
    assert!(traces(&server, &id).iter().any(|it| it.starts_with("session")), "{:?}", traces(&server, &id));
    eventually("the history is stored", || async { (traces(&server, &id).len() >= 3).then_some(()) }).await;

    let reply = ask_as_owner(&server, "DELETE", &format!("/api/v1/sessions/{id}"), "").await;
    assert_eq!((reply.status, reply.body.len()), (204, 0), "{reply:?}");
    assert_eq!(traces(&server, &id), Vec::<String>::new());
    eventually("its processes are gone", || async {
        (harness::descendants(server.pid()).len() == before).then_some(())
    })
    .await;
    let closed = loop {
        if let Received::Closed(closed) = in_time("the end", socket.receive()).await.expect("readable") {
            break closed;
        }
    };
    assert_eq!(closed.code, Some(1000), "{closed:?}");
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/history"),
        ("GET", "/events"),
        ("POST", "/interrupt"),
        ("POST", "/restart"),
    ] {
        let reply = ask_as_owner(&server, method, &format!("/api/v1/sessions/{id}{rest}"), "").await;
        reply.problem(ProblemCode::NotFound);
    }
    let problem = client.attach(&id, None).await.expect_err("no socket").problem().expect("a problem").code;
    assert_eq!(problem, ProblemCode::NotFound);
}

/// What the data directory still holds of a session.
pub fn traces(server: &Server, id: &SessionId) -> Vec<String> {
    let store = server.data().join("store");
    let mut found = Vec::new();
    if store.join("sessions").join(id.as_str()).exists() {
        found.push("folder".to_owned());
    }
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = rusqlite::Connection::open_with_flags(store.join("store.sqlite"), flags).expect("the store");
    for (table, column) in [("session", "id"), ("execution", "session")] {
        let query = format!("SELECT count(*) FROM {table} WHERE {column} = ?1");
        let rows: u32 = db.query_row(&query, [id.as_str()], |row| row.get(0)).expect("a count");
        found.extend((rows > 0).then(|| format!("{table}: {rows}")));
    }
    found
}

#[tokio::test]
async fn deleting_a_busy_session_answers_who_waits() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let marker = format!("sleeps{id}");
    let code = harness::code(&format!("import time\n{marker} = 1\ntime.sleep(600)"));
    let waiting = client.execute(&id, &code);
    let deleting = async {
        while !matches!(harness::event(&mut socket).await.event, Event::Started { .. }) {}
        client.delete(&id).await
    };
    let (answer, deleted) = in_time("both are answered", futures::future::join(waiting, deleting)).await;
    deleted.expect("deleted");
    match answer {
        Ok(result) => assert!(!result.success && result.state_lost, "{result:?}"),
        Err(error) => {
            let code = error.problem().expect("a problem").code;
            assert!(matches!(code, ProblemCode::NotFound | ProblemCode::Gone), "{error:?}");
        }
    }
    assert_eq!(running_with(&marker), Vec::<u32>::new());
}

#[tokio::test]
async fn restart_keeps_id_count_and_files_and_drops_the_state() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "x = 1; open('f', 'w').write('kept')").await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let session = in_time("a restart", client.restart(&id)).await.expect("restarted");
    assert_eq!((&session.session_id, session.expression_count, session.status), (&id, 1, SessionStatus::Active));
    let second = send(&mut socket, "after", "print('x' in globals(), open('f').read())").await;
    let events = until_result(&mut socket, &second).await;
    let kinds: Vec<_> = events.iter().map(|it| &it.event).collect();
    let restarted =
        kinds.iter().position(|it| matches!(it, Event::Status { reason: Some(StatusReason::Restarted), .. }));
    let started = kinds.iter().position(|it| matches!(it, Event::Started { execution_count: 2, .. }));
    assert!(restarted.is_some() && restarted < started, "{events:?}");
    assert_eq!(harness::printed(&events, StreamName::Stdout), "False kept\n");
    let Some(Event::Result(outcome)) = kinds.last() else { panic!("{events:?}") };
    assert!(outcome.state_lost, "it is told in the next result");
    assert!(!run(&client, &id, "1").await.state_lost, "and only there");
}

#[tokio::test]
async fn session_is_shown_as_idle_when_nothing_ran_for_a_while() {
    let server = Server::start_with(As::Me, "[sessions]\nidle_after_s = 1\n").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    eventually("it is idle", || async {
        (client.get(&id).await.expect("the session").status == SessionStatus::Idle).then_some(())
    })
    .await;
    assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
    assert_eq!(client.get(&id).await.expect("the session").status, SessionStatus::Active);
}

#[tokio::test]
async fn idle_timeout_ends_a_session_that_stays_readable() {
    let server = Server::start_with(As::Me, "[sessions]\nidle_timeout_s = 2\n").await;
    let client = server.client();
    let before = harness::descendants(server.pid()).len();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    // Silent work is use: it takes longer than the timeout.
    let result = run(&client, &id, "import time\nprint('before')\ntime.sleep(4)\n'long run over'").await;
    assert_eq!(result.result.0.get(), r#""long run over""#, "{result:?}");

    let code = loop {
        match in_time("the idle timeout", socket.receive()).await.expect("readable") {
            Received::Closed(closed) => break closed.code,
            Received::Frame(_) => {}
        }
    };
    assert_eq!(code, Some(4408));
    let session = client.get(&id).await.expect("still there");
    assert_eq!((session.status, session.expression_count), (SessionStatus::Terminated, 1));
    assert_eq!(client.list(10, 0).await.expect("a list").sessions, [session]);
    assert_eq!(client.history(&id, 10, 0).await.expect("history").total, 1);
    let mut events = client.events(&id, Events { follow: true, ..Events::default() }).await.expect("events");
    let mut last = None;
    while let Some(event) = in_time("an event", events.next()).await.expect("readable") {
        last = Some(event);
    }
    assert!(format!("{last:?}").contains("IdleTimeout"), "{last:?}");
    let mut late = client.attach(&id, Some(Seq(0))).await.expect("a socket");
    frame(&mut late).await;
    harness::assert_log(&[harness::event(&mut late).await]);

    for (path, body) in [("/execute", r#"{"code":"1"}"#), ("/interrupt", ""), ("/restart", "")] {
        let reply = ask_as_owner(&server, "POST", &format!("/api/v1/sessions/{id}{path}"), body).await;
        reply.problem(ProblemCode::Gone);
    }
    eventually("its processes are gone", || async {
        (harness::descendants(server.pid()).len() == before).then_some(())
    })
    .await;
    client.delete(&id).await.expect("deleted");
    assert_eq!(traces(&server, &id), Vec::<String>::new());
}

#[tokio::test]
async fn ended_session_is_forgotten_after_a_while() {
    let settings = "[sessions]\nidle_timeout_s = 1\n[store]\nkeep_ended_s = 1\n";
    let server = Server::start_with(As::Me, settings).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let code = eventually("it is not there any more", || async {
        match client.get(&id).await {
            Ok(_) => None,
            Err(error) => Some(error.problem().expect("a problem").code),
        }
    })
    .await;
    assert_eq!(code, ProblemCode::NotFound);
    assert_eq!(traces(&server, &id), Vec::<String>::new());
}
