//! `kill -9` of the gateway: what the clients of a session may rely on when it is back.

use repltool::client::{Client, ClientError, Events, Received, Socket};
use repltool_protocol::event::{Event, Limit, LoggedEvent, Outcome, SessionStatus, StreamName};
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, Seq, SessionId};
use serde_json::json;

use crate::harness::{Server, assert_log, code, descendants, eventually, in_time, kill, printed, python, run};

/// Runs until it is interrupted, which it takes for a good end.
pub const GATE: &str = "
import time
try:
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    pass
";

/// A client that attaches again after what it saw last, whenever its socket ends.
pub struct Follower<'a> {
    client: &'a Client,
    session: &'a SessionId,
    socket: Option<Socket>,
    pub seen: Vec<LoggedEvent>,
}

impl<'a> Follower<'a> {
    pub fn new(client: &'a Client, session: &'a SessionId) -> Self {
        Self { client, session, socket: None, seen: Vec::new() }
    }

    async fn socket(&mut self) -> &mut Socket {
        if self.socket.is_none() {
            let last = self.seen.last().map_or(Seq(0), |logged| logged.seq);
            let (client, session) = (self.client, self.session);
            // A connection may be accepted by a gateway that dies before it answers.
            let attach = || async {
                match client.attach(session, Some(last)).await {
                    Ok(socket) => Some(socket),
                    Err(ClientError::Broken(_) | ClientError::Connect { .. }) => None,
                    Err(error) => panic!("{error}"),
                }
            };
            self.socket = Some(eventually("a socket", attach).await);
        }
        self.socket.as_mut().expect("it was just made")
    }

    /// Sends until the gateway that gets it lives to answer; the same id makes it one execution.
    pub async fn execute(&mut self, id: &str, code: &str, timeout_ms: u64) -> ExecutionId {
        let id: ExecutionId = id.parse().expect("an id");
        let frame =
            ClientFrame::Execute { id: id.clone(), code: code.to_owned(), timeout_ms: Some(timeout_ms), stdin: None };
        while self.socket().await.send(&frame).await.is_err() {
            self.socket = None;
        }
        id
    }

    /// The next event; `None` if the socket ended instead.
    pub async fn try_next(&mut self) -> Option<LoggedEvent> {
        loop {
            match in_time("an event", self.socket().await.receive()).await.expect("a readable frame") {
                Received::Frame(ServerFrame::Event(logged)) => {
                    self.seen.push(logged.clone());
                    return Some(logged);
                }
                Received::Frame(ServerFrame::Notice(Notice::Ready { .. })) => {}
                Received::Frame(ServerFrame::Notice(notice)) => panic!("unexpected: {notice:?}"),
                Received::Closed(_) => {
                    self.socket = None;
                    return None;
                }
            }
        }
    }

    /// Follows up to the first event that is wanted, over any number of sockets.
    pub async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> LoggedEvent {
        loop {
            if let Some(logged) = self.try_next().await
                && wanted(&logged.event)
            {
                return logged;
            }
        }
    }

    pub async fn started(&mut self, id: &ExecutionId) {
        self.until(|event| matches!(event, Event::Started { id: started, .. } if started == id)).await;
    }

