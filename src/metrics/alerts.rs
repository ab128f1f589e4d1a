//! What is counted of alerts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{ALERTS, OfKind};
use super::{Metrics, begin, counter, counters};

/// The metrics of alerts.
#[derive(Debug)]
pub(super) struct Alerts {
    raised: Family<OfKind, Counter>,
    unsent: Counter,
}

impl Alerts {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let raised = counters(registry, "alerts", "Alerts on security, by kind");
        ALERTS.into_iter().for_each(|kind| begin(&raised, &OfKind { kind }));
        Self { raised, unsent: counter(registry, "alerts_unsent", "Alerts that could not be queued for the webhook") }
    }
}

impl Metrics {
    /// An alert was raised. `kind` is from a closed set.
    pub fn alerted(&self, kind: &'static str) {
        self.0.alerts.raised.get_or_create(&OfKind { kind }).inc();
    }

    /// An alert could not be queued for the webhook.
    pub fn alert_unsent(&self) {
        self.0.alerts.unsent.inc();
    }
}
