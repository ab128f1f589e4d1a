//! A session whose supervisor and driver are the test itself, so that words and counts come in any order.

use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use proptest::prelude::*;
use repltool_protocol::event::{LoggedEvent, SessionStatus, StreamName};
use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::*;
use crate::runtime::Kernel;
use crate::sandbox::cgroup::Counter;
use crate::session::actor::{Origin, Parts, Settings};
use crate::session::log::{Cursor, Item, Log, LogLimits, Tail};
use crate::session::{Command, Execute, Identity, Refusal, Snapshot, create_request};
use crate::store::{SessionRow, Store};
use crate::supervisor::handle::SupervisorHandle;
use crate::supervisor::link::{self, Counts, Exited, Held, SandboxId, ToGateway};

const SANDBOX: SandboxId = SandboxId(7);
const PER_MINUTE: u32 = 5;

struct World {
    folder: tempfile::TempDir,
    store: Store,
    identity: Arc<Identity>,
    /// The supervisor's end of the link.
    link: OwnedFd,
    /// Counts refused calls.
    count: OwnedFd,
    /// The driver's end of its socket.
    driver: UnixStream,
    /// What the program writes to.
    stdout: std::fs::File,
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Snapshot>,
    cursor: Cursor,
    actor: AbortHandle,
    tasks: JoinSet<()>,
    _kept: Vec<OwnedFd>,
}

fn identity() -> Identity {
    Identity {
        id: "0123456789abcdefghijkl".parse().expect("an id"),
        owner: "ada".into(),
        language: Language::Python,
        sandbox_mode: SandboxMode::Standard,
        limits: ResourceLimits::default(),
        created_at: jiff::Timestamp::now(),
        lifespan: Lifespan::Kept,
    }
}

fn config() -> repltool_protocol::rest::SessionConfig {
    serde_json::from_str(r#"{"language":"python"}"#).expect("a configuration")
}

fn snapshot() -> Snapshot {
    Snapshot {
        status: SessionStatus::Active,
        execution_state: repltool_protocol::event::ExecutionState::Starting,
        last_activity: jiff::Timestamp::now(),
        expression_count: 0,
        expires_at: None,
        idle_at: None,
        ended: None,
    }
}

/// Both ends of a socket of this kind.
fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).expect("a pair")
}

/// A counter of the host, which stands still.
fn counter(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file.rewind().expect("at its begin");
    file.into()
}