    pub async fn result(&mut self, id: &ExecutionId) -> Outcome {
        let last = self.until(|event| matches!(event, Event::Result(outcome) if outcome.id == *id)).await;
        match last.event {
            Event::Result(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    /// What was seen is what the log tells anybody who reads it now, from the first event on.
    pub async fn assert_unchanged(&self) {
        assert_log(&self.seen);
        let log = whole_log(self.client, self.session).await;
        assert_eq!(self.seen.len(), log.len());
        for (seen, kept) in self.seen.iter().zip(&log) {
            assert_eq!(seen, kept, "an event was told otherwise");
        }
    }
}

/// Everything that the log of a session holds.
pub async fn whole_log(client: &Client, session: &SessionId) -> Vec<LoggedEvent> {
    let mut log: Vec<LoggedEvent> = Vec::new();
    loop {
        let after = log.last().map_or(Seq(0), |logged| logged.seq);
        let events = Events { after: Some(after), limit: Some(1000), follow: false };
        let mut page = in_time("events", client.events(session, events)).await.expect("the log is readable");
        let had = log.len();
        while let Some(frame) = in_time("an event", page.next()).await.expect("the log is readable") {
            match frame {
                ServerFrame::Event(logged) => log.push(logged),
                ServerFrame::Notice(notice) => panic!("unexpected: {notice:?}"),
            }
        }
        if log.len() == had {
            return log;
        }
    }
}

/// While it lives, every gateway that is started finds its store unusable and ends.
pub struct Outage<'a> {
    server: &'a Server,
}

impl<'a> Outage<'a> {
    /// Ends the gateway as a crash would; no other comes up.
    pub async fn begin(server: &'a Server) -> Self {
        let gateway = server.gateway_pid(None).await;
        let logs = server.data().join("store/sessions");
        std::fs::rename(&logs, logs.with_extension("away")).expect("the logs are put away");
        std::fs::write(&logs, "").expect("a file stands in their place");
        kill(gateway, "KILL");
        let outage = Self { server };
        outage.starts(1).await;
        outage
    }

    /// Waits until so many more gateways have been started in vain.
    pub async fn starts(&self, more: usize) {
        let failures = || self.server.log().matches("the gateway ends").count();
        let wanted = failures() + more;
        eventually("gateways that end at once", || async { (failures() >= wanted).then_some(()) }).await;
    }

    pub async fn end(self) {
        let logs = self.server.data().join("store/sessions");
        std::fs::remove_file(&logs).expect("the file goes");
        std::fs::rename(logs.with_extension("away"), &logs).expect("the logs are back");
        self.server.until_ready().await;
    }
}

#[tokio::test]
async fn gateway_crash_keeps_variables_files_and_history() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "x = 41\nprint(open('kept', 'w').write('on disk'))").await;
    server.crash_gateway().await;

    let after = run(&client, &session, "x + 1, open('kept').read()").await;
    assert_eq!(after.result_text.as_deref(), Some("(42, 'on disk')"));
    assert_eq!((after.success, after.state_lost, after.execution_count), (true, false, 2));
    let history = client.history(&session, 10, 0).await.expect("history");
    let counts: Vec<_> = history.executions.iter().map(|entry| entry.execution_count).collect();
    assert_eq!(counts, [1, 2]);
    let seen = client.get(&session).await.expect("the session");
    assert_eq!((seen.status, seen.expression_count), (SessionStatus::Active, 2));
}

#[tokio::test]
async fn output_written_around_a_crash_is_all_there_once_and_in_order() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let talker = "
import sys, time
for i in range(1500):
    print('out', i)
    print('err', i, file=sys.stderr)
    time.sleep(0.001)
'said'
";
    let id = follower.execute("talker", talker, 30_000).await;
    follower.until(|event| matches!(event, Event::Stream { .. })).await;
    server.crash_gateway().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.result_text.as_deref()), (true, Some("'said'")));
    for (stream, word) in [(StreamName::Stdout, "out"), (StreamName::Stderr, "err")] {
        let wanted: String = (0..1500).map(|i| format!("{word} {i}\n")).collect();
        assert_eq!(printed(&follower.seen, stream), wanted);
    }
    follower.assert_unchanged().await;
    let results = follower.seen.iter().filter(|logged| matches!(logged.event, Event::Result(_))).count();
    assert_eq!(results, 1);
}

#[tokio::test]
async fn an_execution_that_ends_while_there_is_no_gateway_is_told_to_the_next() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let text = "import time\ntime.sleep(0.3)\nprint('last words')\n6 * 7";
    let id = follower.execute("short", text, 10_000).await;
    follower.started(&id).await;
    let outage = Outage::begin(&server).await;
    outage.starts(2).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.result_text.as_deref(), outcome.state_lost), (true, Some("42"), false));
    assert!(outcome.execution_time_ms < 60_000, "{outcome:?}");
    assert_eq!(printed(&follower.seen, StreamName::Stdout), "last words\n");
    // A client that was cut off in its request asks again by the same name and gets the same end.
    let mut again = code(text);
    again.execution_id = Some(id);
    let told = in_time("the result", client.execute(&session, &again)).await.expect("it is followed");
    assert_eq!((told.execution_count, told.output.as_str()), (1, "last words\n"));
}

#[tokio::test]
async fn an_interpreter_that_ends_while_there_is_no_gateway_leaves_its_last_words() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("exit", "import os, time\ntime.sleep(0.3)\nprint('last words')\nos._exit(7)", 10_000).await;
    follower.started(&id).await;
    let outage = Outage::begin(&server).await;
    outage.starts(2).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!(printed(&follower.seen, StreamName::Stdout), "last words\n");
    assert_eq!((outcome.success, outcome.state_lost, outcome.exit_code), (false, true, Some(7)));
}

