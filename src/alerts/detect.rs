//! From records to alerts: a state machine with the clock passed in. It counts in windows, apart for each kind and for
//! each subject or address, and holds an alert back for a while after one like it.
//!
//! ```text
//!            below the threshold          at it, or above
//!   quiet ─────────────────────▶ quiet ──────────────────▶ told
//!     ▲                                                     │ more: held back and counted
//!     └─────────────────── the cool-down is over ───────────┘
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hashlink::LruCache;
use jiff::Timestamp;
use repltool_protocol::event::ViolationLayer;
use repltool_protocol::ids::SessionId;

use crate::audit::{Kind as RecordKind, Record};
use crate::config;

/// Subjects and addresses that are remembered, each for each kind; who was quiet the longest is forgotten first.
pub(super) const MAX_KNOWN: usize = 4096;
/// A window is counted in so many steps.
const STEPS: u32 = 12;
const MINUTE: Duration = Duration::from_secs(60);

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Programs of a subject tried what Linux refuses.
    Violations,
    /// Programs of a subject broke the policy on imports and code.
    PolicyViolations,
    /// An address fails to log in.
    FailedLogins,
    /// Executions of a subject are ended by limits.
    LimitKills,
    /// A session was ended for its violations.
    SessionKilled,
    /// The audit log cannot be written.
    AuditFailed,
    /// Signed records are not in the audit log.
    AuditDamaged,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Violations,
        Self::PolicyViolations,
        Self::FailedLogins,
        Self::LimitKills,
        Self::SessionKilled,
        Self::AuditFailed,
        Self::AuditDamaged,
    ];

    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Violations => "violations",
            Self::PolicyViolations => "policy_violations",
            Self::FailedLogins => "failed_logins",
            Self::LimitKills => "limit_kills",
            Self::SessionKilled => "session_killed",
            Self::AuditFailed => "audit_failed",
            Self::AuditDamaged => "audit_damaged",
        }
    }
}

/// Whom an alert is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A subject.
    Subject(String),
    /// An address; in IPv6 the /64 that it is from.
    Address(IpAddr),
    /// The server.
    Server,
}

impl Whose {
    /// The subject, if it is one.
    pub fn subject(&self) -> Option<&str> {
        if let Self::Subject(subject) = self { Some(subject) } else { None }
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        if let Self::Address(address) = self { Some(*address) } else { None }
    }
}

/// Something that may lead to an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) kind: Kind,
    pub(super) whose: Whose,
    pub(super) times: u64,
    pub(super) session: Option<SessionId>,
}

impl Sighting {
    /// What a record tells, if it is anything of interest.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let what = record.what();
        let by_subject = || Some(Whose::Subject(what.subject.as_ref()?.as_str().to_owned()));
        let by_address = || Some(Whose::Address(network(what.peer?)));
        let reason = what.reason.as_ref().map_or("", |it| it.as_str());
        let (kind, whose) = match record.kind() {
            // What is to be recorded alone is.
            RecordKind::Violation if reason == "record" => return None,
            RecordKind::Violation if what.layer == Some(ViolationLayer::Kernel) => (Kind::Violations, by_subject()),
            RecordKind::Violation => (Kind::PolicyViolations, by_subject()),
            RecordKind::AuthFailed => (Kind::FailedLogins, by_address()),
            // A login that failed too often is refused for that.
            RecordKind::Refused if what.status == Some(429) && what.subject.is_none() => {
                (Kind::FailedLogins, by_address())
            }
            RecordKind::Execution if what.limit.is_some() => (Kind::LimitKills, by_subject()),
            RecordKind::SessionEnded if reason == "violations" => (Kind::SessionKilled, by_subject()),
            _ => return None,
        };
        let times = what.times.map_or(1, u64::from).max(1);
        Some(Self { kind, whose: whose?, times, session: what.session_id.clone() })
    }

    /// Something about the server.
    pub(super) fn of_server(kind: Kind) -> Self {
        Self { kind, whose: Whose::Server, times: 1, session: None }
    }
}

