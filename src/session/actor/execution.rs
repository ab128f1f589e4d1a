//! The life of one execution: start, stop, end.

use std::time::Duration;

use repltool_protocol::event::{Event, Exception, Limit, Outcome, StreamName};
use repltool_protocol::ids::ExecutionId;
use tokio::time::Instant;
use tracing::Span;

use super::Actor;
use super::kernel::Job;
use super::limits;
use super::running::{ANSWER_LIMIT, ASK_LIMIT, Cause, Finished, GRACE, Repeat, Running, state_lost};
use super::violations::TOO_MANY;
use crate::metrics::labels;
use crate::runtime::control::{Done, ToDriver};
use crate::runtime::{Kernel, Used};
use crate::session::admission::Ticket;
use crate::session::audited;
use crate::session::log::{Begun, Edge};
use crate::supervisor::link::Exited;
use crate::supervisor::link::init::ExitStatus;
use crate::supervisor::monotonic_ns;

impl Actor {
    /// Starts what waits, if the kernel is free and everything before is settled.
    pub(super) fn start_next(&mut self) {
        let settled = self.asked.is_none() && self.stalled.is_none() && self.synchronising.is_none() && !self.replacing;
        if !settled || self.violations.condemned || self.running.is_some() || self.asking.is_some() {
            return;
        }
        if self.kernel.is_none() {
            if self.book.is_busy() || !self.queries.is_empty() {
                self.begin_boot();
            }
            return;
        }
        if std::mem::take(&mut self.fence) {
            return self.synchronise();
        }
        if self.begin_query() {
            return;
        }
        let Some((ticket, count)) = self.book.begin() else { return };
        // What was printed between executions belongs to none.
        self.settle_output();
        if self.replacing {
            return self.book.put_back(ticket);
        }
        let running = Running::new(ticket.id.clone(), ticket.job.clone(), count);
        if self.reopen_stdin(running.stdin_mode()) {
            return self.book.put_back(ticket);
        }
        let started =
            Event::Started { id: running.id.clone(), execution_count: count, timestamp: running.started_at.clone() };
        if let Err(error) = self.log.append(&started) {
            self.book.put_back(ticket);
            return self.stall(&error);
        }
        self.hand_to_driver(running);
        self.publish();
    }

    /// Has the driver run what the log says has started.
    fn hand_to_driver(&mut self, running: Running) {
        let (deadline_ns, queued_at) = (running.deadline_ns, running.job.queued_at);
        // Where only the supervisor counts, it begins before the code is there. Else nobody need wait until it is told.
        let is_told_late = self.kernel.as_ref().is_some_and(Kernel::has_counters);
        if !is_told_late {
            self.watch(true, Some(deadline_ns));
        }
        if let Some(kernel) = &mut self.kernel {
            // It was used beside executions.
            self.account.charge(kernel.begin_usage());
        }
        self.running = Some(running);
        self.note_wait(queued_at);
        self.strays = 0;
        self.note_judgement();
        if self.end_refused() {
            return;
        }
        self.begin_stdin();
        self.begin_driver_span();
        self.send_code();
        if is_told_late {
            self.watch(true, Some(deadline_ns));
        }
    }

    /// Sends the code of the running execution: at once if it is short, else the first part of it.
    pub(super) fn send_code(&mut self) {
        if let Some(running) = &mut self.running {
            running.parts_sent = 0;
        }
        self.send_part();
    }

    fn send_part(&mut self) {
        let (Some(running), Some(kernel)) = (&self.running, &mut self.kernel) else { return };
        let (n, count, stdin) = (running.count, running.count, running.stdin_mode());
        let ack = Some(kernel.stored());
        let message = |code, parts| ToDriver::Exec { n, count, code, parts, ack, stdin };
        if let Err(error) = kernel.send_code(n, &running.job.code, running.parts_sent, message) {
            self.driver_fault(&error);
        }
    }

    /// Asks the driver where it stands; nothing starts before it has said so.
    fn synchronise(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        self.synchronising = Some(Instant::now() + ANSWER_LIMIT);
        if let Err(error) = kernel.synchronise(std::mem::take(&mut self.reap)) {
            self.driver_fault(&error);
        }
    }

    /// The driver has a part: the next one, or the word to run them.
    pub(super) fn part_taken(&mut self, n: u64, i: usize) {
        if let Some(running) = self.running.as_mut().filter(|it| it.count == n && it.parts_sent == i) {
            running.parts_sent += 1;
            self.send_part();
        } else {
            self.stray();
        }
    }

