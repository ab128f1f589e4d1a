//! The life of one execution: start, stop, end.

use std::time::Duration;

use repltool_protocol::event::{Event, Exception, Limit, Outcome, StreamName};
use repltool_protocol::ids::ExecutionId;
use tokio::time::Instant;

use super::Actor;
use super::kernel::Job;
use super::running::{AGAIN, ASK_LIMIT, Cause, Finished, GRACE, Running, state_lost};
use crate::runtime::control::{self, Done, ToDriver};
use crate::session::admission::Ticket;
use crate::session::log::Edge;
use crate::supervisor::link::Watch;
use crate::supervisor::link::init::ExitStatus;

impl Actor {
    /// Starts what waits, if the kernel is free and everything before is settled.
    pub(super) fn start_next(&mut self) {
        let free = self.running.is_none() && self.asked.is_none() && self.stalled.is_none() && !self.synchronising;
        if !free {
            return;
        }
        if self.kernel.is_none() {
            if self.book.is_busy() {
                self.begin_boot();
            }
            return;
        }
        let Some((ticket, count)) = self.book.begin() else { return };
        // What was printed between executions belongs to none.
        self.drain_pipes();
        let running = Running::new(ticket.id.clone(), ticket.job.clone(), count);
        let started =
            Event::Started { id: running.id.clone(), execution_count: count, timestamp: running.started_at.clone() };
        if let Err(error) = self.log.append(&started) {
            self.book.put_back(ticket);
            return self.stall(&error);
        }
        self.watch(true, Some(running.deadline_ns));
        if let Some(kernel) = &mut self.kernel {
            kernel.begin_usage();
        }
        self.running = Some(running);
        self.send_code();
        self.publish();
    }

