//! Request bodies: read whole under a limit and a deadline, then decoded with the wrong field named.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;
use repltool_protocol::codec::shorten;
use repltool_protocol::rest::{MAX_MESSAGE_BYTES, ProblemCode};
use serde::de::DeserializeOwned;

use super::problem::Fault;
use super::received::RequestBody;

/// Reads a JSON body.
///
/// # Errors
/// `unsupported_media_type`, `too_large`, or `invalid_request` with the field.
///
/// # Cancel safety
/// Not cancel-safe: what was read is lost.
pub(super) async fn json<T: DeserializeOwned>(request: &mut Request<RequestBody>) -> Result<T, Fault> {
    match optional_json(request).await? {
        Some(value) => Ok(value),
        None => Err(Fault::invalid("a JSON body is needed")),
    }
}

/// Reads a JSON body where none is fine too.
///
/// # Errors
/// As [`json`].
///
/// # Cancel safety
/// As [`json`].
pub(super) async fn optional_json<T: DeserializeOwned>(request: &mut Request<RequestBody>) -> Result<Option<T>, Fault> {
    if request.body().is_end_stream() {
        return Ok(None);
    }
    is_json(request.headers())?;
    fits(request.headers())?;
    decode(&whole(request.body_mut()).await?)
}

/// Decodes a JSON body; none is fine too.
///
/// # Errors
/// `invalid_request` with the field.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, Fault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    // The decoder would take a list for an object without names.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Fault::invalid("a JSON object is needed"));
    }
    serde_json::from_slice(bytes).map(Some).map_err(|error| malformed(bytes, &error))
}

async fn whole(body: &mut RequestBody) -> Result<Bytes, Fault> {
    let patience = body.patience();
    let read = Limited::new(&mut *body, MAX_MESSAGE_BYTES).collect();
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Fault::invalid("the body broke off")),
        Err(_) => Err(Fault::invalid("the body took too long")),
    }
}

/// Refuses a body that is encoded.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn is_plain(headers: &HeaderMap) -> Result<(), Fault> {
    if headers.get_all(CONTENT_ENCODING).iter().any(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("a body without content encoding is needed"));
    }
    Ok(())
}

fn unsupported(detail: &'static str) -> Fault {
    Fault::new(ProblemCode::UnsupportedMediaType, detail)
}

fn is_json(headers: &HeaderMap) -> Result<(), Fault> {
    is_plain(headers)?;
    let is_json = |value: &HeaderValue| {
        let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("application/json")
    };
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    if types.next().is_some_and(is_json) && types.next().is_none() {
        return Ok(());
    }
    Err(unsupported("a body of type application/json is needed"))
}

fn fits(headers: &HeaderMap) -> Result<(), Fault> {
    if length(headers).is_some_and(|it| it > MAX_MESSAGE_BYTES as u64) { Err(too_large()) } else { Ok(()) }
}

/// How long the body will be, in bytes, if the headers tell.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large() -> Fault {
    Fault::new(ProblemCode::TooLarge, format!("a body of at most {MAX_MESSAGE_BYTES} bytes is needed"))
}

/// Names the field where decoding stopped. The decoder tells the place in the text; the way there is walked again.
fn malformed(text: &[u8], error: &serde_json::Error) -> Fault {
    let message = error.to_string();
    let what = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
    let mut path = path_at(text, offset(text, error.line(), error.column()));
    if let Some(missing) = what.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        // This is about the object, not about the last of its fields.
        set_last(&mut path, Some(missing.to_owned()));
    }
    let path: Vec<String> = path.into_iter().flatten().collect();
    // The decoder calls some values of a wrong type a fault of syntax.
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    if path.is_empty() || !is_json {
        return Fault::invalid(shorten(format!("no valid JSON body: {message}")));
    }
    Fault::field(path.join("."), what)
}

fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    start.saturating_add(column).min(text.len())
}

/// The keys that lead to the value which ends at `end` of a JSON text, outermost first; arrays and objects without a key
/// have none.
fn path_at(text: &[u8], end: usize) -> Vec<Option<String>> {
    let mut path: Vec<Option<String>> = Vec::new();
    let mut last_text = None;
    let mut at = 0;
    while at < end {
        match text[at] {
            b'"' => {
                let close = string_end(text, at);
                last_text = serde_json::from_slice::<String>(&text[at..close]).ok();
                at = close;
                continue;
            }
            b':' => set_last(&mut path, last_text.take()),
            b'{' | b'[' => path.push(None),
            b'}' | b']' if at + 1 < end => drop(path.pop()),
            b',' => set_last(&mut path, None),
            _ => {}
        }
        at += 1;
    }
    // An error in a key stops after it, before its colon.
    if last_text.is_some() && is_key(text, at) {
        set_last(&mut path, last_text);
    }
    path
}

fn set_last(path: &mut [Option<String>], key: Option<String>) {
    if let Some(last) = path.last_mut() {
        *last = key;
    }
}

