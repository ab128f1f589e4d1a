//! What sessions count: their life, their executions, their output, the limits and rules that they meet.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use repltool_protocol::event::{Limit, Outcome, Violation};
use repltool_protocol::rest::{Language, SandboxMode};
use tokio::time::Instant;

use super::labels::{self, Broken, ENDS, Ending, LANGUAGES, LIMITS, LOSSES, Level, Lost, OUTCOMES, OfLanguage};
use super::labels::{OfQuota, QUOTAS, Reason, Struck};
use super::{Metrics, begin, counter, counters, gauges, observe, of_work, seconds};

/// The metrics of all sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    created: Family<Level, Counter>,
    pub(super) active: Family<Level, Gauge>,
    ended: Family<Reason, Counter>,
    executions: Family<Ending, Counter>,
    durations: Family<Ending, Histogram>,
    waits: Family<OfLanguage, Histogram>,
    first_output: Family<OfLanguage, Histogram>,
    output: Family<OfLanguage, Counter>,
    limits: Family<Struck, Counter>,
    losses: Family<Lost, Counter>,
    violations: Family<Broken, Counter>,
    starts: Family<Ending, Counter>,
    start_times: Family<OfLanguage, Histogram>,
    log_failures: Counter,
    quota_refusals: Family<OfQuota, Counter>,
}

impl Sessions {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let output = Family::default();
        let help = "Bytes of output that programs wrote and that were kept";
        registry.register_with_unit("output", help, Unit::Bytes, output.clone());
        let sessions = Self {
            created: counters(registry, "sessions_created", "Sessions created"),
            active: gauges(registry, "active_sessions", None, "Sessions that have not ended"),
            ended: counters(registry, "sessions_ended", "Sessions ended, by reason"),
            executions: counters(registry, "executions", "Executions ended, by outcome"),
            durations: seconds(
                registry,
                "execution_duration",
                of_work,
                "Time from the start of an execution to its end, by outcome; what never ran is left out",
            ),
            waits: seconds(registry, "execution_queue", of_work, "Time that an execution waited for its start"),
            first_output: seconds(
                registry,
                "execution_first_output",
                of_work,
                "Time from the start of an execution to the first byte of its output",
            ),
            output,
            limits: counters(registry, "limit_hits", "Limits that struck, in executions and between them"),
            losses: counters(registry, "interpreters_lost", "Interpreters that ended or were killed, by cause"),
            violations: counters(registry, "violations", "Violations of the sandbox's rules, recorded ones too"),
            starts: counters(registry, "sandbox_starts", "Sandboxes asked for, by outcome"),
            start_times: seconds(
                registry,
                "sandbox_start",
                of_work,
                "Time until a new sandbox with its interpreter was ready",
            ),
            log_failures: counter(
                registry,
                "log_write_failures",
                "Times that the log of a session could not be written",
            ),
            quota_refusals: counters(registry, "quota_refusals", "Refusals because a quota of a subject was used up"),
        };
        sessions.begin_series();
        sessions
    }

    /// Every series that there may be is there from the start; of histograms one for each language.
    fn begin_series(&self) {
        for level in Level::all() {
            begin(&self.created, &level);
            begin(&self.active, &level);
            for outcome in OUTCOMES {
                begin(&self.executions, &Ending::of(level, outcome));
            }
            for outcome in ["success", "error"] {
                begin(&self.starts, &Ending::of(level, outcome));
            }
            begin(&self.durations, &Ending::of(level, "success"));
        }
        for language in LANGUAGES {
            let of = OfLanguage { language };
            begin(&self.waits, &of);
            begin(&self.first_output, &of);
            begin(&self.output, &of);
            begin(&self.start_times, &of);
            for limit in LIMITS {
                begin(&self.limits, &Struck { language, limit });
            }
            for cause in LOSSES {
                begin(&self.losses, &Lost { language, cause });
            }
        }
        for reason in ENDS {
            begin(&self.ended, &Reason { reason });
        }
        for quota in QUOTAS {
            begin(&self.quota_refusals, &OfQuota { quota });
        }
        for broken in Broken::all() {
            begin(&self.violations, &broken);
        }
    }
}

