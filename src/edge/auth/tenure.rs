//! How long what was opened with a token may stay open: until the token expires, is revoked, or its key is taken away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{InForce, Principal};

/// A principal for as long as its token is good.
#[derive(Clone)]
pub struct Tenure {
    principal: Principal,
    in_force: watch::Receiver<Arc<InForce>>,
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Tenure {
    pub(super) fn new(principal: Principal, in_force: watch::Receiver<Arc<InForce>>) -> Self {
        Self { principal, in_force }
    }

    /// Whether the token is good no longer.
    pub fn has_ended(&self) -> bool {
        self.principal.remaining().is_zero() || !self.in_force.borrow().admits(&self.principal)
    }

    /// Returns when the token is good no longer. The clock is asked again and again, since it may be set.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn ended(&self) {
        const LOOK_AGAIN: Duration = Duration::from_secs(600);
        let mut in_force = self.in_force.clone();
        while !self.has_ended() {
            let left = self.principal.remaining().min(LOOK_AGAIN);
            tokio::select! {
                () = tokio::time::sleep_until(Instant::now() + left) => {}
                changed = in_force.changed() => if changed.is_err() {
                    // Nobody checks tokens any more, so none is good.
                    return;
                },
            }
        }
    }
}
