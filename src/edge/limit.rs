//! Limits on clients: how often a subject may ask, how often a peer may fail to log in, how much a socket may say, and
//! how many sockets a subject may hold. Knows keys and counts; refuses to know routes and sessions.
//!
//! A rate is a bucket of requests (GCRA): it holds a burst, each request takes one out, and one comes back each time the
//! interval of the rate has passed. Nothing is reset at the turn of a minute, and what is refused costs nothing. All of it
//! is in memory and begins anew with the gateway.

mod lowered;
mod meter;
mod places;
mod rate;
mod records;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use repltool_protocol::rest::ProblemCode;

pub(super) use self::meter::{Meter, Verdict};
pub(super) use self::places::Place;
pub(super) use self::rate::Standing;
pub(super) use self::records::{Records, Whose};

use self::lowered::Lowered;
use self::places::Places;
use self::rate::{Rate, Terms};
use super::audited::Noted;
use super::auth::{Principal, ReplLimits};
use super::counted::NO_ROUTE;
use super::live::Swap;
use super::problem::Fault;
use crate::config::RateLimit;

/// How often keys that nothing is left of are dropped.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Peers whose failed logins are counted one by one, 4 MiB of them. Beyond it all others share one count, so that many
/// addresses neither fill the memory nor get more attempts than those.
const MAX_PEERS: usize = 65_536;
/// What those share.
const OTHER_PEERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// One request on its way: where it comes from, where it goes, and what its answer has to tell of a rate.
#[derive(Debug)]
pub(super) struct Visit {
    client: IpAddr,
    standing: Option<Standing>,
    /// What the audit log is told of it.
    pub(super) noted: Noted,
    route: Option<&'static str>,
}

impl Visit {
    /// A request of a client that was charged to nobody yet.
    pub(super) fn new(client: IpAddr) -> Self {
        Self { client, standing: None, route: None, noted: Noted::default() }
    }

    /// What is asked is found: the template of its path.
    pub(super) fn matched(&mut self, route: &'static str) {
        self.route = Some(route);
    }

    /// The template of its path, or a word for what has none.
    pub(super) fn route(&self) -> &'static str {
        self.route.unwrap_or(NO_ROUTE)
    }

    /// The template of its path, if it has one.
    pub(super) fn template(&self) -> Option<&'static str> {
        self.route
    }

    /// Where it comes from.
    pub(super) fn client(&self) -> IpAddr {
        self.client
    }

    /// What it was charged to, once it was.
    pub(super) fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    /// Writes what the answer has to tell.
    pub(super) fn finish(&self, headers: &mut HeaderMap) {
        if let Some(standing) = &self.standing {
            standing.write(headers);
        }
    }
}

/// Every limit on clients.
#[derive(Debug)]
pub(super) struct Limits {
    rates: Swap<Option<Rates>>,
    lowered: Lowered,
    places: Places,
}

#[derive(Debug)]
struct Rates {
    requests: Rate<String>,
    logins: Rate<IpAddr>,
}

impl Rates {
    fn new(rates: &RateLimit) -> Option<Self> {
        let requests = Terms::new("default", count(rates.requests_per_minute), count(rates.burst));
        let failures = count(rates.failed_logins_per_minute);
        let logins = Terms::new("failed-logins", failures, failures);
        rates.enabled.then(|| Self { requests: Rate::new(requests), logins: Rate::new(logins) })
    }

    fn terms(&self) -> (&Terms, &Terms) {
        (self.requests.terms(), self.logins.terms())
    }
}

impl Limits {
    /// Rates, unless they are switched off, and so many sockets for each subject.
    pub(super) fn new(rates: &RateLimit, max_sockets: usize) -> Self {
        Self { rates: Swap::new(Rates::new(rates)), lowered: Lowered::default(), places: Places::new(max_sockets) }
    }

    /// Other limits from now on. Rates that are as they were keep their counts, and sockets keep their places.
    pub(super) fn set(&self, rates: &RateLimit, max_sockets: usize) {
        let next = Rates::new(rates);
        if next.as_ref().map(Rates::terms) != self.rates.get().as_ref().as_ref().map(Rates::terms) {
            self.rates.set(next);
        }
        self.places.set_max(max_sockets);
    }

