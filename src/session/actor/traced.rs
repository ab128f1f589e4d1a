//! What is told of executions where traces are taken: the span of each, and in it that of its driver.

use repltool_protocol::event::Outcome;
use tokio::time::Instant;
use tracing::Span;

use super::Actor;
use crate::metrics::labels;
use crate::traces;

impl Actor {
    /// What runs has waited since this instant.
    pub(super) fn note_wait(&self, since: Option<Instant>) {
        let (Some(since), Some(running)) = (since, &self.running) else { return };
        let wait = since.elapsed();
        self.meter.waited(wait);
        traces::note(&running.job.span, traces::QUEUE_MS, wait.as_secs_f64() * 1e3);
    }

    /// The driver gets what runs. Its span ends when it is dropped.
    pub(super) fn begin_driver_span(&mut self) {
        if let Some(running) = self.running.as_mut().filter(|running| !running.job.span.is_none()) {
            running.driver = tracing::trace_span!(parent: &running.job.span, "driver");
        }
    }

    /// The first of the output of what runs is there.
    pub(super) fn note_first_output(&self) {
        let Some(running) = &self.running else { return };
        let after = running.started.elapsed();
        self.meter.first_output(after);
        traces::note(&running.job.span, traces::FIRST_OUTPUT_MS, after.as_secs_f64() * 1e3);
    }

    /// An execution has ended, and with it its span.
    pub(super) fn end_span(&self, execution: &Span, outcome: &Outcome) {
        traces::note(execution, traces::LANGUAGE, labels::language(self.identity.language));
        traces::note(execution, traces::SANDBOX_MODE, labels::mode(self.identity.sandbox_mode));
        traces::note(execution, traces::OUTCOME, labels::outcome(outcome));
        if let Some(limit) = outcome.limit {
            traces::note(execution, traces::LIMIT, labels::limit(limit));
        }
        traces::end(execution);
    }
}
