//! Packs spans as OTLP asks for them and hands the packs over. Keeps nothing that is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use opentelemetry_proto::transform::common::tonic::Attributes;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{ATTRIBUTES, REQUEST};
use crate::metrics::Metrics;
use crate::outbound::{MAX_BODY_BYTES, Outbound, Post, Target};

/// The type of the content of a pack.
const CONTENT_TYPE: &str = "application/x-protobuf";
/// What stands around the spans of a pack: the name of the server, tags and lengths.
const AROUND: usize = 1024;
/// The tag of a span and its length.
const BEFORE_SPAN: usize = 8;
/// Spans that are packed together.
const BATCH: usize = 512;
/// How long the first of them waits for others.
const PATIENCE: Duration = Duration::from_secs(1);

/// Packs the spans that have ended.
#[derive(Debug)]
pub struct Exporter {
    /// Written by every thread that ends a span.
    ended: mpsc::Receiver<SpanData>,
    /// Spans dropped since the last look, for want of room.
    dropped: Arc<AtomicU64>,
}

impl Exporter {
    pub(super) fn new(ended: mpsc::Receiver<SpanData>, dropped: Arc<AtomicU64>) -> Self {
        Self { ended, dropped }
    }

    /// Hands over pack after pack until `stop`, and then what waits still. A pack is an OTLP request; one for which there
    /// is no room is counted and gone.
    pub async fn run(mut self, stop: CancellationToken, metrics: Metrics, outbound: Outbound) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let goes_on = tokio::select! {
                goes_on = fill(&mut self.ended, &mut batch) => goes_on,
                () = stop.cancelled() => false,
            };
            if !goes_on {
                batch.extend(std::iter::from_fn(|| self.ended.try_recv().ok()));
            }
            metrics.spans_dropped(self.dropped.swap(0, Ordering::Relaxed));
            for pack in packs(batch.drain(..)) {
                let (target, content_type) = (Target::Traces, CONTENT_TYPE);
                if outbound.send(Post { target, content_type, traceparent: None, body: pack.bytes }).is_ok() {
                    metrics.spans_exported(pack.spans);
                } else {
                    metrics.spans_dropped(pack.spans);
                }
            }
            if !goes_on {
                return;
            }
        }
    }
}

/// Waits for a span, and then a moment for others. Says whether more may come.
///
/// # Cancel safety
/// What has been received is in the batch.
async fn fill(ended: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) -> bool {
    let Some(first) = ended.recv().await else { return false };
    batch.push(first);
    let until = Instant::now() + PATIENCE;
    while batch.len() < BATCH {
        match timeout_at(until, ended.recv()).await {
            Ok(Some(span)) => batch.push(span),
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
    true
}

/// A request of OTLP, and how many spans are in it.
struct Pack {
    bytes: Vec<u8>,
    spans: u64,
}

fn packs(batch: impl Iterator<Item = SpanData>) -> Vec<Pack> {
    let (mut packs, mut spans, mut bytes) = (Vec::new(), Vec::new(), AROUND);
    for span in batch.map(admitted) {
        let more = span.encoded_len() + BEFORE_SPAN;
        if bytes + more > MAX_BODY_BYTES && !spans.is_empty() {
            packs.push(pack(std::mem::take(&mut spans)));
            bytes = AROUND;
        }
        bytes += more;
        spans.push(span);
    }
    if !spans.is_empty() {
        packs.push(pack(spans));
    }
    packs
}

/// A span as it leaves: with the attributes that may, and nothing else that was written into it.
fn admitted(mut span: SpanData) -> Span {
    span.attributes.retain(|attribute| ATTRIBUTES.contains(&attribute.key.as_str()));
    span.events = opentelemetry_sdk::trace::SpanEvents::default();
    span.span_kind = if span.name == REQUEST { SpanKind::Server } else { SpanKind::Internal };
    span.into()
}

fn pack(spans: Vec<Span>) -> Pack {
    let count = spans.len() as u64;
    let about = [
        KeyValue::new("service.name", env!("CARGO_CRATE_NAME")),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let scope = InstrumentationScope { name: env!("CARGO_CRATE_NAME").to_owned(), ..InstrumentationScope::default() };
    let resource = Resource { attributes: Attributes::from(about).0, ..Resource::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
    let of_server = ResourceSpans { resource: Some(resource), scope_spans, schema_url: String::new() };
    let request = ExportTraceServiceRequest { resource_spans: vec![of_server] };
    Pack { bytes: request.encode_to_vec(), spans: count }
}
