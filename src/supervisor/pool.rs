//! Decides how many interpreters wait for sessions that are to come, of which kind the next one is made, and which are let
//! go. Makes and ends none itself.
//!
//! ```text
//!   a session asks ─▶ the oldest that waits, else its own cold start     demand of the last minute, within pool.min and
//!        │                                                               pool.max, is what is kept ready
//!        └─▶ demand ─▶ one at a time boots ─▶ waits ─▶ handed out, or let go: too old, too many, memory is short
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use repltool_protocol::rest::{Language, SandboxMode};
use tokio::time::Instant;

use super::link::SandboxId;
use crate::config;
use crate::metrics::standing::Pooled;

/// Sessions of this last time are the demand.
const DEMAND: Duration = Duration::from_secs(60);
/// How long no other is made of a kind that could not be.
const RETRY: Duration = Duration::from_secs(5);
/// How long after a session was created none is made: it would keep the next one waiting.
const PAUSE: Duration = Duration::from_millis(20);
/// The same while sessions execute something, which it would take a part of the processors from.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long sessions that are created all the time can put it off: each of them that finds none ready has a start of its
/// own, which takes more from the others than one that is made ahead.
const STARVED: Duration = Duration::from_secs(5);

/// What the interpreters on one shelf have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// The language.
    pub(super) language: Language,
    /// The level.
    pub(super) mode: SandboxMode,
}

/// Interpreters of one kind.
#[derive(Debug)]
struct Shelf {
    kind: Kind,
    /// Those that wait, and since when; the oldest first.
    ready: VecDeque<(SandboxId, Instant)>,
    /// When sessions asked, as far as that counts.
    asked: VecDeque<Instant>,
    /// Whether the least number is kept.
    is_kept: bool,
    retry_at: Option<Instant>,
    told: Pooled,
}

/// All that wait.
#[derive(Debug)]
pub(super) struct Pool {
    config: config::Pool,
    shelves: Vec<Shelf>,
    /// The one that boots, of which kind it is, and since when.
    boots: Option<(SandboxId, Kind, Instant)>,
    memory_is_short: bool,
    asked_at: Option<Instant>,
    /// Since when there are fewer than there should be.
    short_since: Option<Instant>,
}

impl Pool {
    /// An empty pool for these kinds.
    pub(super) fn new(config: config::Pool, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let shelf = |kind: Kind| Shelf {
            kind,
            ready: VecDeque::new(),
            asked: VecDeque::new(),
            is_kept: kind.mode == SandboxMode::Standard,
            retry_at: None,
            told: Pooled::default(),
        };
        Self {
            config,
            shelves: kinds.into_iter().map(shelf).collect(),
            boots: None,
            memory_is_short: false,
            asked_at: None,
            short_since: None,
        }
    }

    /// Whether Pythons are forked, where they can be.
    pub(super) fn has_zygotes(&self) -> bool {
        self.config.zygote && self.config.max > 0
    }

    /// When one is to be made, if any: not in the midst of sessions that are created, and while a session executes
    /// something, later.
    pub(super) fn due(&mut self, is_busy: bool, now: Instant) -> Option<Instant> {
        if self.wants(now).is_none() {
            if self.boots.is_none() {
                self.short_since = None;
            }
            return None;
        }
        let starved_at = *self.short_since.get_or_insert(now) + STARVED;
        let pause = if is_busy { PATIENCE } else { PAUSE };
        Some(self.asked_at.map_or(now, |asked| asked + pause).min(starved_at))
    }

    /// Takes one for a session. `is_fit`: one from here can serve it at all.
    pub(super) fn take(&mut self, kind: Kind, is_fit: bool, now: Instant) -> Option<SandboxId> {
        let max = self.config.max;
        self.asked_at = Some(now);
        let shelf = self.shelf(kind)?;
        shelf.is_kept = true;
        shelf.asked.push_back(now);
        if shelf.asked.len() > max {
            shelf.asked.pop_front();
        }
        let taken = if is_fit { shelf.ready.pop_front() } else { None };
        match taken {
            Some(_) => shelf.told.hits += 1,
            None => shelf.told.misses += 1,
        }
        taken.map(|(id, _)| id)
    }

    /// The kind of which one is to be made now, if any: the one that lacks most.
    pub(super) fn wants(&self, now: Instant) -> Option<Kind> {
        if self.boots.is_some() {
            return None;
        }
        let may = self.shelves.iter().filter(|shelf| shelf.retry_at.is_none_or(|at| at <= now));
        let lacks = may.map(|shelf| (self.goal(shelf, now).saturating_sub(shelf.ready.len()), shelf.kind));
        lacks.max_by_key(|(lacking, _)| *lacking).filter(|(lacking, _)| *lacking > 0).map(|(_, kind)| kind)
    }

