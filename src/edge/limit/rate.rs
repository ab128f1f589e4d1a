//! A rate with a burst, kept for each key, and what an answer tells of it: `RateLimit` and `RateLimit-Policy`, as
//! draft-ietf-httpapi-ratelimit-headers has them since its revision 9.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, HeaderName, HeaderValue};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What a rate allows, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    name: &'static str,
    per_minute: NonZeroU32,
    burst: NonZeroU32,
    policy: HeaderValue,
}

impl Terms {
    /// So many in a minute, of which so many may come at once; never more than a minute's at once.
    pub(super) fn new(name: &'static str, per_minute: NonZeroU32, burst: NonZeroU32) -> Self {
        let burst = burst.min(per_minute);
        let window_s = (u64::from(burst.get()) * 60).div_ceil(u64::from(per_minute.get()));
        let policy = HeaderValue::from_str(&format!("\"{name}\";q={burst};w={window_s}"))
            .expect("a name and two numbers are a header value");
        Self { name, per_minute, burst, policy }
    }

    pub(super) fn per_minute(&self) -> u32 {
        self.per_minute.get()
    }

    pub(super) fn burst(&self) -> u32 {
        self.burst.get()
    }

    pub(super) fn quota(&self) -> Quota {
        Quota::per_minute(self.per_minute).allow_burst(self.burst)
    }

    /// Whole seconds in which at least one comes back.
    fn interval_s(&self) -> u64 {
        60_u64.div_ceil(u64::from(self.per_minute.get()))
    }
}

/// Whether a request was within its rate, and what is left of that.
#[derive(Debug, Clone)]
pub(in crate::edge) struct Standing {
    name: &'static str,
    policy: HeaderValue,
    granted: bool,
    remaining: u32,
    wait_s: u64,
}

impl Standing {
    pub(super) fn is_granted(&self) -> bool {
        self.granted
    }

    /// How many more may come at once.
    pub(in crate::edge) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Whole seconds, at least 1, after which there is at least one more.
    pub(super) fn wait_s(&self) -> u64 {
        self.wait_s
    }

    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let limit = format!("\"{}\";r={};t={}", self.name, self.remaining, self.wait_s);
        if let Ok(limit) = HeaderValue::try_from(limit) {
            headers.insert(RATE_LIMIT, limit);
        }
        headers.insert(RATE_LIMIT_POLICY, self.policy.clone());
    }
}

/// Whole seconds for a wait, at least 1.
pub(super) fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// One rate for each key.
pub(super) struct Rate<K: Hash + Eq + Clone, C: Clock = MonotonicClock> {
    terms: Terms,
    limiter: RateLimiter<K, DashMapStateStore<K>, C, StateInformationMiddleware>,
}

impl<K: Hash + Eq + Clone, C: Clock> fmt::Debug for Rate<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rate").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> Rate<K> {
    pub(super) fn new(terms: Terms) -> Self {
        Self::with_clock(terms, MonotonicClock)
    }
}

impl<K: Hash + Eq + Clone, C: Clock> Rate<K, C> {
    pub(super) fn with_clock(terms: Terms, clock: C) -> Self {
        let limiter = RateLimiter::dashmap_with_clock(terms.quota(), clock).with_middleware();
        Self { terms, limiter }
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Takes one out, if one is left. One step: of those who come together only as many get one as there are.
    pub(super) fn charge(&self, key: &K) -> Standing {
        let (granted, remaining, wait_s) = match self.limiter.check_key(key) {
            Ok(left) => (true, left.remaining_burst_capacity(), self.terms.interval_s()),
            Err(until) => (false, 0, seconds(until.wait_time_from(self.limiter.clock().now()))),
        };
        Standing { name: self.terms.name, policy: self.terms.policy.clone(), granted, remaining, wait_s }
    }

    /// Keys that are kept.
    pub(super) fn keys(&self) -> usize {
        self.limiter.len()
    }

    /// Drops the keys that have had their whole burst again for an interval.
    pub(super) fn sweep(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}
