//! The actor: sole owner of one session's state, its log and its kernel. One loop, one closed set of events.
//!
//! ```text
//!            execute                 done, fence
//!   idle ─────────────▶ running ──────────────────▶ idle
//!     ▲                  │   │ deadline or limit: interrupt, 250 ms, kill
//!     │                  │   └──▶ stopping ──done──▶ the rest is killed ─▶ idle, state kept
//!     │ boot             ▼              │ not done
//!   booting ◀── kernel gone ◀───────────┘  what ran ends with state_lost, what waited with StateLost
//! ```
//! Order of promises: a command is in the log before `queued` is told, all output of an execution before its `result`,
//! and an interrupt has reached the interpreter or nothing before the next execution starts.

mod charged;
mod commands;
mod execution;
mod files;
mod kernel;
mod limits;
mod messages;
mod output;
mod queries;
mod running;
mod stdin;
mod timers;
mod traced;
mod violations;
mod waiting;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use repltool_protocol::event::{Event, ExecutionState, Recovered, SessionStatus, StatusReason};
use repltool_protocol::ids::ExecutionId;
use repltool_protocol::rest::SessionConfig;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Span;

use super::admission::{Book, Fingerprint, Rules, Ticket};
use super::log::{Found, Log, LogError, Message};
use super::quotas::Account;
use super::{Command, End, Identity, Refusal, Snapshot};
use crate::audit::Audit;
use crate::config::PolicyAction;
use crate::metrics::SessionMeter;
use crate::runtime::{BootError, Kernel, KernelEvent};
use crate::store::Store;
use crate::supervisor::handle::SupervisorHandle;
use kernel::Job;
pub(crate) use kernel::stored_code;
use running::{Finished, Running};
use violations::Violations;
use waiting::{next_event, sleep_until, until_booted};

/// Code that may wait in one session, in bytes.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// After the disk was full, how long until the next try.
const STALL_RETRY: Duration = Duration::from_millis(500);

/// The settings of all sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Executions that may wait.
    pub(crate) queue: usize,
    /// Without use for so long, a session ends.
    pub(crate) idle_timeout: Duration,
    /// Nothing ran for so long: shown as idle.
    pub(crate) idle_after: Duration,
    /// An ended session stays readable for so long.
    pub(crate) keep_ended: Duration,
    /// Violations in a minute beyond which a session is ended.
    pub(crate) violations_per_minute: u32,
}

/// What an actor is made of.
pub(crate) struct Parts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) config: SessionConfig,
    pub(crate) settings: Settings,
    /// What is done about code that breaks the policy of the session's level.
    pub(crate) policy: PolicyAction,
    pub(crate) log: Log,
    pub(crate) meter: SessionMeter,
    pub(crate) store: Store,
    pub(crate) supervisor: SupervisorHandle,
    /// The owner's.
    pub(crate) account: Account,
    pub(crate) audit: Audit,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) snapshot: watch::Sender<Snapshot>,
}

/// Where an actor begins.
pub(crate) enum Origin {
    /// A new session with its first kernel.
    New(Kernel),
    /// The gateway died, the kernel lives.
    Adopted {
        /// The kernel, and the deadline that is armed for it.
        kernel: Kernel,
        deadline_ns: Option<u64>,
        found: Found,
        known: Vec<(ExecutionId, Fingerprint)>,
    },
    /// The supervisor or the machine died: the session is there, its state is not.
    Recovered { found: Found, known: Vec<(ExecutionId, Fingerprint)> },
    /// The session had ended before: it can be read, and nothing else.
    Ended { at: jiff::Timestamp, found: Found },
}

type Boot = Pin<Box<dyn Future<Output = Result<Box<Kernel>, BootError>> + Send>>;

