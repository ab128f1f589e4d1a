//! Rates of those whose token lowers them: one for each pair of terms, for as long as it is used. Who may sign tokens
//! decides how many there are.

use std::num::NonZeroU32;

use dashmap::DashMap;

use super::rate::{Rate, Standing, Terms};
use crate::edge::auth::ReplLimits;

/// So many in a minute, so many at once.
type Pair = (u32, u32);

#[derive(Debug, Default)]
pub(super) struct Lowered(DashMap<Pair, Rate<String>>);

/// The terms that a token lowers those of everybody to; none if it does not.
pub(super) fn terms(everybodys: Option<&Terms>, limits: &ReplLimits) -> Option<Terms> {
    let (per_minute, burst) = (limits.requests_per_minute, limits.burst);
    // Where nobody is limited, how many come at once says nothing without how many come at all.
    if (per_minute, burst) == (None, None) || (everybodys.is_none() && per_minute.is_none()) {
        return None;
    }
    let lower = |most: Option<u32>, lowered: Option<u64>| {
        let lowered = lowered.map_or(u32::MAX, |it| u32::try_from(it).unwrap_or(u32::MAX));
        NonZeroU32::new(lowered.min(most.unwrap_or(u32::MAX))).unwrap_or(NonZeroU32::MIN)
    };
    let per_minute = lower(everybodys.map(Terms::per_minute), per_minute);
    Some(Terms::new("lowered", per_minute, lower(everybodys.map(Terms::burst), burst)))
}

impl Lowered {
    /// Takes one out, if one is left.
    pub(super) fn charge(&self, terms: Terms, subject: &str) -> Standing {
        let pair = (terms.per_minute(), terms.burst());
        // The entry is locked meanwhile, so that it is not swept away in between.
        self.0.entry(pair).or_insert_with(|| Rate::new(terms)).charge(&subject.to_owned())
    }

    /// Drops the keys that are as good as new, and the rates that nobody uses.
    pub(super) fn sweep(&self) {
        self.0.retain(|_, rate| {
            rate.sweep();
            rate.keys() > 0
        });
        self.0.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn rates(&self) -> usize {
        self.0.len()
    }
}
