//! How many refusals get a record of their own in the audit log: so nobody fills the disk by being refused. What is beyond
//! that is counted, and told with the next one that gets a record. Failed logins, refusals of somebody who is named, and
//! all others are counted apart, so that none hides another.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rate::{Rate, Terms};
use super::{MAX_PEERS, OTHER_PEERS, count, network};
use crate::config::RateLimit;

/// Records in a minute, and at once, of each that is counted; as many as failed logins, where those may be more.
const PER_MINUTE: u32 = 60;

/// Whose refusal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) enum Whose<'a> {
    /// Of an address that failed to log in.
    Login(IpAddr),
    /// Of a subject.
    Subject(&'a str),
    /// Of an address about which nothing else is known.
    Address(IpAddr),
}

/// See the module.
#[derive(Debug)]
pub(in crate::edge) struct Records {
    logins: Rate<IpAddr>,
    subjects: Rate<String>,
    addresses: Rate<IpAddr>,
    untold: AtomicU64,
}

impl Records {
    /// None recorded yet.
    pub(in crate::edge) fn new(rates: &RateLimit) -> Self {
        let most = count(rates.failed_logins_per_minute.max(PER_MINUTE));
        let terms = Terms::new("audit", most, most);
        let (logins, addresses) = (Rate::new(terms.clone()), Rate::new(terms.clone()));
        Self { logins, subjects: Rate::new(terms), addresses, untold: AtomicU64::new(0) }
    }

    /// Whether this refusal gets a record; with the number of those before it that got none.
    pub(in crate::edge) fn grant(&self, whose: Whose<'_>) -> Option<u64> {
        let of_address = |rate: &Rate<IpAddr>, client| {
            let peer = if rate.keys() < MAX_PEERS { network(client) } else { OTHER_PEERS };
            rate.charge(&peer).is_granted()
        };
        let granted = match whose {
            Whose::Login(client) => of_address(&self.logins, client),
            Whose::Subject(subject) => self.subjects.charge(&subject.to_owned()).is_granted(),
            Whose::Address(client) => of_address(&self.addresses, client),
        };
        if granted {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Drops those that are as good as new.
    pub(in crate::edge) fn sweep(&self) {
        self.logins.sweep();
        self.subjects.sweep();
        self.addresses.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_beyond_their_rate_are_counted_and_hide_no_others() {
        let records = Records::new(&RateLimit::default());
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let flood = || records.grant(Whose::Address(one));
        assert!((0..PER_MINUTE).all(|_| flood() == Some(0)));
        assert_eq!([flood(), flood()], [None, None]);
        assert_eq!(records.grant(Whose::Address(other)), Some(2));
        assert_eq!(records.grant(Whose::Login(one)), Some(0), "the same address");
        assert_eq!([flood(), records.grant(Whose::Subject("ada"))], [None, Some(1)]);
    }
}
