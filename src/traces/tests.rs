//! Spans as `tracing` has them, read again from the packs that would be sent.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span as Sent;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tracing::{info_span, trace_span};
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::metrics::{Facts, Metrics};
use crate::outbound::{MAX_BODY_BYTES, Outbound, Target};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn metrics() -> Metrics {
    Metrics::new(Facts { tier: "A", max_sessions: 1, max_log_bytes: 1, max_open_files: 1, standing: None })
}

fn counted(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.text().expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).expect("the metric");
    line.parse().expect("a number")
}

/// What `work` ends is packed; the packs, each with its bytes, and what was counted.
async fn packed(share: f64, target: Target, work: impl FnOnce()) -> (Vec<Vec<u8>>, Metrics) {
    let (layer, exporter) = begin(share);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    let (outbound, queues) = Outbound::new(|it| it == target);
    let (metrics, stop) = (metrics(), CancellationToken::new());
    stop.cancel();
    exporter.run(stop, metrics.clone(), outbound).await;
    let packs = queues.traces.into_iter().flat_map(|mut queue| std::iter::from_fn(move || queue.try_recv().ok()));
    (packs.map(|post| post.body).collect(), metrics)
}

fn spans(packs: &[Vec<u8>]) -> Vec<Sent> {
    let requests = packs.iter().map(|bytes| ExportTraceServiceRequest::decode(&bytes[..]).expect("OTLP"));
    let of_servers = requests.flat_map(|request| request.resource_spans);
    of_servers.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
}

async fn sent(share: f64, work: impl FnOnce()) -> Vec<Sent> {
    spans(&packed(share, Target::Traces, work).await.0)
}

fn named<'a>(spans: &'a [Sent], name: &str) -> &'a Sent {
    let mut found = spans.iter().filter(|span| span.name == name);
    let first = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
    assert!(found.next().is_none(), "{name} twice");
    first
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn request(traceparent: Option<&str>) -> Span {
    let span = info_span!("request", request_id = "r1", peer = "192.0.2.7", trace = tracing::field::Empty);
    follow(&span, traceparent);
    span
}

#[tokio::test]
async fn spans_hang_together_and_go_on_with_the_trace_of_the_client() {
    let spans = sent(1.0, || {
        let request = request(Some(PARENT));
        end(&request);
        let execution = info_span!(parent: &request, "execution", execution = "e1");
        drop(trace_span!(parent: &execution, "driver"));
    })
    .await;
    let [request, execution, driver] = ["request", "execution", "driver"].map(|name| named(&spans, name));
    assert_eq!(hex(&request.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&request.parent_span_id), "b7ad6b7169203331");
    assert_eq!((&execution.parent_span_id, &execution.trace_id), (&request.span_id, &request.trace_id));
    assert_eq!((&driver.parent_span_id, &driver.trace_id), (&execution.span_id, &request.trace_id));
    assert_eq!((request.kind, driver.kind), (2, 1), "the server's, and an inner one");
}

#[tokio::test]
async fn a_malformed_parent_begins_a_trace() {
    let malformed =
        ["", "x", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", &PARENT[..50], "ff-1-2-3", "é"];
    for text in malformed {
        let spans = sent(1.0, || drop(request(Some(text)))).await;
        let request = named(&spans, "request");
        assert!(request.parent_span_id.is_empty(), "{text}");
        assert_ne!(hex(&request.trace_id), "0af7651916cd43dd8448eb211c80319c", "{text}");
    }
}

#[tokio::test]
async fn nothing_leaves_but_the_attributes_of_the_set() {
    let spans = sent(1.0, || {
        let request = request(None);
        note(&request, STATUS, 200);
        note(&request, "subject", "ada");
        request.in_scope(|| tracing::error!("canary"));
        let others = [info_span!("session", id = "s"), info_span!(target: "hyper::proto", "request", body = "canary")];
        drop(others);
    })
    .await;
    assert_eq!(spans.len(), 1, "{spans:?}");
    let mut names: Vec<_> = spans[0].attributes.iter().map(|it| it.key.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [STATUS, "request_id"]);
    assert!(spans[0].events.is_empty() && !format!("{spans:?}").contains("canary"), "{spans:?}");
}

#[tokio::test]
async fn the_share_holds_whatever_a_client_asks_for() {
    let three = || {
        drop(request(None));
        drop(request(Some(PARENT)));
        drop(request(Some(UNSAMPLED)));
    };
    assert_eq!(sent(0.0, three).await.len(), 0);
    assert_eq!(sent(1.0, three).await.len(), 2, "all but what its client does not sample");
    let many = || (0..400).for_each(|_| drop(request(None)));
    let half = sent(0.5, many).await.len();
    assert!((100..300).contains(&half), "{half} of 400");
}

#[tokio::test]
async fn a_pack_is_never_larger_than_may_be_sent() {
    let long = "e".repeat(2000);
    let (packs, metrics) = packed(1.0, Target::Traces, || {
        (0..300).for_each(|_| drop(info_span!("execution", execution = long)));
    })
    .await;
    assert!(packs.len() > 9, "{}", packs.len());
    assert!(packs.iter().all(|pack| pack.len() <= MAX_BODY_BYTES && pack.len() > 1000));
    assert_eq!(spans(&packs).len(), 300);
    assert_eq!(
        (counted(&metrics, "repl_spans_exported_total"), counted(&metrics, "repl_spans_dropped_total")),
        (300, 0)
    );
}

#[tokio::test]
async fn what_there_is_no_room_for_is_counted() {
    let flood = || (0..QUEUE + 10).for_each(|_| drop(trace_span!("driver")));
    let (packs, metrics) = packed(1.0, Target::Traces, flood).await;
    assert_eq!(spans(&packs).len(), QUEUE);
    assert_eq!(counted(&metrics, "repl_spans_dropped_total"), 10);
    let (_, metrics) = packed(1.0, Target::Webhook, || drop(trace_span!("driver"))).await;
    assert_eq!((counted(&metrics, "repl_spans_exported_total"), counted(&metrics, "repl_spans_dropped_total")), (0, 1));
}

#[test]
fn without_a_layer_nothing_is_noted_and_nothing_told() {
    tracing::subscriber::with_default(tracing_subscriber::registry(), || {
        let span = request(Some(PARENT));
        note(&span, OUTCOME, "success");
        end(&span);
        assert_eq!(parent(&span), None);
        assert!(!span.context().span().span_context().is_valid());
    });
}