    /// Acts on deadlines that have passed.
    pub(super) fn enforce(&mut self, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if let Some(until) = running.hears_until {
            if now >= until {
                self.give_up_hearing();
            }
            return;
        }
        if running.is_due_again(now)
            && let Some(kernel) = &mut self.kernel
        {
            self.asked = Some((kernel.interrupt(), now + ASK_LIMIT));
            self.fence = true;
        }
        match running.stop {
            None | Some(Cause::User) if now >= running.deadline => self.stop(Cause::Limit(Limit::WallTime)),
            Some(_) if running.kill_at.is_some_and(|at| now >= at) => {
                tracing::debug!(execution = %running.id, "not ended after the interrupt; killed");
                self.kill();
            }
            _ => {}
        }
    }

    /// Interrupts the running execution. At a limit the kill follows if it does not end.
    pub(super) fn stop(&mut self, cause: Cause) {
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return };
        if !matches!(running.stop, None | Some(Cause::User)) {
            return;
        }
        running.stop = Some(cause);
        running.repeat(Repeat::of(self.identity.language, cause));
        let now = Instant::now();
        if let Cause::Limit(_) = cause {
            running.kill_at = Some(now + GRACE);
        }
        self.asked = Some((kernel.interrupt(), now + ASK_LIMIT));
        self.fence = true;
    }

    /// Kills the sandbox; its end is an event of the kernel.
    pub(super) fn kill(&mut self) {
        if let Some(kernel) = &self.kernel {
            kernel.kill();
        }
        if let Some(running) = &mut self.running {
            running.repeat(None);
            running.kill_at = None;
            // Nothing is due any more but the end of the sandbox.
            running.stop = running.stop.or(Some(Cause::User));
            running.deadline = Instant::now() + Duration::from_secs(24 * 3600);
        }
    }

    /// The driver says that an execution has ended.
    pub(super) fn on_done(&mut self, mut done: Box<Done>) {
        if done.end_ns == 0 {
            done.end_ns = monotonic_ns();
        }
        if self.running.as_ref().is_none_or(|it| it.count != done.n || it.done.is_some()) {
            return self.stray();
        }
        self.fence();
        self.on_findings(done.m, std::mem::take(&mut done.violations));
        if let Some(running) = &mut self.running {
            (running.is_nobodys, running.driver) = (false, Span::none());
            running.done = Some(done);
            running.repeat(None);
            running.kill_at = Some(Instant::now() + ASK_LIMIT);
        }
        if self.has_heard_all() {
            self.conclude();
        }
    }

    /// The driver has told the end, and it is known what was refused. A session that is about to be ended for that ends
    /// this with it.
    pub(super) fn conclude(&mut self) {
        match &self.kernel {
            _ if self.violations.condemned => {}
            // The end is told when it is known what was used.
            Some(kernel) if !kernel.has_counters() => kernel.measure(),
            _ => self.on_measured(),
        }
    }

    /// The driver has told the end, and it is known what was used: it is completed, or, at a limit, first everything is
    /// killed that the execution started.
    pub(super) fn on_measured(&mut self) {
        if self.running.as_ref().is_some_and(|running| running.hears_until.is_some()) {
            return;
        }
        let Some(used) = self.kernel.as_mut().map(Kernel::used) else { return };
        let verdict = self.limit_at_end(used);
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return };
        if verdict.is_some() && running.verdict.is_none() {
            running.verdict = verdict;
            self.asked = Some((kernel.kill_rest(), Instant::now() + ASK_LIMIT));
            (self.fence, self.reap) = (true, true);
        } else if let Some(done) = running.done.take() {
            self.complete(*done, used);
        }
    }

    /// Init has answered what it was asked last.
    pub(super) fn on_asked(&mut self, id: u64) {
        if self.on_fed(id) || self.asked.is_none_or(|(asked, _)| asked != id) {
            return;
        }
        self.asked = None;
        // An end without a verdict still waits for what was used.
        match self.running.as_mut().filter(|it| it.verdict.is_some()).and_then(|it| it.done.take()) {
            Some(done) => {
                // Those that were killed may have written until then.
                self.fence();
                let used = self.kernel.as_mut().map(Kernel::used).unwrap_or_default();
                self.complete(*done, used);
            }
            None => self.start_next(),
        }
    }

    fn complete(&mut self, done: Done, used: Used) {
        let Some(running) = self.running.take() else { return };
        let mut outcome = running.outcome();
        if let Some(kernel) = &mut self.kernel {
            kernel.note_stored(done.m);
        }
        limits::tell_usage(&mut outcome, used);
        outcome.limit = running.verdict;
        outcome.success = done.success && outcome.limit.is_none();
        outcome.result = done.result;
        outcome.result_text = done.result_text;
        outcome.exception = done.exception;
        outcome.exit_code = done.exit_code;
        outcome.truncated |= done.truncated;
        self.settle(running, outcome);
    }

    /// The interpreter is gone in the middle of an execution.
    pub(super) fn lose_running(
        &mut self,
        status: Option<ExitStatus>,
        used: Used,
        exited: &Exited,
        given_up: Option<String>,
    ) {
        let Some(running) = self.running.take() else {
            self.state_lost = true;
            return self.charge_lost(used);
        };
        let mut outcome = running.outcome();
        outcome.state_lost = true;
        limits::tell_usage(&mut outcome, used);
        outcome.exit_code = status.map(|status| match status {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
        });
        outcome.limit = match &running.done {
            Some(_) => running.verdict,
            None => limits::of_loss(&running, status, exited, self.heap_ceiling()),
        };
        if running.stop == Some(Cause::Restart) {
            outcome.exception = Some(state_lost("the interpreter was restarted"));
        } else if let Some(fault) = given_up.filter(|_| outcome.limit.is_none()) {
            outcome.exception = Some(state_lost(&format!("the interpreter was replaced: {fault}")));
        } else if outcome.limit.is_none() && outcome.exit_code.is_none() {
            outcome.exception = Some(state_lost("the interpreter was killed"));
        }
        if self.violations.condemned {
            outcome.exception = Some(state_lost(TOO_MANY));
        }
        self.settle(running, outcome);
    }

    pub(super) fn settle(&mut self, running: Running, mut outcome: Outcome) {
        self.watch_idle_soon();
        self.charge_execution(&running, &outcome);
        if let Some(kernel) = &mut self.kernel {
            kernel.end_usage();
        }
        outcome.state_lost |= std::mem::take(&mut self.state_lost);
        self.last_ran = Instant::now();
        self.idle_kept = 0;
        self.end_stdin();
        self.book.finish();
        self.touch();
        drop(running.driver);
        self.record(running.job, outcome);
        self.publish();
        self.start_next();
    }

    /// Ends what runs without waiting for the interpreter, whose state nobody will see again.
    pub(super) fn finish_lost(&mut self, why: &str) {
        let Some(running) = self.running.take() else { return };
        let mut outcome = running.outcome();
        outcome.state_lost = true;
        outcome.exception = Some(state_lost(why));
        self.book.finish();
        drop(running.driver);
        self.record(running.job, outcome);
    }

    /// Ends an execution whose interpreter went with the server.
    pub(super) fn end_interrupted_by_loss(&mut self, ticket: Ticket<Job>, begun: Option<&Begun>) {
        let count = begun.map_or(0, |begun| begun.execution_count);
        let mut outcome = Running::new(ticket.id, ticket.job.clone(), count).outcome();
        outcome.violation = begun.and_then(|begun| begun.violation.clone());
        outcome.exception = Some(state_lost("the interpreter was lost with the server"));
        outcome.state_lost = count > 0;
        if count > 0 {
            self.state_lost = false;
        }
        self.record(ticket.job, outcome);
    }

    /// Ends an execution that never ran.
    pub(super) fn end_unrun(&mut self, id: ExecutionId, job: Job, exception: Exception) {
        let mut outcome = Running::new(id, job.clone(), 0).outcome();
        outcome.exception = Some(exception);
        self.record(job, outcome);
    }

    /// An execution has ended, for good.
    fn record(&mut self, job: Job, outcome: Outcome) {
        self.end_span(&job.span, &outcome);
        let finished = Finished { outcome, code: job.code };
        self.audit.note(audited::execution(&self.identity, &finished.outcome, &finished.code));
        self.meter.executed(&finished.outcome);
        let (outcome, took_ms) = (labels::outcome(&finished.outcome), finished.outcome.execution_time_ms);
        tracing::debug!(outcome, took_ms, "an execution has ended");
        self.keep(finished);
    }

    /// Hands a result to the history and appends it. Without room it is kept until there is.
    fn keep(&mut self, finished: Finished) {
        // First, so that whoever has seen the result finds it in the history. Once more changes nothing.
        self.store.finish(&self.identity.id, &finished.outcome, &finished.code);
        if let Err(error) = self.log.append(&Event::Result(Box::new(finished.outcome.clone()))) {
            self.unsaved.push(finished);
            self.stall(&error);
        }
    }

    /// Tries again what the log had no room for. Says whether all of it is stored.
    pub(super) fn flush_unsaved(&mut self) -> bool {
        let id = self.running.as_ref().map(|running| running.id.clone());
        for stream in [StreamName::Stdout, StreamName::Stderr] {
            if let Err(error) = self.log.announce(stream, id.as_ref(), Edge::Hold) {
                self.stall(&error);
                return false;
            }
        }
        if !self.flush_messages() {
            return false;
        }
        for finished in std::mem::take(&mut self.unsaved) {
            self.keep(finished);
        }
        self.unsaved.is_empty()
    }
}
