//! What the server as a whole is and uses: the two processes, sandboxes, logs, and how quickly the gateway gets its turns.

use std::fs::File;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use repltool_protocol::rest::{Language, SandboxMode};

use super::labels::{Build, Level, OfProcess, PROCESSES};
use super::pool::Pool;
use super::standing::{self, Standing};
use super::{Metrics, begin, counter, gauge, gauges, observe, of_delays};

/// What does not change while a gateway runs.
#[derive(Debug)]
pub struct Facts {
    /// The walls that stand: `A`, `B` or `C`.
    pub tier: &'static str,
    /// Sessions that there may be.
    pub max_sessions: usize,
    /// Bytes that all logs may take.
    pub max_log_bytes: u64,
    /// Descriptors that a process may have open.
    pub max_open_files: u64,
    /// The page on which the supervisor tells of itself; none in tests.
    pub standing: Option<File>,
}

/// What is counted at a scrape.
#[derive(Debug, Default)]
pub struct Stock {
    /// Language and level of each session that has not ended.
    pub active: Vec<(Language, SandboxMode)>,
    /// Bytes of all logs.
    pub log_bytes: u64,
}

/// The metrics of the server as a whole.
#[derive(Debug)]
pub(super) struct Process {
    page: Option<File>,
    log_bytes: Gauge,
    resident: Family<OfProcess, Gauge>,
    open_files: Family<OfProcess, Gauge>,
    restarts: Counter,
    sandboxes: Gauge,
    pool: Pool,
    delays: Histogram,
}

impl Process {
    pub(super) fn new(registry: &mut Registry, facts: Facts) -> Self {
        let build: Family<Build, Gauge> =
            gauges(registry, "build_info", None, "Always 1; what runs, and the walls that sandboxes have");
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION"), tier: facts.tier }).set(1);
        let max = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        gauge(registry, "sessions_limit", None, "Sessions that there may be").set(max(facts.max_sessions as u64));
        let bytes = || Some(Unit::Bytes);
        gauge(registry, "log_limit", bytes(), "Bytes that all logs may take").set(max(facts.max_log_bytes));
        gauge(registry, "process_open_files_limit", None, "Descriptors that each process may have open")
            .set(max(facts.max_open_files));
        let delays = of_delays();
        let help = "How late the gateway got a turn that it had asked for";
        registry.register_with_unit("event_loop_delay", help, Unit::Seconds, delays.clone());
        let process = Self {
            page: facts.standing,
            log_bytes: gauge(registry, "log", bytes(), "Bytes that all logs take"),
            resident: gauges(registry, "process_resident_memory", bytes(), "Memory of a process that is resident"),
            open_files: gauges(registry, "process_open_files", None, "Descriptors that a process has open"),
            restarts: counter(registry, "gateway_restarts", "Times that the gateway ended and was started again"),
            sandboxes: gauge(registry, "sandboxes", None, "Sandboxes that the supervisor holds for sessions"),
            pool: Pool::new(registry),
            delays,
        };
        for name in PROCESSES {
            let of = OfProcess { process: name };
            begin(&process.resident, &of);
            begin(&process.open_files, &of);
        }
        process
    }

    /// Reads the page of the supervisor. One that is being written is left: what it said before still stands.
    pub(super) fn look(&self) {
        let Some(standing) = self.page.as_ref().and_then(standing::read) else { return };
        let Standing { gateway_starts, sandboxes, supervisor, gateway, pooled } = standing;
        let restarts = gateway_starts.saturating_sub(1);
        self.restarts.inc_by(restarts.saturating_sub(self.restarts.get()));
        set(&self.sandboxes, sandboxes);
        self.pool.tell(&pooled);
        for (name, used) in PROCESSES.into_iter().zip([supervisor, gateway]) {
            let of = OfProcess { process: name };
            set(&self.resident.get_or_create(&of), used.resident_bytes);
            set(&self.open_files.get_or_create(&of), used.open_files);
        }
    }
}

pub(super) fn set(gauge: &Gauge, number: u64) {
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
}

impl Metrics {
    /// Takes over what was counted for a scrape.
    pub fn take_stock(&self, stock: &Stock) {
        for level in Level::all() {
            let here = stock.active.iter().filter(|(language, mode)| Level::of(*language, *mode) == level);
            set(&self.0.session.active.get_or_create(&level), here.count() as u64);
        }
        set(&self.0.process.log_bytes, stock.log_bytes);
    }

    /// A turn came so much later than it was due.
    pub fn delayed(&self, by: Duration) {
        observe(&self.0.process.delays, by);
    }
}