/// See the module.
pub(crate) struct Actor {
    identity: Arc<Identity>,
    config: SessionConfig,
    settings: Settings,
    log: Log,
    meter: SessionMeter,
    store: Store,
    supervisor: SupervisorHandle,
    account: Account,
    audit: Audit,
    commands: mpsc::Receiver<Command>,
    snapshot: watch::Sender<Snapshot>,
    book: Book<Job>,
    kernel: Option<Kernel>,
    boot: Option<Boot>,
    running: Option<Running>,
    /// An execution has ended, and the supervisor is to be told at this instant if no other has begun by then.
    watch_idle_at: Option<Instant>,
    /// An ask of init that is not answered: nothing starts before.
    asked: Option<(u64, Instant)>,
    /// The driver is given up: its sandbox is killed at this instant, if it has not ended by itself.
    kill_at: Option<Instant>,
    /// Why it is given up.
    fault: Option<String>,
    /// What it has said that answers nothing.
    strays: u32,
    /// The driver has not said yet where it stands, and, if nothing runs, has until then.
    synchronising: Option<Instant>,
    /// An interrupt was sent: the driver is to say that it is past it, before it gets anything else.
    fence: bool,
    /// Its children were killed: with that it is told so.
    reap: bool,
    /// The interpreter is being killed while nothing runs: nothing starts before the next one is there.
    replacing: bool,
    /// Bytes of output since the last execution ended.
    idle_kept: u64,
    /// To be told in the next result.
    state_lost: bool,
    /// Who waits for a fresh interpreter.
    restarts: Vec<oneshot::Sender<Result<(), Refusal>>>,
    /// The log could not be written; tried again at this instant. Clocks of executions stand still since `.0`.
    stalled: Option<(Instant, Instant)>,
    /// Results that the log had no room for.
    unsaved: Vec<Finished>,
    /// Messages of the driver that the log had no room for; the program waits for each.
    unsaved_messages: VecDeque<(Message, Event)>,
    feed: stdin::Feed,
    queries: VecDeque<queries::Waiting>,
    asking: Option<queries::Asking>,
    query_number: u64,
    files: files::Asks,
    violations: Violations,
    last_activity: Instant,
    last_ran: Instant,
    /// The server stops: until when what runs may end, and who waits.
    draining: Option<(Instant, oneshot::Sender<()>)>,
    /// Set once the session has ended: until when it can be read.
    readable_until: Option<Instant>,
}

enum Wake {
    Kernel(KernelEvent),
    Booted(Result<Box<Kernel>, BootError>),
    Command(Command),
    Timer,
    /// Every handle is gone, the registry's too.
    Abandoned,
}

impl Actor {
    /// An actor at its beginning.
    pub(crate) fn new(parts: Parts, origin: Origin) -> Self {
        let Parts { identity, config, settings, policy, log, meter, store, supervisor, account, audit, .. } = parts;
        let (commands, snapshot) = (parts.commands, parts.snapshot);
        let rules =
            Rules { queue: settings.queue, queue_bytes: QUEUE_BYTES, max_expressions: identity.limits.max_expressions };
        let now = Instant::now();
        let mut actor = Self {
            identity,
            config,
            settings,
            log,
            meter,
            store,
            supervisor,
            account,
            audit,
            commands,
            snapshot,
            book: Book::new(rules, 0),
            kernel: None,
            boot: None,
            running: None,
            watch_idle_at: None,
            asked: None,
            kill_at: None,
            fault: None,
            strays: 0,
            synchronising: None,
            fence: false,
            reap: false,
            replacing: false,
            idle_kept: 0,
            state_lost: false,
            restarts: Vec::new(),
            stalled: None,
            unsaved: Vec::new(),
            unsaved_messages: VecDeque::new(),
            feed: stdin::Feed::default(),
            queries: VecDeque::new(),
            asking: None,
            query_number: 0,
            files: files::Asks::default(),
            violations: Violations::new(policy, settings.violations_per_minute),
            last_activity: now,
            last_ran: now,
            draining: None,
            readable_until: None,
        };
        match origin {
            Origin::New(kernel) => actor.kernel = Some(kernel),
            Origin::Adopted { kernel, deadline_ns, found, known } => {
                actor.book = Book::new(rules, found.execution_count);
                actor.adopt(kernel, deadline_ns, found, known);
            }
            Origin::Recovered { found, known } => {
                actor.book = Book::new(rules, found.execution_count);
                actor.recover(found, known);
            }
            Origin::Ended { at, found } => {
                actor.book = Book::new(rules, found.execution_count);
                actor.stay_ended(at, &found);
                return actor;
            }
        }
        actor.publish();
        actor
    }

