//! The session's kernel: booting, losing, taking over.

use std::time::Duration;

use bytes::Bytes;
use repltool_protocol::event::{Recovered, SessionStatus, StatusReason};
use repltool_protocol::ids::{ExecutionId, Seq, SessionId};
use serde::{Deserialize, Serialize};

use tokio::time::Instant;
use tracing::Span;

use super::running::{ANSWER_LIMIT, Cause, GRACE};
use super::stdin::Feed;
use super::{Actor, Running};
use crate::audit::Kind;
use crate::metrics::labels;
use crate::runtime::control::{ControlError, FIRST_QUERY, FromDriver};
use crate::runtime::screen::Judgement;
use crate::runtime::{BootError, Kernel, KernelEvent, Used};
use crate::session::admission::Fingerprint;
use crate::session::audited;
use crate::session::log::Found;
use crate::session::quotas::Account;
use crate::session::{Execute, Judged, Refusal, create_request};
use crate::supervisor::link::Exited;

/// Messages that answer nothing which a driver may send between two executions. After a `hello` it repeats a few.
const MAX_STRAYS: u32 = 100;

/// What an execution is to do, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) code: String,
    timeout_ms: u64,
    /// What it reads, then end of file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stdin: Option<String>,
    /// Whether a client can be asked for input.
    #[serde(default)]
    pub(super) interactive: bool,
    /// What the screening of its code said.
    #[serde(default, skip_serializing_if = "Judgement::is_empty")]
    pub(super) judgement: Judgement,
    /// When this gateway took it; none in what an earlier one has stored.
    #[serde(skip)]
    pub(super) queued_at: Option<Instant>,
    /// What its lines in the log of the server stand in.
    #[serde(skip, default = "Span::none")]
    pub(super) span: Span,
    /// Where it is counted; none in what an earlier gateway has stored.
    #[serde(skip)]
    pub(super) account: Option<Account>,
}

impl Job {
    pub(super) fn new(Judged { execute, judgement }: Judged) -> Self {
        let timeout_ms = u64::try_from(execute.timeout.as_millis()).unwrap_or(u64::MAX);
        let Execute { code, stdin, interactive, account, .. } = execute;
        let (queued_at, span) = (Some(Instant::now()), Span::none());
        Self { code, timeout_ms, stdin, interactive, judgement, queued_at, span, account: Some(account) }
    }

    /// The same, whose lines in the log of the server are those of the request that it came by.
    pub(super) fn told_in(self, asker: &Span, session: &SessionId, execution: &ExecutionId) -> Self {
        Self { span: tracing::info_span!(parent: asker, "execution", %session, %execution), ..self }
    }

    /// What it takes of the queue's bytes.
    pub(super) fn bytes(&self) -> usize {
        self.code.len() + self.stdin.as_ref().map_or(0, String::len)
    }

