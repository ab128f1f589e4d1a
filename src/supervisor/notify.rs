//! Refused system calls: which sandbox has some, what is told of them, and when there were too many. Refuses nothing
//! itself, and kills nothing.

use std::io;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::budget::Budget;
use super::link::{Refused, SandboxId, register};
use crate::sandbox::notify::{Call, Listener, Next};

/// Calls of one sandbox that are answered before something else gets its turn.
const TURN: usize = 64;
/// Different calls that are told of one turn; the rest are told as the last of them.
const MAX_TOLD: usize = 8;
/// Calls that are not told, of programs that are missing or that libraries try, weigh so much less.
const UNTOLD_SHARE: u32 = 16;

/// A sandbox about whose calls Linux asks.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) id: SandboxId,
    listener: AsyncFd<Listener>,
}

/// Every sandbox about whose calls Linux may ask.
#[derive(Debug, Default)]
pub(super) struct Listeners(FuturesUnordered<BoxFuture<'static, Watched>>);

impl Listeners {
    /// Begins to listen for a sandbox.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub(super) fn add(&mut self, id: SandboxId, listener: Listener) -> io::Result<()> {
        self.listen(Watched { id, listener: register(listener, Interest::READABLE)? });
        Ok(())
    }

    /// Goes on to listen.
    pub(super) fn listen(&mut self, watched: Watched) {
        self.0.push(Box::pin(async move {
            if let Ok(mut ready) = watched.listener.readable().await {
                // Whatever comes after this is told anew, and whatever came before is found.
                ready.clear_ready();
            }
            watched
        }));
    }

    /// A sandbox of which some calls were not looked at yet is due at once.
    pub(super) fn look_again(&mut self, watched: Watched) {
        self.0.push(Box::pin(std::future::ready(watched)));
    }

    /// The next sandbox to look at.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Watched> {
        match self.0.poll_next_unpin(context) {
            Poll::Ready(Some(watched)) => Poll::Ready(watched),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// What one look at a sandbox found.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) calls: Vec<Call>,
    pub(super) after: After,
}

/// What is to become of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing waits any more.
    Listen,
    /// There is more.
    LookAgain,
    /// Nobody is left who could call.
    Gone,
    /// It cannot be asked: whoever calls would wait for ever.
    Broken,
}

impl Watched {
    /// The calls that wait, as many as one turn takes.
    pub(super) fn look(&self) -> Round {
        let mut calls = Vec::new();
        let after = loop {
            if calls.len() == TURN {
                break After::LookAgain;
            }
            match self.listener.get_ref().next() {
                Ok(Next::Call(call)) => calls.push(call),
                Ok(Next::Nothing) => break After::Listen,
                Ok(Next::Gone) => break After::Gone,
                Err(_) => break After::Broken,
            }
        };
        Round { calls, after }
    }

    /// Refuses them.
    pub(super) fn refuse(&self, calls: &[Call]) {
        for call in calls {
            if let Err(error) = self.listener.get_ref().refuse(call) {
                tracing::warn!(%error, sandbox = self.id.0, "a call cannot be refused; it waits");
            }
        }
    }
}

/// What is told of calls: each kind once, in the order in which they came.
pub(super) fn summary(calls: &[Call]) -> Vec<Refused> {
    let mut told: Vec<Refused> = Vec::new();
    for call in calls.iter().filter(|call| call.is_told) {
        let same = told.iter().position(|it| it.rule == call.rule && it.detail == call.detail);
        match same.or((told.len() == MAX_TOLD).then_some(MAX_TOLD - 1)) {
            Some(at) => told[at].times += 1,
            None => told.push(Refused { rule: call.rule.to_owned(), detail: call.detail.clone(), times: 1 }),
        }
    }
    told
}

/// What a sandbox may be refused before it is killed.
#[derive(Debug)]
pub(super) struct Allowance {
    since: Instant,
    told: Budget,
    all: Budget,
}

impl Allowance {
    /// So many calls a minute that are told.
    pub(super) fn new(per_minute: u32, now: Instant) -> Self {
        let all = per_minute.saturating_mul(UNTOLD_SHARE);
        Self { since: now, told: Budget::new(per_minute), all: Budget::new(all) }
    }

    /// Counts calls; says whether there were too many.
    pub(super) fn spend(&mut self, calls: &[Call], now: Instant) -> bool {
        let told = calls.iter().filter(|call| call.is_told).count();
        let now = now.duration_since(self.since);
        let fits =
            [(&mut self.told, told), (&mut self.all, calls.len())].map(|(it, count)| it.spend(count as u64, now));
        fits.contains(&false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn calls(count: usize, is_told: bool) -> Vec<Call> {
        let mut calls: Vec<_> = (0..count).map(|_| Call::example("exec", String::new())).collect();
        calls.iter_mut().for_each(|call| call.is_told = is_told);
        calls
    }

    #[test]
    fn calls_beyond_the_budget_of_a_minute_are_too_many() {
        let now = Instant::now();
        let mut allowance = Allowance::new(3, now);
        assert!(!allowance.spend(&calls(3, true), now));
        assert!(allowance.spend(&calls(1, true), now + Duration::from_secs(59)));
        assert!(!Allowance::new(3, now).spend(&calls(3, true), now), "each has its own");
        let later = now + Duration::from_secs(121);
        assert!(!allowance.spend(&calls(3, true), later), "a new minute");
        assert!(!allowance.spend(&calls(45, false), later), "those that are not told weigh less");
        assert!(allowance.spend(&calls(1, false), later));
    }

    #[test]
    fn calls_of_one_kind_are_told_once_and_none_is_left_out() {
        let call = |detail: String| Call::example("exec", detail);
        let calls: Vec<_> = (0..20).map(|n| call(format!("execve /{}", n % 10))).collect();
        let told = summary(&calls);
        assert_eq!(told.len(), MAX_TOLD);
        assert_eq!(told.iter().map(|refused| refused.times).sum::<u32>(), 20);
        assert_eq!((told[0].detail.as_str(), told[0].times), ("execve /0", 2));
        assert_eq!((told[7].detail.as_str(), told[7].times), ("execve /7", 6));
    }
}
