//! One connection from its first byte to its last: what a proxy has to say, TLS if the listener speaks it, then HTTP/1.1 or
//! HTTP/2.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::problem::Fault;
use super::received::RequestBody;
use super::respond::{self, Answer};
use super::tls::Accepted;
use super::{Connection, MAX_BUFFER_BYTES, MAX_HEADER_BYTES, Shared, http2, proxied, router};

/// What carries a connection: TCP, or TLS over it, whose state is so large that those without it are spared its place.
pub(super) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection on which requests may come.
struct Begun {
    speaks: Accepted,
    peer: SocketAddr,
    local: IpAddr,
}

/// Serves a connection to its end.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
    let begun = tokio::select! {
        biased; // what has begun is told of the drain by its protocol
        begun = in_time(shared.config.header_timeout, begin(&shared, stream, peer)) => begun,
        () = shared.drain.cancelled() => return,
    };
    let Begun { speaks, peer, local } = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, %peer, "a connection came to nothing");
            return;
        }
    };
    let encrypted = shared.config.tls.is_some();
    let connection = Arc::new(Connection { shared, peer, local, encrypted, _permit: permit });
    let ended = match speaks {
        Accepted::Http1(stream) => http1(connection, stream).await,
        Accepted::Http2(stream) => http2::serve(connection, stream).await,
        Accepted::PlainText(stream) => refuse_plain_text(&connection, stream).await,
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, %peer, "a connection broke off");
    }
}

async fn in_time<T>(limit: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, step).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn begin(shared: &Shared, mut stream: TcpStream, peer: SocketAddr) -> io::Result<Begun> {
    let local = prepare(&stream)?;
    let is_told = shared.config.proxy_protocol && shared.proxies.get().trust(peer.ip());
    let client = if is_told { proxied::client(&mut stream).await? } else { None };
    let peer = client.unwrap_or(peer);
    let speaks = match &shared.config.tls {
        None => Accepted::Http1(Either::Left(stream)),
        Some(tls) => {
            let tls = tls.borrow().clone();
            tls.accept(stream).await?
        }
    };
    Ok(Begun { speaks, peer, local })
}

/// Small messages leave at once, and a peer that vanished without a word is found out by the kernel.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<IpAddr> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, Duration::from_secs(20))?;
    rustix::net::sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(stream.local_addr()?.ip())
}

async fn http1(connection: Arc<Connection>, stream: Transport) -> hyper::Result<()> {
    let shared = connection.shared.clone();
    let service = service_fn(move |request| {
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(router::answer(connection, request).await) }
    });
    let served = builder(&shared).serve_connection(TokioIo::new(stream), service).with_upgrades();
    drive(&shared, served, http1::UpgradeableConnection::graceful_shutdown, std::future::pending).await
}

/// Tells a client that speaks plain text to a listener with TLS, once, what to do.
async fn refuse_plain_text(connection: &Connection, stream: TcpStream) -> hyper::Result<()> {
    let shared = &connection.shared;
    let service = service_fn(|request: Request<Incoming>| {
        let _read_away = RequestBody::of(request, shared.config.body_timeout, shared.tasks.clone());
        let request_id = router::request_id();
        let mut answer = respond::problem(&Fault::invalid("this port speaks TLS; use an https:// url"), &request_id);
        respond::finish(&mut answer, &request_id);
        async { Ok::<Answer, Infallible>(answer) }
    });
    let served = builder(shared).keep_alive(false).serve_connection(TokioIo::new(stream), service);
    drive(shared, served, http1::Connection::graceful_shutdown, std::future::pending).await
}

fn builder(shared: &Shared) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.header_timeout)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    builder
}

/// Drives a connection to its end. When the server drains, or the connection has been idle, it ends in good order; when it
/// is idle once more, or everything must end, at once.
pub(super) async fn drive<C, I: Future<Output = ()>>(
    shared: &Shared,
    served: C,
    end: fn(Pin<&mut C>),
    idle: impl Fn() -> I,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => return ended,
        () = shared.drain.cancelled() => {}
        () = idle() => {}
    }
    end(served.as_mut());
    tokio::select! {
        ended = served.as_mut() => ended,
        () = idle() => Ok(()),
        () = shared.stop.cancelled() => Ok(()),
    }
}