    /// Sends the code of the running execution: at once if it is short, else the first part of it.
    pub(super) fn send_code(&mut self) {
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return };
        let (n, count) = (running.count, running.count);
        let code = running.job.code.as_str();
        running.parts_sent = 0;
        let sent = match control::parts(code).next() {
            Some(first) if first.len() < code.len() => kernel.tell(&ToDriver::Part { n, i: 0, s: first }),
            _ => kernel.tell(&ToDriver::Exec { n, count, code: Some(code), parts: None, ack: Some(kernel.stored()) }),
        };
        if let Err(error) = sent {
            self.driver_fault(&error);
        }
    }

    /// The driver has a part: the next one, or the word to run them.
    pub(super) fn part_taken(&mut self, n: u64, i: usize) {
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return };
        if running.count != n || running.parts_sent != i {
            return;
        }
        running.parts_sent += 1;
        let count = running.count;
        let sent = match control::parts(&running.job.code).nth(running.parts_sent) {
            Some(part) => kernel.tell(&ToDriver::Part { n, i: running.parts_sent, s: part }),
            None => {
                let ack = Some(kernel.stored());
                kernel.tell(&ToDriver::Exec { n, count, code: None, parts: Some(running.parts_sent), ack })
            }
        };
        if let Err(error) = sent {
            self.driver_fault(&error);
        }
    }

    /// Acts on deadlines that have passed.
    pub(super) fn enforce(&mut self, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if running.again_at.take_if(|at| now >= *at).is_some()
            && let Some(kernel) = &mut self.kernel
        {
            self.asked = Some((kernel.interrupt(), now + ASK_LIMIT));
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
        let now = Instant::now();
        if let Cause::Limit(_) = cause {
            (running.again_at, running.kill_at) = (Some(now + AGAIN), Some(now + GRACE));
        }
        self.asked = Some((kernel.interrupt(), now + ASK_LIMIT));
    }

    /// Kills the sandbox; its end is an event of the kernel.
    pub(super) fn kill(&mut self) {
        if let Some(kernel) = &self.kernel {
            kernel.kill();
        }
        if let Some(running) = &mut self.running {
            (running.again_at, running.kill_at) = (None, None);
            // Nothing is due any more but the end of the sandbox.
            running.stop = running.stop.or(Some(Cause::User));
            running.deadline = Instant::now() + Duration::from_secs(24 * 3600);
        }
    }

    /// The driver says that an execution has ended.
    pub(super) fn on_done(&mut self, done: Box<Done>) {
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return };
        if running.count != done.n || running.done.is_some() {
            return;
        }
        if running.limit(done.end_ns).is_some() {
            // At a limit, every process that the execution started is gone before its end is told.
            running.done = Some(done);
            running.again_at = None;
            running.kill_at = Some(Instant::now() + ASK_LIMIT);
            self.asked = Some((kernel.kill_rest(), Instant::now() + ASK_LIMIT));
            return;
        }
        self.complete(*done);
    }

    /// Init has answered what it was asked last.
    pub(super) fn on_asked(&mut self, id: u64) {
        if self.asked.is_none_or(|(asked, _)| asked != id) {
            return;
        }
        self.asked = None;
        match self.running.as_mut().and_then(|running| running.done.take()) {
            Some(done) => self.complete(*done),
            None => self.start_next(),
        }
    }

    fn complete(&mut self, done: Done) {
        self.fence();
        let Some(running) = self.running.take() else { return };
        let mut outcome = running.outcome();
        if let Some(kernel) = &mut self.kernel {
            kernel.note_stored(done.m);
            (outcome.usage.cpu_time_ms, outcome.usage.peak_memory_bytes) = kernel.usage();
        }
        outcome.limit = running.limit(done.end_ns);
        outcome.success = done.success && outcome.limit.is_none();
        outcome.result = done.result;
        outcome.result_text = done.result_text;
        outcome.exception = done.exception;
        outcome.exit_code = done.exit_code;
        outcome.truncated |= done.truncated;
        self.settle(running, outcome);
    }

    /// The interpreter is gone in the middle of an execution.
    pub(super) fn lose_running(&mut self, status: Option<ExitStatus>, used: (u64, u64), out_of_memory: bool) {
        let Some(running) = self.running.take() else {
            self.state_lost = true;
            return;
        };
        let mut outcome = running.outcome();
        outcome.state_lost = true;
        (outcome.usage.cpu_time_ms, outcome.usage.peak_memory_bytes) = used;
        outcome.exit_code = status.map(|status| match status {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
        });
        let killed = !matches!(status, Some(ExitStatus::Code(_)));
        outcome.limit = match &running.done {
            Some(done) => running.limit(done.end_ns),
            // Past its deadline with no gateway to see to it, the supervisor has killed it.
            None if killed && running.is_overdue() => Some(Limit::WallTime),
            None => running.limit(u64::MAX).or((out_of_memory && killed).then_some(Limit::Memory)),
        };
        if running.stop == Some(Cause::Restart) {
            outcome.exception = Some(state_lost("the interpreter was restarted"));
        }
        self.settle(running, outcome);
    }

    fn settle(&mut self, running: Running, mut outcome: Outcome) {
        self.watch(true, None);
        outcome.state_lost |= std::mem::take(&mut self.state_lost);
        self.last_ran = Instant::now();
        let finished = Finished { outcome, code: running.job.code };
        self.book.finish();
        self.touch();
        self.record(finished);
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
        self.record(Finished { outcome, code: running.job.code });
    }

    /// Ends an execution whose interpreter went with the server. `count` is 0 if it had not started.
    pub(super) fn end_interrupted_by_loss(&mut self, ticket: Ticket<Job>, count: u64) {
        let mut outcome = Running::new(ticket.id, ticket.job.clone(), count).outcome();
        outcome.exception = Some(state_lost("the interpreter was lost with the server"));
        outcome.state_lost = count > 0;
        if count > 0 {
            self.state_lost = false;
        }
        self.record(Finished { outcome, code: ticket.job.code });
    }

    /// Ends an execution that never ran.
    pub(super) fn end_unrun(&mut self, id: ExecutionId, job: Job, exception: Exception) {
        let mut outcome = Running::new(id, job.clone(), 0).outcome();
        outcome.exception = Some(exception);
        self.record(Finished { outcome, code: job.code });
    }

    /// Hands a result to the history and appends it. Without room it is kept until there is.
    fn record(&mut self, finished: Finished) {
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
        for finished in std::mem::take(&mut self.unsaved) {
            self.record(finished);
        }
        self.unsaved.is_empty()
    }

    /// While the log could not be written, time did not count.
    pub(super) fn delay_deadline(&mut self, by: Duration) {
        let Some(running) = &mut self.running else { return };
        running.deadline += by;
        running.kill_at = running.kill_at.map(|at| at + by);
        running.deadline_ns = running.deadline_ns.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX));
        let deadline_ns = running.deadline_ns;
        self.watch(false, Some(deadline_ns));
    }

    /// Something begins, or a deadline is moved. CPU time is granted anew to each execution and to the time between two.
    fn watch(&self, begins: bool, deadline_ns: Option<u64>) {
        let cpu_ns = self.identity.limits.max_cpu_time.saturating_mul(1_000_000_000);
        if let Some(kernel) = &self.kernel {
            self.supervisor.watch(kernel.sandbox(), Watch { begins, deadline_ns, cpu_ns });
        }
    }
}
