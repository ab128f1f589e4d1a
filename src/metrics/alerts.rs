//! What is counted of alerts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{ALERTS, OfKind};
use super::{Metrics, begin, counters};

/// The metrics of alerts.
#[derive(Debug)]
pub(super) struct Alerts {
    raised: Family<OfKind, Counter>,
}

impl Alerts {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let raised = counters(registry, "alerts", "Alerts on security, by kind");
        ALERTS.into_iter().for_each(|kind| begin(&raised, &OfKind { kind }));
        Self { raised }
    }
}

impl Metrics {
    /// An alert was raised. `kind` is from a closed set.
    pub fn alerted(&self, kind: &'static str) {
        self.0.alerts.raised.get_or_create(&OfKind { kind }).inc();
    }
}
