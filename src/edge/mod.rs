//! The edge: accepts connections, names the caller, routes, speaks HTTP and WebSocket. Knows session handles; refuses
//! to know kernels, sandboxes and the store.
//!
//! ```text
//! accept ─▶ tls ─▶ router ─▶ auth ─▶ rest ────────────▶ session handle ─▶ answer, or stream
//!                     └────────────▶ upgrade ─▶ socket ─▶ session handle ⇄ log
//! ```
//!
//! Draining is one token: nothing is accepted any more, sockets close with 1001, idle connections at once, and requests
//! that run have [`EdgeConfig::drain`] to end.

mod assets;
mod audited;
pub mod auth;
mod body;
pub mod capabilities;
mod connection;
mod cors;
mod counted;
mod environment;
mod files;
mod forwarded;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod http2;
mod limit;
mod live;
mod me;
mod one_shot;
mod problem;
mod proxied;
mod query;
mod received;
mod redirect;
mod respond;
mod rest;
mod router;
mod scrape;
mod security;
mod socket;
mod stream;
mod tls;
mod traced;
mod upgrade;
mod validate;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Capabilities, SessionConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use self::audited::Audited;
use self::auth::{Auth, Principal, Scope};
use self::forwarded::Proxies;
use self::hosts::Hosts;
use self::limit::Limits;
pub use self::live::LiveSettings;
use self::live::Swap;
use self::problem::Fault;
pub use self::redirect::Redirect;
use self::router::Routes;
pub use self::tls::{Tls, TlsError};
use crate::alerts::Live;
use crate::audit::Audit;
use crate::config::RateLimit;
use crate::metrics::Metrics;
use crate::session::SessionHandle;
use crate::session::registry::Registry;

/// Request line and headers together, in bytes; beyond it the answer is 431.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// What a connection buffers of a request body.
const MAX_BUFFER_BYTES: usize = 128 * 1024;
/// How long accepting rests when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often it is told for as long as they are missing.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long tasks that were told to stop may take to do so.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Settings of the edge.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Host names that are answered besides those of loopback and the address of the listener.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may open sockets and read answers, besides the server's own.
    pub allowed_origins: Vec<String>,
    /// Proxies whose forwarded addresses are believed: addresses, or networks as `address/bits`.
    pub trusted_proxies: Vec<String>,
    /// Whether those proxies tell the address of a client before its first byte.
    pub proxy_protocol: bool,
    /// How often a subject may ask, a peer may fail to log in, and a socket may speak.
    pub rates: RateLimit,
    /// Sockets of one subject at once; streams that wait for events count as such.
    pub max_sockets_per_subject: usize,
    /// What is shown to clients, where the listener speaks TLS; each connection takes what is there when it begins.
    pub tls: Option<watch::Receiver<Tls>>,
    /// How long a connection may take to begin, and to send the head of a request; idle connections are closed after it.
    pub header_timeout: Duration,
    /// How long a body of JSON may take to arrive, and the next piece of any other.
    pub body_timeout: Duration,
    /// The largest file that a client may write, in bytes.
    pub max_file_bytes: u64,
    /// Connections at once; beyond it clients wait in the listener's backlog. Sockets count.
    pub max_connections: usize,
    /// How long requests that run have to end when the edge drains.
    pub drain: Duration,
    /// What clients are told that this server offers.
    pub capabilities: Capabilities,
}

/// Serves the API on a listener.
#[derive(Debug)]
pub struct Edge {
    shared: Arc<Shared>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    config: EdgeConfig,
    auth: Auth,
    registry: Registry,
    metrics: Metrics,
    hosts: Swap<Hosts>,
    proxies: Swap<Proxies>,
    limits: Limits,
    audited: Audited,
    /// What concerns security, as it comes.
    security: Live,
    routes: Routes,
    /// Every connection, socket and creation of a session.
    tasks: TaskTracker,
    /// Cancelled when nothing new may begin.
    drain: CancellationToken,
    /// Cancelled when everything must end.
    stop: CancellationToken,
}

