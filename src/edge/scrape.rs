//! `GET /metrics`: on the main address for whoever has the scope, and on an address of its own for what watches servers.
//! There nothing else is served; on a loopback address it needs no token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::auth::{self, AuthError, Scope};
use super::connection::prepare;
use super::limit::Visit;
use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::{self, Call, Endpoint};
use super::{Connection, Edge, Shared, accept, counted, traced};

/// Where metrics are, on both addresses.
const PATH: &str = "/metrics";
/// Connections at once on the address for metrics; others wait in its backlog.
const MAX_CONNECTIONS: usize = 16;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`, for a caller who has the scope.
pub(super) fn get(call: &Call) -> Result<Answer, Fault> {
    exposition(&call.connection.shared, call.request.headers())
}

impl Edge {
    /// Serves `GET /metrics` on a listener, and nothing else, until `drain` is cancelled.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting.
    pub fn serve_metrics(
        &self,
        listener: TcpListener,
        drain: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let shared = self.shared.clone();
        // Who reaches a loopback address is on this machine; the host is checked, so it is no page of elsewhere either.
        let scope = match listener.local_addr() {
            Ok(address) if address.ip().to_canonical().is_loopback() => None,
            _ => Some(Scope::MetricsRead),
        };
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        async move {
            let accepting = async {
                while let Ok(permit) = places.clone().acquire_owned().await {
                    let (stream, peer) = accept(&listener).await;
                    let served = connection(shared.clone(), stream, peer, permit, scope);
                    let stop = drain.clone();
                    shared.tasks.spawn(async move { stop.run_until_cancelled(served).await });
                }
            };
            drain.run_until_cancelled(accepting).await;
        }
    }
}

/// Serves one connection, to whoever has the scope, if one is needed.
async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    permit: OwnedSemaphorePermit,
    scope: Option<Scope>,
) {
    let Ok(local) = prepare(&stream) else { return };
    let header_timeout = shared.config.header_timeout;
    let connection = Arc::new(Connection { shared, peer, local, encrypted: false, _permit: permit });
    let service = service_fn(move |request| {
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(answer(&connection, &request, scope)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(error = &error as &dyn std::error::Error, %peer, "a connection for metrics broke off");
    }
}

fn answer(connection: &Connection, request: &Request<Incoming>, scope: Option<Scope>) -> Answer {
    let (request_id, begun) = (router::request_id(), Instant::now());
    let mut visit = Visit::new(connection.peer.ip());
    let span = traced::request(&request_id, connection.peer.ip(), request.headers());
    let scraped = span.in_scope(|| scrape(connection, request, scope, &mut visit));
    let metrics = &connection.shared.metrics;
    let mut answer = scraped.unwrap_or_else(|fault| {
        metrics.refused(fault.code());
        respond::problem(&fault, &request_id)
    });
    visit.finish(answer.headers_mut());
    respond::finish(&mut answer, &request_id);
    let (route, method, status) = (visit.route(), counted::method(request.method()), answer.status().as_u16());
    traced::answered(&span, &mut answer, route, method);
    metrics.answered(route, method, status, begun.elapsed());
    answer
}

fn scrape(
    connection: &Connection,
    request: &Request<Incoming>,
    scope: Option<Scope>,
    visit: &mut Visit,
) -> Result<Answer, Fault> {
    let Connection { shared, local, .. } = connection;
    shared.hosts.get().check(request.uri(), request.headers(), *local)?;
    if request.uri().path() != PATH {
        return Err(Fault::not_found());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Fault::method_not_allowed("GET, HEAD".to_owned()));
    }
    visit.matched(counted::route(Endpoint::Metrics));
    if scope.is_some() {
        let token = auth::bearer(request.headers()).and_then(|token| token.ok_or(AuthError::Missing));
        router::admit(shared, visit, token, scope)?;
    }
    exposition(shared, request.headers())
}

fn exposition(shared: &Shared, headers: &HeaderMap) -> Result<Answer, Fault> {
    shared.registry.take_stock();
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let (content_type, text) = match accepted.any(|accept| accept.contains("application/openmetrics-text")) {
        true => (OPENMETRICS, shared.metrics.text()),
        false => (CLASSIC, shared.metrics.classic_text()),
    };
    let text = text.map_err(|error| Fault::internal(&error))?;
    Ok(respond::with(StatusCode::OK, content_type, Full::from(text).map_err(|never| match never {}).boxed_unsync()))
}
