//! The typed client that the command line and the tests share. Knows the protocol; refuses to know the server's side.
//!
//! Connections are kept and used again; nothing runs in the background: a connection moves while somebody waits for it.

mod attachment;
mod error;
mod files;
mod http1;
mod interaction;
mod socket;
mod stream;
mod transport;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use repltool_protocol::frame::{ClientFrame, ServerFrame};
use repltool_protocol::ids::{ExecutionId, Seq, SessionId};
use repltool_protocol::me::Me;
use repltool_protocol::rest::{
    Capabilities, ExecutionRequest, ExecutionResult, History, InterruptRequest, Language, OneShotRequest, SandboxMode,
    Session, SessionConfig, SessionList,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::attachment::{Attachment, Moment};
pub use self::error::ClientError;
pub use self::socket::{Closed, Received, Socket};
pub use self::stream::EventStream;

use self::http1::{Connections, Reply};
use self::transport::Route;

/// The largest answer that is read whole, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

const JSON: &str = "application/json";

/// The body of a request and its media type.
type Content = (&'static str, Bytes);

/// Which events are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// Those after this one; absent: everything that is kept.
    pub after: Option<Seq>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Go on until the session ends.
    pub follow: bool,
}

/// A server and a token. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    connections: Arc<Connections>,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// Speaks to the server at `http://host:port` or `https://host:port`; connects when first used. By TLS the server must
    /// have a certificate of an authority that the system trusts.
    ///
    /// # Errors
    /// [`ClientError::Url`], or [`ClientError::Request`] if the token is no header value.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        Self::trusting(url, token, None)
    }

    /// [`Client::new`], and trusts these authorities too: certificates in PEM.
    ///
    /// # Errors
    /// As [`Client::new`], and [`ClientError::Trust`].
    pub fn trusting(url: &str, token: Option<&str>, authorities: Option<&[u8]>) -> Result<Self, ClientError> {
        let wrong = || ClientError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        let authority = uri.authority().ok_or_else(wrong)?;
        let authorization = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|error| ClientError::Request(error.into()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let (host, port) = (authority.host(), authority.port_u16());
        let route = match uri.scheme_str() {
            Some("http") => Route::plain(host, port.unwrap_or(80)),
            Some("https") => Route::encrypted(host, port.unwrap_or(443), authorities)?,
            _ => return Err(wrong()),
        };
        Ok(Self { connections: Arc::new(Connections::new(route)), authorization: authorization.transpose()? })
    }

    /// Whether the server can create sessions.
    ///
    /// # Errors
    /// [`ClientError::Connect`] or [`ClientError::Broken`].
    pub async fn is_ready(&self) -> Result<bool, ClientError> {
        let reply = self.send(Method::GET, "/readyz", None, None).await?;
        let status = reply.status();
        self.whole(reply).await?;
        Ok(status == StatusCode::OK)
    }

    /// Creates a session.
    ///
    /// # Errors
    /// See [`ClientError`]; the same holds for all calls.
    pub async fn create(&self, config: &SessionConfig) -> Result<Session, ClientError> {
        self.call(Method::POST, "/api/v1/sessions", Some(json(config)?)).await
    }

    /// A session.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, session: &SessionId) -> Result<Session, ClientError> {
        self.call(Method::GET, &path(session, ""), None).await
    }

    /// A page of the caller's sessions, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list(&self, limit: u64, offset: u64) -> Result<SessionList, ClientError> {
        self.call(Method::GET, &format!("/api/v1/sessions?limit={limit}&offset={offset}"), None).await
    }

    /// The caller, its limits, and what it uses of them.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.call(Method::GET, "/api/v1/me", None).await
    }

    /// Terminates a session and deletes all that belongs to it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete(&self, session: &SessionId) -> Result<(), ClientError> {
        self.quietly(Method::DELETE, &path(session, ""), None).await
    }

    /// Runs code and waits for its end.
    ///
    /// # Errors
    /// See [`ClientError`]. A program that fails is no error.
    pub async fn execute(
        &self,
        session: &SessionId,
        request: &ExecutionRequest,
    ) -> Result<ExecutionResult, ClientError> {
        self.call(Method::POST, &path(session, "/execute"), Some(json(request)?)).await
    }

    /// Runs code in a session of its own, of which nothing is left when this returns.
    ///
    /// # Errors
    /// See [`ClientError`]. A program that fails is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the execution.
    pub async fn one_shot(&self, request: &OneShotRequest) -> Result<ExecutionResult, ClientError> {
        self.call(Method::POST, "/api/v1/execute", Some(json(request)?)).await
    }

    /// [`Client::one_shot`] with its events as they come; the last one is the result. Dropping them ends the execution.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn one_shot_live(&self, request: &OneShotRequest) -> Result<EventStream, ClientError> {
        self.stream(Method::POST, "/api/v1/execute", Some(json(request)?)).await
    }

    /// What the server offers.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.call(Method::GET, "/api/v1/capabilities", None).await
    }

    /// Runs code and gives its events as they come; the last one is the result.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn execute_live(
        &self,
        session: &SessionId,
        request: &ExecutionRequest,
    ) -> Result<EventStream, ClientError> {
        let body = Some(json(request)?);
        self.stream(Method::POST, &path(session, "/execute"), body).await
    }

    /// The event log.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn events(&self, session: &SessionId, events: Events) -> Result<EventStream, ClientError> {
        let mut path = path(session, &format!("/events?follow={}", events.follow));
        for (name, value) in [("after", events.after.map(|it| it.0)), ("limit", events.limit)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={value}"));
            }
        }
        self.stream(Method::GET, &path, None).await
    }

    /// A page of past executions, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn history(&self, session: &SessionId, limit: u64, offset: u64) -> Result<History, ClientError> {
        self.call(Method::GET, &path(session, &format!("/history?limit={limit}&offset={offset}")), None).await
    }

    /// Interrupts the execution that runs, or the named one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn interrupt(&self, session: &SessionId, execution: Option<&ExecutionId>) -> Result<(), ClientError> {
        let request = InterruptRequest { execution_id: execution.cloned() };
        self.quietly(Method::POST, &path(session, "/interrupt"), Some(json(&request)?)).await
    }

    /// Replaces the interpreter.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn restart(&self, session: &SessionId) -> Result<Session, ClientError> {
        self.call(Method::POST, &path(session, "/restart"), None).await
    }

    /// Attaches a WebSocket to a session. Without `after` it brings what happens from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn attach(&self, session: &SessionId, after: Option<Seq>) -> Result<Socket, ClientError> {
        let after = after.map(|seq| format!("?after={seq}")).unwrap_or_default();
        self.socket(&path(session, &format!("/ws{after}"))).await
    }

    /// Creates a session and attaches a WebSocket to it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn attach_new(&self, language: Language, mode: SandboxMode) -> Result<Socket, ClientError> {
        let name = |value: serde_json::Result<serde_json::Value>| value.map_err(ClientError::Unreadable);
        let (language, mode) = (name(serde_json::to_value(language))?, name(serde_json::to_value(mode))?);
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        self.socket(&format!("/api/v1/ws?language={}&sandbox_mode={}", text(&language), text(&mode))).await
    }

    /// Sends a request of any kind, for what has no call of its own; gives status and body as they are.
    ///
    /// # Errors
    /// [`ClientError::Connect`], [`ClientError::Broken`] or [`ClientError::Request`].
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<http::Response<Bytes>, ClientError> {
        let reply = self.send(method, path, body.map(|body| (JSON, body)), None).await?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        let mut response = http::Response::new(self.whole(reply).await?);
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }

    async fn socket(&self, path: &str) -> Result<Socket, ClientError> {
        Socket::open(&self.connections, path, self.authorization.clone()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Content>,
    ) -> Result<T, ClientError> {
        let reply = self.send(method, path, body, None).await?;
        let body = self.checked(reply).await?;
        serde_json::from_slice(&body).map_err(ClientError::Unreadable)
    }

    async fn quietly(&self, method: Method, path: &str, body: Option<Content>) -> Result<(), ClientError> {
        let reply = self.send(method, path, body, None).await?;
        self.checked(reply).await.map(|_| ())
    }

    async fn stream(&self, method: Method, path: &str, body: Option<Content>) -> Result<EventStream, ClientError> {
        let accept = HeaderValue::from_static("application/x-ndjson");
        let reply = self.send(method, path, body, Some(accept)).await?;
        if reply.status().is_success() {
            return Ok(EventStream::new(reply));
        }
        Err(refusal(reply.status(), &self.whole(reply).await?))
    }

    /// The body of an answer that is no refusal.
    async fn checked(&self, reply: Reply) -> Result<Bytes, ClientError> {
        let status = reply.status();
        let body = self.whole(reply).await?;
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    }

    async fn whole(&self, mut reply: Reply) -> Result<Bytes, ClientError> {
        let read = Limited::new(&mut reply, MAX_ANSWER_BYTES).collect().await;
        let body = read.map_err(ClientError::Broken)?.to_bytes();
        self.connections.keep(reply);
        Ok(body)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Content>,
        accept: Option<HeaderValue>,
    ) -> Result<Reply, ClientError> {
        let mut request = Request::builder().method(method).uri(path).header("host", self.connections.authority());
        if let Some((media_type, _)) = &body {
            request = request.header("content-type", *media_type);
        }
        for (name, value) in [("authorization", &self.authorization), ("accept", &accept)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let request =
            request.body(Full::new(body.map(|(_, bytes)| bytes).unwrap_or_default())).map_err(ClientError::Request)?;
        self.connections.send(request).await
    }
}

fn path(session: &SessionId, rest: &str) -> String {
    format!("/api/v1/sessions/{session}{rest}")
}

fn json(value: &impl Serialize) -> Result<Content, ClientError> {
    let bytes = serde_json::to_vec(value).map_err(ClientError::Unreadable)?;
    Ok((JSON, bytes.into()))
}

fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice(body) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        Err(_) => ClientError::Unexpected(status),
    }
}

/// Reads what a server sends, over a socket or as a line. `None` for what a later version may have added.
fn decode(text: &str) -> Result<Option<ServerFrame>, ClientError> {
    repltool_protocol::codec::decode_server(text).map_err(ClientError::Unreadable)
}

fn encode(frame: &ClientFrame) -> Result<String, ClientError> {
    serde_json::to_string(frame).map_err(ClientError::Unreadable)
}
