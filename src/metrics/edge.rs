//! What the edge counts: requests, refusals, logins that failed, sockets and how far behind they are.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use repltool_protocol::rest::ProblemCode;

use super::labels::{self, Answered, Asked, Call, Reason, Refused};
use super::{Metrics, begin, counter, counters, gauge, observe, of_work, seconds};

/// Requests that availability is measured by lie below it.
const API: &str = "/api/v1/";

/// The metrics of the edge.
#[derive(Debug)]
pub(super) struct Edge {
    requests: Family<Answered, Counter>,
    durations: Family<Asked, Histogram>,
    refusals: Family<Refused, Counter>,
    failed_logins: Family<Reason, Counter>,
    judged: Counter,
    good: Counter,
    sockets: Gauge,
    lag: Histogram,
    gaps: Counter,
    calls: Family<Call, Counter>,
}

impl Edge {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let lag = Histogram::new([0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0]);
        registry.register(
            "reader_lag_events",
            "Events that a socket was behind its log when it was sent more",
            lag.clone(),
        );
        let edge = Self {
            requests: counters(registry, "http_requests", "Answers, by route, method and status"),
            durations: seconds(
                registry,
                "http_request_duration",
                of_work,
                "Time from the head of a request to the head of its answer",
            ),
            refusals: counters(registry, "refusals", "Refusals, by the code of the problem that clients were told"),
            failed_logins: counters(registry, "authentication_failures", "Tokens refused, by reason"),
            judged: counter(
                registry,
                "availability_requests",
                "Answers of the API that are the server's to account for: all but 4xx",
            ),
            good: counter(registry, "availability_good_requests", "Those of them that are no 5xx"),
            sockets: gauge(registry, "sockets_open", None, "WebSockets that are open"),
            lag,
            gaps: counter(registry, "reader_gaps", "Times that a socket was told of events that are no longer kept"),
            calls: counters(registry, "outbound", "Calls to addresses outside, by what was called and how that ended"),
        };
        edge.begin_series();
        edge
    }

    fn begin_series(&self) {
        for code in ProblemCode::ALL.map(labels::problem) {
            for over in ["http", "socket"] {
                begin(&self.refusals, &Refused { code, over });
            }
        }
        begin(&self.failed_logins, &Reason { reason: "missing" });
        for (target, outcome) in labels::CALLS {
            begin(&self.calls, &Call { target, outcome });
        }
        begin(&self.requests, &Answered { route: "/metrics", method: "GET", status: 200 });
        begin(&self.durations, &Asked { route: "/metrics", method: "GET" });
    }
}

/// A socket that is open, for as long as this is held.
#[derive(Debug)]
pub struct OpenSocket(Gauge);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// A request was answered. `route` is the template of its path, and `method` the name of a method that is known.
    pub fn answered(&self, route: &'static str, method: &'static str, status: u16, took: Duration) {
        let edge = &self.0.edge;
        edge.requests.get_or_create(&Answered { route, method, status }).inc();
        observe(&edge.durations.get_or_create(&Asked { route, method }), took);
        if route.starts_with(API) && !(400..500).contains(&status) {
            edge.judged.inc();
            if status < 500 {
                edge.good.inc();
            }
        }
    }

    /// An address outside was called.
    pub fn called(&self, target: &'static str, outcome: &'static str) {
        self.0.edge.calls.get_or_create(&Call { target, outcome }).inc();
    }

    /// A request was refused.
    pub fn refused(&self, code: ProblemCode) {
        self.refused_over(code, "http");
    }

    /// A message on a socket was refused.
    pub fn refused_on_socket(&self, code: ProblemCode) {
        self.refused_over(code, "socket");
    }

    fn refused_over(&self, code: ProblemCode, over: &'static str) {
        self.0.edge.refusals.get_or_create(&Refused { code: labels::problem(code), over }).inc();
    }

    /// A token was refused, or there was none. `reason` is from a closed set.
    pub fn login_failed(&self, reason: &'static str) {
        self.0.edge.failed_logins.get_or_create(&Reason { reason }).inc();
    }

    /// A socket is open until what is returned is dropped.
    pub fn socket(&self) -> OpenSocket {
        self.0.edge.sockets.inc();
        OpenSocket(self.0.edge.sockets.clone())
    }

    /// A socket is sent more; it is so many events behind its log.
    pub fn lag(&self, events: u64) {
        self.0.edge.lag.observe(events as f64);
    }

    /// A socket was told of a gap.
    pub fn gap(&self) {
        self.0.edge.gaps.inc();
    }
}