/// What one session counts. Its labels are found once.
#[derive(Debug, Clone)]
pub struct SessionMeter {
    metrics: Metrics,
    level: Level,
    output: Counter,
}

impl Metrics {
    /// For a session in this language at this level.
    pub fn session(&self, language: Language, mode: SandboxMode) -> SessionMeter {
        let level = Level::of(language, mode);
        let output = self.0.session.output.get_or_create_owned(&OfLanguage { language: level.language });
        SessionMeter { metrics: self.clone(), level, output }
    }

    /// Something was refused because a quota is used up, one of [`labels::QUOTAS`].
    pub fn quota_refused(&self, quota: &'static str) {
        self.0.session.quota_refusals.get_or_create(&OfQuota { quota }).inc();
    }
}

impl SessionMeter {
    /// The session is there.
    pub fn created(&self) {
        self.sessions().created.get_or_create(&self.level).inc();
    }

    /// The session has ended; `reason` is one of [`labels::ENDS`].
    pub fn ended(&self, reason: &'static str) {
        self.sessions().ended.get_or_create(&Reason { reason }).inc();
    }

    /// Counts and times the start of a sandbox.
    ///
    /// # Cancel safety
    /// That of `boot`; a start that is given up is not counted.
    pub async fn start<T, E>(&self, boot: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let begun = Instant::now();
        let outcome = boot.await;
        if outcome.is_ok() {
            observe(&self.sessions().start_times.get_or_create(&self.of_language()), begun.elapsed());
        }
        let told = if outcome.is_ok() { "success" } else { "error" };
        self.sessions().starts.get_or_create(&Ending::of(self.level, told)).inc();
        outcome
    }

    /// An execution starts that waited so long.
    pub fn waited(&self, wait: Duration) {
        observe(&self.sessions().waits.get_or_create(&self.of_language()), wait);
    }

    /// So many bytes of output were kept.
    pub fn kept(&self, bytes: usize) {
        self.output.inc_by(bytes as u64);
    }

    /// The first of them came so long after the start of the execution.
    pub fn first_output(&self, after: Duration) {
        observe(&self.sessions().first_output.get_or_create(&self.of_language()), after);
    }

    /// An execution has ended.
    pub fn executed(&self, outcome: &Outcome) {
        let ending = Ending::of(self.level, labels::outcome(outcome));
        self.sessions().executions.get_or_create(&ending).inc();
        if outcome.execution_count > 0 {
            let took = Duration::from_millis(outcome.execution_time_ms);
            observe(&self.sessions().durations.get_or_create(&ending), took);
        }
        outcome.limit.into_iter().for_each(|limit| self.struck(limit));
    }

    /// A limit struck between executions.
    pub fn struck(&self, limit: Limit) {
        let struck = Struck { language: self.level.language, limit: labels::limit(limit) };
        self.sessions().limits.get_or_create(&struck).inc();
    }

    /// The interpreter is gone; `cause` is one of [`labels::LOSSES`].
    pub fn lost(&self, cause: &'static str) {
        self.sessions().losses.get_or_create(&Lost { language: self.level.language, cause }).inc();
    }

    /// A rule was broken so many times.
    pub fn violated(&self, violation: &Violation, times: u32) {
        self.sessions().violations.get_or_create(&Broken::of(violation)).inc_by(times.into());
    }

    /// The log of the session cannot be written.
    pub fn log_failed(&self) {
        self.sessions().log_failures.inc();
    }

    fn sessions(&self) -> &Sessions {
        &self.metrics.0.session
    }

    fn of_language(&self) -> OfLanguage {
        OfLanguage { language: self.level.language }
    }
}
