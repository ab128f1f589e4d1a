//! The rig: a session in a log and a store of its own, and both ends of all that it speaks to.

use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use repltool_protocol::event::{ExecutionState, LoggedEvent, Outcome, SessionStatus};
use repltool_protocol::ids::Seq;
use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::super::*;
use crate::metrics::{Facts, Metrics};
use crate::runtime::Kernel;
use crate::runtime::screen::Judgement;
use crate::sandbox::cgroup::Counter;
use crate::session::actor::{Origin, Parts, Settings};
use crate::session::log::{Cursor, Found, Item, Log, LogLimits, LogReader, Tail};
use crate::session::quotas::{Account, Caps, Quotas};
use crate::session::{Command, Execute, Identity, Judged, Refusal, Snapshot, create_request};
use crate::store::{SessionRow, Store};
use crate::supervisor::handle::SupervisorHandle;
use crate::supervisor::link::{self, Counts, Exited, Held, SandboxId, ToGateway};

const SANDBOX: SandboxId = SandboxId(7);
pub(super) const PER_MINUTE: u32 = 5;

pub(super) struct World {
    folder: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) identity: Arc<Identity>,
    /// The supervisor's end of the link.
    link: OwnedFd,
    /// Counts refused calls.
    count: OwnedFd,
    /// The driver's end of its socket.
    driver: UnixStream,
    /// What the program writes to.
    pub(super) stdout: std::fs::File,
    commands: mpsc::Sender<Command>,
    pub(super) snapshot: watch::Receiver<Snapshot>,
    cursor: Cursor,
    pub(super) actor: AbortHandle,
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

fn facts() -> Facts {
    Facts { tier: "A", max_sessions: 1, max_log_bytes: 0, max_open_files: 0, standing: None }
}

fn account(store: &Store) -> Account {
    let quotas = Quotas::new(&Default::default(), store.clone(), Metrics::new(facts()));
    quotas.account("ada", Caps::default())
}

