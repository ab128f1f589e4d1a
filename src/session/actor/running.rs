//! An execution that runs: its clocks, what it printed, and why it is being stopped. Decides nothing.

use std::time::Duration;

use repltool_protocol::event::{Exception, Limit, Outcome, RawJson, Usage, Violation};
use repltool_protocol::ids::ExecutionId;
use repltool_protocol::rest::Language;
use tokio::time::Instant;
use tracing::Span;

use super::kernel::Job;
use crate::runtime::control::{Done, StdinMode};
use crate::session::log::Begun;
use crate::session::timestamp;
use crate::supervisor::monotonic_ns;

/// From the interrupt at a limit to the kill.
pub(super) const GRACE: Duration = Duration::from_millis(250);
/// CPython passes over a signal that comes just before a blocking call, so at a limit it gets a second one.
const AGAIN: Repeat = Repeat { times: 1, pause: Duration::from_millis(120) };
/// Bash drops an interrupt if the child that it waits for ends by itself just then.
const AGAIN_SHELL: Repeat = Repeat { times: 2, pause: Duration::from_millis(60) };
/// The same at a limit, where nothing is to be spared.
const AGAIN_SHELL_AT_LIMIT: Repeat = Repeat { times: 11, pause: Duration::from_millis(20) };
/// How long init may take to answer, and a process to be killed.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(2);
/// How long a driver that runs nothing may take to say where it stands.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Why an execution is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A client asked; the state is kept and nothing escalates.
    User,
    /// A limit struck.
    Limit(Limit),
    /// A client wants a fresh interpreter.
    Restart,
}

/// How often an interrupt is repeated if the execution does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    times: u32,
    pause: Duration,
}

impl Repeat {
    /// What this language needs for this cause.
    pub(super) fn of(language: Language, cause: Cause) -> Option<Self> {
        match (language, cause) {
            (Language::Bash | Language::Shell, Cause::Limit(_)) => Some(AGAIN_SHELL_AT_LIMIT),
            (Language::Bash | Language::Shell, _) => Some(AGAIN_SHELL),
            (_, Cause::Limit(_)) => Some(AGAIN),
            (_, _) => None,
        }
    }
}

/// An execution that runs.
pub(super) struct Running {
    pub(super) id: ExecutionId,
    pub(super) job: Job,
    pub(super) count: u64,
    pub(super) started: Instant,
    pub(super) started_at: String,
    pub(super) deadline: Instant,
    pub(super) deadline_ns: u64,
    pub(super) stop: Option<Cause>,
    pub(super) kill_at: Option<Instant>,
    /// When it is interrupted once more, and how often after that.
    again: Option<(Instant, Repeat)>,
    /// Bytes of output that are in the log.
    pub(super) kept: u64,
    /// Bytes beyond `max_output_size`, thrown away.
    pub(super) dropped: u64,
    /// Bytes of prompts that are in the log.
    pub(super) asked: u64,
    /// The driver's word, while init kills what else the execution started.
    pub(super) done: Option<Box<Done>>,
    /// The limit for which it ends, once the driver has told its end.
    pub(super) verdict: Option<Limit>,
    /// The first rule that it broke.
    pub(super) violation: Option<Violation>,
    /// Its end waits until then for the word on what it was refused.
    pub(super) hears_until: Option<Instant>,
    /// Whether what is printed now belongs to nothing that runs.
    pub(super) is_nobodys: bool,
    /// Parts of the code that the driver has answered.
    pub(super) parts_sent: usize,
    /// Whether its request brought what it reads.
    pub(super) brings_stdin: bool,
    /// Open while the driver runs it.
    pub(super) driver: Span,
}

/// An execution that has ended, with what the history keeps of it.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) code: String,
}

