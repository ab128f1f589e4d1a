//! Decides when a sandbox is looked at and what is done about what is found. Reads nothing and kills nothing itself.
//!
//! ```text
//!   watch that begins ─▶ within its limits ─▶ struck: told once ─▶ ignored for LIMIT_SLACK ─▶ killed
//!        ▲                                        │
//!        └───────── the next watch that begins ◀──┘        memory that Linux does not hold: killed at once
//! ```
//!
//! One queue for all sandboxes. The next look is when the CPU time that is left can be used up at the earliest, by all
//! CPUs together.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use repltool_protocol::event::Limit;
use tokio::time::Instant;

use super::gauge::{Pressure, Reading};
use super::link::{Counts, LIMIT_SLACK, SandboxId, Watch};

/// What is to be done about a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fits,
    /// A limit has struck: the gateway is to be told.
    Tell(Limit),
    /// It is to be killed.
    Kill(Limit),
}

/// When sandboxes are looked at, and what they may use.
#[derive(Debug)]
pub(super) struct LimitQueue {
    cpus: u32,
    watched: BTreeMap<SandboxId, Watched>,
    queue: BTreeSet<(Instant, SandboxId)>,
}

#[derive(Debug)]
struct Watched {
    /// Whether Linux counts all that is watched.
    counted: bool,
    begun: Counts,
    cpu_ns: u64,
    /// Whether an execution runs.
    running: bool,
    /// CPU time at the last look.
    seen_ns: u64,
    struck: Option<Limit>,
    /// When nobody need act any more: the sandbox is being killed.
    condemned: bool,
    due: Option<Instant>,
}

/// How long until the next look.
struct Pace {
    /// At least, however little CPU time is left: the limit is overrun by no more than this on each CPU.
    floor: Duration,
    /// At most, while CPU time is used.
    busy: Duration,
    /// At most, after a look that found no CPU time used.
    quiet: Duration,
}

impl Pace {
    const fn of(counted: bool, running: bool) -> Self {
        let (floor, busy, quiet) = match (counted, running) {
            (true, true) => (5, 50, 50),
            (true, false) => (5, 250, 5000),
            (false, true) => (20, 100, 100),
            (false, false) => (20, 100, 5000),
        };
        let ms = Duration::from_millis;
        Self { floor: ms(floor), busy: ms(busy), quiet: ms(quiet) }
    }
}

/// The least wait while a sandbox sleeps, so that many that sleep shortly before their limit cost little.
const QUIET_FLOOR: Duration = Duration::from_millis(50);
/// The wait while memory that Linux does not hold is used by more than half.
const HIGH_PRESSURE: Duration = Duration::from_millis(20);
/// A look may take this part of the time until the next one: a large family of processes takes milliseconds to walk.
const COST_SHARE: u32 = 20;
/// What is due so soon is looked at along with what is due: waking up costs more than a look.
const TOGETHER: Duration = Duration::from_millis(10);

impl LimitQueue {
    /// For a machine on which a sandbox can run on so many CPUs at once.
    pub(super) fn new(cpus: u32) -> Self {
        Self { cpus: cpus.max(1), watched: BTreeMap::new(), queue: BTreeSet::new() }
    }

    /// Takes in a sandbox. Until its first [`Watch`] nothing is granted and nothing refused.
    pub(super) fn add(&mut self, id: SandboxId, counted: bool) {
        let watched = Watched {
            counted,
            begun: Counts::default(),
            cpu_ns: u64::MAX,
            running: false,
            seen_ns: 0,
            struck: None,
            condemned: false,
            due: None,
        };
        self.watched.insert(id, watched);
    }

    /// A sandbox has ended.
    pub(super) fn remove(&mut self, id: SandboxId) {
        self.plan(id, None);
        self.watched.remove(&id);
    }

    /// Something begins, with these counts.
    pub(super) fn begin(&mut self, id: SandboxId, watch: &Watch, reading: &Reading, now: Instant) {
        let cpus = self.cpus;
        let Some(watched) = self.watched.get_mut(&id).filter(|watched| !watched.condemned) else { return };
        watched.begun = reading.counts;
        watched.seen_ns = reading.counts.cpu_ns;
        watched.cpu_ns = watch.cpu_ns;
        watched.running = watch.deadline_ns.is_some();
        watched.struck = None;
        // What begins is about to use CPU time, whatever it did before.
        let due = now + watched.wait(reading, true, cpus);
        self.plan(id, Some(due));
    }

