//! The span of a request: what its lines in the log stand in, and what is told of it where traces are taken.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;

use super::respond::Answer;
use crate::traces;

/// The span of a request, on its answer (W3C Trace Context, level 2).
const TRACE_RESPONSE: HeaderName = HeaderName::from_static("traceresponse");

/// A span for a request, in the trace that its client began, if it did.
pub(super) fn request(request_id: &str, client: IpAddr, headers: &HeaderMap) -> Span {
    use tracing::field::Empty;
    let span = tracing::info_span!("request", request_id, peer = %client, trace = Empty, session = Empty);
    traces::follow(&span, traceparent(headers));
    span
}

/// The field, if there is one of them and no more.
fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let mut fields = headers.get_all("traceparent").iter();
    let first = fields.next().filter(|_| fields.next().is_none())?;
    first.to_str().ok()
}

/// The head of the answer is known, which ends the span; the answer tells which one it was, if it is taken. A socket and a
/// streamed answer live on without it; what they begin has it as its parent.
pub(super) fn answered(span: &Span, answer: &mut Answer, route: &'static str, method: &'static str) {
    if let Some(value) = traces::parent(span).and_then(|it| HeaderValue::try_from(it).ok()) {
        answer.headers_mut().insert(TRACE_RESPONSE, value);
    }
    let status = answer.status().as_u16();
    traces::note(span, traces::ROUTE, route);
    traces::note(span, traces::METHOD, method);
    traces::note(span, traces::STATUS, i64::from(status));
    if status >= 500 {
        traces::failed(span);
    }
    traces::end(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parents_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(traceparent(&headers), None);
        headers.insert("traceparent", http::HeaderValue::from_static("one"));
        assert_eq!(traceparent(&headers), Some("one"));
        headers.append("traceparent", http::HeaderValue::from_static("two"));
        assert_eq!(traceparent(&headers), None);
    }
}