impl World {
    async fn new(policy: PolicyAction) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let identity = Arc::new(identity());
        let (near, far) = pair(SocketType::SEQPACKET);
        let (notices, _) = mpsc::channel(1);
        let (supervisor, serve) = SupervisorHandle::new(link::register(near).expect("registered"), notices);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(serve.await) });
        let (driver, control) = pair(SocketType::STREAM);
        let (init, far_init) = pair(SocketType::SEQPACKET);
        let (stdout, stdout_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        let (stderr, stderr_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        let count = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let (cpu, oom) = (counter("1000\n"), counter("oom_kill 0\n"));
        let counters = vec![Counter::Cpu, Counter::OomKills];
        let session = identity.id.clone();
        let held = Held { sandbox: SANDBOX, session, deadline_ns: None, counters, begun: Counts::default() };
        let fds = [&stdout, &stderr, &control, &init, &count, &cpu, &oom].map(|fd| fd.as_fd());
        let created = async { tell(&far, &ToGateway::Created { request: 1, held }, &fds) };
        let (delivered, ()) = tokio::join!(supervisor.create(create_request(&identity, &config())), created);
        let kernel = Kernel::new(supervisor.clone(), delivered.expect("made")).expect("a kernel");
        let (log, reader) = Log::create(&folder.path().join("log"), LogLimits::new(1 << 20)).expect("a log");
        let store = Store::open(&folder.path().join("store")).expect("a store");
        let row = SessionRow {
            id: identity.id.clone(),
            owner: identity.owner.clone(),
            config: config(),
            created_at: identity.created_at,
            ended_at: None,
        };
        store.create_session(row).await.expect("stored");
        let (commands, received) = mpsc::channel(8);
        let (published, watched) = watch::channel(snapshot());
        let parts = Parts {
            identity: identity.clone(),
            config: config(),
            settings: Settings {
                queue: 4,
                idle_timeout: Duration::from_secs(600),
                idle_after: Duration::from_secs(60),
                keep_ended: Duration::from_secs(600),
                violations_per_minute: PER_MINUTE,
            },
            policy,
            log,
            store: store.clone(),
            supervisor,
            commands: received,
            snapshot: published,
        };
        let actor = tasks.spawn(Actor::new(parts, Origin::New(kernel)).run());
        let driver = UnixStream::from_std(driver.into()).expect("a socket");
        let kept = vec![far_init, stderr_end];
        Self {
            folder,
            store,
            identity,
            link: far,
            count,
            driver,
            stdout: stdout_end.into(),
            commands,
            snapshot: watched,
            cursor: reader.cursor(None),
            actor,
            tasks,
            _kept: kept,
        }
    }

    async fn execute(&self, id: &str) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        let execute = Execute {
            id: Some(id.parse().expect("an id")),
            code: "code".into(),
            timeout: Duration::from_secs(60),
            stdin: None,
            interactive: false,
        };
        self.commands.send(Command::Execute(execute, reply)).await.expect("the actor lives");
        answer.await.expect("an answer").map(drop)
    }

    /// The next message to the driver.
    async fn heard(&mut self) -> serde_json::Value {
        let mut header = [0; 8];
        self.driver.read_exact(&mut header).await.expect("a header");
        let length = std::str::from_utf8(&header).expect("digits").parse().expect("a length");
        let mut payload = vec![0; length];
        self.driver.read_exact(&mut payload).await.expect("a payload");
        serde_json::from_slice(&payload).expect("JSON")
    }

    /// The driver tells the end of the execution with this number.
    async fn done(&mut self, n: u64, findings: &str) {
        let done = format!(
            r#"{{"t":"done","m":{n},"n":{n},"success":true,"result":7,"end_ns":1,"violations":[{findings}]}}"#
        );
        self.driver.write_all(format!("{:08}{done}", done.len()).as_bytes()).await.expect("the gateway reads");
    }

    /// The supervisor tells of refused calls.
    fn refuse(&self, detail: &str, times: u32) {
        let refused = Refused { rule: "exec".into(), detail: detail.into(), times };
        tell(&self.link, &ToGateway::Refused { sandbox: SANDBOX, refused }, &[]);
    }

    /// And counts them.
    fn count(&self, times: u64) {
        rustix::io::write(&self.count, &times.to_ne_bytes()).expect("counted");
    }

    fn exited(&self, violations: bool) {
        tell(&self.link, &ToGateway::Exited(Exited { sandbox: SANDBOX, violations, ..Exited::default() }), &[]);
    }

    /// The next event, as its type and what matters of it here.
    async fn event(&mut self) -> Option<Event> {
        match self.cursor.next().await.expect("readable") {
            Item::Event(event) => {
                let logged: LoggedEvent = serde_json::from_slice(&event.json).expect("an event");
                Some(logged.event)
            }
            Item::Gap { .. } => panic!("a gap"),
            Item::End => None,
        }
    }

    /// Passes over the events of an execution up to its start.
    async fn until_started(&mut self) {
        while !matches!(self.event().await, Some(Event::Started { .. })) {}
    }

    async fn violation(&mut self) -> (Option<String>, String, ViolationLayer, u32) {
        match self.event().await {
            Some(Event::Violation { id, detail, layer, times, .. }) => {
                (id.map(|id| id.to_string()), detail, layer, times)
            }
            other => panic!("no violation: {other:?}"),
        }
    }

    async fn result(&mut self) -> repltool_protocol::event::Outcome {
        match self.event().await {
            Some(Event::Result(outcome)) => *outcome,
            other => panic!("no result: {other:?}"),
        }
    }

    /// Whether the actor has come to rest with nothing told since.
    async fn assert_silent(&mut self) {
        let more = tokio::time::timeout(Duration::from_millis(300), self.event()).await;
        assert!(more.is_err(), "{more:?}");
    }

    /// What the supervisor was asked by now.
    fn asked(&self) -> String {
        let mut buffer = vec![0; link::MAX_PACKET_BYTES];
        let mut all = String::new();
        while let Ok((got, _)) = rustix::net::recv(&self.link, &mut buffer[..], rustix::net::RecvFlags::DONTWAIT) {
            all.push_str(&String::from_utf8_lossy(&buffer[..got]));
        }
        all
    }
}