    pub(super) fn encode(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// The code of a command as it is stored in the log.
pub(crate) fn stored_code(body: &[u8]) -> Option<String> {
    Job::decode(body).map(|job| job.code)
}

impl Actor {
    pub(super) fn on_kernel(&mut self, event: KernelEvent) {
        match event {
            KernelEvent::Output(stream) => self.on_output(stream),
            KernelEvent::Driver(FromDriver::Done(done)) => self.on_done(done),
            KernelEvent::Driver(FromDriver::Part { n, i }) if n >= FIRST_QUERY => self.query_part_taken(n, i),
            KernelEvent::Driver(FromDriver::Part { n, i }) => self.part_taken(n, i),
            KernelEvent::Driver(FromDriver::Display { m, data, metadata, .. }) => self.on_display(m, data, metadata),
            KernelEvent::Driver(FromDriver::InputRequest { m, prompt, password, .. }) => {
                self.on_input_request(m, prompt, password);
            }
            KernelEvent::Driver(FromDriver::Owner { m, n }) => self.on_owner(m, n),
            KernelEvent::Driver(FromDriver::Reply { n, body }) => self.on_reply(n, body),
            KernelEvent::Driver(FromDriver::Hello { last, .. }) => self.on_hello(last),
            KernelEvent::Driver(FromDriver::Ready { .. }) => self.stray(),
            KernelEvent::Ended(_) => {}
            KernelEvent::Refused(refused) => self.on_refused(refused),
            KernelEvent::DriverFault(error) => self.driver_fault(&error),
            KernelEvent::Asked(id) => self.on_asked(id),
            KernelEvent::File { id, answer } => self.on_file(id, answer),
            KernelEvent::Limit(limit) => self.on_limit(limit),
            KernelEvent::Measured => self.on_measured(),
            KernelEvent::Gone(exited) => self.kernel_gone(&exited),
        }
    }

    /// The driver cannot be used any more. The usual reason is that its process has ended, and init is about to tell how.
    pub(super) fn driver_fault(&mut self, error: &ControlError) {
        tracing::debug!(error = error as &dyn std::error::Error, "the driver is given up");
        if let Some(kernel) = &mut self.kernel {
            kernel.give_up_driver();
        }
        // A second fault puts nothing off.
        self.kill_at.get_or_insert(Instant::now() + GRACE);
        self.fault.get_or_insert(error.to_string());
        // What is not begun yet is not given to a driver that cannot tell its end.
        self.replacing |= self.running.is_none();
    }

    /// The driver has said something that answers nothing. Repeats are no fault, a flood is.
    pub(super) fn stray(&mut self) {
        self.strays += 1;
        if self.strays > MAX_STRAYS {
            self.driver_fault(&ControlError::Unexpected);
        }
    }

    /// Every process is gone: the last of the output is taken, what ran is told, and a fresh interpreter boots.
    fn kernel_gone(&mut self, exited: &Exited) {
        self.take_the_rest();
        // Dropped only when its end is in the log: until then the supervisor keeps what the next gateway would need.
        let mut kernel = self.kernel.take();
        self.violations.condemned |= exited.violations;
        let (status, used) = kernel.as_mut().map_or((None, Used::default()), |it| (it.exit_status(), it.used()));
        // One that ended by itself in time was not given up.
        let given_up = self.fault.take().filter(|_| self.kill_at.is_none());
        self.count_loss(exited, given_up.is_some());
        (self.asked, self.kill_at, self.strays) = (None, None, 0);
        (self.synchronising, self.fence, self.reap, self.replacing) = (None, false, false, false);
        self.feed = Feed::default();
        self.lose_query();
        self.lose_file_asks();
        tracing::info!(?status, out_of_memory = exited.out_of_memory, limit = ?exited.limit, "interpreter lost");
        let waiting = self.book.lose();
        // Begun by the actor's next turn, but known to all before the end is told: nobody finds the session idle between.
        self.begin_boot();
        self.lose_running(status, used, exited, given_up);
        for ticket in waiting {
            let why = super::running::state_lost("the interpreter was lost before it ran");
            self.end_unrun(ticket.id, ticket.job, why);
        }
        drop(kernel);
        self.publish();
    }

    fn count_loss(&self, exited: &Exited, given_up: bool) {
        let stop = self.running.as_ref().and_then(|running| running.stop);
        self.meter.lost(match (exited.limit, stop) {
            _ if self.violations.condemned => "violations",
            _ if !self.restarts.is_empty() => "restart",
            (_, Some(Cause::Limit(limit))) | (Some(limit), _) => labels::limit(limit),
            _ if given_up => "fault",
            _ => "exit",
        });
    }

    pub(super) fn begin_boot(&mut self) {
        if self.boot.is_some() || self.kernel.is_some() || self.violations.condemned {
            return;
        }
        let supervisor = self.supervisor.clone();
        let create = create_request(&self.identity, &self.config);
        let meter = self.meter.clone();
        let boot = async move { meter.start(Kernel::boot(&supervisor, create)).await.map(Box::new) };
        self.boot = Some(Box::pin(boot));
        self.publish();
    }

    pub(super) fn on_booted(&mut self, outcome: Result<Box<Kernel>, BootError>) {
        match outcome {
            Ok(kernel) => {
                self.kernel = Some(*kernel);
                self.tell(SessionStatus::Active, StatusReason::Restarted, None);
                self.note_restart(true);
                self.idle_kept = 0;
                self.start_next();
                self.ask_files();
                self.publish();
                self.answer_restarts(&Ok(()));
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no interpreter can be started");
                self.end_waiting("no interpreter could be started");
                self.tell(SessionStatus::Error, StatusReason::Restarted, None);
                self.note_restart(false);
                self.publish_as(SessionStatus::Error, None);
                self.answer_restarts(&Err(Refusal::SandboxUnavailable(error.to_string())));
            }
        }
    }

    fn note_restart(&self, success: bool) {
        let reason = if self.restarts.is_empty() { "interpreter_lost" } else { "client" };
        self.audit.note(audited::changed(Kind::SessionRestarted, &self.identity, reason, success));
    }

    fn answer_restarts(&mut self, answer: &Result<(), Refusal>) {
        for reply in self.restarts.drain(..) {
            let _ = reply.send(answer.clone());
        }
    }

    /// The kernel lives, the gateway before us does not. What was written meanwhile lies in the pipes and the spools.
    pub(super) fn adopt(
        &mut self,
        mut kernel: Kernel,
        deadline_ns: Option<u64>,
        found: Found,
        known: Vec<(ExecutionId, Fingerprint)>,
    ) {
        self.audit.note(audited::changed(Kind::SessionRecovered, &self.identity, "adopted", true));
        // Answers to asks of the gateway before us may still come.
        kernel.number_asks_from(u64::from(rand::random::<u32>()) << 16);
        if let Some(message) = found.message.filter(|message| message.sandbox == kernel.sandbox().0) {
            kernel.note_stored(message.number);
        }
        let synchronised = kernel.synchronise(false);
        self.kernel = Some(kernel);
        if deadline_ns.is_some() && found.pending.iter().all(|pending| pending.begun.is_none()) {
            // What it was armed for has ended.
            self.watch_idle_soon();
        }
        self.synchronising = Some(Instant::now() + ANSWER_LIMIT);
        for (at, (ticket, fingerprint)) in self.take_pending(&found, known).into_iter().enumerate() {
            let after = Seq(found.pending[at].queued.0.saturating_sub(1));
            match &found.pending[at].begun {
                Some(begun) if self.running.is_none() => {
                    self.book.resume(ticket.id.clone(), fingerprint, after);
                    let running = Running::new(ticket.id, ticket.job, begun.execution_count);
                    let running = running.resumed(begun, deadline_ns);
                    if deadline_ns.is_none() {
                        // The gateway before us died between the code and the word of its deadline.
                        self.watch(false, Some(running.deadline_ns));
                    }
                    self.running = Some(running);
                }
                _ => self.book.queue(ticket, fingerprint, after),
            }
        }
        self.resume_stdin();
        self.flush_unsaved();
        if let Err(error) = synchronised {
            self.driver_fault(&error);
        }
    }

    /// The driver has said where it stands: either it has ended what runs, and repeats that next, or it never heard of it.
    fn on_hello(&mut self, last: u64) {
        if self.synchronising.take().is_none() {
            return self.stray();
        }
        self.strays = 0;
        match &self.running {
            Some(running) if running.count > last => {
                if !self.end_refused() {
                    self.send_code();
                }
            }
            Some(_) => {}
            None => self.start_next(),
        }
    }

    /// The interpreter went with the supervisor or the machine: the session is there, its variables are not.
    pub(super) fn recover(&mut self, found: Found, known: Vec<(ExecutionId, Fingerprint)>) {
        self.audit.note(audited::changed(Kind::SessionRecovered, &self.identity, "empty", true));
        self.state_lost = found.execution_count > 0;
        self.flush_unsaved();
        for (at, (ticket, fingerprint)) in self.take_pending(&found, known).into_iter().enumerate() {
            self.book.remember(ticket.id.clone(), fingerprint, Seq(found.pending[at].queued.0.saturating_sub(1)));
            self.end_interrupted_by_loss(ticket, found.pending[at].begun.as_ref());
        }
        self.tell(SessionStatus::Active, StatusReason::Recovered, Some(Recovered::Empty));
    }
}
