//! Files that are part of the binary: the web page, the pages that show the API, and the description of the API. Read by
//! anybody; they hold no secret.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IntoHeaderName, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Full};
use rust_embed::{Embed, EmbeddedFile};

use super::files::conditions;
use super::problem::Fault;
use super::respond::{self, Answer};

/// What `make web` leaves.
#[derive(Embed)]
#[folder = "web-client/dist/"]
struct Web;

/// The checked-in descriptions of the protocol.
#[derive(Embed)]
#[folder = "protocol/schema/"]
struct Description;

/// A folder is shown by this file in it.
const INDEX: &str = "index.html";
/// The names below it have a hash of their content in them, so what they stand for never changes.
const HASHED: &str = "assets/";

/// What a page may do: run and show what came from this server, speak to this server, and be shown by nobody else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The paths at which there is something, a folder's own among them.
pub(super) fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for name in Web::iter() {
        if let Some(folder) = name.strip_suffix(INDEX) {
            paths.push(format!("/{folder}"));
        }
        if let Some(folder) = name.strip_suffix(INDEX).and_then(|folder| folder.strip_suffix('/')) {
            paths.push(format!("/{folder}"));
        }
        paths.push(format!("/{name}"));
    }
    paths
}

/// `GET` and `HEAD` of one of [`paths`].
///
/// # Errors
/// `not_found` for any other path.
pub(super) fn page(path: &str, headers: &HeaderMap) -> Result<Answer, Fault> {
    let name = path.trim_start_matches('/');
    let index = || format!("{}/{INDEX}", name.trim_end_matches('/')).trim_start_matches('/').to_owned();
    let file = Web::get(name).or_else(|| Web::get(&index())).ok_or_else(Fault::not_found)?;
    let mut answer = content(headers, file);
    let is_hashed = name.starts_with(HASHED);
    let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = answer.headers_mut();
    set(headers, CACHE_CONTROL, caching);
    secure(headers);
    Ok(answer)
}

/// `GET` and `HEAD /api/v1/openapi.json`
///
/// # Errors
/// None: the build put it there.
pub(super) fn description(headers: &HeaderMap) -> Result<Answer, Fault> {
    let file = Description::get("openapi.json").ok_or_else(Fault::not_found)?;
    let mut answer = content(headers, file);
    set(answer.headers_mut(), CACHE_CONTROL, "no-cache");
    Ok(answer)
}

/// The bytes, or that the client has them.
fn content(headers: &HeaderMap, file: EmbeddedFile) -> Answer {
    let tag = tag(&file);
    let mut answer =
        if conditions::is_known(headers, Some(&tag)) { respond::empty(StatusCode::NOT_MODIFIED) } else { whole(file) };
    set(answer.headers_mut(), ETAG, &tag);
    answer
}

fn whole(file: EmbeddedFile) -> Answer {
    let content_type = content_type(file.metadata.mimetype());
    let bytes = match file.data {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let mut answer = respond::with(StatusCode::OK, "application/octet-stream", body);
    set(answer.headers_mut(), CONTENT_TYPE, &content_type);
    answer
}

/// The entity tag of a file: the hash of its content.
fn tag(file: &EmbeddedFile) -> String {
    let hash: String = file.metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hash}\"")
}

/// Texts are all of one encoding.
fn content_type(media_type: &str) -> String {
    match media_type.starts_with("text/") {
        true => format!("{media_type}; charset=utf-8"),
        false => media_type.to_owned(),
    }
}

fn secure(headers: &mut HeaderMap) {
    set(headers, CONTENT_SECURITY_POLICY, POLICY);
    set(headers, X_FRAME_OPTIONS, "DENY");
    set(headers, REFERRER_POLICY, "no-referrer");
    set(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(
        headers,
        HeaderName::from_static("permissions-policy"),
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    );
}

/// Sets a header to a text of our own making.
fn set(headers: &mut HeaderMap, name: impl IntoHeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