impl Running {
    pub(super) fn new(id: ExecutionId, job: Job, count: u64) -> Self {
        let now = Instant::now();
        let span = job.timeout();
        Self {
            id,
            count,
            started: now,
            started_at: timestamp(jiff::Timestamp::now()),
            deadline: now + span,
            deadline_ns: monotonic_ns().saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
            job,
            stop: None,
            kill_at: None,
            again: None,
            kept: 0,
            dropped: 0,
            asked: 0,
            done: None,
            verdict: None,
            violation: None,
            hears_until: None,
            is_nobodys: false,
            parts_sent: 0,
            brings_stdin: false,
            driver: Span::none(),
        }
    }

    /// One that an earlier gateway started.
    pub(super) fn resumed(mut self, begun: &Begun, deadline_ns: Option<u64>) -> Self {
        self.started_at.clone_from(&begun.timestamp);
        self.violation = begun.violation.clone().or_else(|| self.job.judgement.told().cloned());
        if let Ok(at) = begun.timestamp.parse::<jiff::Timestamp>() {
            let passed = jiff::Timestamp::now().duration_since(at);
            let passed = Duration::try_from(passed).unwrap_or_default();
            self.started = self.started.checked_sub(passed).unwrap_or(self.started);
        }
        if let Some(deadline_ns) = deadline_ns {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
            (self.deadline, self.deadline_ns) = (Instant::now() + left, deadline_ns);
        }
        self
    }

    /// Where it reads from.
    pub(super) fn stdin_mode(&self) -> StdinMode {
        match (self.brings_stdin || self.job.stdin.is_some(), self.job.interactive) {
            (true, _) => StdinMode::Pipe,
            (false, true) => StdinMode::Ask,
            (false, false) => StdinMode::None,
        }
    }

    /// When something must be done about it.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if self.hears_until.is_some() {
            return self.hears_until;
        }
        let again = self.again.map(|(at, _)| at);
        let end = match self.stop {
            None | Some(Cause::User) => Some(self.deadline),
            Some(_) => self.kill_at,
        };
        end.into_iter().chain(again).min()
    }

    /// Interrupts are repeated from now on; none: no more.
    pub(super) fn repeat(&mut self, repeat: Option<Repeat>) {
        self.again = repeat.map(|repeat| (Instant::now() + repeat.pause, repeat));
    }

    /// Whether it is to be interrupted again now.
    pub(super) fn is_due_again(&mut self, now: Instant) -> bool {
        let Some((_, repeat)) = self.again.take_if(|(at, _)| now >= *at) else { return false };
        let left = Repeat { times: repeat.times - 1, ..repeat };
        self.repeat((left.times > 0).then_some(left));
        true
    }

    /// Its time is over and nothing has been done about it.
    pub(super) fn is_overdue(&self) -> bool {
        self.stop.is_none() && Instant::now() >= self.deadline
    }

    /// The limit that is to be reported if it ends now, with its end at this instant of CLOCK_MONOTONIC.
    pub(super) fn limit(&self, end_ns: u64) -> Option<Limit> {
        match self.stop {
            // It ended in time after all; the interrupt met nothing.
            Some(Cause::Limit(Limit::WallTime)) if end_ns <= self.deadline_ns => None,
            Some(Cause::Limit(limit)) => Some(limit),
            _ if self.dropped > 0 => Some(Limit::Output),
            _ => None,
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            id: self.id.clone(),
            execution_count: self.count,
            success: false,
            result: RawJson::null(),
            result_text: None,
            exception: None,
            exit_code: None,
            limit: None,
            violation: self.violation.clone(),
            truncated: self.dropped > 0,
            state_lost: false,
            usage: Usage { output_bytes: self.kept, ..Usage::default() },
            execution_time_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            timestamp: self.started_at.clone(),
        }
    }
}

/// What an execution is told that a client cancelled while it waited.
pub(super) fn interrupted(why: &str) -> Exception {
    Exception {
        name: "Interrupted".to_owned(),
        message: why.to_owned(),
        traceback: vec![format!("Interrupted: {why}")],
    }
}

/// What an execution is told that was not run, or not to its end, for want of the state it was written for.
pub(super) fn state_lost(why: &str) -> Exception {
    Exception { name: "StateLost".to_owned(), message: why.to_owned(), traceback: vec![format!("StateLost: {why}")] }
}
