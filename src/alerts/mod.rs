//! Alerts, and the live stream of what concerns security. It hears of every record of the audit log, tells the newest ones
//! to readers, and counts. What happens too often, or must not happen at all, becomes an alert: a metric, a line of the
//! server's log, a record of its own, which readers get as well, and where an address is configured a webhook. It decides
//! nothing else, and refuses to know sessions, HTTP and who reads.
//!
//! ```text
//!   audit ──record──▶ detect ──alert──▶ metric, log line, webhook ──record──▶ audit
//!     └──line with its number──▶ live ──▶ every reader
//! ```

mod detect;
mod live;
mod webhook;

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::time::Instant;

pub use detect::{Alert, Kind, Whose};
pub use live::{Item, Line, Live, Reader};

use self::detect::{Detector, Sighting};
use crate::audit::{Kind as RecordKind, Listener, Record, What};
use crate::config;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Post, Target};
use crate::traces;

/// See the module.
#[derive(Debug)]
pub struct Alerts {
    detector: Mutex<Detector>,
    since: Instant,
    live: Live,
    metrics: Metrics,
    outbound: Outbound,
}

impl Alerts {
    /// Nothing has happened yet.
    pub fn new(config: config::Alerts, metrics: Metrics, outbound: Outbound) -> Self {
        let detector = Mutex::new(Detector::new(config));
        Self { detector, since: Instant::now(), live: Live::default(), metrics, outbound }
    }

    /// Where the records that concern security are told.
    pub fn live(&self) -> Live {
        self.live.clone()
    }

    fn see(&self, time: Timestamp, sighting: Sighting) -> Option<Record> {
        let mut detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        let alert = detector.see(self.since.elapsed(), time, sighting)?;
        drop(detector);
        Some(self.raise(&alert))
    }

    /// Tells an alert. Gives its record.
    fn raise(&self, alert: &Alert) -> Record {
        let (name, subject, peer) = (alert.kind.name(), alert.whose.subject(), alert.whose.address());
        let Alert { session, count, first, last, held_back, .. } = alert;
        self.metrics.alerted(name);
        tracing::warn!(
            target: "repltool::alert",
            kind = name, subject, peer = peer.map(tracing::field::display),
            session = session.as_ref().map(|it| it.as_str()), count, %first, %last, held_back, "alert"
        );
        let what = What {
            alert: Some(name),
            subject: subject.map(Into::into),
            peer,
            session_id: session.clone(),
            count: Some(*count),
            first: Some(*first),
            last: Some(*last),
            held_back: Some(*held_back),
            ..What::default()
        };
        let record = Record::new(RecordKind::Alert, what);
        self.post(alert, record.time());
        record
    }

    /// Sends an alert out, if an address is configured.
    fn post(&self, alert: &Alert, time: Timestamp) {
        if !self.outbound.reaches(Target::Webhook) {
            return;
        }
        let post = Post {
            target: Target::Webhook,
            content_type: "application/json",
            // Records are told by whoever meets what they tell, in the span of the request that led to it.
            traceparent: traces::parent(&tracing::Span::current()),
            body: webhook::body(alert, time),
        };
        if let Err(error) = self.outbound.send(post) {
            self.metrics.alert_unsent();
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                kind = alert.kind.name(),
                "an alert is not sent out"
            );
        }
    }
}

impl Listener for Alerts {
    fn noted(&self, record: &Record) -> Option<Record> {
        self.see(record.time(), Sighting::of(record)?)
    }

    fn placed(&self, n: u64, record: &Record, line: &[u8]) {
        self.live.placed(n, is_told(record).then_some(line));
    }

    /// The alert is told to readers at once, and once more with its number when the log can be written again.
    fn failed(&self) -> Option<Record> {
        let record = self.see(Timestamp::now(), Sighting::of_server(Kind::AuditFailed))?;
        match serde_json::to_vec(&record) {
            Ok(json) => self.live.unnumbered(json),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an alert cannot be written as JSON");
            }
        }
        Some(record)
    }

    fn damaged(&self, lacking: u64) -> Option<Record> {
        tracing::error!(lacking, "signed records are missing from the audit log");
        self.see(Timestamp::now(), Sighting::of_server(Kind::AuditDamaged))
    }
}

/// Whether a record concerns security.
fn is_told(record: &Record) -> bool {
    let what = record.what();
    match record.kind() {
        RecordKind::Violation
        | RecordKind::AuthFailed
        | RecordKind::Refused
        | RecordKind::AdminAccess
        | RecordKind::Config
        | RecordKind::ServerStarted
        | RecordKind::ServerStopped
        | RecordKind::GatewayStarted
        | RecordKind::Repaired
        | RecordKind::Gap
        | RecordKind::Alert => true,
        RecordKind::Execution => what.limit.is_some(),
        RecordKind::SessionEnded => what.reason.as_ref().is_some_and(|it| it.as_str() == "violations"),
        RecordKind::SessionCreated
        | RecordKind::SessionRestarted
        | RecordKind::SessionRecovered
        | RecordKind::Login
        | RecordKind::File
        | RecordKind::Checkpoint
        | RecordKind::Retention => false,
    }
}