fn config() -> repltool_protocol::rest::SessionConfig {
    serde_json::from_str(r#"{"language":"python"}"#).expect("a configuration")
}

fn snapshot() -> Snapshot {
    Snapshot {
        status: SessionStatus::Active,
        execution_state: ExecutionState::Starting,
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

fn parts(
    identity: &Arc<Identity>,
    policy: PolicyAction,
    log: Log,
    store: &Store,
    supervisor: SupervisorHandle,
) -> (Parts, mpsc::Sender<Command>, watch::Receiver<Snapshot>) {
    let (sender, commands) = mpsc::channel(8);
    let (snapshot, watched) = watch::channel(snapshot());
    let settings = Settings {
        queue: 4,
        idle_timeout: Duration::from_secs(600),
        idle_after: Duration::from_secs(60),
        keep_ended: Duration::from_secs(600),
        violations_per_minute: PER_MINUTE,
    };
    let (identity, store) = (identity.clone(), store.clone());
    let audit = crate::audit::Audit::unheard();
    let meter = Metrics::new(facts()).session(identity.language, identity.sandbox_mode);
    let config = config();
    let account = account(&store);
    let parts =
        Parts { identity, config, settings, policy, log, meter, store, supervisor, account, audit, commands, snapshot };
    (parts, sender, watched)
}

impl World {
    pub(super) async fn new(policy: PolicyAction) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let identity = Arc::new(identity());
        let (near, far) = pair(SocketType::SEQPACKET);
        let (notices, _) = mpsc::channel(1);
        let (supervisor, serve) =
            SupervisorHandle::new(link::register(near, Interest::READABLE).expect("registered"), notices);
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
        let (parts, commands, watched) = parts(&identity, policy, log, &store, supervisor);
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

    /// The gateway dies, at once.
    pub(super) async fn crash(&mut self) {
        self.tasks.shutdown().await;
    }

    /// What the next gateway finds in the log.
    pub(super) fn found(&self) -> (Log, LogReader, Found) {
        Log::open(&self.folder.path().join("log"), LogLimits::new(1 << 20), Tail::Trusted).expect("the log")
    }

    /// The next gateway takes up the session, which was stored as ended. Reading goes on after event `after`.
    pub(super) fn take_up_ended(&mut self, after: Seq) {
        let (log, reader, found) = self.found();
        let (near, far) = pair(SocketType::SEQPACKET);
        let (notices, _) = mpsc::channel(1);
        let (supervisor, _) =
            SupervisorHandle::new(link::register(near, Interest::READABLE).expect("registered"), notices);
        self.link = far;
        let (parts, commands, watched) = parts(&self.identity, PolicyAction::Refuse, log, &self.store, supervisor);
        let origin = Origin::Ended { at: jiff::Timestamp::now(), found };
        (self.commands, self.snapshot, self.cursor) = (commands, watched, reader.cursor(Some(after)));
        self.actor = self.tasks.spawn(Actor::new(parts, origin).run());
    }

    pub(super) async fn execute(&self, id: &str) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        let execute = Execute {
            id: Some(id.parse().expect("an id")),
            code: "code".into(),
            timeout: Duration::from_secs(60),
            stdin: None,
            interactive: false,
            account: account(&self.store),
        };
        let judged = Judged { execute, judgement: Judgement::default() };
        self.commands
            .send(Command::Execute(Box::new(judged), tracing::Span::none(), reply))
            .await
            .expect("the actor lives");
        answer.await.expect("an answer").map(drop)
    }

    /// The next message to the driver.
    pub(super) async fn heard(&mut self) -> serde_json::Value {
        let mut header = [0; 8];
        self.driver.read_exact(&mut header).await.expect("a header");
        let length = std::str::from_utf8(&header).expect("digits").parse().expect("a length");
        let mut payload = vec![0; length];
        self.driver.read_exact(&mut payload).await.expect("a payload");
        serde_json::from_slice(&payload).expect("JSON")
    }

    /// The driver tells the end of the execution with this number.
    pub(super) async fn done(&mut self, n: u64, findings: &str) {
        let done =
            format!(r#"{{"t":"done","m":{n},"n":{n},"success":true,"result":7,"end_ns":1,"violations":[{findings}]}}"#);
        self.driver.write_all(format!("{:08}{done}", done.len()).as_bytes()).await.expect("the gateway reads");
    }

    /// The supervisor tells of refused calls.
    pub(super) fn refuse(&self, detail: &str, times: u32) {
        let refused = Refused { rule: "exec".into(), detail: detail.into(), times };
        tell(&self.link, &ToGateway::Refused { sandbox: SANDBOX, refused }, &[]);
    }

    /// And counts them.
    pub(super) fn count(&self, times: u64) {
        rustix::io::write(&self.count, &times.to_ne_bytes()).expect("counted");
    }

    pub(super) fn exited(&self, violations: bool) {
        tell(&self.link, &ToGateway::Exited(Exited { sandbox: SANDBOX, violations, ..Exited::default() }), &[]);
    }

    /// The next event, as its type and what matters of it here.
    pub(super) async fn event(&mut self) -> Option<Event> {
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
    pub(super) async fn until_started(&mut self) {
        while !matches!(self.event().await, Some(Event::Started { .. })) {}
    }

    pub(super) async fn violation(&mut self) -> (Option<String>, String, ViolationLayer, u32) {
        match self.event().await {
            Some(Event::Violation { id, detail, layer, times, .. }) => {
                (id.map(|id| id.to_string()), detail, layer, times)
            }
            other => panic!("no violation: {other:?}"),
        }
    }

    pub(super) async fn result(&mut self) -> Outcome {
        match self.event().await {
            Some(Event::Result(outcome)) => *outcome,
            other => panic!("no result: {other:?}"),
        }
    }

    /// Whether the actor has come to rest with nothing told since.
    pub(super) async fn assert_silent(&mut self) {
        let more = tokio::time::timeout(Duration::from_millis(300), self.event()).await;
        assert!(more.is_err(), "{more:?}");
    }

    /// What the supervisor was asked by now.
    pub(super) fn asked(&self) -> String {
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
