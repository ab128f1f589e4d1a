//! How many violations there may be within a minute: of a sandbox for the supervisor, and of a session for the gateway,
//! which counts those of the policy, too. Pure: no clock.

use std::collections::VecDeque;
use std::time::Duration;

/// For how many whole seconds a violation counts after its own, so that each counts for a minute at least and 61 s at
/// most.
const SECONDS: u64 = 60;

/// The violations of the last minute. Holds at most a number for each of its seconds.
#[derive(Debug)]
pub struct Budget {
    per_minute: u64,
    /// Seconds, and how many there were in each.
    spent: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Budget {
    /// So many are allowed.
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.into(), spent: VecDeque::new(), sum: 0 }
    }

    /// Counts violations. `now` is the time since some instant that stays the same, and does not go back. Says whether
    /// those of the last minute, these among them, are no more than are allowed.
    pub fn spend(&mut self, times: u64, now: Duration) -> bool {
        let now = now.as_secs();
        while let Some((_, old)) = self.spent.pop_front_if(|(second, _)| second.saturating_add(SECONDS) < now) {
            self.sum = self.sum.saturating_sub(old);
        }
        match self.spent.back_mut() {
            Some((second, count)) if *second == now => *count = count.saturating_add(times),
            _ => self.spent.push_back((now, times)),
        }
        self.sum = self.sum.saturating_add(times);
        self.sum <= self.per_minute
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_budget_is_full_again_after_a_minute() {
        let at = Duration::from_millis;
        let mut budget = Budget::new(3);
        assert!(budget.spend(2, at(500)) && budget.spend(1, at(59_000)), "as many as are allowed");
        assert!(!budget.spend(1, at(60_400)), "one more within a minute");
        assert!(budget.spend(1, at(61_600)), "the first two are older than that");
        assert!(!budget.spend(1, at(61_600)));
        assert!(budget.spend(3, at(500_000)));
        assert!(!budget.spend(u64::MAX, at(500_000)) && !budget.spend(u64::MAX, at(500_001)));
    }

    proptest! {
        /// More than are allowed within any minute are found, and only if there are more within 61 s.
        #[test]
        fn exactly_too_many_in_a_minute_are_found(
            per_minute in 1_u32..20, steps in prop::collection::vec((0_u64..20_000, 1_u64..6), 1..80),
        ) {
            let mut budget = Budget::new(per_minute);
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for (pause, times) in steps {
                now += pause;
                all.push((now, times));
                let within = |span: u64| -> u64 {
                    all.iter().filter(|(at, _)| at + span >= now).map(|(_, times)| times).sum()
                };
                let fits = budget.spend(times, Duration::from_millis(now));
                prop_assert!(within(60_000) <= per_minute.into() || !fits, "too many and not found");
                prop_assert!(within(61_000) > per_minute.into() || fits, "found, and not too many");
                prop_assert!(budget.spent.len() as u64 <= SECONDS + 1);
            }
        }
    }
}
