//! Interpreters that wait for sessions, by language: counted by the supervisor, told on its page.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{LANGUAGES, OfLanguage};
use super::process::set;
use super::standing::Pooled;
use super::{begin, counters, gauges};

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    ready: Family<OfLanguage, Gauge>,
    hits: Family<OfLanguage, Counter>,
    misses: Family<OfLanguage, Counter>,
    refills: Family<OfLanguage, Counter>,
    refill_seconds: Family<OfLanguage, Counter<f64, AtomicU64>>,
}

impl Pool {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let refill_seconds = Family::default();
        let help = "What making those took, from the sandbox to the end of the boot";
        let ready = gauges(registry, "pool_ready", None, "Interpreters that wait for a session");
        let hits = counters(registry, "pool_hits", "Sessions that got an interpreter that waited");
        let misses = counters(registry, "pool_misses", "Sessions that had to wait for an interpreter of their own");
        let refills = counters(registry, "pool_refills", "Interpreters that were made to wait for a session");
        registry.register_with_unit("pool_refill", help, Unit::Seconds, Family::clone(&refill_seconds));
        let pool = Self { ready, hits, misses, refills, refill_seconds };
        for language in LANGUAGES {
            let of = OfLanguage { language };
            begin(&pool.ready, &of);
            begin(&pool.hits, &of);
            begin(&pool.misses, &of);
            begin(&pool.refills, &of);
            begin(&pool.refill_seconds, &of);
        }
        pool
    }

    /// Takes over what the supervisor tells. What it counts only grows, so a counter is brought up to it.
    pub(super) fn tell(&self, pooled: &[Pooled; LANGUAGES.len()]) {
        for (language, told) in LANGUAGES.into_iter().zip(pooled) {
            let of = OfLanguage { language };
            set(&self.ready.get_or_create(&of), told.ready);
            for (family, number) in
                [(&self.hits, told.hits), (&self.misses, told.misses), (&self.refills, told.refills)]
            {
                let counter = family.get_or_create(&of);
                counter.inc_by(number.saturating_sub(counter.get()));
            }
            let counter = self.refill_seconds.get_or_create(&of);
            counter.inc_by((told.refill_us as f64 / 1e6 - counter.get()).max(0.0));
        }
    }
}