fn string_end(text: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn is_key(text: &[u8], at: usize) -> bool {
    text.get(at..).is_some_and(|rest| rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':'))
}

#[cfg(test)]
mod tests {
    use repltool_protocol::rest::{ExecutionRequest, SessionConfig};

    use super::*;

    fn detail<T: DeserializeOwned>(text: &str) -> String {
        let error = serde_json::from_str::<T>(text).err().unwrap();
        malformed(text.as_bytes(), &error).detail().to_owned()
    }

    #[test]
    fn the_wrong_field_is_named() {
        for (text, expected) in [
            (r#"{"language":"ruby"}"#, "language: unknown variant `ruby`"),
            (r#"{"language":7}"#, "language: "),
            (r#"{"sandbox_mode":"standard"}"#, "language: missing field `language`"),
            (r#"{"language":"python","user_id":"eve"}"#, "user_id: unknown field `user_id`"),
            ("{\"language\":\n\"python\",\n \"user_id\" : 1}", "user_id: unknown field `user_id`"),
            (
                r#"{"language":"python","resource_limits":{"max_memory_mb":"x"}}"#,
                "resource_limits.max_memory_mb: invalid type",
            ),
            (
                r#"{"language":"python","resource_limits":{"max_cpu_time":-1},"environment":{}}"#,
                "resource_limits.max_cpu_time: invalid value",
            ),
            (r#"{"language":"python","resource_limits":{"a\"b":1}}"#, "resource_limits.a\"b: unknown field"),
            (r#"{"environment":{"A":"{","B":[1]},"language":"python"}"#, "environment.B: invalid type"),
            (r#"{"environment":{"A":1},"language":"python"}"#, "environment.A: invalid type"),
            (r#"{"language":"python","language":"python"}"#, "language: duplicate field"),
            (r#"{"language":"python","#, "no valid JSON body: EOF"),
            (r#"{"language"}"#, "no valid JSON body: expected `:`"),
            ("[]", "no valid JSON body: invalid length 0"),
            ("\"x\"", "no valid JSON body: invalid type"),
        ] {
            let got = detail::<SessionConfig>(text);
            assert!(got.starts_with(expected), "{text}: {got}");
        }
        assert!(
            detail::<ExecutionRequest>(r#"{"code":"1","execution_id":"a b"}"#)
                .starts_with("execution_id: an id is 1 to 64")
        );
    }

    #[test]
    fn what_was_sent_is_quoted_in_part_only() {
        let long = "\u{1}x".repeat(100_000).escape_default().to_string().replace("\\u{1}", "\\u0001");
        for text in [
            format!(r#"{{"{long}":1}}"#),
            format!(r#"{{"language":"{long}"}}"#),
            format!(r#"{{"environment":{{"{long}":1}}}}"#),
            format!(r#""{long}""#),
        ] {
            let got = detail::<SessionConfig>(&text);
            assert!(got.chars().count() <= 610, "{} characters", got.chars().count());
        }
        let config = format!(r#"{{"language":"python","environment":{{"{long}":""}}}}"#);
        let mut config = decode::<SessionConfig>(config.as_bytes()).unwrap().unwrap();
        let offered = crate::edge::capabilities::modes(&crate::config::Sandbox::default());
        let fault = crate::edge::validate::session(&mut config, &offered).unwrap_err();
        assert!(serde_json::to_vec(&fault.document("r1")).unwrap().len() < 8192);
    }

    #[test]
    fn any_text_has_a_path() {
        for text in ["", "\"", "{\"", "{\"a\\", "}}}", "{\"a\":\"\\\"", "]", "{,:"] {
            for end in 0..=text.len() {
                path_at(text.as_bytes(), end);
            }
        }
    }

    #[test]
    fn only_json_is_read() {
        let with = |name: http::HeaderName, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        let json_and = |name: http::HeaderName, value: &str| {
            let mut headers = with(CONTENT_TYPE, "application/json");
            headers.append(name, value.parse().unwrap());
            headers
        };
        for (headers, ok) in [
            (HeaderMap::new(), false),
            (with(CONTENT_TYPE, "application/json; charset=utf-8"), true),
            (with(CONTENT_TYPE, "Application/JSON"), true),
            (with(CONTENT_TYPE, "text/plain"), false),
            (with(CONTENT_TYPE, "application/x-www-form-urlencoded"), false),
            (with(CONTENT_ENCODING, "gzip"), false),
            (json_and(CONTENT_ENCODING, "identity"), true),
            (json_and(CONTENT_ENCODING, "gzip"), false),
            (json_and(CONTENT_TYPE, "text/plain"), false),
        ] {
            assert_eq!(is_json(&headers).is_ok(), ok, "{headers:?}");
        }
        assert!(fits(&with(CONTENT_LENGTH, "16777217")).is_err());
        assert!(fits(&with(CONTENT_LENGTH, "16777216")).is_ok());
    }
}
