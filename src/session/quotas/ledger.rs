//! What each subject has used: in memory, under a lock for each part of the subjects. Has no clock: callers say what
//! time it is.

use std::time::Duration;

use dashmap::DashMap;
use jiff::Timestamp;

use super::period;
use super::{Caps, Exhausted, Quota, Standing, Wish};
use crate::config::Period;
use crate::session::log::Total;
use crate::store::QuotaUsage;

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    period: Period,
    entries: DashMap<String, Entry>,
}

/// One subject.
#[derive(Debug)]
struct Entry {
    /// When the period began that the counts are of.
    started: Timestamp,
    executions: u64,
    session_creations: u64,
    cpu: Duration,
    /// What the logs of its sessions take.
    stored: Total,
    /// Not stored yet.
    is_dirty: bool,
}

impl Entry {
    fn new(started: Timestamp) -> Self {
        let stored = Total::new(u64::MAX);
        Self { started, executions: 0, session_creations: 0, cpu: Duration::ZERO, stored, is_dirty: false }
    }

    /// A clock that is set back begins no period a second time.
    fn turn_to(&mut self, started: Timestamp) {
        if started > self.started {
            *self = Self { stored: self.stored.clone(), ..Self::new(started) };
        }
    }

    /// The first quota that there is too little left of.
    fn lacks(&self, caps: &Caps, wish: Wish) -> Option<(Quota, u64)> {
        let beyond = |quota, cap: Option<u64>, used: u64, wanted: u64| {
            cap.filter(|cap| wanted > 0 && used.saturating_add(wanted) > *cap).map(|cap| (quota, cap))
        };
        // What is counted at the end only has to be there: a session and an execution may take what is left, and more.
        let stored = beyond(Quota::StoredMb, caps.stored_mb, self.stored.bytes() >> 20, 1);
        let cpu = beyond(Quota::CpuSeconds, caps.cpu_seconds, self.cpu.as_secs(), wish.executions.min(1));
        let executions = beyond(Quota::Executions, caps.executions, self.executions, wish.executions);
        let creations =
            beyond(Quota::SessionCreations, caps.session_creations, self.session_creations, wish.session_creations);
        stored.or(cpu).or(executions).or(creations)
    }

    fn is_unused(&self) -> bool {
        self.executions == 0 && self.session_creations == 0 && self.cpu.is_zero()
    }
}

impl Ledger {
    pub(super) fn new(period: Period) -> Self {
        Self { period, entries: DashMap::new() }
    }

    /// Works on the entry of a subject while nobody else does.
    fn with<T>(&self, subject: &str, now: Timestamp, work: impl FnOnce(&mut Entry) -> T) -> T {
        let started = period::start(self.period, now);
        let turned = |entry: &mut Entry| {
            entry.turn_to(started);
            work(entry)
        };
        if let Some(mut entry) = self.entries.get_mut(subject) {
            return turned(&mut entry);
        }
        turned(&mut self.entries.entry(subject.to_owned()).or_insert_with(|| Entry::new(started)))
    }

    /// Counts what is wished for, if there is enough left of everything, and says of which period that is.
    ///
    /// # Errors
    /// What is used up; nothing is counted then.
    pub(super) fn take(&self, subject: &str, caps: &Caps, wish: Wish, now: Timestamp) -> Result<Timestamp, Exhausted> {
        self.with(subject, now, |entry| {
            if let Some((quota, limit)) = entry.lacks(caps, wish) {
                let anew = (quota != Quota::StoredMb).then(|| period::end(self.period, entry.started));
                return Err(Exhausted { quota, limit, period: self.period, anew });
            }
            entry.executions += wish.executions;
            entry.session_creations += wish.session_creations;
            entry.is_dirty = true;
            Ok(entry.started)
        })
    }

    /// Takes back what was counted in the period that began then, if that is not over.
    pub(super) fn give_back(&self, subject: &str, wish: Wish, started: Timestamp) {
        let Some(mut entry) = self.entries.get_mut(subject).filter(|entry| entry.started == started) else { return };
        entry.executions = entry.executions.saturating_sub(wish.executions);
        entry.session_creations = entry.session_creations.saturating_sub(wish.session_creations);
        entry.is_dirty = true;
    }

    /// Counts CPU time, whatever is left.
    pub(super) fn charge(&self, subject: &str, cpu: Duration, now: Timestamp) {
        self.with(subject, now, |entry| {
            entry.cpu = entry.cpu.saturating_add(cpu);
            entry.is_dirty = true;
        });
    }

    /// Where the logs of the subject's sessions are counted.
    pub(super) fn stored(&self, subject: &str, now: Timestamp) -> Total {
        self.with(subject, now, |entry| entry.stored.clone())
    }

    /// What a subject has used.
    pub(super) fn standing(&self, subject: &str, caps: Caps, now: Timestamp) -> Standing {
        self.with(subject, now, |entry| Standing {
            period: self.period,
            ends: period::end(self.period, entry.started),
            caps,
            executions: entry.executions,
            session_creations: entry.session_creations,
            cpu: entry.cpu,
            stored_bytes: entry.stored.bytes(),
        })
    }

    /// When the period began that is now.
    pub(super) fn started(&self, now: Timestamp) -> Timestamp {
        period::start(self.period, now)
    }

    /// Counts as an earlier process left them. Those of a period that is over are passed over.
    pub(super) fn restore(&self, usage: QuotaUsage, now: Timestamp) {
        if usage.period_start != self.started(now) {
            return;
        }
        self.with(&usage.subject, now, |entry| {
            entry.executions += usage.executions;
            entry.session_creations += usage.session_creations;
            entry.cpu = entry.cpu.saturating_add(Duration::from_millis(usage.cpu_time_ms));
        });
    }

    /// What has changed since it was asked last. Whoever has used nothing in this period, and has nothing stored, is
    /// forgotten.
    pub(super) fn changes(&self, now: Timestamp) -> Vec<QuotaUsage> {
        let started = self.started(now);
        let mut changed = Vec::new();
        self.entries.retain(|subject, entry| {
            entry.turn_to(started);
            if std::mem::take(&mut entry.is_dirty) {
                changed.push(QuotaUsage {
                    subject: subject.clone(),
                    period_start: entry.started,
                    executions: entry.executions,
                    session_creations: entry.session_creations,
                    cpu_time_ms: u64::try_from(entry.cpu.as_millis()).unwrap_or(u64::MAX),
                });
            }
            !entry.is_unused() || entry.stored.is_shared()
        });
        changed
    }
}

#[cfg(test)]
mod tests;
