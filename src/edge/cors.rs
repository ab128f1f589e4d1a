//! What pages of other origins may read: those of `edge.allowed_origins` everything, all others nothing. Pages send their
//! token themselves; there is nothing that a browser would add, so credentials are never allowed.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request};

use super::hosts::Hosts;
use super::respond::Answer;

/// Methods of the API.
const METHODS: &str = "GET, HEAD, POST, PUT, DELETE";
/// Headers of requests that the API knows and that a page may not send unasked.
const REQUEST_HEADERS: &str = "authorization, content-type, if-match, if-none-match, last-event-id, range";
/// Headers of answers that a page may not read unasked.
const ANSWER_HEADERS: &str = "content-disposition, content-range, etag, location, ratelimit, ratelimit-policy, retry-after, traceresponse, \
     x-request-id";
/// Seconds for which a browser need not ask again.
const MAX_AGE: &str = "600";

/// What an answer has to say to the page that asked.
#[derive(Debug)]
pub(super) struct Page {
    /// Of one that is on the list.
    origin: Option<HeaderValue>,
    /// Whether its browser asks what it may send.
    is_preflight: bool,
    /// Whether there is a list at all.
    is_offered: bool,
}

impl Page {
    /// Looks at who is asking.
    pub(super) fn of<B>(hosts: &Hosts, request: &Request<B>) -> Self {
        let headers: &HeaderMap = request.headers();
        let origin = headers.get(ORIGIN).filter(|_| hosts.lists_origin(headers)).cloned();
        let is_preflight = request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        Self { origin, is_preflight, is_offered: hosts.has_origins() }
    }

    /// Says so. What depends on the origin is not to be kept for another one.
    pub(super) fn finish(self, answer: &mut Answer) {
        let headers = answer.headers_mut();
        if self.is_offered {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
        if self.is_preflight {
            set(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            set(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            set(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        } else {
            set(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        }
    }
}