    /// Charges a request to its subject.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn charge(&self, visit: &mut Visit, principal: &Principal) -> Result<(), Fault> {
        // What is beyond the holder's own rate does not cost the subject's.
        let rates = self.rates.get();
        let own = own_terms(&rates, principal).map(|terms| self.lowered.charge(terms, &principal.subject));
        let everybodys = || rates.as_ref().as_ref().map(|rates| rates.requests.charge(&principal.subject));
        let standing = match own {
            Some(own) if own.is_granted() => everybodys().filter(|it| !it.is_granted()).or(Some(own)),
            Some(own) => Some(own),
            None => everybodys(),
        };
        let Some(standing) = standing else { return Ok(()) };
        let standing = visit.standing.insert(standing);
        if standing.is_granted() {
            return Ok(());
        }
        tracing::debug!(subject = principal.subject, "a subject asks too often");
        Err(refusal("too many requests", standing.wait_s()))
    }

    /// Charges a request that fails authentication to its peer.
    ///
    /// # Errors
    /// `rate_limited`, in place of what else the client would be told.
    pub(super) fn charge_failure(&self, visit: &mut Visit) -> Result<(), Fault> {
        let rates = self.rates.get();
        let Some(rates) = rates.as_ref() else { return Ok(()) };
        let peer = if rates.logins.keys() < MAX_PEERS { network(visit.client) } else { OTHER_PEERS };
        let standing = visit.standing.insert(rates.logins.charge(&peer));
        if standing.is_granted() { Ok(()) } else { Err(refusal("too many failed logins", standing.wait_s())) }
    }

    /// Counts the messages of a new socket.
    pub(super) fn meter(&self, principal: &Principal) -> Meter {
        let rates = self.rates.get();
        Meter::new(own_terms(&rates, principal).as_ref().or(everybodys(&rates)))
    }

    /// A place for a socket, or for a stream that follows a session. It goes back when it is dropped.
    ///
    /// # Errors
    /// `rate_limited` if the subject has as many as it may.
    pub(super) fn place(&self, principal: &Principal) -> Result<Place, Fault> {
        let (held, max) = self.places(principal);
        self.places.take(&principal.subject, max).ok_or_else(|| {
            refusal(&format!("you have {held} sockets and streams open, and may have {max}; close one"), 1)
        })
    }

    /// Places that a subject holds, and how many this holder of a token may.
    pub(super) fn places(&self, principal: &Principal) -> (usize, usize) {
        let max = ReplLimits::at_most(self.places.max(), principal.limits.max_sockets);
        (self.places.held(&principal.subject), max)
    }

    /// Requests in a minute and at once, where they are limited.
    pub(super) fn requests(&self, principal: &Principal) -> Option<(u32, u32)> {
        let rates = self.rates.get();
        let own = own_terms(&rates, principal);
        own.as_ref().or(everybodys(&rates)).map(|terms| (terms.per_minute(), terms.burst()))
    }

    /// Drops the keys that are as good as new, again and again; does not return.
    pub(super) async fn sweep_every(&self, period: Duration) {
        let mut due = tokio::time::interval(period);
        loop {
            due.tick().await;
            if let Some(rates) = self.rates.get().as_ref() {
                rates.requests.sweep();
                rates.logins.sweep();
            }
            self.lowered.sweep();
            self.places.shrink();
        }
    }
}

fn everybodys(rates: &Option<Rates>) -> Option<&Terms> {
    rates.as_ref().map(|rates| rates.requests.terms())
}

/// What the token of this one lowers the rate of requests to.
fn own_terms(rates: &Option<Rates>, principal: &Principal) -> Option<Terms> {
    lowered::terms(everybodys(rates), &principal.limits)
}

/// `rate_limited`, with when to try again.
pub(super) fn refusal(detail: &str, wait_s: u64) -> Fault {
    let detail = format!("{detail}; try again in {wait_s} s");
    Fault::new(ProblemCode::RateLimited, detail).with_header(RETRY_AFTER, wait_s.to_string())
}

/// Whose failures count together: in IPv6 whoever has an address has a /64 of them.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// The configuration admits nothing below 1.
fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests;