#[tokio::test]
async fn queued_executions_run_in_order_after_a_crash() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let gate = follower.execute("gate", &format!("order = []\n{GATE}"), 30_000).await;
    let mut last = gate.clone();
    for i in 0..8 {
        last = follower.execute(&format!("q{i}"), &format!("order.append({i})"), 10_000).await;
    }
    let named = last.clone();
    follower.until(|event| matches!(event, Event::Queued { id } if *id == named)).await;
    server.crash_gateway().await;
    client.interrupt(&session, None).await.expect("the gate is opened");

    assert!(follower.result(&last).await.success);
    follower.assert_unchanged().await;
    let started = follower.seen.iter().filter_map(|logged| match &logged.event {
        Event::Started { id, execution_count, .. } => Some((id.to_string(), *execution_count)),
        _ => None,
    });
    let wanted = (0..8).map(|i| (format!("q{i}"), i + 2));
    assert_eq!(started.collect::<Vec<_>>(), std::iter::once(("gate".into(), 1)).chain(wanted).collect::<Vec<_>>());
    let order = run(&client, &session, "order").await;
    assert_eq!(order.result_text.as_deref(), Some("[0, 1, 2, 3, 4, 5, 6, 7]"));
}

#[tokio::test]
async fn a_timeout_that_falls_into_the_gap_strikes_and_keeps_the_state() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("late", "x = 5\nwhile True: pass", 1_000).await;
    follower.started(&id).await;
    let begun = tokio::time::Instant::now();
    let gateway = server.gateway_pid(None).await;
    // One that stands still does no more than one that is not there, and no other takes its place.
    kill(gateway, "STOP");
    tokio::time::sleep_until(begun + std::time::Duration::from_millis(1_200)).await;
    kill(gateway, "KILL");

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.limit, outcome.state_lost), (false, Some(Limit::WallTime), false));
    assert!(outcome.execution_time_ms >= 1_000, "{outcome:?}");
    let after = run(&client, &session, "x").await;
    assert_eq!((after.result_text.as_deref(), after.state_lost), (Some("5"), false));
}

#[tokio::test]
async fn without_a_gateway_the_supervisor_ends_what_is_over_its_time() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let gateway = server.gateway_pid(None).await;
    let sandbox: Vec<u32> = descendants(server.pid()).into_iter().filter(|pid| *pid != gateway).collect();
    assert!(!sandbox.is_empty());
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("late", "print('on')\nwhile True: pass", 500).await;
    follower.until(|event| matches!(event, Event::Stream { .. })).await;
    let outage = Outage::begin(&server).await;
    let gone = || async { sandbox.iter().all(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)).then_some(()) };
    eventually("the sandbox is killed", gone).await;
    outage.end().await;

    let outcome = follower.result(&id).await;
    assert_eq!((outcome.success, outcome.limit, outcome.state_lost), (false, Some(Limit::WallTime), true));
    let after = run(&client, &session, "'goes on'").await;
    assert_eq!((after.result_text.as_deref(), after.state_lost), (Some("'goes on'"), false));
}

#[tokio::test]
async fn an_interrupt_after_a_crash_reaches_what_runs() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    let id = follower.execute("loop", "x = 5\nwhile True: pass", 30_000).await;
    follower.started(&id).await;
    server.crash_gateway().await;
    client.interrupt(&session, Some(&id)).await.expect("interrupted");

    let outcome = follower.result(&id).await;
    assert_eq!(outcome.exception.map(|it| it.name).as_deref(), Some("KeyboardInterrupt"));
    assert_eq!((outcome.limit, outcome.state_lost), (None, false));
    assert_eq!(run(&client, &session, "x").await.result_text.as_deref(), Some("5"));
}

#[tokio::test]
async fn an_interrupt_just_before_a_crash_hits_no_other_execution() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut follower = Follower::new(&client, &session);
    for round in 0..4 {
        let gate = follower.execute(&format!("gate{round}"), GATE, 30_000).await;
        let next = follower.execute(&format!("next{round}"), "time.sleep(0.2)\n'whole'", 10_000).await;
        follower.started(&gate).await;
        let named = next.clone();
        follower.until(|event| matches!(event, Event::Queued { id } if *id == named)).await;
        let gateway = server.gateway_pid(None).await;
        client.interrupt(&session, Some(&gate)).await.expect("interrupted");
        kill(gateway, "KILL");
        let outcome = follower.result(&next).await;
        assert_eq!(outcome.result_text.as_deref(), Some("'whole'"), "{outcome:?}");
        // The pid of a gateway that was reaped is not that of the next.
        server.gateway_pid(Some(gateway)).await;
        server.until_ready().await;
    }
    follower.assert_unchanged().await;
}
