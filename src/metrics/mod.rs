//! Every metric: its name, its unit, its labels, and how it is counted.
//!
//! No label has a value that a client can invent: all of them are `&'static str` from the closed sets in `labels`, or a
//! status of HTTP. A series that may come is there from the start, at zero, where the set is small.
//!
//! Counting costs an atomic addition, or for a histogram a lock that is held for one. What can be looked up is looked up
//! at a scrape: sessions and logs by [`Metrics::take_stock`], processes on the page of [`standing`].

mod alerts;
mod classic;
mod edge;
pub mod labels;
mod pool;
mod process;
mod session;
pub mod standing;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub use edge::OpenSocket;
pub use process::{Facts, Stock};
pub use session::SessionMeter;

/// What every name begins with.
const PREFIX: &str = "repl";

/// Counts, and tells what was counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    session: session::Sessions,
    edge: edge::Edge,
    process: process::Process,
    alerts: alerts::Alerts,
    traces: traces::Traces,
}

impl Metrics {
    /// Every metric, at its beginning.
    pub fn new(facts: Facts) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let session = session::Sessions::new(&mut registry);
        let edge = edge::Edge::new(&mut registry);
        let process = process::Process::new(&mut registry, facts);
        let alerts = alerts::Alerts::new(&mut registry);
        let traces = traces::Traces::new(&mut registry);
        Self(Arc::new(Inner { registry, session, edge, process, alerts, traces }))
    }

    /// All that was counted, in the text format of OpenMetrics 1.0.
    ///
    /// # Errors
    /// If a metric cannot be written, which would be a fault of ours.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        self.0.process.look();
        let mut out = String::new();
        text::encode(&mut out, &self.0.registry)?;
        Ok(out)
    }

    /// The same in the text format that Prometheus had before.
    ///
    /// # Errors
    /// As [`Metrics::text`].
    pub fn classic_text(&self) -> Result<String, std::fmt::Error> {
        self.text().map(|text| classic::classic(&text))
    }
}

/// Registers counters, one for each set of labels.
fn counters<S: LabelSet>(registry: &mut Registry, name: &str, help: &str) -> Family<S, Counter> {
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

/// Registers a counter without labels.
fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

/// Registers a gauge without labels; its unit is a part of the name, where it has one.
fn gauge(registry: &mut Registry, name: &str, unit: Option<Unit>, help: &str) -> Gauge {
    let gauge = Gauge::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge.clone()),
        None => registry.register(name, help, gauge.clone()),
    }
    gauge
}

/// Registers gauges, one for each set of labels.
fn gauges<S: LabelSet>(registry: &mut Registry, name: &str, unit: Option<Unit>, help: &str) -> Family<S, Gauge> {
    let family = Family::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

/// Registers histograms of seconds, one for each set of labels.
fn seconds<S: LabelSet>(registry: &mut Registry, name: &str, buckets: Buckets, help: &str) -> Family<S, Histogram> {
    let family = Family::new_with_constructor(buckets);
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

/// Has a series from the start, at zero.
fn begin<S: LabelSet, M>(family: &Family<S, M>, labels: &S) {
    drop(family.get_or_create(labels));
}

/// What a histogram is divided into.
type Buckets = fn() -> Histogram;

/// From a quick answer to the longest execution, in seconds.
fn of_work() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0])
}

/// From what nobody notices to what everybody does, in seconds.
fn of_delays() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0])
}

trait LabelSet: Clone + std::fmt::Debug + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + 'static {}

impl<S: Clone + std::fmt::Debug + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + 'static> LabelSet for S {}

fn observe(histogram: &Histogram, took: Duration) {
    histogram.observe(took.as_secs_f64());
}

#[cfg(test)]
mod tests;