    /// One was made, and boots.
    pub(super) fn begun(&mut self, id: SandboxId, kind: Kind, now: Instant) {
        self.boots = Some((id, kind, now));
    }

    /// None could be made.
    pub(super) fn failed(&mut self, kind: Kind, now: Instant) {
        self.put_off(kind, now + RETRY);
    }

    /// None is made before that time.
    pub(super) fn put_off(&mut self, kind: Kind, until: Instant) {
        if let Some(shelf) = self.shelf(kind) {
            shelf.retry_at = Some(until);
        }
    }

    /// The one that boots is ready. False if it is another one.
    pub(super) fn booted(&mut self, id: SandboxId, now: Instant) -> bool {
        let Some((_, kind, since)) = self.boots.take_if(|(boots, ..)| *boots == id) else { return false };
        if let Some(shelf) = self.shelf(kind) {
            shelf.ready.push_back((id, now));
            shelf.told.refills += 1;
            shelf.told.refill_us += u64::try_from(now.saturating_duration_since(since).as_micros()).unwrap_or(0);
        }
        true
    }

    /// One has ended, ready or not. Only one that was never ready puts others off.
    pub(super) fn lost(&mut self, id: SandboxId, now: Instant) {
        if let Some((_, kind, _)) = self.boots.take_if(|(boots, ..)| *boots == id) {
            self.failed(kind, now);
        }
        self.shelves.iter_mut().for_each(|shelf| shelf.ready.retain(|(ready, _)| *ready != id));
    }

    /// Takes one off that is to be ended to make room for a session, whatever it is.
    pub(super) fn sacrifice(&mut self) -> Option<SandboxId> {
        let fullest = self.shelves.iter_mut().max_by_key(|shelf| shelf.ready.len())?;
        fullest.ready.pop_front().map(|(id, _)| id)
    }

    /// Takes off those that are to be ended: too old, or more than there is demand for, or memory is short. And the one
    /// that takes too long to boot.
    pub(super) fn surplus(&mut self, now: Instant, boot_limit: Duration) -> Vec<SandboxId> {
        let mut surplus = Vec::new();
        for at in 0..self.shelves.len() {
            let goal = self.goal(&self.shelves[at], now);
            let shelf = &mut self.shelves[at];
            let age = Duration::from_secs(self.config.max_age_s);
            while shelf.ready.front().is_some_and(|(_, since)| *since + age <= now) || shelf.ready.len() > goal {
                surplus.extend(shelf.ready.pop_front().map(|(id, _)| id));
            }
        }
        if let Some((id, kind, _)) = self.boots.take_if(|(_, _, since)| *since + boot_limit <= now) {
            self.failed(kind, now);
            surplus.push(id);
        }
        surplus
    }

    /// Whether the machine has little memory left: none are kept then.
    pub(super) fn set_memory_is_short(&mut self, is_short: bool) {
        self.memory_is_short = is_short;
    }

    /// What is told of the shelves of a language.
    pub(super) fn told(&self, language: Language) -> Pooled {
        let shelves = self.shelves.iter().filter(|shelf| shelf.kind.language == language);
        shelves.fold(Pooled::default(), |sum, shelf| Pooled {
            ready: sum.ready + shelf.ready.len() as u64,
            hits: sum.hits + shelf.told.hits,
            misses: sum.misses + shelf.told.misses,
            refills: sum.refills + shelf.told.refills,
            refill_us: sum.refill_us + shelf.told.refill_us,
        })
    }

    fn goal(&self, shelf: &Shelf, now: Instant) -> usize {
        if self.memory_is_short {
            return 0;
        }
        let demand = shelf.asked.iter().filter(|at| **at + DEMAND > now).count();
        let least = if shelf.is_kept { self.config.min } else { 0 };
        demand.max(least).min(self.config.max)
    }

