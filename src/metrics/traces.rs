//! What becomes of the spans of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Metrics, counter};

/// The metrics of traces.
#[derive(Debug)]
pub(super) struct Traces {
    exported: Counter,
    dropped: Counter,
}

impl Traces {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            exported: counter(registry, "spans_exported", "Spans of traces that were handed over to be sent"),
            dropped: counter(registry, "spans_dropped", "Spans of traces for which there was no room"),
        }
    }
}

impl Metrics {
    /// So many spans were handed over.
    pub fn spans_exported(&self, spans: u64) {
        self.0.traces.exported.inc_by(spans);
    }

    /// So many spans are gone.
    pub fn spans_dropped(&self, spans: u64) {
        self.0.traces.dropped.inc_by(spans);
    }
}
