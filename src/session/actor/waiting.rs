//! What an actor waits for, where it may not be there: then it waits for ever.

use tokio::time::Instant;

use super::Boot;
use crate::runtime::{BootError, Kernel, KernelEvent};

pub(super) async fn next_event(kernel: &mut Option<Kernel>, read_output: bool) -> KernelEvent {
    match kernel {
        Some(kernel) => kernel.next(read_output).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn until_booted(boot: &mut Option<Boot>) -> Result<Box<Kernel>, BootError> {
    match boot {
        Some(future) => {
            let outcome = future.await;
            *boot = None;
            outcome
        }
        None => std::future::pending().await,
    }
}

pub(super) async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