/// One connection, and what its requests and its socket share. The permit goes back when the last of them ends.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    peer: SocketAddr,
    local: IpAddr,
    /// Whether by TLS.
    encrypted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Edge {
    /// Joins the parts; nothing happens before [`Edge::serve`].
    pub fn new(
        config: EdgeConfig,
        auth: Auth,
        registry: Registry,
        audit: Audit,
        security: Live,
        metrics: Metrics,
    ) -> Self {
        let hosts = Swap::new(Hosts::new(&config.allowed_hosts, &config.allowed_origins));
        let proxies = Swap::new(Proxies::new(&config.trusted_proxies));
        let limits = Limits::new(&config.rates, config.max_sockets_per_subject);
        let audited = Audited::new(audit, &config.rates);
        let shared = Shared {
            config,
            auth,
            registry,
            metrics,
            hosts,
            proxies,
            limits,
            audited,
            security,
            routes: Routes::new(),
            tasks: TaskTracker::new(),
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// By it settings change while this serves.
    pub fn live(&self) -> LiveSettings {
        LiveSettings(self.shared.clone())
    }

    /// Serves until `drain` is cancelled and every connection has ended.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting; connections that are open go on for as long as the runtime lives.
    pub async fn serve(self, listener: TcpListener, drain: CancellationToken) {
        let shared = self.shared;
        let connections = Arc::new(Semaphore::new(shared.config.max_connections.min(Semaphore::MAX_PERMITS)));
        let accepting = async {
            while let Ok(permit) = connections.clone().acquire_owned().await {
                let (stream, peer) = accept(&listener).await;
                shared.tasks.spawn(connection::serve(shared.clone(), stream, peer, permit));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = shared.limits.sweep_every(limit::SWEEP_EVERY) => {}
            () = shared.audited.sweep_every(limit::SWEEP_EVERY) => {}
            () = drain.cancelled() => {}
        }
        drop(listener);
        shared.drain.cancel();
        shared.tasks.close();
        if tokio::time::timeout(shared.config.drain, shared.tasks.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(connections = shared.tasks.len(), "requests were cut short, the time for draining is over");
        shared.stop.cancel();
        // A task that does not stop is waiting for a session to be created; that is the registry's to end.
        let _ = tokio::time::timeout(STOP_GRACE, shared.tasks.wait()).await;
    }
}

impl Shared {
    /// The session with this name, if it is the principal's, or the principal sees everybody's.
    ///
    /// # Errors
    /// `not_found`: for a malformed name, an unknown one and somebody else's alike.
    fn session(&self, principal: &Principal, id: &str) -> Result<SessionHandle, Fault> {
        let id = query::unescape(id).and_then(|it| String::from_utf8(it).ok()).ok_or_else(Fault::not_found)?;
        let id = SessionId::from_str(&id).map_err(|_| Fault::not_found())?;
        let handle = self.registry.get(&id).ok_or_else(Fault::not_found)?;
        if handle.identity().owner == principal.subject {
            return Ok(handle);
        }
        if principal.scopes.has(Scope::Admin) {
            self.audited.note_admin(&principal.subject, &id);
            return Ok(handle);
        }
        tracing::info!(subject = principal.subject, session = %id, "somebody else's session was asked for");
        Err(Fault::concealing(id))
    }

    /// Creates a session. It is created, and can be listed, even if the caller goes away meanwhile.
    ///
    /// # Errors
    /// Why the registry refused.
    async fn create(&self, principal: &Principal, config: SessionConfig) -> Result<SessionHandle, Fault> {
        let (registry, owner) = (self.registry.clone(), principal.owner());
        let creation = async move { registry.create(&owner, config).await };
        let creation = self.tasks.spawn(creation.in_current_span());
        match creation.await {
            Ok(created) => {
                let handle = created?;
                router::note_session(handle.identity().id.as_str());
                Ok(handle)
            }
            Err(error) => Err(Fault::internal(&error)),
        }
    }
}

/// Accepts the next connection. What goes wrong with one of them is its own affair; what goes wrong with the process,
/// as a rule that descriptors have run out, may pass.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let mut next_word = Instant::now();
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                if Instant::now() >= next_word {
                    tracing::warn!(error = &error as &dyn std::error::Error, "no connection can be accepted now");
                    next_word = Instant::now() + TELL_EVERY;
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
