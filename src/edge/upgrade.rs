//! The WebSocket handshake: checks request, origin, subprotocol and token, then hands the socket on.
//!
//! A refused handshake is a status with a problem document. A web page cannot see that, only that it failed; so to a
//! page that may open sockets, and speaks the subprotocol, the refusal is told by a close code instead.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use hyper_util::rt::TokioIo;
use repltool_protocol::frame::{BEARER_PREFIX, SUBPROTOCOL};
use repltool_protocol::ids::Seq;
use repltool_protocol::rest::capabilities::ModeSupport;
use repltool_protocol::rest::{Language, ProblemCode, SandboxMode, SessionConfig};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::Instrument;

use super::auth::{self, AuthError, Principal, Scope};
use super::connection::Transport;
use super::hosts::Origin;
use super::limit::Visit;
use super::problem::Fault;
use super::query::Query;
use super::received::RequestBody;
use super::respond::{self, Answer};
use super::socket::{self, Attachment, Watching};
use super::{Connection, rest, router, security};
use crate::session::SessionHandle;

/// What the socket is to be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The session with this name.
    Session(String),
    /// One that is created now.
    New,
    /// None: what concerns security.
    Security,
}

/// What it is attached to.
#[derive(Debug)]
enum Attached {
    Session(Box<Attachment>),
    Security(Box<Watching>),
}

/// A well-formed handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The answer to the client's key.
    accept: HeaderValue,
    /// The token in the list of subprotocols.
    token: Option<String>,
}