fn tell(far: &OwnedFd, message: &ToGateway, fds: &[BorrowedFd<'_>]) {
    link::send(far.as_fd(), &link::encode(message).expect("encoded"), fds).expect("sent");
}

#[tokio::test]
async fn a_result_is_told_after_the_violations_of_its_execution() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    // The count and the end are here, the words are on their way.
    world.count(3);
    world.done(1, "").await;
    world.assert_silent().await;
    world.refuse("execve /usr/bin/id", 1);
    assert_eq!(world.violation().await, (Some("e1".into()), "execve /usr/bin/id".into(), ViolationLayer::Kernel, 1));
    world.assert_silent().await;
    world.refuse("execve /usr/bin/ps", 2);
    assert_eq!(world.violation().await.1, "execve /usr/bin/ps");
    let outcome = world.result().await;
    assert!(outcome.success, "a program may go on after a refusal: {outcome:?}");
    assert_eq!(outcome.violation.expect("the first one").detail, "execve /usr/bin/id");
    // What comes later belongs to nothing that runs, and the next result names none of it.
    world.refuse("socket", 1);
    world.count(1);
    assert_eq!(world.violation().await.0, None);
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.done(2, "").await;
    assert_eq!(world.result().await.violation, None);
    assert_eq!(world.store.history(&world.identity.id, 10, 0).await.expect("history").0, 2);
}

#[tokio::test]
async fn words_that_do_not_come_hold_a_result_up_for_a_second_and_not_again() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.count(2);
    let begun = Instant::now();
    world.done(1, "").await;
    assert_eq!(world.result().await.violation, None);
    let waited = begun.elapsed();
    assert!((HEAR_LIMIT..20 * HEAR_LIMIT).contains(&waited), "{waited:?}");
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    let begun = Instant::now();
    world.done(2, "").await;
    world.result().await;
    assert!(begun.elapsed() < HEAR_LIMIT, "they were given up");
}

