//! `kill -9` of the gateway at random moments, again and again, with many sessions, and when no new one comes up.

use std::time::Duration;

use repltool_protocol::event::{Event, StreamName};
use repltool_protocol::ids::{ExecutionId, SessionId};
use serde_json::json;

use crate::follower::{Follower, Outage};
use crate::harness::{Server, children, code, descendants, eventually, in_time, kill, printed, python, run};

/// Kills the gateway after a random time, counted from the moment at which its process is there.
async fn kill_within(server: &Server, last: u32, most_ms: u64) -> u32 {
    let gateway = server.gateway_pid(Some(last)).await;
    tokio::time::sleep(Duration::from_micros(rand::random_range(0..most_ms * 1000))).await;
    kill(gateway, "KILL");
    gateway
}

#[tokio::test]
async fn every_line_arrives_once_however_often_the_gateway_is_killed() {
    const KILLS: usize = 15;
    let server = Server::start().await;
    let client = server.client();
    let session =
        python(&client, json!({"resource_limits": {"max_output_size": 10_485_760, "max_cpu_time": 300}})).await;
    let mut follower = Follower::new(&client, &session);
    let talker = "
import sys, time
i = 0
try:
    while True:
        print(i, 'é' * (i * 37 % 120))
        print(i, '€' * (i * 53 % 120), file=sys.stderr)
        i += 1
        time.sleep(0.001)
except KeyboardInterrupt:
    pass
i
";
    let id = follower.execute("talker", talker, 120_000).await;
    follower.started(&id).await;
    let killer = async {
        let mut last = 0;
        for _ in 0..KILLS {
            last = kill_within(&server, last, 700).await;
        }
        server.gateway_pid(Some(last)).await;
        server.until_ready().await;
        server.client().interrupt(&session, None).await.expect("the talker is stopped");
    };
    let ((), outcome) = tokio::join!(killer, follower.result(&id));

    assert!(outcome.success, "{outcome:?}");
    follower.assert_unchanged().await;
    let count: usize = outcome.result_text.as_deref().unwrap_or_default().parse().expect("the talker counted");
    for (stream, c, step) in [(StreamName::Stdout, 'é', 37), (StreamName::Stderr, '€', 53)] {
        let text = printed(&follower.seen, stream);
        // The interrupt may have come between a line and its counting.
        let lines = text.lines().count();
        assert!(lines == count || lines == count + 1, "{lines} lines, {count} counted");
        for (i, line) in text.lines().enumerate() {
            assert_eq!(line, format!("{i} {}", c.to_string().repeat(i * step % 120)), "{stream:?}");
        }
    }
}

#[tokio::test]
async fn an_execution_that_is_sent_until_it_is_answered_runs_once() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "ran = []").await;
    let mut last = 0;
    for round in 0..8 {
        let mut request = code(&format!("ran.append({round})"));
        request.execution_id = Some(format!("e{round}").parse().expect("an id"));
        let request = &request;
        let sender = async {
            let send = || async { client.execute(&session, request).await.ok() };
            eventually("an answer", send).await
        };
        // A short time: the death falls before, into or right after the acceptance.
        let ((), result) = tokio::join!(async { last = kill_within(&server, last, 4).await }, sender);
        assert!(result.success && !result.state_lost, "{result:?}");
        assert_eq!(result.execution_count, round + 2);
        server.gateway_pid(Some(last)).await;
        server.until_ready().await;
    }
    assert_eq!(run(&client, &session, "ran").await.result_text.as_deref(), Some("[0, 1, 2, 3, 4, 5, 6, 7]"));
}

#[tokio::test]
async fn an_execution_that_was_queued_runs_although_its_gateway_dies_at_once() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let mut last = 0;
    for round in 0..6 {
        let id = follower.execute(&format!("e{round}"), &format!("{round} * 2"), 10_000).await;
        follower.until(|event| matches!(event, Event::Queued { id: queued } if *queued == id)).await;
        let gateway = server.gateway_pid(Some(last)).await;
        kill(gateway, "KILL");
        follower.until_closed().await;
        let outcome = follower.result(&id).await;
        assert_eq!(outcome.result_text.as_deref(), Some(&*(round * 2).to_string()), "{outcome:?}");
        last = gateway;
    }
    follower.assert_unchanged().await;
    let history = in_time("history", client.history(&session, 100, 0)).await.expect("history");
    let counts: Vec<_> = history.executions.iter().map(|entry| entry.execution_count).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6], "what was told as a result is in the history");
}

/// Starts code of many parts and has the gateway die before the driver has all of them.
async fn large_code(server: &Server, follower: &mut Follower<'_>, name: &str, die: impl AsyncFn(&Server)) {
    let text = "é".repeat(400_000);
    let id: ExecutionId = follower.execute(name, &format!("text = '{text}'\nlen(text)"), 20_000).await;
    follower.started(&id).await;
    die(server).await;
    // What is sent over the socket of a dead gateway is lost without a word.
    follower.until_closed().await;
    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.result_text.as_deref()), (true, Some("400000")), "{outcome:?}");
    server.until_ready().await;
}

