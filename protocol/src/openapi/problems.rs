//! Problem documents: which status a code has, and what it means.

use serde_json::{Value, json};

use super::operation::OF_ALL;
use super::{SCHEMAS, header_refs};
use crate::rest::ProblemCode;

/// Of every operation.
pub(super) const ALWAYS: [ProblemCode; 3] =
    [ProblemCode::InvalidRequest, ProblemCode::MisdirectedRequest, ProblemCode::Internal];
/// Of every operation that needs a token.
pub(super) const OF_TOKEN: [ProblemCode; 3] =
    [ProblemCode::Unauthorized, ProblemCode::Forbidden, ProblemCode::RateLimited];
/// Of every operation on a session.
pub(super) const OF_SESSION: [ProblemCode; 1] = [ProblemCode::NotFound];
/// Of every operation that takes a body.
pub(super) const OF_BODY: [ProblemCode; 2] = [ProblemCode::TooLarge, ProblemCode::UnsupportedMediaType];

/// The HTTP status of a code.
pub(super) fn status(code: ProblemCode) -> u16 {
    match code {
        ProblemCode::InvalidRequest => 400,
        ProblemCode::Unauthorized => 401,
        ProblemCode::Forbidden => 403,
        ProblemCode::NotFound => 404,
        ProblemCode::MethodNotAllowed => 405,
        ProblemCode::Busy | ProblemCode::Conflict => 409,
        ProblemCode::Gone => 410,
        ProblemCode::PreconditionFailed => 412,
        ProblemCode::TooLarge => 413,
        ProblemCode::UnsupportedMediaType => 415,
        ProblemCode::RangeNotSatisfiable => 416,
        ProblemCode::MisdirectedRequest => 421,
        ProblemCode::SessionLimit | ProblemCode::RateLimited | ProblemCode::ExpressionLimit => 429,
        ProblemCode::Internal => 500,
        ProblemCode::SandboxUnavailable | ProblemCode::Draining => 503,
        ProblemCode::StorageFull => 507,
    }
}

fn meaning(code: ProblemCode) -> &'static str {
    match code {
        ProblemCode::InvalidRequest => "the request is malformed; `errors` names the wrong field, where there is one",
        ProblemCode::Unauthorized => "no token, or one that is not valid here or has expired",
        ProblemCode::Forbidden => "the token lacks a scope, or the session does not offer this",
        ProblemCode::NotFound => "no such thing, or somebody else's",
        ProblemCode::MethodNotAllowed => "the path has other methods",
        ProblemCode::Busy => "as much waits already as may wait, or what runs takes too long",
        ProblemCode::Conflict => "what is there does not fit the request",
        ProblemCode::Gone => "the session has ended, or the events are no longer kept",
        ProblemCode::PreconditionFailed => "the file is not what `If-Match` or `If-None-Match` says",
        ProblemCode::TooLarge => "the body is larger than it may be",
        ProblemCode::UnsupportedMediaType => "the body is of another type, or encoded",
        ProblemCode::RangeNotSatisfiable => "nothing of the file lies in the range",
        ProblemCode::MisdirectedRequest => "the server does not answer to that host name",
        ProblemCode::SessionLimit => "there are as many sessions as there may be",
        ProblemCode::RateLimited => "too many requests; wait as long as `Retry-After` says",
        ProblemCode::ExpressionLimit => "the session has run as many executions as it may",
        ProblemCode::Internal => "the server failed; its log has the cause under the request id",
        ProblemCode::SandboxUnavailable => "no interpreter can be started now",
        ProblemCode::Draining => "the server is about to stop; ask again when it is back",
        ProblemCode::StorageFull => "a disk is full: the server's or the session's",
    }
}

/// What the combination of these codes is called in the document.
pub(super) fn name(codes: &[ProblemCode]) -> String {
    codes.iter().map(|code| text(*code)).collect::<Vec<_>>().join("_or_")
}

/// A code as it stands in a problem document.
pub(super) fn text(code: ProblemCode) -> String {
    serde_json::to_value(code).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The response that has one of these codes.
pub(super) fn response(status: u16, codes: &[ProblemCode]) -> Value {
    let names: Vec<String> = codes.iter().map(|code| text(*code)).collect();
    let says: Vec<String> =
        codes.iter().zip(&names).map(|(code, name)| format!("`{name}`: {}", meaning(*code))).collect();
    let more: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        503 => &["Retry-After"],
        _ => &[],
    };
    json!({
        "description": says.join("\n\n"),
        "headers": header_refs(OF_ALL.iter().chain(more)),
        "content": { "application/problem+json": {
            "schema": {
                "$ref": format!("#{SCHEMAS}/Problem"),
                "properties": { "status": { "const": status }, "code": { "enum": names } },
            },
        } },
    })
}