#[tokio::test]
async fn findings_of_the_driver_are_acted_on_by_the_policy_of_the_level() {
    for policy in [PolicyAction::Refuse, PolicyAction::Warn, PolicyAction::Record] {
        let mut world = World::new(policy).await;
        world.execute("e1").await.expect("accepted");
        world.heard().await;
        world.until_started().await;
        world.done(1, r#"{"rule":"import","detail":"os\n\u001b[31m"},{"rule":"import","detail":"socket"}"#).await;
        let told = if policy == PolicyAction::Record { 0 } else { 2 };
        for detail in ["os\u{fffd}\u{fffd}[31m", "socket"].into_iter().take(told) {
            let expected = (Some("e1".into()), detail.to_owned(), ViolationLayer::Policy, 1);
            assert_eq!(world.violation().await, expected, "{policy:?}");
        }
        let named = world.result().await.violation.map(|it| (it.rule, it.detail));
        assert_eq!(named, (told > 0).then(|| ("import".into(), "os\u{fffd}\u{fffd}[31m".into())), "{policy:?}");
    }
}

/// What is told of the end: the result, the reason, the end of the log; and what the store and the snapshot say.
async fn assert_ended(world: &mut World, last: Option<&str>) {
    if let Some(detail) = last {
        let outcome = world.result().await;
        assert!(!outcome.success && outcome.state_lost, "{outcome:?}");
        assert_eq!(outcome.violation.expect("a violation").detail, detail);
        let exception = outcome.exception.expect("an exception");
        assert_eq!((exception.name.as_str(), exception.message.as_str()), ("StateLost", TOO_MANY));
    }
    let status = world.event().await;
    let Some(Event::Status { status: SessionStatus::Terminated, reason: Some(StatusReason::Violations), .. }) = status
    else {
        panic!("{status:?}")
    };
    assert_eq!(world.event().await, None, "the log has ended");
    let now = world.snapshot.borrow().clone();
    assert_eq!((now.status, now.ended), (SessionStatus::Terminated, Some(End::Violations)));
    assert_eq!(world.execute("late").await, Err(Refusal::Gone));
    assert!(world.store.sessions().await.expect("rows")[0].ended_at.is_some());
    assert!(!world.actor.is_finished(), "it can still be read");
}

#[tokio::test]
async fn one_violation_too_many_ends_the_session_with_what_runs() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    assert!(matches!(world.event().await, Some(Event::Queued { .. })));
    world.stdout.write_all(b"before\n").expect("written");
    assert!(matches!(world.event().await, Some(Event::Stream { stream: StreamName::Stdout, .. })));
    world.refuse("first", PER_MINUTE);
    world.violation().await;
    world.assert_silent().await;
    world.refuse("one more", 1);
    assert_eq!(world.violation().await.1, "one more");
    let outcome = world.result().await;
    assert_eq!((outcome.id.as_str(), outcome.success), ("e1", false));
    assert_eq!(outcome.violation.expect("the first").detail, "first");
    let waiting = world.result().await;
    assert_eq!((waiting.id.as_str(), waiting.execution_count, waiting.success), ("e2", 0, false));
    assert!(world.asked().contains(r#"{"Kill":7}"#), "killed before anything else");
    world.exited(false);
    assert_ended(&mut world, None).await;
}

#[tokio::test]
async fn what_the_supervisor_kills_for_violations_stays_ended() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.refuse("execve /usr/bin/id", 1);
    world.exited(true);
    assert_eq!(world.violation().await.1, "execve /usr/bin/id");
    assert_ended(&mut world, Some("execve /usr/bin/id")).await;
}

#[tokio::test]
async fn recorded_findings_cost_nothing() {
    let mut world = World::new(PolicyAction::Record).await;
    let many = vec![r#"{"rule":"import","detail":"os"}"#; 16].join(",");
    for n in 1..=2 {
        world.execute(&format!("e{n}")).await.expect("accepted");
        world.heard().await;
        world.until_started().await;
        world.done(n, &many).await;
        assert!(world.result().await.success);
    }
}

#[tokio::test]
async fn the_log_tells_the_next_process_what_was_broken_and_why_it_ended() {
    let mut world = World::new(PolicyAction::Warn).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.refuse("execve /usr/bin/id", 1);
    world.violation().await;
    // The gateway dies.
    world.tasks.shutdown().await;
    let open = || Log::open(&world.folder.path().join("log"), LogLimits::new(1 << 20), Tail::Trusted);
    let (mut log, _, found) = open().expect("the log");
    let begun = found.pending[0].begun.clone().expect("it runs");
    assert_eq!(begun.violation.expect("the first").detail, "execve /usr/bin/id");
    assert_eq!(found.ended_because, None);
    let (status, execution_state) = (SessionStatus::Terminated, repltool_protocol::event::ExecutionState::Idle);
    let reason = Some(StatusReason::Violations);
    log.append(&Event::Status { status, execution_state, reason, recovered: None }).expect("appended");
    drop(log);
    assert_eq!(open().expect("the log").2.ended_because, reason);
}

proptest! {
    #[test]
    fn what_a_program_chose_is_short_and_breaks_no_line(text in any::<String>(), max in 0_usize..40) {
        let out = legible(&text, max);
        prop_assert!(out.len() <= max);
        prop_assert!(out.chars().all(is_plain) && out.lines().count() <= 1);
        if text.len() <= max && text.chars().all(is_plain) {
            prop_assert_eq!(out, text);
        }
    }
}