/// Who has one address of IPv6 has all of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// That something happened too often, or must not happen at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// What it is about.
    pub kind: Kind,
    /// Whom it is about.
    pub whose: Whose,
    /// The session that the last of it came from, if it came from one.
    pub session: Option<SessionId>,
    /// How often, within the time that is looked at.
    pub count: u64,
    /// When the first of those was.
    pub first: Timestamp,
    /// When the last of those was.
    pub last: Timestamp,
    /// How often since the alert before this one, while there was none of its own.
    pub held_back: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Detector {
    config: config::Alerts,
    known: LruCache<(Kind, Whose), Watched, RandomState>,
}

/// What is known of one subject or address.
#[derive(Debug, Default)]
struct Watched {
    /// The newest last.
    steps: VecDeque<Step>,
    /// When there was an alert.
    told: Option<Duration>,
    held_back: u64,
}

/// A part of a window.
#[derive(Debug)]
struct Step {
    number: u128,
    times: u64,
    first: Timestamp,
}

impl Detector {
    pub(super) fn new(config: config::Alerts) -> Self {
        // Capacity is taken as it is needed.
        Self { config, known: LruCache::with_hasher(MAX_KNOWN, RandomState::new()) }
    }

    /// Takes a sighting into account. `at` is the time since the detector began, which never goes back; `time` is for
    /// people.
    pub(super) fn see(&mut self, at: Duration, time: Timestamp, sighting: Sighting) -> Option<Alert> {
        let (threshold, window) = self.terms(sighting.kind);
        if threshold == 0 {
            return None;
        }
        let key = (sighting.kind, sighting.whose.clone());
        if self.known.get(&key).is_none() {
            self.known.insert(key.clone(), Watched::default());
        }
        let watched = self.known.get_mut(&key)?;
        let (count, first) = watched.count(at, window, time, sighting.times);
        if count < threshold {
            return None;
        }
        let cooldown = Duration::from_secs(self.config.cooldown_s);
        if watched.told.is_some_and(|told| at.saturating_sub(told) < cooldown) {
            watched.held_back = watched.held_back.saturating_add(sighting.times);
            return None;
        }
        watched.told = Some(at);
        let held_back = std::mem::take(&mut watched.held_back);
        let Sighting { kind, whose, session, .. } = sighting;
        Some(Alert { kind, whose, session, count, first, last: time, held_back })
    }

    /// From how many on, within what time.
    fn terms(&self, kind: Kind) -> (u64, Duration) {
        let config = &self.config;
        match kind {
            Kind::Violations | Kind::PolicyViolations => (config.violations_per_minute, MINUTE),
            Kind::FailedLogins => (config.failed_logins_per_minute, MINUTE),
            Kind::LimitKills => (config.limit_kills_per_10min, 10 * MINUTE),
            Kind::SessionKilled | Kind::AuditFailed | Kind::AuditDamaged => (1, MINUTE),
        }
    }

    #[cfg(test)]
    fn known(&self) -> usize {
        self.known.len()
    }
}

impl Watched {
    /// Adds so many. Gives how many there were within the window, and when the first of them was.
    fn count(&mut self, at: Duration, window: Duration, time: Timestamp, times: u64) -> (u64, Timestamp) {
        let number = at.as_nanos() / (window / STEPS).as_nanos().max(1);
        while self.steps.front().is_some_and(|step| step.number + u128::from(STEPS) <= number) {
            self.steps.pop_front();
        }
        match self.steps.back_mut().filter(|step| step.number == number) {
            Some(step) => step.times = step.times.saturating_add(times),
            None => self.steps.push_back(Step { number, times, first: time }),
        }
        let count = self.steps.iter().fold(0_u64, |sum, step| sum.saturating_add(step.times));
        (count, self.steps.front().map_or(time, |step| step.first))
    }
}
