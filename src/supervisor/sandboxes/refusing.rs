//! Calls that Linux asks about: told to the gateway, counted, and refused, in this order, so that whoever waits for the end
//! of an execution knows of all that was refused in it.

use std::task::Poll;

use tokio::time::Instant;

use super::{SandboxId, Sandboxes};
use crate::supervisor::link::{Refused, ToGateway};
use crate::supervisor::notify::{After, Round, Watched, summary};

/// What a gateway is told that was not there when it happened: at most so many kinds.
const MAX_UNTOLD: usize = 8;

/// What happens in sandboxes.
pub(in crate::supervisor) enum Happening {
    /// Every process of one is gone.
    Exit(SandboxId),
    /// Linux asks about calls of one.
    Calls(Watched),
    /// One that waits for a session has booted.
    Booted(SandboxId),
}

impl Sandboxes {
    /// Waits for what happens next in some sandbox. Cancel-safe; never ends while there is none.
    pub(in crate::supervisor) async fn next(&mut self) -> Happening {
        std::future::poll_fn(|context| {
            if let Poll::Ready(id) = self.poll_exit(context) {
                return Poll::Ready(Happening::Exit(id));
            }
            if let Poll::Ready(id) = self.spares.poll_booted(context) {
                return Poll::Ready(Happening::Booted(id));
            }
            self.listeners.poll_next(context).map(Happening::Calls)
        })
        .await
    }

    /// Looks at the calls that wait, and says what is to be told of them before they are refused.
    pub(in crate::supervisor) fn look_at_calls(&mut self, watched: &Watched) -> (Round, Vec<ToGateway>) {
        let round = watched.look();
        let told = summary(&round.calls);
        let Some(live) = self.live.get_mut(&watched.id) else { return (round, Vec::new()) };
        if !live.adopted {
            live.untold.extend(told);
            live.untold.truncate(MAX_UNTOLD);
            return (round, Vec::new());
        }
        let told = told.into_iter().map(|refused| ToGateway::Refused { sandbox: watched.id, refused });
        (round, told.collect())
    }

    /// Refuses them, and kills a sandbox that had too many.
    pub(in crate::supervisor) fn refuse_calls(&mut self, watched: Watched, round: &Round) {
        let id = watched.id;
        let Some(live) = self.live.get_mut(&id) else { return };
        let told = round.calls.iter().filter(|call| call.is_told).count();
        let too_many = live.allowance.spend(&round.calls, Instant::now());
        // Before the callers go on, who might tell an end. An eventfd that is full is one that nobody reads.
        let _ = rustix::io::write(&live.violations, &(told as u64).to_ne_bytes());
        if too_many || round.after == After::Broken {
            tracing::warn!(sandbox = id.0, too_many, "a sandbox is killed for its refused calls");
            live.too_many_violations |= too_many;
            live.sandbox.kill();
        }
        watched.refuse(&round.calls);
        match round.after {
            After::Listen => self.listeners.listen(watched),
            After::LookAgain => self.listeners.look_again(watched),
            After::Gone | After::Broken => {}
        }
    }

    /// What happened while there was no gateway.
    pub(super) fn take_untold(&mut self, id: SandboxId) -> Vec<Refused> {
        self.live.get_mut(&id).map(|live| std::mem::take(&mut live.untold)).unwrap_or_default()
    }
}
