//! Signatures under the gateway's audit log, at a bounded rate: each costs a wait for the disk.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::link::ToGateway;
use crate::audit::{Head, Seal, SealError, Sealer};

/// A gateway asks once a second, and once at its end.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// How many questions may come early: the last one of a gateway, and the first one of the next.
const EARLY: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Sealing {
    sealer: Sealer,
    /// When the next question may come, if none is early.
    next: Instant,
    failing: bool,
    had_gateway: bool,
}

impl Sealing {
    /// Takes the key of a data directory, or makes one.
    pub(super) fn new(data_dir: &Path) -> Result<Self, SealError> {
        let sealer = Sealer::open(data_dir)?;
        Ok(Self { sealer, next: Instant::now(), failing: false, had_gateway: false })
    }

    /// The last checkpoint.
    pub(super) fn last(&self) -> Option<Seal> {
        self.sealer.last().cloned()
    }

    /// True once.
    pub(super) fn is_first_gateway(&mut self) -> bool {
        !std::mem::replace(&mut self.had_gateway, true)
    }

    /// Signs, unless there is nothing new, or it is asked too often. That it cannot is told once.
    pub(super) fn seal(&mut self, head: Head) -> Option<ToGateway> {
        let now = Instant::now();
        if now + LEAST_PAUSE * EARLY < self.next {
            return None;
        }
        self.next = self.next.max(now) + LEAST_PAUSE;
        let sealed = self.sealer.seal(head);
        let failed = sealed.is_err();
        match (&sealed, self.failing) {
            (Err(error), false) => {
                tracing::error!(error = error as &dyn std::error::Error, "the audit log cannot be signed");
            }
            (Ok(_), true) => tracing::info!("the audit log can be signed again"),
            _ => {}
        }
        self.failing = failed;
        sealed.ok().flatten().map(ToGateway::Sealed)
    }
}
