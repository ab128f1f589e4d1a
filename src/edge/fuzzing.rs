//! Laws of what the edge reads, as functions of any bytes: they panic where a law is broken. For the programs in `fuzz/`.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use repltool_protocol::query::QueryKind;
use repltool_protocol::rest::{
    ExecutionRequest, InterruptRequest, Language, MAX_CODE_CHARS, MAX_PAGE, ResourceLimits, SessionConfig,
    StdinRequest, TIMEOUT_MS,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::hosts::{Hosts, Origin};
use super::problem::Fault;
use super::query::{Query, unescape};
use super::stream::Format;
use super::{auth, body, capabilities, proxied, upgrade, validate};
use crate::config::Sandbox;

pub use super::files::fuzzing as files;

/// The largest problem document about a request, in bytes: what the client sent is quoted in part only.
const MAX_DOCUMENT_BYTES: usize = 8 * 1024;
const LANGUAGES: [Language; 4] = [Language::Python, Language::Javascript, Language::Bash, Language::Shell];

/// A refusal is about the request, and short.
pub(super) fn is_told_briefly(fault: &Fault) {
    let status = fault.status();
    assert!(status.is_client_error(), "{status}");
    let document = serde_json::to_vec(&fault.document("r1")).expect("a document is JSON");
    assert!(document.len() <= MAX_DOCUMENT_BYTES, "{} bytes", document.len());
}

/// The bodies of requests: what is read is the same when it is written and read again, and within its bounds once it is
/// checked.
pub fn bodies(bytes: &[u8]) {
    if let Some(config) = read::<SessionConfig>(bytes) {
        session(config);
    }
    if let Some(request) = read::<ExecutionRequest>(bytes) {
        for language in LANGUAGES {
            execution(language, &request);
        }
    }
    read::<InterruptRequest>(bytes);
    if let Some(request) = read::<StdinRequest>(bytes) {
        let is_something = request.data.is_some() || request.eof;
        assert_eq!(validate::input(request.data, request.eof).is_ok(), is_something);
    }
    if let Some(request) = read::<repltool_protocol::query::CodeRequest>(bytes) {
        match validate::question(Language::Bash, QueryKind::Complete, request.code.clone(), request.cursor) {
            Ok(query) => assert!(query.cursor <= request.code.chars().count() as u64 && !query.code.contains('\0')),
            Err(fault) => is_told_briefly(&fault),
        }
    }
}

fn read<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    match body::decode::<T>(bytes) {
        Ok(None) => {
            assert!(bytes.is_empty());
            None
        }
        Ok(Some(value)) => {
            let written = serde_json::to_vec(&value).expect("a body is JSON");
            assert_eq!(body::decode::<T>(&written).ok().flatten().as_ref(), Some(&value));
            Some(value)
        }
        Err(fault) => {
            is_told_briefly(&fault);
            None
        }
    }
}

