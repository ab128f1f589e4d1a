//! Sessions: what a client owns. Nothing here knows HTTP, sockets, tokens or frames.
//!
//! ```text
//!            create                    started           result
//!   (none) ─────────▶ starting ─────▶ idle ⇄ busy ─────────────▶ idle
//!                        ▲              │       │ interpreter lost, restart
//!                        └──────────────┴───────┘
//!   any ── terminate ──▶ deleted          any ── interpreter cannot be replaced ──▶ error
//!   any ── idle timeout, too many violations ──▶ terminated ── kept for a while ──▶ deleted
//! ```
//!
//! One task, the [`actor`], owns a session's state, its log and its kernel. A [`SessionHandle`] is the only way in:
//! commands go through a bounded channel, events come back through the log.

pub mod actor;
pub mod admission;
mod audited;
mod creation;
mod files;
pub mod log;
pub mod quotas;
mod recovery;
pub mod registry;
mod screening;
mod stock;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use repltool_protocol::event::{ExecutionState, SessionStatus};
use repltool_protocol::ids::{ExecutionId, Seq, SessionId};
use repltool_protocol::query::{QueryKind, Reply};
use repltool_protocol::rest::{HistoryEntry, Language, ResourceLimits, SandboxMode, Session};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::runtime::files::{FileAnswer, FileAsk};
use crate::store::Store;
use creation::create_request;
pub use files::{FileFault, NewFile, OpenFile};
pub use screening::{Judged, Screening};

/// Why a command was refused. The session is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full.
    #[error("{0} executions wait already; wait for one to end")]
    Busy(usize),
    /// The same execution id was used for other code.
    #[error("execution id {0} was used for other code")]
    Conflict(ExecutionId),
    /// `max_expressions` is reached.
    #[error("the session has run its {0} executions; create a new one")]
    ExpressionLimit(u64),
    /// A quota of the caller is used up.
    #[error(transparent)]
    Quota(#[from] quotas::Exhausted),
    /// The session has ended.
    #[error("the session has ended")]
    Gone,
    /// The gateway is about to stop.
    #[error("the server is about to stop; connect again")]
    Draining,
    /// No room for the command or its output.
    #[error("the server's disk is full; what is stored can still be read")]
    StorageFull,
    /// No interpreter can be had.
    #[error("no interpreter could be started: {0}")]
    SandboxUnavailable(String),
    /// Nothing runs that could read.
    #[error("nothing runs that could read standard input")]
    NothingReads,
    /// So much standard input waits to be read that there is no room for more.
    #[error("standard input that was sent before is not read yet; send less at once")]
    StdinFull,
    /// The interpreter has no time for what was asked beside executions.
    #[error("the session is too busy for that now; ask again when what runs has ended")]
    NoTime,
    /// What was asked for a file cannot be done; the second says why, for programs.
    #[error("{0}")]
    File(String, FileFault),
    /// A fault of the server, told in its log.
    #[error("internal fault")]
    Internal,
}

/// An execution to run.
#[derive(Debug, Clone)]
pub struct Execute {
    /// The client's name for it, or none.
    pub id: Option<ExecutionId>,
    /// What to run; the caller has checked its length.
    pub code: String,
    /// From the start of the execution.
    pub timeout: Duration,
    /// What the program reads from standard input, then end of file.
    pub stdin: Option<String>,
    /// Whether a client is there to answer: without, and without `stdin`, the program reads end of file at once.
    pub interactive: bool,
    /// Where it is counted, unless its session is that of one request, which was.
    pub account: quotas::Account,
}

/// What a client gives a running program to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// The text.
    pub text: String,
    /// Whether end of file follows.
    pub end: bool,
}

/// A question to the interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What is asked.
    pub kind: QueryKind,
    /// The code that it is about; the caller has checked its length.
    pub code: String,
    /// In code points; within the code.
    pub cursor: u64,
}

