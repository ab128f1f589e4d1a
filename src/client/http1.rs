//! HTTP/1.1 connections that are driven by whoever waits for them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::ClientError;
use super::transport::{Route, Transport};

/// Connections kept for later.
const MAX_IDLE: usize = 32;

type Driver = Pin<Box<http1::Connection<TokioIo<Transport>, Full<Bytes>>>>;

/// The connections to one server.
pub(super) struct Connections {
    route: Route,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connections({})", self.authority())
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
}

/// An answer whose body is still to be read. Dropping it closes its connection.
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    connection: Connection,
}

impl Connections {
    pub(super) fn new(route: Route) -> Self {
        Self { route, idle: Mutex::new(Vec::new()) }
    }

    /// Host and port, as in a `Host` header.
    pub(super) fn authority(&self) -> String {
        self.route.authority()
    }

    /// A connection that is used for nothing yet.
    pub(super) async fn connect(&self) -> Result<Transport, ClientError> {
        self.route.connect().await
    }

    /// Sends a request, on a connection that is kept if there is one that still lives.
    ///
    /// # Cancel safety
    /// Not cancel-safe: the request may have been carried out.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Reply, ClientError> {
        let mut connection = match self.take() {
            Some(connection) => connection,
            None => Connection::open(self.connect().await?).await?,
        };
        let response = connection.send(request).await?;
        let (head, body) = response.into_parts();
        Ok(Reply { status: head.status, headers: head.headers, body, connection })
    }

    /// Keeps the connection of an answer that was read to its end.
    pub(super) fn keep(&self, reply: Reply) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(reply.connection);
        }
    }

    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            // One look tells whether the server has closed it meanwhile.
            if (&mut connection.driver).now_or_never().is_none() && connection.sender.is_ready() {
                return Some(connection);
            }
        }
    }
}

impl Connection {
    async fn open(stream: Transport) -> Result<Self, ClientError> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        Ok(Self { sender, driver: Box::pin(driver) })
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, ClientError> {
        let mut response = std::pin::pin!(self.sender.send_request(request));
        poll_fn(|context| {
            if let Poll::Ready(response) = response.as_mut().poll(context) {
                return Poll::Ready(response.map_err(broken));
            }
            let ended = self.driver.poll_unpin(context);
            match (response.as_mut().poll(context), ended) {
                (Poll::Ready(response), _) => Poll::Ready(response.map_err(broken)),
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(broken(error))),
                (Poll::Pending, Poll::Ready(Ok(()))) => Poll::Ready(Err(ended_early())),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            }
        })
        .await
    }
}

impl Reply {
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let reply = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut reply.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        // The body moves only if its connection does. How the connection ends is told by the body.
        let _ = reply.connection.driver.poll_unpin(context);
        Pin::new(&mut reply.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn broken(error: hyper::Error) -> ClientError {
    ClientError::Broken(Box::new(error))
}

fn ended_early() -> ClientError {
    ClientError::Broken("the server closed the connection".into())
}
