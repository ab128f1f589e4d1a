//! Traces by OTLP: which spans leave the server, with which attributes, and how they are packed for who sends them.
//!
//! ```text
//!   request ─┬─ create_session
//!            └─ execution ─── driver
//! ```
//! These spans of `tracing` are taken and no others, without the lines of the log that stand in them. Of their fields
//! those in [`ATTRIBUTES`] leave, whoever set others: no code, no output, no token, no subject and no address. A trace
//! that a client began is gone on with; whether it is sampled is decided here. Nothing in here opens a connection, and
//! without a layer that takes spans, every function costs a look and does nothing.

mod export;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, Status, TraceContextExt, TraceFlags, TracerProvider};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::sync::mpsc;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;

use crate::telemetry::OtherLayer;
pub use export::Exporter;

/// The template of a request's path.
pub const ROUTE: &str = "http.route";
/// The method of a request; one that is not known is `other`.
pub const METHOD: &str = "http.request.method";
/// The status of its answer.
pub const STATUS: &str = "http.response.status_code";
/// The language of a session.
pub const LANGUAGE: &str = "language";
/// The level of its sandbox.
pub const SANDBOX_MODE: &str = "sandbox_mode";
/// The name of a session.
pub const SESSION: &str = "session";
/// How it went, by a name of the metrics.
pub const OUTCOME: &str = "outcome";
/// The limit that struck.
pub const LIMIT: &str = "limit";
/// Milliseconds that an execution waited for its start.
pub const QUEUE_MS: &str = "queue_ms";
/// Milliseconds from the start of an execution to the first byte of its output.
pub const FIRST_OUTPUT_MS: &str = "first_output_ms";

/// Every attribute that leaves the server.
pub const ATTRIBUTES: [&str; 12] = [
    ROUTE,
    METHOD,
    STATUS,
    LANGUAGE,
    SANDBOX_MODE,
    SESSION,
    OUTCOME,
    LIMIT,
    QUEUE_MS,
    FIRST_OUTPUT_MS,
    // Fields that spans have for the log as well.
    "request_id",
    "execution",
];

/// The spans that leave the server.
const SPANS: [&str; 4] = [REQUEST, "create_session", "execution", "driver"];
const REQUEST: &str = "request";

/// Spans that wait to be packed, at most some 4 MiB. Who ends one never waits: beyond that it is dropped and counted.
const QUEUE: usize = 4096;

/// A layer that takes this share of all traces, from 0 to 1, and what packs its spans.
///
/// Which traces, the trace id says, so that all services with the same share take the same ones. A trace that its client
/// does not sample is not taken, and one that it samples only if it is of the share.
pub fn begin(share: f64) -> (OtherLayer, Exporter) {
    TAKEN.store(true, Ordering::Relaxed);
    let (sender, spans) = mpsc::channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let of_share = Sampler::TraceIdRatioBased(share);
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::parent_based(of_share.clone()).with_remote_parent_sampled(of_share))
        .with_span_processor(queue::Queue::new(sender, dropped.clone()))
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(env!("CARGO_CRATE_NAME")))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(filter_fn(|told| told.is_span() && SPANS.contains(&told.name()) && is_ours(told.target())));
    (layer.boxed(), Exporter::new(spans, dropped))
}

fn is_ours(target: &str) -> bool {
    target.split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

/// Whether any spans are taken. Most servers take none, and those look at none of what follows.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Goes on with the trace of a `traceparent` (W3C Trace Context) in a new span, and tells the trace's id in the field
/// `trace` of the span. One that is malformed, or none, begins a trace.
pub fn follow(span: &Span, traceparent: Option<&str>) {
    if !TAKEN.load(Ordering::Relaxed) {
        return;
    }
    if let Some(text) = traceparent {
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Header(text));
        // It fails where nobody takes spans.
        let _ = span.set_parent(parent);
    }
    if let Some(context) = context(span) {
        span.record("trace", tracing::field::display(context.trace_id()));
    }
}

/// A span as others are told of it, in the form of a `traceparent`; none where it is not taken, or nobody takes spans.
pub fn parent(span: &Span) -> Option<String> {
    let context = context(span)?;
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    Some(format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()))
}

fn context(span: &Span) -> Option<SpanContext> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then_some(context)
}

/// Notes one of [`ATTRIBUTES`] at a span.
pub fn note(span: &Span, attribute: &'static str, value: impl Into<Value>) {
    if TAKEN.load(Ordering::Relaxed) {
        span.set_attribute(attribute, value);
    }
}

/// The server is at fault for how it went.
pub fn failed(span: &Span) {
    if TAKEN.load(Ordering::Relaxed) {
        span.set_status(Status::error(""));
    }
}

/// Ends a span now, although others may hold it for longer. What begins in it later has it as its parent still.
pub fn end(span: &Span) {
    if TAKEN.load(Ordering::Relaxed) {
        span.context().span().end();
    }
}

/// A header field of a request, as a propagator asks for it.
struct Header<'a>(&'a str);

impl Extractor for Header<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

#[cfg(test)]
mod tests;
