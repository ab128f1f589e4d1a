//! Calls that Linux asks about: told to the gateway, counted, and refused, in this order, so that whoever waits for the end
//! of an execution knows of all that was refused in it.

use std::os::fd::OwnedFd;
use std::task::Poll;

use tokio::time::Instant;

use super::{Live, SandboxId, Sandboxes};
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

    /// What was refused before a sandbox was anybody's is told to nobody, so a gateway is not to wait for it either.
    pub(super) fn forget_refused(live: &mut Live) {
        live.untold.clear();
        uncount(&live.violations);
    }

    /// What happened while there was no gateway.
    pub(super) fn take_untold(&mut self, id: SandboxId) -> Vec<Refused> {
        self.live.get_mut(&id).map(|live| std::mem::take(&mut live.untold)).unwrap_or_default()
    }
}

/// Takes back what an eventfd(2) has counted.
fn uncount(count: &OwnedFd) {
    // Where nothing was counted there is nothing to read.
    let _ = rustix::io::read(count, &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{Errno, read, write};

    use super::*;

    #[test]
    fn who_gets_a_sandbox_hears_of_no_count_from_before() {
        let count = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        uncount(&count);
        write(&count, &3_u64.to_ne_bytes()).expect("counted");
        uncount(&count);
        assert_eq!(read(&count, &mut [0; 8]), Err(Errno::AGAIN));
        write(&count, &2_u64.to_ne_bytes()).expect("counted");
        let mut counted = [0; 8];
        read(&count, &mut counted).expect("what came after it is there");
        assert_eq!(u64::from_ne_bytes(counted), 2);
    }
}
