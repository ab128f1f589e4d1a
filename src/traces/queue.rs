//! Where spans go when they have ended: into a queue with a bound, or nowhere. Packs and sends nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;

/// Takes ended spans without ever waiting. What there is no room for is dropped and counted.
#[derive(Debug)]
pub(super) struct Queue {
    /// Read by the exporter.
    ended: mpsc::Sender<SpanData>,
    /// Spans dropped since the exporter last looked.
    dropped: Arc<AtomicU64>,
}

impl Queue {
    pub(super) fn new(ended: mpsc::Sender<SpanData>, dropped: Arc<AtomicU64>) -> Self {
        Self { ended, dropped }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.ended.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The exporter packs what waits when it is told to stop.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