    /// What the counters showed when something last began.
    pub(super) fn begun(&self, id: SandboxId) -> Counts {
        self.watched.get(&id).map(|watched| watched.begun).unwrap_or_default()
    }

    /// When the next look is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Sandboxes that are to be looked at now; each by [`Self::look`].
    pub(super) fn due(&self, now: Instant) -> Vec<SandboxId> {
        let due = self.queue.iter().take_while(|(due, _)| now.checked_add(TOGETHER).is_some_and(|soon| *due <= soon));
        due.map(|(_, id)| *id).collect()
    }

    /// Judges what was found in a sandbox and settles when it is looked at again.
    pub(super) fn look(&mut self, id: SandboxId, reading: &Reading, now: Instant) -> Verdict {
        let cpus = self.cpus;
        let Some(watched) = self.watched.get_mut(&id) else { return Verdict::Fits };
        let (verdict, wait) = match (watched.struck, watched.exceeded(reading)) {
            // Only the end of the patience is due after a limit has struck.
            (Some(limit), _) => (Verdict::Kill(limit), None),
            (None, Some(Limit::Memory)) if reading.pressure == Pressure::Past => (Verdict::Kill(Limit::Memory), None),
            (None, Some(limit)) => (Verdict::Tell(limit), Some(LIMIT_SLACK)),
            (None, None) => {
                let busy = reading.counts.cpu_ns > watched.seen_ns;
                (Verdict::Fits, Some(watched.wait(reading, busy, cpus)))
            }
        };
        watched.seen_ns = reading.counts.cpu_ns;
        match verdict {
            Verdict::Fits => {}
            Verdict::Tell(limit) => watched.struck = Some(limit),
            Verdict::Kill(limit) => (watched.struck, watched.condemned) = (Some(limit), true),
        }
        self.plan(id, wait.map(|wait| now + wait));
        verdict
    }

    /// A gateway has taken over a sandbox: says which limit it is to be told of, for which it gets as much time as any.
    pub(super) fn adopted(&mut self, id: SandboxId, now: Instant) -> Option<Limit> {
        let watched = self.watched.get(&id).filter(|watched| !watched.condemned)?;
        let limit = watched.struck?;
        self.plan(id, Some(now + LIMIT_SLACK));
        Some(limit)
    }

    /// The limit that had struck in a sandbox that has ended with these counts.
    pub(super) fn struck(&self, id: SandboxId, last: &Reading) -> Option<Limit> {
        let watched = self.watched.get(&id)?;
        watched.struck.or_else(|| watched.exceeded(last))
    }

    fn plan(&mut self, id: SandboxId, due: Option<Instant>) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        if let Some(before) = std::mem::replace(&mut watched.due, due) {
            self.queue.remove(&(before, id));
        }
        self.queue.extend(due.map(|due| (due, id)));
    }
}

impl Watched {
    fn exceeded(&self, reading: &Reading) -> Option<Limit> {
        let Counts { cpu_ns, oom_kills, refused_forks } = reading.counts;
        match () {
            () if reading.pressure == Pressure::Past || oom_kills > self.begun.oom_kills => Some(Limit::Memory),
            () if refused_forks > self.begun.refused_forks => Some(Limit::Processes),
            () if cpu_ns.saturating_sub(self.begun.cpu_ns) >= self.cpu_ns => Some(Limit::CpuTime),
            () => None,
        }
    }

    fn wait(&self, reading: &Reading, busy: bool, cpus: u32) -> Duration {
        let used = reading.counts.cpu_ns.saturating_sub(self.begun.cpu_ns);
        let each = Duration::from_nanos(self.cpu_ns.saturating_sub(used)) / cpus;
        let pace = Pace::of(self.counted, self.running);
        let mut wait = if busy { each.clamp(pace.floor, pace.busy) } else { pace.quiet.min(each.max(QUIET_FLOOR)) };
        if reading.pressure != Pressure::Low && self.running {
            wait = wait.min(HIGH_PRESSURE);
        }
        wait.max(reading.cost * COST_SHARE)
    }
}
