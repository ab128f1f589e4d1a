//! Waits that may have no end.

use std::os::fd::OwnedFd;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

/// Waits for the end of the pipe, or for ever if there is none. Cancel-safe.
pub(super) async fn end_of(leash: Option<OwnedFd>) {
    let Some(leash) = leash else { return std::future::pending().await };
    let Ok(mut leash) = pipe::Receiver::from_owned_fd(leash) else { return };
    // What somebody may write to it says nothing.
    while leash.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
}

/// Waits until then; for ever if that is never. Cancel-safe.
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