    /// Runs until the session has ended and nothing more is to be told of it, or until the gateway drains.
    pub(crate) async fn run(mut self) {
        if let Some(until) = self.readable_until {
            return self.linger(until).await;
        }
        loop {
            // What happens next may have to be recorded.
            self.audit.room().await;
            let (timer, read_output) = (self.next_timer(), self.stalled.is_none());
            // Not biased: neither a flood of output nor one of commands may starve the other.
            let wake = tokio::select! {
                event = next_event(&mut self.kernel, read_output) => Wake::Kernel(event),
                booted = until_booted(&mut self.boot) => Wake::Booted(booted),
                command = self.commands.recv() => command.map_or(Wake::Abandoned, Wake::Command),
                () = sleep_until(timer) => Wake::Timer,
            };
            let span = self.running.as_ref().map_or_else(Span::none, |running| running.job.span.clone());
            match wake {
                Wake::Kernel(event) => span.in_scope(|| self.on_kernel(event)),
                Wake::Booted(outcome) => self.on_booted(outcome),
                Wake::Command(Command::Terminate(reply)) => return self.terminate(reply).await,
                Wake::Command(Command::Drain(deadline, reply)) => self.draining = Some((deadline, reply)),
                Wake::Command(command) => self.on_command(command),
                Wake::Timer => span.in_scope(|| self.on_timer()),
                Wake::Abandoned => return,
            }
            if self.violations.condemned {
                return self.end_condemned().await;
            }
            if self.is_drained() {
                return self.drain().await;
            }
            if self.is_expired() {
                return self.expire().await;
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.draining.as_ref().is_some_and(|(deadline, _)| !self.book.is_busy() || Instant::now() >= *deadline)
    }

    fn is_expired(&self) -> bool {
        !self.book.is_busy() && Instant::now() >= self.last_activity + self.settings.idle_timeout
    }

    /// Something was accepted or has ended: the idle timeout starts anew.
    fn touch(&mut self) {
        self.last_activity = Instant::now();
    }

    /// Publishes what readers of the session see.
    fn publish(&self) {
        self.publish_as(SessionStatus::Active, None);
    }

    fn publish_as(&self, status: SessionStatus, ended: Option<End>) {
        let now = jiff::Timestamp::now();
        let since = |at: Instant| now - jiff::SignedDuration::try_from(at.elapsed()).unwrap_or_default();
        let until = |at: Instant, span: Duration| since(at) + jiff::SignedDuration::try_from(span).unwrap_or_default();
        let busy = self.book.is_busy();
        self.snapshot.send_replace(Snapshot {
            status,
            execution_state: self.execution_state(),
            last_activity: since(self.last_activity),
            expression_count: self.book.begun(),
            expires_at: (!busy).then(|| until(self.last_activity, self.settings.idle_timeout)),
            idle_at: (!busy).then(|| until(self.last_ran, self.settings.idle_after)),
            ended,
        });
    }

    fn execution_state(&self) -> ExecutionState {
        match (&self.running, &self.boot) {
            (Some(_), _) => ExecutionState::Busy,
            (None, Some(_)) => ExecutionState::Starting,
            (None, None) => ExecutionState::Idle,
        }
    }

    fn tell(&mut self, status: SessionStatus, reason: StatusReason, recovered: Option<Recovered>) {
        let event = Event::Status { status, execution_state: self.execution_state(), reason: Some(reason), recovered };
        if let Err(error) = self.log.append(&event) {
            self.stall(&error);
        }
    }

    /// The log cannot be written: output waits in its pipes, clocks stand still, new work is refused, reads go on.
    fn stall(&mut self, error: &LogError) {
        let now = Instant::now();
        let since = self.stalled.map_or(now, |(since, _)| since);
        if self.stalled.is_none() {
            self.meter.log_failed();
            tracing::error!(error = error as &dyn std::error::Error, "the session's log cannot be written");
        }
        self.stalled = Some((since, now + STALL_RETRY));
    }

    fn unstall(&mut self) {
        let Some((since, _)) = self.stalled.take() else { return };
        if !self.flush_unsaved() {
            self.stalled = Some((since, Instant::now() + STALL_RETRY));
            return;
        }
        let stood = since.elapsed();
        self.delay_deadline(stood);
        tracing::info!(stood = ?stood, "the session's log can be written again");
        self.start_next();
    }

    /// Work of an earlier gateway that is in the log without a result: the first may run, the others wait.
    fn take_pending(
        &mut self,
        found: &Found,
        known: Vec<(ExecutionId, Fingerprint)>,
    ) -> Vec<(Ticket<Job>, Fingerprint)> {
        for (id, fingerprint) in known {
            self.book.remember(id, fingerprint, repltool_protocol::ids::Seq(0));
        }
        found
            .pending
            .iter()
            .filter_map(|pending| {
                let job = Job::decode(&pending.command.body)?;
                let fingerprint = Fingerprint::of(&job.code);
                let bytes = job.bytes();
                Some((Ticket { id: pending.command.id.clone(), job, bytes }, fingerprint))
            })
            .collect()
    }
}
