//! Quotas: how much a subject may do in a period of the calendar, and how much it may have stored. Knows subjects and
//! counts; refuses to know tokens and requests.
//!
//! ```text
//!   admit ─▶ counted ─▶ accepted: stays counted         execution ends ─▶ its CPU time is counted
//!        │          └─▶ refused for another reason: given back
//!        └─▶ used up: nothing is counted
//! ```
//! Counts are in memory, so that nobody waits for the disk. What has changed is stored at once, and then again after
//! [`STORE_EVERY`]: a crash loses no more than that.

mod ledger;
mod period;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use self::ledger::Ledger;
use super::log::Total;
use crate::config;
use crate::config::Period;
use crate::metrics::Metrics;
use crate::store::{Store, StoreError};

/// The longest that counts wait before they are stored.
pub const STORE_EVERY: Duration = Duration::from_secs(1);

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Executions that are accepted in a period.
    Executions,
    /// Sessions that are created in a period.
    SessionCreations,
    /// Seconds of CPU time in a period.
    CpuSeconds,
    /// MiB in the logs of the subject's sessions, at any time.
    StoredMb,
}

impl Quota {
    /// Its key in the section `quotas`, and its name in a token and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Executions => "executions",
            Self::SessionCreations => "session_creations",
            Self::CpuSeconds => "cpu_seconds",
            Self::StoredMb => "stored_mb",
        }
    }
}

/// How much of each; none: as much as one likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// See [`Quota::Executions`].
    pub executions: Option<u64>,
    /// See [`Quota::SessionCreations`].
    pub session_creations: Option<u64>,
    /// See [`Quota::CpuSeconds`].
    pub cpu_seconds: Option<u64>,
    /// See [`Quota::StoredMb`].
    pub stored_mb: Option<u64>,
}

impl Caps {
    /// The smaller of two, one by one.
    fn lowered(self, by: Self) -> Self {
        let lower = |cap: Option<u64>, by: Option<u64>| cap.into_iter().chain(by).min();
        Self {
            executions: lower(self.executions, by.executions),
            session_creations: lower(self.session_creations, by.session_creations),
            cpu_seconds: lower(self.cpu_seconds, by.cpu_seconds),
            stored_mb: lower(self.stored_mb, by.stored_mb),
        }
    }
}

impl From<&config::Quotas> for Caps {
    fn from(quotas: &config::Quotas) -> Self {
        let cap = |number: u64| Some(number).filter(|number| *number > 0);
        Self {
            executions: cap(quotas.executions),
            session_creations: cap(quotas.session_creations),
            cpu_seconds: cap(quotas.cpu_seconds),
            stored_mb: cap(quotas.stored_mb),
        }
    }
}

/// What is to be counted before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    executions: u64,
    session_creations: u64,
}

impl Wish {
    /// An execution.
    pub(super) const EXECUTION: Self = Self { executions: 1, session_creations: 0 };
    /// A session.
    pub(super) const SESSION: Self = Self { executions: 0, session_creations: 1 };
    /// A session for one execution.
    pub(super) const ONE_SHOT: Self = Self { executions: 1, session_creations: 1 };
}

/// A quota that is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Exhausted {
    /// Which one.
    pub quota: Quota,
    /// How much it is.
    pub limit: u64,
    /// What it is counted in.
    pub period: Period,
    /// When it begins anew; none: when something is deleted.
    pub anew: Option<Timestamp>,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.quota {
            Quota::Executions => "executions",
            Quota::SessionCreations => "new sessions",
            Quota::CpuSeconds => "seconds of CPU time",
            Quota::StoredMb => "MiB in the logs of your sessions",
        };
        let Self { limit, .. } = self;
        match self.anew {
            Some(anew) => {
                let period = match self.period {
                    Period::Hour => "an hour",
                    Period::Day => "a day",
                    Period::Month => "a month",
                };
                write!(f, "your quota of {limit} {what} {period} is used up; it begins anew at {anew:.0}")
            }
            None => write!(f, "your quota of {limit} {what} is used up; delete sessions that you need no longer"),
        }
    }
}

/// What a subject has used, and may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What it is counted in.
    pub period: Period,
    /// When counts begin anew.
    pub ends: Timestamp,
    /// What it may use.
    pub caps: Caps,
    /// Executions that were accepted.
    pub executions: u64,
    /// Sessions that were created.
    pub session_creations: u64,
    /// CPU time of executions that have ended, and between executions.
    pub cpu: Duration,
    /// What the logs of its sessions take now, in bytes.
    pub stored_bytes: u64,
}

