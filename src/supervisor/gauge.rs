//! Reads what a sandbox uses: from the counters of its cgroup, and what those do not count from its processes.

use std::time::Duration;

use tokio::time::Instant;

use super::link::Counts;
use super::processes::Account;
use crate::sandbox::Sandbox;
use crate::sandbox::cgroup::Group;

/// What was found at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The counters.
    pub(super) counts: Counts,
    /// How much of its memory it uses. Always `Low` where Linux itself holds the limit.
    pub(super) pressure: Pressure,
    /// What it cost to find out, where that is much.
    pub(super) cost: Duration,
}

/// How much of its memory a sandbox uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pressure {
    /// At most half.
    #[default]
    Low,
    /// More than half.
    High,
    /// More than it may.
    Past,
}

/// The instruments of one sandbox.
#[derive(Debug)]
pub(super) struct Gauge {
    /// For what its cgroup does not count.
    account: Option<Account>,
    counts_cpu: bool,
    counts_memory: bool,
    memory_bytes: u64,
    last: Counts,
    /// The most memory seen by the account since something began.
    peak_seen: u64,
}

impl Gauge {
    /// For a sandbox that may use `memory_bytes`.
    pub(super) fn new(sandbox: &Sandbox, memory_bytes: u64) -> Self {
        let group = sandbox.group();
        let counts_cpu = group.and_then(Group::cpu_time).is_some();
        let counts_memory = group.and_then(Group::oom_kills).is_some();
        let account = (!counts_cpu || !counts_memory).then(|| Account::new(sandbox.pid, memory_bytes));
        Self { account, counts_cpu, counts_memory, memory_bytes, last: Counts::default(), peak_seen: 0 }
    }

    /// It may use so much memory from now on.
    pub(super) fn set_memory(&mut self, bytes: u64) {
        self.memory_bytes = bytes;
    }

    /// Whether Linux counts all that is watched, so that reading costs next to nothing.
    pub(super) fn is_counted(&self) -> bool {
        self.account.is_none()
    }

    /// Reads only what can have changed: without CPU time nothing is allocated and nothing forks.
    pub(super) fn glance(&mut self, sandbox: &Sandbox) -> Reading {
        let group = sandbox.group().filter(|_| self.account.is_none());
        match group.and_then(Group::cpu_time) {
            Some(cpu) if nanoseconds(cpu) == self.last.cpu_ns => Reading { counts: self.last, ..Reading::default() },
            _ => self.read(sandbox),
        }
    }

    /// Reads everything.
    pub(super) fn read(&mut self, sandbox: &Sandbox) -> Reading {
        let mut reading = Reading::default();
        if let Some(group) = sandbox.group() {
            reading.counts = Counts {
                cpu_ns: group.cpu_time().map_or(0, nanoseconds),
                oom_kills: group.oom_kills().unwrap_or(0),
                refused_forks: group.refused_forks().unwrap_or(0),
            };
        }
        if let Some(account) = &mut self.account {
            let begun = Instant::now();
            let used = account.read();
            reading.cost = begun.elapsed();
            if !self.counts_cpu {
                reading.counts.cpu_ns = used.cpu_ns;
            }
            if !self.counts_memory {
                self.peak_seen = self.peak_seen.max(used.memory_bytes);
                reading.pressure = pressure(used.memory_bytes, self.memory_bytes);
            }
        }
        self.last = reading.counts;
        reading
    }

    /// Something begins: the peak is counted anew.
    pub(super) fn begin(&mut self, sandbox: &Sandbox) -> Reading {
        self.peak_seen = 0;
        self.read(sandbox)
    }

    /// The most memory in use at once, as far as this host tells.
    pub(super) fn peak_memory_bytes(&self, sandbox: &Sandbox) -> u64 {
        sandbox.group().and_then(Group::memory_peak).unwrap_or(self.peak_seen)
    }
}

fn pressure(used: u64, allowed: u64) -> Pressure {
    match used {
        _ if used > allowed => Pressure::Past,
        _ if used > allowed / 2 => Pressure::High,
        _ => Pressure::Low,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
