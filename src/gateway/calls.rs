//! The gateway's end of the link with the process that calls outside: hands over what is to be posted, and counts how each
//! call has ended.

use std::os::fd::{AsFd, OwnedFd};

use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Receiver;

use crate::metrics::Metrics;
use crate::outbound::link::{Called, Ended, Outcome, pack};
use crate::outbound::{Post, Queues};
use crate::supervisor::link::{self, LinkError, MAX_PACKET_BYTES};

/// Serves the link until it fails. A process that dies is none of that: the next one has the same link.
pub(super) async fn serve(socket: OwnedFd, queues: Queues, metrics: Metrics) {
    let outcome = match link::register(socket) {
        Ok(socket) => tokio::select! {
            outcome = write(&socket, queues) => outcome,
            outcome = read(&socket, &metrics) => outcome,
        },
        Err(error) => Err(LinkError::Io(error)),
    };
    if let Err(error) = outcome {
        tracing::error!(error = &error as &dyn std::error::Error, "nothing is called outside any more");
    }
}

/// A post that has no room in the socket waits here, and the others in their queues.
async fn write(socket: &AsyncFd<OwnedFd>, mut queues: Queues) -> Result<(), LinkError> {
    loop {
        let packet = tokio::select! {
            post = next(&mut queues.webhook) => pack(&post),
            post = next(&mut queues.traces) => pack(&post),
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