    fn shelf(&mut self, kind: Kind) -> Option<&mut Shelf> {
        self.shelves.iter_mut().find(|shelf| shelf.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: Kind = Kind { language: Language::Python, mode: SandboxMode::Standard };
    const BASH: Kind = Kind { language: Language::Bash, mode: SandboxMode::Strict };
    const LONG: Duration = Duration::from_secs(3600);

    fn pool(min: usize, max: usize) -> Pool {
        Pool::new(config::Pool { min, max, max_age_s: 100, zygote: false, preload: Vec::new() }, [PYTHON, BASH])
    }

    /// Makes all that is wanted.
    fn fill(pool: &mut Pool, first: u64, now: Instant) -> u64 {
        let mut id = first;
        while let Some(kind) = pool.wants(now) {
            pool.begun(SandboxId(id), kind, now);
            assert_eq!(pool.wants(now), None, "one at a time");
            assert!(pool.booted(SandboxId(id), now));
            id += 1;
        }
        id - first
    }

    #[test]
    fn standard_is_kept_from_the_start_and_others_once_they_were_asked_for() {
        let (mut pool, now) = (pool(2, 4), Instant::now());
        assert_eq!(fill(&mut pool, 1, now), 2);
        assert_eq!(pool.take(BASH, true, now), None);
        assert_eq!(fill(&mut pool, 10, now), 2);
        assert_eq!(pool.take(BASH, true, now), Some(SandboxId(10)));
        assert_eq!(pool.told(Language::Bash), Pooled { ready: 1, hits: 1, misses: 1, refills: 2, refill_us: 0 });
    }

    #[test]
    fn demand_makes_it_grow_and_time_makes_it_shrink_within_the_bounds() {
        let (mut pool, now) = (pool(1, 4), Instant::now());
        fill(&mut pool, 1, now);
        (0..10).for_each(|_| _ = pool.take(PYTHON, true, now));
        assert_eq!(fill(&mut pool, 10, now), 4);
        assert_eq!(pool.surplus(now, LONG), []);
        assert_eq!(pool.surplus(now + DEMAND, LONG), [10, 11, 12].map(SandboxId));
        assert_eq!(fill(&mut pool, 20, now + DEMAND), 0);
    }

    #[test]
    fn the_old_are_replaced_and_nothing_is_kept_while_memory_is_short() {
        let (mut pool, now) = (pool(1, 4), Instant::now());
        fill(&mut pool, 1, now);
        let later = now + Duration::from_secs(100);
        assert_eq!(pool.surplus(later, LONG), [SandboxId(1)]);
        assert_eq!(fill(&mut pool, 2, later), 1);
        pool.set_memory_is_short(true);
        assert_eq!(pool.surplus(later, LONG), [SandboxId(2)]);
        assert_eq!(pool.wants(later), None);
        pool.set_memory_is_short(false);
        assert_eq!(pool.wants(later), Some(PYTHON));
    }

    #[test]
    fn what_does_not_boot_is_given_up_and_not_tried_at_once_again() {
        let (mut pool, now) = (pool(1, 4), Instant::now());
        pool.begun(SandboxId(1), PYTHON, now);
        assert_eq!(pool.surplus(now + LONG, LONG), [SandboxId(1)]);
        assert_eq!((pool.wants(now + LONG), pool.wants(now + LONG + RETRY)), (None, Some(PYTHON)));
        pool.begun(SandboxId(2), PYTHON, now);
        pool.lost(SandboxId(2), now + LONG);
        assert!(!pool.booted(SandboxId(2), now + LONG), "it is gone");
        assert_eq!(pool.wants(now + LONG), None);
    }

    #[test]
    fn a_session_that_needs_its_own_counts_as_demand_and_leaves_the_others() {
        let (mut pool, now) = (pool(1, 4), Instant::now());
        fill(&mut pool, 1, now);
        assert_eq!(pool.take(PYTHON, false, now), None);
        assert_eq!((pool.take(PYTHON, true, now), pool.take(PYTHON, true, now)), (Some(SandboxId(1)), None));
        assert_eq!(pool.sacrifice(), None);
        fill(&mut pool, 2, now);
        assert_eq!(pool.sacrifice(), Some(SandboxId(2)));
    }

    #[test]
    fn it_waits_for_a_pause_but_not_for_ever() {
        let (mut pool, start) = (pool(1, 4), Instant::now());
        assert_eq!(pool.due(true, start), Some(start), "nobody has asked");
        fill(&mut pool, 1, start);
        assert_eq!(pool.due(true, start), None);
        pool.take(PYTHON, true, start);
        assert_eq!(pool.due(false, start), Some(start + PAUSE));
        assert_eq!(pool.due(true, start), Some(start + PATIENCE));
        let busy = (1..=6).map(|second| start + Duration::from_secs(second));
        let due: Vec<_> = busy
            .map(|now| {
                pool.take(PYTHON, true, now);
                pool.due(true, now).expect("it is short").saturating_duration_since(now)
            })
            .collect();
        assert_eq!(due, [2, 2, 2, 1, 0, 0].map(Duration::from_secs));
        let later = start + Duration::from_secs(6);
        pool.begun(SandboxId(9), PYTHON, later);
        assert_eq!(pool.due(true, later), None, "one boots");
        pool.booted(SandboxId(9), later);
        assert!(pool.due(true, later) < Some(later), "it is still short of some");
    }

    #[test]
    fn a_maximum_of_none_keeps_none() {
        let (mut pool, now) = (pool(1, 0), Instant::now());
        assert_eq!(pool.take(PYTHON, true, now), None);
        assert_eq!(pool.wants(now), None);
    }
}
