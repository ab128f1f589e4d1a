//! The body of a request as it arrives. An answer does not wait for a body that nobody reads: that is read away behind
//! it, so that the client sees the answer and not a reset, and what follows on the connection is the next request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use repltool_protocol::rest::MAX_MESSAGE_BYTES;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// How long, and how much, of a body that nobody wants is read; what is left then goes down with the connection.
const DISCARD_DEADLINE: Duration = Duration::from_secs(5);
const DISCARD_BYTES: usize = 4 * MAX_MESSAGE_BYTES;

/// See the module.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// Absent once it has ended.
    incoming: Option<Incoming>,
    /// The client waits to be told to send it, and nobody has asked for it yet.
    is_held_back: bool,
    /// How long it may take to arrive.
    patience: Duration,
    /// Where the rest is read away.
    tasks: TaskTracker,
}

impl RequestBody {
    /// Takes over the body of a request.
    pub(super) fn of(request: Request<Incoming>, patience: Duration, tasks: TaskTracker) -> Request<Self> {
        let expected = request.headers().get(EXPECT);
        let is_held_back = expected.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        request.map(|incoming| Self { incoming: Some(incoming), is_held_back, patience, tasks })
    }

    /// How long one of JSON may take to arrive, and the next piece of any other.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let body = self.get_mut();
        body.is_held_back = false;
        let Some(incoming) = &mut body.incoming else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(incoming).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            body.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.is_held_back || self.is_end_stream() {
            return;
        }
        if let (Some(incoming), Ok(runtime)) = (self.incoming.take(), Handle::try_current()) {
            self.tasks.spawn_on(discard(incoming), &runtime);
        }
    }
}

async fn discard(mut body: Incoming) {
    let read = async {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
            left = rest;
        }
    };
    // A client that sends for longer, or more, loses its connection.
    let _ = tokio::time::timeout(DISCARD_DEADLINE, read).await;
}
