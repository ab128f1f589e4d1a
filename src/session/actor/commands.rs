//! What clients ask of a session.

use std::time::Duration;

use repltool_protocol::event::{SessionStatus, StatusReason};
use repltool_protocol::ids::{ExecutionId, Seq};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use super::kernel::Job;
use super::running::{Cause, state_lost};
use super::{Actor, next_event};
use crate::runtime::KernelEvent;
use crate::session::admission::{Fingerprint, Ticket, Verdict};
use crate::session::audited;
use crate::session::log::{self, Found, LogError};
use crate::session::quotas::{Admitted, Wish};
use crate::session::{Accepted, Command, End, Judged, Lifespan, Refusal, new_execution_id};
use crate::store::SessionRow;

/// How long the processes of a session may take to die.
const DEATH_LIMIT: Duration = Duration::from_secs(10);

impl Actor {
    /// Carries out a command that does not end the session.
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::Execute(judged, asker, reply) => drop(reply.send(self.execute(*judged, &asker))),
            Command::Interrupt(id, reply) => {
                self.interrupt(id.as_ref());
                let _ = reply.send(Ok(()));
            }
            Command::Restart(reply) => self.restart(reply),
            Command::Stdin(input, reply) => drop(reply.send(self.take_stdin(&input))),
            Command::Query(query, reply) => self.ask(query, reply),
            Command::File(ask, reply) => self.ask_file(ask, reply),
            Command::Terminate(reply) => drop(reply.send(())),
            Command::Drain(_, reply) => drop(reply.send(())),
        }
    }

    /// Readers are told that it waits and that it has begun in one go, and after the driver has it.
    fn execute(&mut self, judged: Judged, asker: &Span) -> Result<Accepted, Refusal> {
        self.log.hold();
        let accepted = self.admit(judged, asker);
        self.log.release();
        accepted
    }

    fn admit(&mut self, judged: Judged, asker: &Span) -> Result<Accepted, Refusal> {
        let id = judged.execute.id.clone().unwrap_or_else(new_execution_id);
        let job = Job::new(judged).told_in(asker, &self.identity.id, &id);
        let _told = job.span.clone().entered();
        let fingerprint = Fingerprint::of(&job.code);
        match self.book.judge(&id, fingerprint, job.bytes()) {
            Verdict::Follow(after) => return Ok(Accepted { id, after }),
            Verdict::Refuse(refusal) => return Err(refusal),
            Verdict::Admit => {}
        }
        if self.draining.is_some() {
            return Err(Refusal::Draining);
        }
        if self.stalled.is_some() || self.audit.refuses() {
            return Err(Refusal::StorageFull);
        }
        let admitted = match (self.identity.lifespan, &job.account) {
            (Lifespan::Kept, Some(account)) => Some(account.admit(Wish::EXECUTION)?),
            _ => None,
        };
        let command = log::Command { id: id.clone(), body: job.encode() };
        let queued = self.log.accept(&command).map_err(|error| match error {
            LogError::Full(_) => Refusal::StorageFull,
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a command cannot be stored");
                Refusal::Internal
            }
        })?;
        admitted.into_iter().for_each(Admitted::keep);
        let after = Seq(queued.0.saturating_sub(1));
        let bytes = job.bytes();
        self.book.queue(Ticket { id: id.clone(), job, bytes }, fingerprint, after);
        self.touch();
        self.start_next();
        self.publish();
        Ok(Accepted { id, after })
    }

    fn interrupt(&mut self, id: Option<&ExecutionId>) {
        self.touch();
        self.publish();
        let runs = self.book.running();
        match id {
            Some(id) if runs != Some(id) => {
                if let Some(ticket) = self.book.cancel(id) {
                    let exception = super::running::interrupted("cancelled before it ran");
                    self.end_unrun(ticket.id, ticket.job, exception);
                    self.publish();
                }
            }
            _ => self.stop(Cause::User),
        }
    }

    fn restart(&mut self, reply: oneshot::Sender<Result<(), Refusal>>) {
        self.touch();
        self.restarts.push(reply);
        self.end_waiting("the interpreter was restarted before it ran");
        if let Some(running) = &mut self.running {
            running.stop = Some(Cause::Restart);
        }
        match &self.kernel {
            Some(_) => self.kill(),
            None => self.begin_boot(),
        }
        self.publish();
    }

    /// Ends what waits: it was written for a state that is gone.
    pub(super) fn end_waiting(&mut self, why: &str) {
        for ticket in self.book.lose() {
            self.end_unrun(ticket.id, ticket.job, state_lost(why));
        }
    }

    /// Ends the session, deletes all that belongs to it, and answers when its processes are gone.
    pub(super) async fn terminate(mut self, reply: oneshot::Sender<()>) {
        // That of one request is stored as ended from its beginning on.
        if self.identity.lifespan == Lifespan::Kept {
            self.store_end(SessionRow::TO_BE_DELETED).await;
        }
        self.close("the session was terminated", End::Terminated, StatusReason::Terminated).await;
        self.delete().await;
        let _ = reply.send(());
    }

    /// The idle timeout: the interpreter goes, what was said stays readable for a while.
    pub(super) async fn expire(mut self) {
        tracing::info!("idle timeout");
        if self.identity.lifespan == Lifespan::OneShot {
            self.close("the session ended", End::IdleTimeout, StatusReason::IdleTimeout).await;
            return self.delete().await;
        }
        self.store_end(jiff::Timestamp::now()).await;
        self.close("the session ended", End::IdleTimeout, StatusReason::IdleTimeout).await;
        let until = Instant::now() + self.settings.keep_ended;
        self.linger(until).await;
    }

    /// An end is stored before it is told: should the gateway die in the middle, the next one goes on with it.
    pub(super) async fn store_end(&mut self, at: jiff::Timestamp) {
        if let Err(error) = self.store.end(&self.identity.id, at).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the end of the session cannot be stored");
        }
    }

    /// Takes up a session that ended in an earlier run. Should that have died while it ended, the rest is told now: what
    /// ran then was cut off by too many violations, since nothing runs at an idle timeout.
    pub(super) fn stay_ended(&mut self, at: jiff::Timestamp, found: &Found) {
        let cut_off = self.take_pending(found, Vec::new());
        let reason = found.ended_because.unwrap_or(match cut_off.is_empty() {
            true => StatusReason::IdleTimeout,
            false => StatusReason::Violations,
        });
        for ((ticket, _), pending) in cut_off.into_iter().zip(&found.pending) {
            self.end_interrupted_by_loss(ticket, pending.begun.as_ref());
        }
        if found.ended_because.is_none() {
            let why = if reason == StatusReason::Violations { End::Violations } else { End::IdleTimeout };
            self.audit.note(audited::ended(&self.identity, audited::reason(why)));
            self.tell(SessionStatus::Terminated, reason, None);
        }
        let end = if reason == StatusReason::Violations { End::Violations } else { End::IdleTimeout };
        self.publish_as(SessionStatus::Terminated, Some(end));
        self.log.end();
        let passed = Duration::try_from(jiff::Timestamp::now().duration_since(at)).unwrap_or_default();
        self.readable_until = Some(Instant::now() + self.settings.keep_ended.saturating_sub(passed));
    }

    /// Can be read, and nothing else, until the time is over or a client deletes it.
    pub(super) async fn linger(mut self, until: Instant) {
        loop {
            let command = tokio::select! {
                command = self.commands.recv() => command,
                () = tokio::time::sleep_until(until) => None,
            };
            match command {
                Some(Command::Execute(_, _, reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::Interrupt(_, reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::Restart(reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::Stdin(_, reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::Query(_, reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::File(_, reply)) => drop(reply.send(Err(Refusal::Gone))),
                Some(Command::Drain(_, reply)) => {
                    let _ = reply.send(());
                    return;
                }
                Some(Command::Terminate(reply)) => {
                    self.delete().await;
                    let _ = reply.send(());
                    return;
                }
                None => return self.delete().await,
            }
        }
    }

    /// The server stops: what still runs and waits is told so; log and session stay for the next start, unless the session
    /// was for one request, which ends too.
    pub(super) async fn drain(mut self) {
        if self.identity.lifespan == Lifespan::OneShot {
            let Some((_, reply)) = self.draining.take() else { return };
            return self.terminate(reply).await;
        }
        let payer = self.payer();
        self.end_running("the server stopped");
        self.end_waiting("the server stopped before it ran");
        self.charge_rest(&payer);
        self.kernel = None;
        if let Some((_, reply)) = self.draining.take() {
            let _ = reply.send(());
        }
    }

    fn end_running(&mut self, why: &str) {
        let Some(running) = &mut self.running else { return };
        running.stop = None;
        let id = running.id.clone();
        self.fence();
        self.finish_lost(why);
        tracing::debug!(execution = %id, why, "ended");
    }

    pub(super) async fn close(&mut self, why: &str, end: End, reason: StatusReason) {
        self.meter.ended(end.name());
        let payer = self.payer();
        self.end_running(why);
        self.end_waiting(why);
        let record = audited::ended(&self.identity, audited::reason(end));
        match self.identity.lifespan {
            Lifespan::Kept => self.audit.store(record).await,
            Lifespan::OneShot => self.audit.note(record),
        }
        self.tell(SessionStatus::Terminated, reason, None);
        // Published before the log ends: who meets its end asks why.
        self.publish_as(SessionStatus::Terminated, Some(end));
        self.log.end();
        self.boot = None;
        if let Some(kernel) = &self.kernel {
            kernel.kill();
            let gone = async {
                loop {
                    if let KernelEvent::Gone(_) = next_event(&mut self.kernel, false).await {
                        return;
                    }
                }
            };
            if tokio::time::timeout(DEATH_LIMIT, gone).await.is_err() {
                tracing::error!("processes of the session are still there");
            }
        }
        self.charge_rest(&payer);
        self.kernel = None;
        self.supervisor.release(&self.identity.id);
        for reply in self.restarts.drain(..) {
            let _ = reply.send(Err(Refusal::Gone));
        }
    }

    pub(super) async fn delete(self) {
        let id = &self.identity.id;
        if let Err(error) = self.log.delete() {
            tracing::error!(error = &error as &dyn std::error::Error, "the session's log is left over");
        }
        if let Err(error) = self.store.delete_session(id).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the session's rows are left over");
        }
    }
}
