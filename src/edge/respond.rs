//! Answers: statuses, headers and bodies. Knows no session.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use repltool_protocol::rest::ProblemCode;
use serde::Serialize;

use super::problem::Fault;

/// The body of every answer. An error breaks the connection off, so that a client cannot take a part for the whole.
pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
/// What a handler gives.
pub(super) type Answer = Response<Body>;

/// The name of a request, on each answer and in the log.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// An answer with a body of the given type.
pub(super) fn with(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer
}

/// A JSON answer.
///
/// # Errors
/// `internal` if the value cannot be written as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Answer, Fault> {
    let text = serde_json::to_vec(value).map_err(|error| Fault::internal(&error))?;
    Ok(with(status, "application/json", whole(text)))
}

/// A 201 for what now is at `location`.
///
/// # Errors
/// As [`json`].
pub(super) fn created(location: &str, value: &impl Serialize) -> Result<Answer, Fault> {
    let location = HeaderValue::from_str(location).map_err(|error| Fault::internal(&error))?;
    let mut answer = json(StatusCode::CREATED, value)?;
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}

/// What can be done at a path, to whoever asks by `OPTIONS`.
///
/// # Errors
/// `internal` if the list is no header value.
pub(super) fn options(allow: &str) -> Result<Answer, Fault> {
    let mut answer = empty(StatusCode::NO_CONTENT);
    let allow = HeaderValue::from_str(allow).map_err(|error| Fault::internal(&error))?;
    answer.headers_mut().insert(ALLOW, allow);
    Ok(answer)
}

/// The problem document of a refused request.
pub(super) fn problem(fault: &Fault, request_id: &str) -> Answer {
    let text = serde_json::to_vec(&fault.document(request_id)).unwrap_or_default();
    let mut answer = with(fault.status(), "application/problem+json", whole(text));
    let headers = answer.headers_mut();
    if let Some((name, value)) = fault.header().and_then(|(name, value)| Some((name, value.parse().ok()?))) {
        headers.insert(name, value);
    }
    match fault.code() {
        ProblemCode::Unauthorized => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"repltool\""));
        }
        ProblemCode::Draining | ProblemCode::SandboxUnavailable => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    answer
}

/// Adds what every answer has. What may be kept by caches says so itself.
pub(super) fn finish(answer: &mut Answer, request_id: &str) {
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Has a browser come back by TLS alone, for a year.
pub(super) fn keep_to_tls(answer: &mut Answer) {
    answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
}

fn whole(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}