#[cfg(test)]
mod tests {
    use repltool_protocol::event::{Limit, Usage, ViolationLayer};
    use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode};
    use repltool_protocol::security::SecurityItem;

    use super::*;
    use crate::audit::Hash;
    use crate::metrics::Facts;

    /// Every field that a record on the stream can have. Those that it cannot have are named, too.
    fn all() -> What {
        What {
            subject: Some("ada".into()),
            peer: Some("2001:db8::1".parse().unwrap()),
            request_id: Some("r1".into()),
            method: Some("GET".into()),
            route: Some("/api/v1/me"),
            status: Some(401),
            session_id: Some("ABCDEFGHIJKLMNOPQRSTUV".parse().unwrap()),
            execution_id: Some("e1".parse().unwrap()),
            language: Some(Language::Python),
            sandbox_mode: Some(SandboxMode::Standard),
            event_type: Some("repl_execution"),
            execution_count: Some(1),
            success: Some(false),
            duration_ms: Some(2),
            code_sha256: Some(Hash::of(b"1")),
            limits: Some(ResourceLimits::default()),
            usage: Some(Usage::default()),
            limit: Some(Limit::CpuTime),
            exception: Some("ValueError".into()),
            exit_code: Some(-1),
            state_lost: Some(true),
            rule: Some("exec".into()),
            detail: Some("/bin/true".into()),
            layer: Some(ViolationLayer::Kernel),
            times: Some(3),
            reason: Some("violations".into()),
            untold: Some(4),
            version: Some("1.0.0"),
            config_sha256: Some(Hash::of(b"2")),
            lost: Some(5),
            alert: Some("violations"),
            count: Some(6),
            first: Some(Timestamp::UNIX_EPOCH),
            last: Some(Timestamp::UNIX_EPOCH),
            held_back: Some(7),
            file: None,
            base: None,
            seal: None,
            dropped: None,
        }
    }

    #[test]
    fn all_that_is_told_is_in_the_description_of_the_stream() {
        for kind in [
            RecordKind::Violation,
            RecordKind::AuthFailed,
            RecordKind::Refused,
            RecordKind::AdminAccess,
            RecordKind::Config,
            RecordKind::ServerStarted,
            RecordKind::ServerStopped,
            RecordKind::GatewayStarted,
            RecordKind::Repaired,
            RecordKind::Gap,
            RecordKind::Alert,
            RecordKind::Execution,
            RecordKind::SessionEnded,
        ] {
            let record = Record::new(kind, all());
            assert!(is_told(&record), "{kind:?}");
            let json = serde_json::to_value(record).unwrap();
            let item: SecurityItem = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(item).unwrap(), json);
        }
    }

    #[test]
    fn an_alert_is_a_metric_a_record_and_on_the_stream_and_leads_to_no_other() {
        let facts = Facts { tier: "A", max_sessions: 1, max_log_bytes: 1, max_open_files: 1, standing: None };
        let metrics = Metrics::new(facts);
        let config = config::Alerts { failed_logins_per_minute: 2, ..config::Alerts::default() };
        let (outbound, mut queues) = Outbound::new(|target| target == Target::Webhook);
        let alerts = Alerts::new(config, metrics.clone(), outbound);
        let mut reader = alerts.live().reader(None).unwrap();
        let failed = || {
            let what = What { peer: Some("192.0.2.1".parse().unwrap()), ..What::default() };
            Record::new(RecordKind::AuthFailed, what)
        };
        assert!(alerts.noted(&failed()).is_none());
        let alert = alerts.noted(&failed()).unwrap();
        assert!(alerts.noted(&alert).is_none());
        let json = serde_json::to_string(&alert).unwrap();
        assert!(json.contains(r#""kind":"alert","peer":"192.0.2.1","alert":"failed_logins","count":2"#), "{json}");
        assert!(metrics.text().unwrap().contains("repl_alerts_total{kind=\"failed_logins\"} 1"));
        alerts.placed(5, &alert, b"{}");
        assert_eq!(reader.try_next(), Some(Item::Line(Line { n: Some(5), json: "{}".into() })));
        alerts.failed().unwrap();
        assert!(matches!(reader.try_next(), Some(Item::Line(Line { n: None, .. }))));
        assert!(alerts.failed().is_none(), "within the cool-down");
        assert!(alerts.damaged(3).is_some());
        let webhooks = queues.webhook.as_mut().unwrap();
        let kinds = std::iter::from_fn(|| webhooks.try_recv().ok()).map(|post| {
            assert_eq!(post.content_type, "application/json");
            serde_json::from_slice::<serde_json::Value>(&post.body).unwrap()["kind"].as_str().unwrap().to_owned()
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["failed_logins", "audit_failed", "audit_damaged"]);
    }

    #[test]
    fn a_webhook_that_cannot_be_queued_is_counted_and_told_and_nothing_more() {
        let facts = Facts { tier: "A", max_sessions: 1, max_log_bytes: 1, max_open_files: 1, standing: None };
        let metrics = Metrics::new(facts);
        let (outbound, queues) = Outbound::new(|target| target == Target::Webhook);
        drop(queues);
        let alerts = Alerts::new(config::Alerts::default(), metrics.clone(), outbound);
        assert!(alerts.damaged(3).is_some());
        assert!(metrics.text().unwrap().contains("repl_alerts_unsent_total 1"));
    }
}