/// An execution that is stored, and will run or end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its name.
    pub id: ExecutionId,
    /// Reading the log after this number meets every event of the execution.
    pub after: Seq,
}

/// For how long a session is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifespan {
    /// Until a client terminates it or nobody uses it.
    Kept,
    /// For one request: nobody else finds it, and no later gateway takes it up.
    OneShot,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A client terminated it.
    Terminated,
    /// Nobody used it for its idle timeout.
    IdleTimeout,
    /// There were too many violations.
    Violations,
}

/// What changes in the life of a session; published by the actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether it can be used.
    pub status: SessionStatus,
    /// What the interpreter does.
    pub execution_state: ExecutionState,
    /// When it was last used.
    pub last_activity: jiff::Timestamp,
    /// Executions so far.
    pub expression_count: u64,
    /// When it ends if nobody uses it.
    pub expires_at: Option<jiff::Timestamp>,
    /// When it is shown as idle.
    pub idle_at: Option<jiff::Timestamp>,
    /// Set once the session has ended.
    pub ended: Option<End>,
}

/// What never changes in the life of a session.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Names the session.
    pub id: SessionId,
    /// Subject of the token that created it.
    pub owner: String,
    /// As it was asked for.
    pub language: Language,
    /// Sandbox level.
    pub sandbox_mode: SandboxMode,
    /// What it may use.
    pub limits: ResourceLimits,
    /// When it was created.
    pub created_at: jiff::Timestamp,
    /// For how long it is there.
    pub lifespan: Lifespan,
}

/// What the actor is asked. The sender may go away: a command that was queued is carried out all the same.
#[derive(Debug)]
pub enum Command {
    /// See [`SessionHandle::execute`]; the span is that of whoever asks.
    Execute(Box<Judged>, tracing::Span, oneshot::Sender<Result<Accepted, Refusal>>),
    /// See [`SessionHandle::interrupt`].
    Interrupt(Option<ExecutionId>, oneshot::Sender<Result<(), Refusal>>),
    /// See [`SessionHandle::restart`].
    Restart(oneshot::Sender<Result<(), Refusal>>),
    /// See [`SessionHandle::stdin`].
    Stdin(Input, oneshot::Sender<Result<(), Refusal>>),
    /// See [`SessionHandle::query`].
    Query(Query, oneshot::Sender<Result<Reply, Refusal>>),
    /// An ask about files: see [`SessionHandle::files`] and those after it.
    File(FileAsk, oneshot::Sender<Result<FileAnswer, Refusal>>),
    /// See [`SessionHandle::terminate`].
    Terminate(oneshot::Sender<()>),
    /// The server stops; the session is kept. What runs has until this instant.
    Drain(Instant, oneshot::Sender<()>),
}

/// Commands that wait for a session's actor; a caller beyond that waits for room.
pub const COMMAND_QUEUE: usize = 64;

/// The way into a session. Cheap to clone; the session outlives its handles.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    identity: Arc<Identity>,
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Snapshot>,
    log: log::LogReader,
    store: Store,
    screening: Arc<Screening>,
}

impl SessionHandle {
    /// Joins the ends that an actor was given.
    pub fn new(
        identity: Arc<Identity>,
        commands: mpsc::Sender<Command>,
        snapshot: watch::Receiver<Snapshot>,
        log: log::LogReader,
        store: Store,
        screening: Arc<Screening>,
    ) -> Self {
        Self { identity, commands, snapshot, log, store, screening }
    }

    /// What never changes.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Waits until the actor has published what it begins with.
    async fn begun(&self) {
        // If the actor has gone already, there is nothing to wait for.
        let _ = self.snapshot.clone().changed().await;
    }

    /// Waits until nothing runs and nothing boots, or for so long.
    pub async fn until_idle(&self, limit: Duration) {
        let mut snapshot = self.snapshot.clone();
        let idle = snapshot.wait_for(|now| now.execution_state == ExecutionState::Idle || now.ended.is_some());
        // An actor that has gone is as idle as can be.
        let _ = tokio::time::timeout(limit, idle).await;
    }