/// Answers a handshake and, if it succeeds, serves the socket in a task of its own.
///
/// # Errors
/// Whatever refuses it, to clients that can see a status.
pub(super) async fn upgrade(
    connection: Arc<Connection>,
    mut request: Request<RequestBody>,
    authority: &str,
    wanted: Wanted,
    scope: Scope,
    visit: &mut Visit,
) -> Result<Answer, Fault> {
    let offer = read_offer(request.headers())?;
    let origin = connection.shared.hosts.get().origin(request.headers(), authority);
    if origin == Origin::Foreign {
        let named = request.headers().get(http::header::ORIGIN);
        visit.noted.detail = named.map(|it| format!("origin {}", String::from_utf8_lossy(it.as_bytes())));
        tracing::warn!(origin = ?request.headers().get(http::header::ORIGIN), "a foreign page asked for a socket");
        return Err(Fault::new(ProblemCode::Forbidden, "pages of this origin may not open sockets here"));
    }
    let attached = attach(&connection, &request, &offer, &wanted, scope, visit).await;
    let outcome = match (attached, origin) {
        (Ok(attachment), _) => Ok(attachment),
        (Err(fault), Origin::Allowed) => {
            connection.shared.audited.refused(visit, &fault).await;
            Err(fault)
        }
        (Err(fault), Origin::Absent | Origin::Foreign) => return Err(fault),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let tasks = connection.shared.tasks.clone();
    let served = async move {
        match upgraded.await.map_err(|error| error.to_string()).and_then(raw) {
            Ok((stream, early)) => serve(&connection, stream, early, outcome).await,
            Err(reason) => tracing::debug!(reason, "an upgrade came to nothing"),
        }
    };
    tasks.spawn(served.in_current_span());
    Ok(switching(offer.accept))
}

async fn serve(connection: &Connection, stream: Transport, early: Bytes, outcome: Result<Attached, Fault>) {
    let shared = &connection.shared;
    let served = async {
        match outcome {
            Ok(Attached::Session(attachment)) => socket::serve(connection, stream, early, &attachment).await,
            Ok(Attached::Security(watching)) => socket::watch(connection, stream, early, *watching).await,
            Err(fault) => socket::refuse(stream, early, fault.close_code()).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn attach(
    connection: &Connection,
    request: &Request<RequestBody>,
    offer: &Offer,
    wanted: &Wanted,
    scope: Scope,
    visit: &mut Visit,
) -> Result<Attached, Fault> {
    let shared = &connection.shared;
    let principal = router::admit(shared, visit, token(request.headers(), offer), Some(scope))?;
    if shared.drain.is_cancelled() {
        return Err(Fault::new(ProblemCode::Draining, "the server is about to stop; connect again"));
    }
    let query = Query::new(request.uri().query());
    let after = query.number("after")?;
    let place = shared.limits.place(&principal)?;
    let handle: SessionHandle = match wanted {
        Wanted::Security => {
            let reader = security::reader(shared, after)?;
            shared.audited.opened(visit, None).await;
            let meter = shared.limits.meter(&principal);
            return Ok(Attached::Security(Box::new(Watching { reader, principal, meter, _place: place })));
        }
        Wanted::Session(id) => shared.session(&principal, id)?,
        Wanted::New => {
            let config = session_config(query, &principal, &shared.config.capabilities.sandbox.modes)?;
            shared.create(&principal, config).await?
        }
    };
    shared.audited.opened(visit, Some(&handle.identity().id)).await;
    // Settled before the client hears that the handshake is done, so that it misses nothing of what it does next. A number
    // that is to come counts as the last one.
    let last = handle.log().last_seq();
    let after = match (after.map(Seq), wanted) {
        (Some(after), _) => after.min(last),
        (None, Wanted::Session(_)) => last,
        // What happened before a client that has just created the session could attach is for it to see too.
        (None, Wanted::New | Wanted::Security) => Seq(0),
    };
    let meter = shared.limits.meter(&principal);
    let client = visit.client();
    Ok(Attached::Session(Box::new(Attachment { handle, principal, after, client, meter, _place: place })))
}

fn session_config(query: Query<'_>, principal: &Principal, offered: &[ModeSupport]) -> Result<SessionConfig, Fault> {
    let language: Option<Language> = named(query, "language")?;
    let mut config = SessionConfig {
        language: language.ok_or_else(|| Fault::field("language", "needed"))?,
        sandbox_mode: named::<SandboxMode>(query, "sandbox_mode")?.unwrap_or_default(),
        environment: Default::default(),
        working_directory: None,
        resource_limits: Default::default(),
    };
    rest::may_create(principal, &mut config, offered)?;
    Ok(config)
}

fn named<T: DeserializeOwned>(query: Query<'_>, name: &str) -> Result<Option<T>, Fault> {
    let Some(text) = query.get(name)? else { return Ok(None) };
    let decoded: Result<T, ValueError> = T::deserialize(StrDeserializer::new(&text));
    decoded.map(Some).map_err(|error| Fault::field(name, error.to_string()))
}

/// The one token of the handshake.
pub(super) fn token<'a>(headers: &'a HeaderMap, offer: &'a Offer) -> Result<&'a str, AuthError> {
    match (auth::bearer(headers)?, offer.token.as_deref()) {
        (Some(_), Some(_)) => Err(AuthError::Ambiguous),
        (Some(token), None) | (None, Some(token)) => Ok(token),
        (None, None) => Err(AuthError::Missing),
    }
}

/// Whether a request wants to become a WebSocket.
pub(super) fn is_asked<B>(request: &Request<B>) -> bool {
    request.method() == http::Method::GET && names_websocket(request.headers())
}

fn names_websocket(headers: &HeaderMap) -> bool {
    lists(headers, UPGRADE).any(|it| it.eq_ignore_ascii_case("websocket"))
}

/// Checks the headers of a handshake, as RFC 6455 has them in section 4.2.1.
pub(super) fn read_offer(headers: &HeaderMap) -> Result<Offer, Fault> {
    if !lists(headers, CONNECTION).any(|it| it.eq_ignore_ascii_case("upgrade")) || !names_websocket(headers) {
        return Err(Fault::invalid(
            "this path is for WebSockets: Connection: Upgrade and Upgrade: websocket are needed",
        ));
    }
    if headers.get(SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes) != Some(b"13") {
        return Err(Fault::invalid("Sec-WebSocket-Version: 13 is needed"));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let key = match (keys.next(), keys.next()) {
        (Some(key), None) if is_key(key.as_bytes()) => key.as_bytes(),
        _ => return Err(Fault::invalid("one Sec-WebSocket-Key of 16 bytes in base64 is needed")),
    };
    if !lists(headers, SEC_WEBSOCKET_PROTOCOL).any(|it| it == SUBPROTOCOL) {
        return Err(Fault::invalid(format!("the subprotocol {SUBPROTOCOL} must be offered")));
    }
    let mut tokens = lists(headers, SEC_WEBSOCKET_PROTOCOL).filter_map(|it| it.strip_prefix(BEARER_PREFIX));
    let token = tokens.next().map(Into::into);
    if tokens.next().is_some() {
        return Err(AuthError::Ambiguous.into());
    }
    let accept = HeaderValue::from_str(&derive_accept_key(key)).map_err(|error| Fault::internal(&error))?;
    Ok(Offer { accept, token })
}

/// The items of a header that is a list and may be there several times.
fn lists(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|it| it.split(','))
        .map(str::trim)
}

/// 16 bytes in base64: 22 characters, of which the last carries 2 bits, and `==`.
fn is_key(key: &[u8]) -> bool {
    key.strip_suffix(b"==").is_some_and(|digits| {
        digits.len() == 22
            && digits.iter().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/'))
            && matches!(digits.last(), Some(b'A' | b'Q' | b'g' | b'w'))
    })
}

fn switching(accept: HeaderValue) -> Answer {
    let mut answer = respond::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    answer
}

/// The connection itself, free of the server that parsed its first request, and what that had read beyond it.
fn raw(upgraded: hyper::upgrade::Upgraded) -> Result<(Transport, Bytes), String> {
    match upgraded.downcast::<TokioIo<Transport>>() {
        Ok(parts) => Ok((parts.io.into_inner(), parts.read_buf)),
        Err(_) => Err("the connection is of another kind".into()),
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    fn handshake(changes: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (CONNECTION, "keep-alive, Upgrade"),
            (UPGRADE, "WebSocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (SEC_WEBSOCKET_PROTOCOL, "repltool.v1"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in changes {
            headers.insert(name.clone(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_handshake_as_in_the_rfc_is_accepted() {
        let offer = read_offer(&handshake(&[])).unwrap();
        assert_eq!(offer, Offer { accept: HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), token: None });
    }

    #[test]
    fn a_part_that_is_wrong_is_refused() {
        for (name, value) in [
            (CONNECTION, "keep-alive"),
            (UPGRADE, "h2c"),
            (SEC_WEBSOCKET_VERSION, "8"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZR=="),
            (SEC_WEBSOCKET_KEY, ""),
            (SEC_WEBSOCKET_PROTOCOL, "repltool.v2, chat"),
            (SEC_WEBSOCKET_PROTOCOL, "Repltool.V1"),
        ] {
            let fault = read_offer(&handshake(&[(name.clone(), value)])).unwrap_err();
            assert_eq!(fault.status(), StatusCode::BAD_REQUEST, "{name}: {value}");
        }
        for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_VERSION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL] {
            let mut headers = handshake(&[]);
            headers.remove(&name);
            assert!(read_offer(&headers).is_err(), "{name}");
        }
    }

    #[test]
    fn the_token_is_in_one_of_two_places() {
        let found = |changes: &[(HeaderName, &str)]| {
            let headers = handshake(changes);
            let offer = read_offer(&headers)?;
            token(&headers, &offer).map(str::to_owned).map_err(Fault::from)
        };
        let protocol = (SEC_WEBSOCKET_PROTOCOL, "repltool.v1,bearer.a.b.c");
        let header = (AUTHORIZATION, "Bearer a.b.c");
        assert_eq!(found(std::slice::from_ref(&header)), Ok("a.b.c".into()));
        assert_eq!(found(std::slice::from_ref(&protocol)), Ok("a.b.c".into()));
        assert_eq!(found(&[]), Err(AuthError::Missing.into()));
        assert_eq!(found(&[protocol, header]), Err(AuthError::Ambiguous.into()));
        let twice = (SEC_WEBSOCKET_PROTOCOL, "bearer.a.b.c, repltool.v1, bearer.d.e.f");
        assert_eq!(found(&[twice]), Err(AuthError::Ambiguous.into()));
    }

    #[test]
    fn the_answer_has_the_subprotocol_alone() {
        let answer = switching(HeaderValue::from_static("x"));
        assert_eq!(answer.headers()[SEC_WEBSOCKET_PROTOCOL], "repltool.v1");
    }

    #[test]
    fn a_new_session_is_described_in_the_query() {
        let principal = |scope: &str| {
            let secret = vec![1; 32];
            let grant = auth::Grant { subject: "ada", scope, ..auth::Grant::default() };
            let token = auth::sign(&secret, &grant, std::time::Duration::from_secs(60)).unwrap();
            let keys = auth::keys::KeySet::secret(&secret).unwrap();
            let auth = auth::Auth::new(keys, None, None, std::time::Duration::ZERO);
            auth.verify(&token).unwrap()
        };
        let mut offered = crate::edge::capabilities::modes(&crate::config::Sandbox::default());
        let described = |query: &str, scope: &str, offered: &[ModeSupport]| {
            session_config(Query::new(Some(query)), &principal(scope), offered)
        };
        let status = |query: &str, scope: &str| match described(query, scope, &offered) {
            Ok(_) => 200,
            Err(fault) => fault.status().as_u16(),
        };
        for language in ["python", "javascript", "bash", "shell"] {
            assert_eq!(status(&format!("language={language}"), "tool:execute"), 200, "{language}");
        }
        assert_eq!(status("language=python&sandbox_mode=relaxed", "sandbox:relaxed"), 200);
        assert_eq!(status("language=python&sandbox_mode=relaxed", "tool:execute"), 403);
        for query in ["", "language=ruby", "language=Bash", "language=python&sandbox_mode=none"] {
            assert_eq!(status(query, "tool:execute"), 400, "{query}");
        }
        let strict = "language=python&sandbox_mode=strict";
        assert_eq!(described(strict, "tool:execute", &offered).unwrap().resource_limits.max_memory_mb, 128);
        offered.retain(|mode| mode.name != SandboxMode::Strict);
        let fault = described(strict, "tool:execute", &offered).unwrap_err();
        assert_eq!((fault.status().as_u16(), &*fault.document("x").errors[0].field), (400, "sandbox_mode"));
    }
}
