//! What is watched of the sandboxes that live: limits, and what is used.

use tokio::time::Instant;

use super::{SandboxId, Sandboxes, monotonic_ns};
use crate::supervisor::bounds::lowered;
use crate::supervisor::limits::Verdict;
use crate::supervisor::link::{Exited, Measured, ToGateway, Watch};

impl Sandboxes {
    /// Watches a sandbox from now on in this way.
    pub(in crate::supervisor) fn watch(&mut self, id: SandboxId, watch: Watch) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let watch = lowered(watch, monotonic_ns());
        live.deadline_ns = watch.deadline_ns;
        if watch.begins && live.exited.is_none() {
            let reading = live.gauge.begin(&live.sandbox);
            self.limits.begin(id, &watch, &reading, Instant::now());
        }
    }

    /// When [`Self::check_limits`] is to be called next.
    pub(in crate::supervisor) fn limits_due(&self) -> Option<Instant> {
        self.limits.next_due()
    }

    /// Looks at the sandboxes whose turn it is, and kills those that are past a limit for too long. Gives what the
    /// gateway is to be told.
    pub(in crate::supervisor) fn check_limits(&mut self) -> Vec<ToGateway> {
        let now = Instant::now();
        let mut news = Vec::new();
        for id in self.limits.due(now) {
            let Some(live) = self.live.get_mut(&id) else {
                self.limits.remove(id);
                continue;
            };
            let reading = live.gauge.glance(&live.sandbox);
            match self.limits.look(id, &reading, now) {
                Verdict::Fits => {}
                Verdict::Tell(limit) => {
                    let used_ns = reading.counts.cpu_ns.saturating_sub(self.limits.begun(id).cpu_ns);
                    tracing::debug!(sandbox = id.0, ?limit, used_ns, "a limit has struck");
                    news.extend(live.adopted.then_some(ToGateway::Limit { sandbox: id, limit }));
                }
                Verdict::Kill(limit) => {
                    tracing::info!(sandbox = id.0, ?limit, "killed at its limit");
                    live.sandbox.kill();
                }
            }
        }
        news
    }

    /// A gateway has taken over a sandbox. Gives what it is to be told: what was refused meanwhile, and the end, if that
    /// came before, or a limit that has struck.
    pub(in crate::supervisor) fn adopted(&mut self, id: SandboxId) -> Vec<ToGateway> {
        let untold = self.take_untold(id);
        let mut news: Vec<_> = untold.into_iter().map(|refused| ToGateway::Refused { sandbox: id, refused }).collect();
        let Some(live) = self.live.get_mut(&id) else {
            // Whoever believes to have it would wait for its end for ever.
            news.push(ToGateway::Exited(Exited { sandbox: id, ..Exited::default() }));
            return news;
        };
        live.adopted = true;
        match live.exited {
            Some(exited) => news.push(ToGateway::Exited(exited)),
            None => {
                let limit = self.limits.adopted(id, Instant::now());
                news.extend(limit.map(|limit| ToGateway::Limit { sandbox: id, limit }));
            }
        }
        news
    }

    /// What was used since something last began.
    pub(in crate::supervisor) fn measure(&mut self, id: SandboxId) -> Option<Measured> {
        let live = self.live.get_mut(&id)?;
        if let Some(Exited { cpu_ns, peak_memory_bytes, .. }) = live.exited {
            return Some(Measured { sandbox: id, cpu_ns, peak_memory_bytes });
        }
        let reading = live.gauge.read(&live.sandbox);
        let cpu_ns = reading.counts.cpu_ns.saturating_sub(self.limits.begun(id).cpu_ns);
        Some(Measured { sandbox: id, cpu_ns, peak_memory_bytes: live.gauge.peak_memory_bytes(&live.sandbox) })
    }

    /// The last words on a sandbox whose processes are gone. Its init is not reaped yet, so that its time is not lost.
    pub(super) fn last_words(&mut self, id: SandboxId) -> Option<Exited> {
        let live = self.live.get_mut(&id)?;
        let last = live.gauge.read(&live.sandbox);
        let begun = self.limits.begun(id);
        let exited = Exited {
            sandbox: id,
            out_of_memory: last.counts.oom_kills > begun.oom_kills,
            cpu_ns: last.counts.cpu_ns.saturating_sub(begun.cpu_ns),
            peak_memory_bytes: live.gauge.peak_memory_bytes(&live.sandbox),
            limit: self.limits.struck(id, &last),
            violations: live.too_many_violations,
        };
        Some(exited)
    }
}
