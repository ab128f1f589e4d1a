//! HTTP/2, which a client asks for in the handshake of TLS. Its limits: streams, resets, windows, headers, and time: a
//! connection on which nothing is asked ends as one of HTTP/1.1 does, and a peer that is gone is found out by a ping.
//!
//! WebSockets are not offered here (no extended CONNECT): clients open them on a connection of their own.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{self, Transport};
use super::respond::{Answer, Body};
use super::{Connection, MAX_HEADER_BYTES, router};

/// Requests at once on one connection.
const MAX_STREAMS: u32 = 100;
/// Streams that a client has reset and whose answer is still being stopped; one that makes more loses its connection.
const MAX_RESETS: usize = 20;
/// Streams that a client had us reset, in the life of a connection.
const MAX_OWN_RESETS: usize = 200;
/// What a client may send of one body, and of all together, before it is read.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What is held of one answer that a client does not take.
const MAX_SEND_BYTES: usize = 64 * 1024;
/// How often a peer is asked whether it is there, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection to its end.
pub(super) async fn serve(connection: Arc<Connection>, stream: Transport) -> hyper::Result<()> {
    let shared = connection.shared.clone();
    let streams = Streams { tasks: shared.tasks.clone(), stop: shared.stop.clone() };
    let activity = Activity::default();
    let counted = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (connection, running) = (connection.clone(), counted.begin());
        async move {
            let answer = router::answer(connection, request).await;
            Ok::<Answer, Infallible>(answer.map(|body| Counted { body, _running: running }.boxed_unsync()))
        }
    });
    let served = http2::Builder::new(streams)
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_OWN_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(MAX_SEND_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let limit = shared.config.header_timeout;
    connection::drive(&shared, served, http2::Connection::graceful_shutdown, || activity.idle_for(limit)).await
}

/// Where the streams of a connection run: among the tasks of the edge, and no longer than those.
#[derive(Debug, Clone)]
struct Streams {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stream => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// How many requests of a connection are being answered.
#[derive(Debug, Clone, Default)]
struct Activity(Arc<watch::Sender<usize>>);

/// One of them, up to the end of its answer.
#[derive(Debug)]
struct Running(Activity);

impl Activity {
    fn begin(&self) -> Running {
        self.0.send_modify(|running| *running += 1);
        Running(self.clone())
    }

    /// Waits until there was none for so long.
    async fn idle_for(&self, limit: Duration) {
        let mut seen = self.0.subscribe();
        loop {
            let is_idle = *seen.borrow_and_update() == 0;
            // It does not fail: what sends is held here.
            let changed = seen.changed();
            if !is_idle {
                let _ = changed.await;
            } else if tokio::time::timeout(limit, changed).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running -= 1);
    }
}

/// The body of an answer, which runs until it is sent.
struct Counted {
    body: Body,
    _running: Running,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_nothing_was_asked_for_a_while() {
        let (activity, begin) = (Activity::default(), tokio::time::Instant::now());
        let second = Duration::from_secs(1);
        let asked = async {
            tokio::time::sleep(8 * second).await;
            let one = activity.begin();
            let other = activity.begin();
            drop(one);
            tokio::time::sleep(60 * second).await;
            drop(other);
            tokio::time::sleep(9 * second).await;
            // Too short to be seen in the number.
            drop(activity.begin());
        };
        tokio::join!(asked, activity.idle_for(10 * second));
        assert_eq!(begin.elapsed().as_secs(), 8 + 60 + 9 + 10);
    }
}
