//! How many refusals of one address get a record of their own in the audit log: so nobody fills the disk by being
//! refused. What is beyond that is counted, and told with the next one that gets a record.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rate::{Rate, Terms};
use super::{MAX_PEERS, OTHER_PEERS, count, network};
use crate::config::RateLimit;

/// Records of one address in a minute, and at once; as many as failed logins, where those may be more.
const PER_MINUTE: u32 = 60;

/// See the module.
#[derive(Debug)]
pub(in crate::edge) struct Records {
    rate: Rate<IpAddr>,
    untold: AtomicU64,
}

impl Records {
    /// None recorded yet.
    pub(in crate::edge) fn new(rates: &RateLimit) -> Self {
        let most = count(rates.failed_logins_per_minute.max(PER_MINUTE));
        Self { rate: Rate::new(Terms::new("audit", most, most)), untold: AtomicU64::new(0) }
    }

    /// Whether this refusal gets a record; with the number of those before it that got none.
    pub(in crate::edge) fn grant(&self, client: IpAddr) -> Option<u64> {
        let peer = if self.rate.keys() < MAX_PEERS { network(client) } else { OTHER_PEERS };
        if self.rate.charge(&peer).is_granted() {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Drops the addresses that are as good as new.
    pub(in crate::edge) fn sweep(&self) {
        self.rate.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_address_beyond_their_rate_are_counted_and_told_with_the_next_record() {
        let records = Records::new(&RateLimit::default());
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!((0..PER_MINUTE).all(|_| records.grant(one) == Some(0)));
        assert_eq!([records.grant(one), records.grant(one)], [None, None]);
        assert_eq!([records.grant(other), records.grant(other)], [Some(2), Some(0)]);
    }
}