/// The quotas of every subject. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Quotas(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    caps: Caps,
    store: Store,
    metrics: Metrics,
    changed: Notify,
    /// When the period began, in seconds since 1970, before which nothing is stored any more.
    stored_since: AtomicI64,
}

impl Quotas {
    /// Counts at zero; see [`Quotas::load`].
    pub fn new(config: &config::Quotas, store: Store, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            ledger: Ledger::new(config.period),
            caps: config.into(),
            store,
            metrics,
            changed: Notify::new(),
            stored_since: AtomicI64::new(i64::MIN),
        }))
    }

    /// Goes on with the counts that an earlier process has stored. Called once, before anything is counted.
    ///
    /// # Errors
    /// Those of [`Store::quota_usage`].
    pub async fn load(&self) -> Result<(), StoreError> {
        let now = Timestamp::now();
        for usage in self.0.store.quota_usage().await? {
            self.0.ledger.restore(usage, now);
        }
        Ok(())
    }

    /// Stores what changes, again and again; does not return.
    ///
    /// # Cancel safety
    /// Cancel-safe: what is not stored yet is stored by the next call, or by [`Quotas::save`].
    pub async fn keep(&self) {
        loop {
            self.0.changed.notified().await;
            self.save();
            tokio::time::sleep(STORE_EVERY).await;
        }
    }

    /// Hands what has changed to the store, and has it delete what is of earlier periods.
    pub fn save(&self) {
        let now = Timestamp::now();
        let changed = self.0.ledger.changes(now);
        if !changed.is_empty() {
            self.0.store.keep_quota_usage(changed);
        }
        let started = self.0.ledger.started(now);
        if self.0.stored_since.fetch_max(started.as_second(), Ordering::Relaxed) < started.as_second() {
            self.0.store.forget_quota_usage(started);
        }
    }

    /// That of a subject; `lowered` is what its token says it may have at most.
    pub fn account(&self, subject: &str, lowered: Caps) -> Account {
        Account { quotas: self.clone(), subject: subject.into(), caps: self.0.caps.lowered(lowered) }
    }

    /// Where the logs of a subject's sessions are counted.
    pub(super) fn stored(&self, subject: &str) -> Total {
        self.0.ledger.stored(subject, Timestamp::now())
    }
}

/// Where what a subject does is counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Account {
    quotas: Quotas,
    subject: Arc<str>,
    caps: Caps,
}

impl Account {
    /// Counts what is about to be done, in one step with the question whether it may. What is returned takes it back
    /// unless it is told to keep it.
    ///
    /// # Errors
    /// What is used up; that is told to metrics.
    pub(super) fn admit(&self, wish: Wish) -> Result<Admitted<'_>, Exhausted> {
        let taken = self.quotas.0.ledger.take(&self.subject, &self.caps, wish, Timestamp::now());
        let started = taken.inspect_err(|exhausted| {
            tracing::debug!(subject = &*self.subject, quota = exhausted.quota.name(), "a quota is used up");
            self.quotas.0.metrics.quota_refused(exhausted.quota.name());
        })?;
        self.quotas.0.changed.notify_one();
        Ok(Admitted { account: self, wish, started, is_kept: false })
    }

    /// Counts CPU time that was used.
    pub(super) fn charge(&self, cpu: Duration) {
        if !cpu.is_zero() {
            self.quotas.0.ledger.charge(&self.subject, cpu, Timestamp::now());
            self.quotas.0.changed.notify_one();
        }
    }

    /// What the subject has used, and may use.
    pub fn standing(&self) -> Standing {
        self.quotas.0.ledger.standing(&self.subject, self.caps, Timestamp::now())
    }
}

/// Something that is counted, and may still come to nothing.
#[derive(Debug)]
#[must_use]
pub(super) struct Admitted<'a> {
    account: &'a Account,
    wish: Wish,
    started: Timestamp,
    is_kept: bool,
}

impl Admitted<'_> {
    /// It is done.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.account.quotas.0.ledger.give_back(&self.account.subject, self.wish, self.started);
            self.account.quotas.0.changed.notify_one();
        }
    }
}
