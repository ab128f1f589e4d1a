//! What is due when: every wait of a session has an end.

use std::time::Duration;

use tokio::time::Instant;

use super::Actor;
use super::running::Running;

impl Actor {
    /// The earliest instant at which something is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let stalled = self.stalled.map(|(_, retry)| retry);
        let running = self.running.as_ref().filter(|_| self.stalled.is_none()).and_then(Running::next_deadline);
        let asked = self.asked.map(|(_, limit)| limit);
        let fault = self.kill_at;
        let idle = (!self.book.is_busy()).then(|| self.last_activity + self.settings.idle_timeout);
        let drain = self.draining.as_ref().map(|(deadline, _)| *deadline);
        let (query, file) = (self.query_deadline(), self.file_deadline());
        // While an execution runs, its own deadline counts: the driver answers when that has ended.
        let synchronising = self.synchronising.filter(|_| self.running.is_none());
        let watch = self.watch_idle_at;
        [stalled, running, asked, fault, idle, drain, query, file, synchronising, watch].into_iter().flatten().min()
    }

    pub(super) fn on_timer(&mut self) {
        let now = Instant::now();
        if self.stalled.is_some_and(|(_, retry)| now >= retry) {
            self.unstall();
        }
        if self.asked.is_some_and(|(_, limit)| now >= limit) {
            tracing::warn!("init does not answer; the sandbox is killed");
            self.asked = None;
            self.kill();
        }
        if self.running.is_none() && self.synchronising.take_if(|limit| now >= *limit).is_some() {
            tracing::warn!("the driver does not say where it stands; the sandbox is killed");
            self.replacing = true;
            self.kill();
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.kill();
        }
        self.watch_idle_if_due(now);
        self.enforce_queries(now);
        self.enforce_files(now);
        if self.stalled.is_none() {
            self.enforce(now);
        }
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
}
