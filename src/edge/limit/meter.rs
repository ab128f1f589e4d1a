//! The messages of one socket: a rate, and a second one of the same size for what is beyond it. Who uses up both does not
//! listen to refusals.

use std::fmt;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::rate::{Terms, seconds};

type Bucket<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) enum Verdict {
    /// It is carried out.
    Granted,
    /// It is not; the next one may be after so many seconds.
    Refused {
        /// At least 1.
        wait_s: u64,
    },
    /// The socket is closed.
    Cut,
}

/// Counts the messages of one socket.
pub(in crate::edge) struct Meter<C: Clock = MonotonicClock> {
    buckets: Option<Box<(Bucket<C>, Bucket<C>)>>,
}

impl<C: Clock> fmt::Debug for Meter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

impl Meter {
    /// The terms of requests hold for messages too; without any everything is granted.
    pub(super) fn new(terms: Option<&Terms>) -> Self {
        Self { buckets: terms.map(|terms| buckets(terms.quota(), MonotonicClock)) }
    }
}

impl<C: Clock + Clone> Meter<C> {
    #[cfg(test)]
    pub(super) fn with_clock(terms: &Terms, clock: C) -> Self {
        Self { buckets: Some(buckets(terms.quota(), clock)) }
    }

    /// Charges one message.
    pub(in crate::edge) fn charge(&self) -> Verdict {
        let Some((rate, beyond)) = self.buckets.as_deref() else { return Verdict::Granted };
        match rate.check() {
            Ok(()) => Verdict::Granted,
            Err(_) if beyond.check().is_err() => Verdict::Cut,
            Err(until) => Verdict::Refused { wait_s: seconds(until.wait_time_from(rate.clock().now())) },
        }
    }
}

fn buckets<C: Clock + Clone>(quota: Quota, clock: C) -> Box<(Bucket<C>, Bucket<C>)> {
    Box::new((RateLimiter::direct_with_clock(quota, clock.clone()), RateLimiter::direct_with_clock(quota, clock)))
}