fn session(mut config: SessionConfig) {
    let asked = config.resource_limits.max_memory_mb;
    if let Err(fault) = validate::session(&mut config, &capabilities::modes(&Sandbox::default())) {
        return is_told_briefly(&fault);
    }
    assert!(config.resource_limits.max_memory_mb <= asked);
    let ResourceLimits { max_cpu_time, max_memory_mb, max_output_size, max_expressions } = config.resource_limits;
    assert!((1..=300).contains(&max_cpu_time) && (16..=4096).contains(&max_memory_mb));
    assert!((1024..=10_485_760).contains(&max_output_size) && (1..=10_000).contains(&max_expressions));
    for (name, value) in &config.environment {
        assert!(!name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'), "{name:?}");
        assert!(!name.starts_with("LD_") && !name.starts_with("PYTHON") && name != "PATH", "{name}");
    }
    if let Some(path) = &config.working_directory {
        stays_below(path);
    }
}

/// Wherever a path leads on its way, it is below the workspace.
fn stays_below(path: &str) {
    assert!(!path.contains('\0'));
    let mut place = std::path::PathBuf::from("/workspace");
    for part in std::path::Path::new(path).components() {
        match part {
            std::path::Component::RootDir => place = "/".into(),
            std::path::Component::ParentDir => drop(place.pop()),
            part => place.push(part),
        }
    }
    assert!(place.starts_with("/workspace"), "{path:?} leads to {place:?}");
}

fn execution(language: Language, request: &ExecutionRequest) {
    const SESSION: &str = "4kFq0bT7WmX2cVd9RzP1aE";
    match validate::execution(language, request, SESSION) {
        Ok(()) => {
            assert!((1..=MAX_CODE_CHARS).contains(&request.code.chars().count()));
            assert!(request.timeout_ms.is_none_or(|it| TIMEOUT_MS.contains(&it)));
            assert!(request.session_id.as_deref().is_none_or(|it| it == SESSION));
        }
        Err(fault) => is_told_briefly(&fault),
    }
}

/// A query string: numbers are within their bounds, and a value escaped is the value again.
pub fn query(text: &str) {
    let query = Query::new(Some(text));
    match query.page() {
        Ok((limit, offset)) => assert!((1..=MAX_PAGE).contains(&limit) && i64::try_from(offset).is_ok()),
        Err(fault) => is_told_briefly(&fault),
    }
    for fault in [query.number("after").err(), query.flag("follow").err(), query.get("language").err()] {
        fault.iter().for_each(is_told_briefly);
    }
    if let Ok(Some(value)) = query.get("q") {
        let again = format!("a=1&q={}", escape(value.as_bytes()));
        assert_eq!(Query::new(Some(&again)).get("q").ok().flatten(), Some(value));
    }
    assert_eq!(unescape(&escape(text.as_bytes())).as_deref(), Some(text.as_bytes()));
}

/// Every byte as a percent escape.
pub(super) fn escape(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// A target and header fields, a line each: host, origin, token, handshake and format.
pub fn head(bytes: &[u8]) {
    let (target, headers) = split_head(bytes);
    let local = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let hosts = Hosts::new(&["repl.example".to_owned()], &["https://page.example".to_owned()]);
    match hosts.check(&target, &headers, local) {
        Ok(authority) => {
            assert!(!authority.contains('@') && authority.to_ascii_lowercase() == authority);
            let name: http::uri::Authority = authority.parse().expect("an authority");
            let is_address = name.host().trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
            assert!(is_address || ["localhost", "repl.example"].contains(&name.host()), "{authority}");
            if hosts.origin(&headers, &authority) == Origin::Allowed {
                let page = headers.get(http::header::ORIGIN).expect("it is allowed").as_bytes().to_ascii_lowercase();
                assert!(page == b"https://page.example" || page.ends_with(authority.as_bytes()));
            }
        }
        Err(fault) => is_told_briefly(&fault),
    }
    if let Ok(Some(token)) = auth::bearer(&headers) {
        assert_eq!(token.trim_matches(' '), token);
    }
    match upgrade::read_offer(&headers) {
        Ok(offer) => drop(upgrade::token(&headers, &offer)),
        Err(fault) => is_told_briefly(&fault),
    }
    let _ = Format::asked(&headers);
    files::conditions(&headers);
}

/// What a proxy tells of its client: an address is read the same from a header that holds nothing else.
pub fn proxied(bytes: &[u8]) {
    let Ok(Some(client)) = proxied::parse(bytes) else { return };
    let addresses: u8 = if client.is_ipv4() { 12 } else { 36 };
    let mut shortest = bytes[..16 + usize::from(addresses)].to_vec();
    shortest[14..16].copy_from_slice(&[0, addresses]);
    assert_eq!(proxied::parse(&shortest).expect("it can be read"), Some(client));
}

fn split_head(bytes: &[u8]) -> (Uri, HeaderMap) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let target = lines.next().and_then(|line| Uri::try_from(line).ok()).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let field = HeaderName::from_bytes(name).ok().zip(HeaderValue::from_bytes(value[1..].trim_ascii()).ok());
        if let Some((name, value)) = field {
            headers.append(name, value);
        }
    }
    (target, headers)
}