#[tokio::test]
async fn code_that_was_being_sent_in_parts_is_sent_again() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let interpreter = interpreter(&server).await;
    let mut follower = Follower::new(&client, &session);
    // An interpreter that stands still has answered no part when the gateway dies.
    kill(interpreter, "STOP");
    large_code(&server, &mut follower, "still", async |server| {
        server.crash_gateway().await;
        kill(interpreter, "CONT");
    })
    .await;
    for round in 0..5 {
        large_code(&server, &mut follower, &format!("r{round}"), async |server| {
            let gateway = server.gateway_pid(None).await;
            tokio::time::sleep(Duration::from_micros(rand::random_range(0..20_000))).await;
            kill(gateway, "KILL");
            server.gateway_pid(Some(gateway)).await;
        })
        .await;
    }
    follower.assert_unchanged().await;
}

/// The interpreter of the only session: the child of the child that is not the gateway.
async fn interpreter(server: &Server) -> u32 {
    let gateway = server.gateway_pid(None).await;
    let inits: Vec<_> = children(server.pid()).into_iter().filter(|pid| *pid != gateway).collect();
    let below: Vec<_> = inits.iter().flat_map(|init| descendants(*init)).collect();
    assert_eq!(below.len(), 1, "of the others only an init has children");
    below[0]
}

#[tokio::test]
async fn forty_sessions_are_all_handed_over() {
    let server = Server::start().await;
    let client = server.client();
    let sessions: Vec<SessionId> = futures::future::join_all((0..40).map(|_| python(&client, json!({})))).await;
    let set = sessions.iter().enumerate().map(async |(i, session)| run(&client, session, &format!("mine = {i}")).await);
    assert!(futures::future::join_all(set).await.iter().all(|result| result.success));
    server.crash_gateway().await;

    let asked = sessions.iter().map(async |session| run(&client, session, "mine").await);
    for (i, result) in futures::future::join_all(asked).await.into_iter().enumerate() {
        assert_eq!((result.result_text, result.state_lost), (Some(i.to_string()), false));
    }
    assert_eq!(in_time("a list", client.list(1000, 0)).await.expect("a list").total, 40);
}

#[tokio::test]
async fn clients_that_connect_while_there_is_no_gateway_wait() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let outage = Outage::begin(&server).await;
    // Each has a connection of its own.
    let clients: Vec<_> = (0..20).map(|_| server.client()).collect();
    let waiting = futures::future::join_all(clients.iter().map(|client| client.get(&session)));
    let mut waiting = std::pin::pin!(waiting);
    tokio::select! {
        answers = &mut waiting => panic!("answered by nobody: {answers:?}"),
        () = outage.starts(2) => {}
    }
    let (answers, ()) = tokio::join!(in_time("answers", waiting), outage.end());
    for answer in answers {
        assert_eq!(answer.expect("it was served").session_id, session);
    }
}

#[tokio::test]
async fn a_gateway_that_dies_at_start_again_and_again_does_not_spin() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 1").await;
    let outage = Outage::begin(&server).await;
    let begun = tokio::time::Instant::now();
    outage.starts(4).await;
    // The contract has a gateway back within a second of its crash, so one that fails is tried more than once a second.
    let each = begun.elapsed() / 4;
    assert!(each >= Duration::from_millis(300), "a gateway is started every {each:?}");
    outage.end().await;
    assert_eq!(run(&client, &session, "x").await.result_text.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_session_that_was_being_terminated_is_not_back_after_a_crash() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let interpreter = interpreter(&server).await;
    let gateway = server.gateway_pid(None).await;
    let mut follower = Follower::new(&client, &session);
    run(&client, &session, "x = 1").await;
    // A supervisor that stands still does not hear that the sandbox is to be killed: the termination stays half done.
    server.signal("STOP");
    let told = async {
        follower.until(|event| matches!(event, Event::Status { .. })).await;
        kill(gateway, "KILL");
        server.signal("CONT");
    };
    let (deleted, ()) = tokio::join!(in_time("an end", client.delete(&session)), told);
    assert!(deleted.is_err(), "nobody was there to answer");
    server.gateway_pid(Some(gateway)).await;
    server.until_ready().await;

    let missing = || async {
        let error = client.get(&session).await.err()?;
        (error.problem().map(|problem| problem.status) == Some(404)).then_some(())
    };
    eventually("it is gone", missing).await;
    let gone = || async { (!std::fs::exists(format!("/proc/{interpreter}")).unwrap_or(true)).then_some(()) };
    eventually("its processes are gone", gone).await;
    let logs =
        || async { std::fs::read_dir(server.data().join("store/sessions")).ok()?.next().is_none().then_some(()) };
    eventually("its log is deleted", logs).await;
}
