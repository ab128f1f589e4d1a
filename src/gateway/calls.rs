//! The gateway's end of the link with the process that calls outside: hands over what is to be posted, and counts how each
//! call has ended.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::outbound::link::{Called, Ended, Outcome, pack};
use crate::outbound::{Post, Queues};
use crate::supervisor::link::{self, LinkError, MAX_PACKET_BYTES};

/// How long what is to be sent may take to be handed over at the end.
const HANDING_OVER: Duration = Duration::from_secs(1);

/// The task that serves the link.
pub(super) struct Calls {
    task: JoinHandle<()>,
    finish: CancellationToken,
}

impl Calls {
    /// Serves this link from now on.
    pub(super) fn begin(link: OwnedFd, queues: Queues, metrics: Metrics, tasks: &TaskTracker) -> Self {
        let finish = CancellationToken::new();
        Self { task: tasks.spawn(serve(link, queues, metrics, finish.clone())), finish }
    }

    /// Waits until all that is in the queues now is handed over; at most for [`HANDING_OVER`].
    pub(super) async fn finish(self) {
        self.finish.cancel();
        if tokio::time::timeout(HANDING_OVER, self.task).await.is_err() {
            tracing::warn!("what was still to be sent outside is lost");
        }
    }
}

/// Serves the link until it fails, or until `finish` and what is in the queues then is handed over. A process that dies is
/// no failure: the next one has the same link.
async fn serve(socket: OwnedFd, queues: Queues, metrics: Metrics, finish: CancellationToken) {
    let outcome = match link::register(socket, Interest::READABLE | Interest::WRITABLE) {
        Ok(socket) => tokio::select! {
            outcome = write(&socket, queues, &finish) => outcome,
            outcome = read(&socket, &metrics) => outcome,
        },
        Err(error) => Err(LinkError::Io(error)),
    };
    if let Err(error) = outcome {
        tracing::error!(error = &error as &dyn std::error::Error, "nothing is called outside any more");
    }
}

/// A post that has no room in the socket waits here, and the others in their queues.
async fn write(socket: &AsyncFd<OwnedFd>, mut queues: Queues, finish: &CancellationToken) -> Result<(), LinkError> {
    loop {
        let packet = tokio::select! {
            biased; // it ends when the queues are empty
            post = next(&mut queues.webhook) => pack(&post),
            post = next(&mut queues.traces) => pack(&post),
            () = finish.cancelled() => return Ok(()),
        };
        loop {
            let mut ready = socket.writable().await.map_err(LinkError::Io)?;
            match link::send(socket.get_ref().as_fd(), &packet, &[]) {
                Err(error) if link::would_block(&error) => ready.clear_ready(),
                outcome => break outcome?,
            }
        }
    }
}

/// The next post of a queue; never, if there is none and will be none.
async fn next(queue: &mut Option<Receiver<Post>>) -> Post {
    let post = match queue {
        Some(queue) => queue.recv().await,
        None => None,
    };
    match post {
        Some(post) => post,
        None => std::future::pending().await,
    }
}

async fn read(socket: &AsyncFd<OwnedFd>, metrics: &Metrics) -> Result<(), LinkError> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    loop {
        let mut ready = socket.readable().await.map_err(LinkError::Io)?;
        match link::receive(socket.get_ref().as_fd(), &mut buffer) {
            Ok((Outcome { called, ended }, _)) => metrics.called(name(called), outcome(ended)),
            Err(error) if link::would_block(&error) => ready.clear_ready(),
            Err(error) => return Err(error),
        }
    }
}

fn name(called: Called) -> &'static str {
    match called {
        Called::Keys => "keys",
        Called::Webhook => "webhook",
        Called::Traces => "traces",
    }
}

fn outcome(ended: Ended) -> &'static str {
    match ended {
        Ended::Delivered => "delivered",
        Ended::Failed => "failed",
        Ended::Dropped => "dropped",
    }
}