    /// What changes, as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// The session as its owner sees it.
    pub fn describe(&self) -> Session {
        let now = self.snapshot();
        Session {
            session_id: self.identity.id.clone(),
            language: self.identity.language,
            created_at: timestamp(self.identity.created_at),
            last_activity: timestamp(now.last_activity),
            status: match now.idle_at {
                Some(at) if now.status == SessionStatus::Active && jiff::Timestamp::now() >= at => SessionStatus::Idle,
                _ => now.status,
            },
            execution_state: now.execution_state,
            resource_limits: self.identity.limits,
            sandbox_mode: self.identity.sandbox_mode,
            owner: self.identity.owner.clone(),
            expression_count: now.expression_count,
            last_seq: self.log.last_seq().0,
            expires_at: now.expires_at.map(timestamp),
        }
    }

    /// The session's event log.
    pub fn log(&self) -> &log::LogReader {
        &self.log
    }

    /// Screens the code of an execution, stores it and queues it. One that is refused is queued too, and ends in its turn
    /// without having run. The same id with the same code follows the execution that has it already.
    ///
    /// # Errors
    /// See [`Refusal`].
    ///
    /// # Cancel safety
    /// Not cancel-safe in one point: a caller that goes away may have queued the execution, which is then run.
    pub async fn execute(&self, execute: Execute) -> Result<Accepted, Refusal> {
        let judged = self.screening.judge(&self.identity, execute).await?;
        self.ask(|reply| Command::Execute(Box::new(judged), tracing::Span::current(), reply)).await?
    }

    /// Interrupts an execution and keeps the state: the one that runs, or the named one (a queued one is cancelled, a
    /// finished one is left).
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn interrupt(&self, id: Option<ExecutionId>) -> Result<(), Refusal> {
        self.ask(|reply| Command::Interrupt(id, reply)).await?
    }

    /// Replaces the interpreter. What runs and what waits ends with `StateLost`.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn restart(&self) -> Result<(), Refusal> {
        self.ask(Command::Restart).await?
    }

    /// Gives the running program something to read.
    ///
    /// # Errors
    /// [`Refusal::NothingReads`], [`Refusal::StdinFull`] and what every command may be refused for.
    pub async fn stdin(&self, input: Input) -> Result<(), Refusal> {
        self.ask(|reply| Command::Stdin(input, reply)).await?
    }

    /// Asks the interpreter, after what runs now has ended.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if it has no time for that, and what every command may be refused for.
    pub async fn query(&self, query: Query) -> Result<Reply, Refusal> {
        self.ask(|reply| Command::Query(query, reply)).await?
    }

    /// Ends the session and deletes all that belongs to it. Returns when its processes are gone.
    ///
    /// # Errors
    /// [`Refusal::Gone`] if it has ended already.
    pub async fn terminate(&self) -> Result<(), Refusal> {
        self.ask(Command::Terminate).await
    }

    /// A page of past executions, oldest first, and how many there are.
    ///
    /// # Errors
    /// [`Refusal::Internal`] if the store cannot be read.
    pub async fn history(&self, limit: u64, offset: u64) -> Result<(u64, Vec<HistoryEntry>), Refusal> {
        self.store.history(&self.identity.id, limit, offset).await.map_err(|error| {
            tracing::error!(session = %self.identity.id, error = &error as &dyn std::error::Error, "history cannot be read");
            Refusal::Internal
        })
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| Refusal::Gone)?;
        answer.await.map_err(|_| Refusal::Gone)
    }
}

/// A name for an execution whose client gave none: 128 random bits.
fn new_execution_id() -> ExecutionId {
    format!("{:032x}", rand::random::<u128>()).parse().expect("32 hex digits are an id")
}

/// RFC 3339 in UTC with milliseconds.
pub fn timestamp(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}
