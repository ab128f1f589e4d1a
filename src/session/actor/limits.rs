//! Limits that others watch: what strikes is told here, and named in a result or a `status` event.

use std::time::Duration;

use repltool_protocol::event::{Limit, Outcome, SessionStatus, StatusReason};
use repltool_protocol::rest::Language;
use tokio::time::Instant;

use super::Actor;
use super::running::{ASK_LIMIT, Cause, Running};
use crate::runtime::Used;
use crate::runtime::control::Done;
use crate::supervisor::link::init::ExitStatus;
use crate::supervisor::link::{Exited, Watch};

/// Signals by which V8 ends its process when its heap is full.
const ABORTS: [i32; 3] = [4, 5, 6];

/// How long the supervisor counts what is used after an execution to that. Where one follows the other it need not be
/// told of the time between.
const IDLE_AFTER: Duration = Duration::from_millis(5);

impl Actor {
    /// Something begins, or a deadline is moved. CPU time is granted anew to each execution and to the time between two.
    pub(super) fn watch(&mut self, begins: bool, deadline_ns: Option<u64>) {
        self.watch_idle_at = None;
        let cpu_ns = self.identity.limits.max_cpu_time.saturating_mul(1_000_000_000);
        if let Some(kernel) = &self.kernel {
            self.supervisor.watch(kernel.sandbox(), Watch { begins, deadline_ns, cpu_ns });
        }
    }

    /// An execution has ended.
    pub(super) fn watch_idle_soon(&mut self) {
        self.watch_idle_at = Some(Instant::now() + IDLE_AFTER);
    }

    pub(super) fn watch_idle_if_due(&mut self, now: Instant) {
        if self.watch_idle_at.is_some_and(|at| now >= at) {
            self.watch(true, None);
        }
    }

    /// The supervisor says that a limit has struck. What it says may cross with the end of what it says it of.
    pub(super) fn on_limit(&mut self, limit: Limit) {
        if !self.has_struck(limit) {
            return;
        }
        match (&self.running, limit) {
            (Some(_), limit) => self.stop(Cause::Limit(limit)),
            // What was refused are processes that would come: without those that are there, the state can be kept.
            (None, Limit::Processes) => self.clear_processes(),
            (None, limit) => self.replace(limit),
        }
    }

    fn has_struck(&mut self, limit: Limit) -> bool {
        let Some(kernel) = &mut self.kernel else { return false };
        if !kernel.has_counters() {
            return true;
        }
        let used = kernel.used();
        match limit {
            Limit::CpuTime => used.cpu >= Duration::from_secs(self.identity.limits.max_cpu_time),
            Limit::Memory => used.oom_kills > 0,
            Limit::Processes => used.refused_forks > 0,
            Limit::WallTime | Limit::Output => true,
        }
    }

    fn clear_processes(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        self.asked = Some((kernel.kill_rest(), Instant::now() + ASK_LIMIT));
        (self.fence, self.reap) = (true, true);
        self.meter.struck(Limit::Processes);
        self.tell(SessionStatus::Active, StatusReason::Limit, None);
    }

    /// A limit struck between executions: the interpreter is replaced.
    pub(super) fn replace(&mut self, limit: Limit) {
        if self.kernel.is_some() && !std::mem::replace(&mut self.replacing, true) {
            self.meter.struck(limit);
            self.tell(SessionStatus::Active, StatusReason::Limit, None);
            self.kill();
        }
    }

    /// The limit for which an execution ends whose end the driver has told: one that stopped it, one that killed a
    /// process of it, or one that refused it a process without which it failed.
    pub(super) fn limit_at_end(&self, used: Used) -> Option<Limit> {
        let running = self.running.as_ref()?;
        let done = running.done.as_ref()?;
        let killed = (used.oom_kills > 0).then_some(Limit::Memory);
        // Where no cgroup holds memory, an rlimit does, and the interpreter finds out by itself.
        let refused_memory = (!self.kernel.as_ref()?.has_counters() && is_memory_error(done)).then_some(Limit::Memory);
        let refused = (used.refused_forks > 0 && !done.success).then_some(Limit::Processes);
        running.limit(done.end_ns).or(killed).or(refused_memory).or(refused)
    }

    /// In bytes: so much memory in use, and a heap that V8 finds full is a limit that struck. None for other languages.
    pub(super) fn heap_ceiling(&self) -> Option<u64> {
        let limits = &self.identity.limits;
        (self.identity.language == Language::Javascript).then_some((limits.max_memory_mb << 20) / 2)
    }
}

/// Whether the program ended because the interpreter had no memory for it.
fn is_memory_error(done: &Done) -> bool {
    done.exception.as_ref().is_some_and(|exception| exception.name == "MemoryError")
}

/// Puts what was used into a result.
pub(super) fn tell_usage(outcome: &mut Outcome, used: Used) {
    outcome.usage.cpu_time_ms = u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX);
    outcome.usage.peak_memory_bytes = used.peak_memory_bytes;
}

/// The limit that cost an execution its interpreter, if one did.
pub(super) fn of_loss(
    running: &Running,
    status: Option<ExitStatus>,
    exited: &Exited,
    heap_ceiling: Option<u64>,
) -> Option<Limit> {
    let killed = !matches!(status, Some(ExitStatus::Code(_)));
    let aborted = matches!(status, Some(ExitStatus::Signal(signal)) if ABORTS.contains(&signal));
    // Past its deadline with no gateway to see to it, the supervisor has killed it.
    if killed && running.is_overdue() {
        return Some(Limit::WallTime);
    }
    let heap_is_full = aborted && heap_ceiling.is_some_and(|ceiling| exited.peak_memory_bytes >= ceiling);
    running
        .limit(u64::MAX)
        .or(exited.limit)
        .or((exited.out_of_memory && killed || heap_is_full).then_some(Limit::Memory))
}
