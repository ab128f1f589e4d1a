//! Laws of counting.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn caps(executions: u64) -> Caps {
    Caps { executions: Some(executions), ..Caps::default() }
}

fn used(ledger: &Ledger, subject: &str, now: Timestamp) -> (u64, u64, Duration) {
    let it = ledger.standing(subject, Caps::default(), now);
    (it.executions, it.session_creations, it.cpu)
}

#[test]
fn many_at_once_are_admitted_no_more_than_the_quota_allows() {
    let ledger = Ledger::new(Period::Day);
    let (now, admitted) = (at("2026-11-30T06:30:00Z"), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..500 {
                    let Ok(started) = ledger.take("ada", &caps(100), Wish::EXECUTION, now) else { continue };
                    if n % 3 == 0 {
                        ledger.give_back("ada", Wish::EXECUTION, started);
                    } else {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), 100);
    assert_eq!(used(&ledger, "ada", now).0, 100);
    assert!(ledger.take("eve", &caps(1), Wish::EXECUTION, now).is_ok(), "another subject has its own");
}

#[test]
fn what_is_used_up_begins_anew_with_the_next_period() {
    let ledger = Ledger::new(Period::Hour);
    let now = at("2026-11-30T06:59:59Z");
    let started = ledger.take("ada", &caps(1), Wish::EXECUTION, now).expect("the first");
    let exhausted = ledger.take("ada", &caps(1), Wish::EXECUTION, now).expect_err("used up");
    assert_eq!(
        exhausted.to_string(),
        "your quota of 1 executions an hour is used up; it begins anew at 2026-11-30T07:00:00Z"
    );
    let next = at("2026-11-30T07:00:00Z");
    ledger.take("ada", &caps(1), Wish::EXECUTION, next).expect("the first of the next hour");
    ledger.give_back("ada", Wish::EXECUTION, started);
    assert_eq!(used(&ledger, "ada", next).0, 1, "what was of the hour before is not given back to this one");
    assert_eq!(used(&ledger, "ada", now).0, 1, "a clock that is set back begins no hour a second time");
}

#[test]
fn each_quota_is_named_when_it_is_used_up() {
    let ledger = Ledger::new(Period::Month);
    let now = at("2026-11-30T06:30:00Z");
    let refused = |caps: Caps, wish| ledger.take("ada", &caps, wish, now).map_err(|it| it.quota);
    ledger.charge("ada", Duration::from_millis(1999), now);
    let cpu = |seconds| Caps { cpu_seconds: Some(seconds), ..Caps::default() };
    assert!(refused(cpu(2), Wish::EXECUTION).is_ok(), "what is left of a second is left");
    assert_eq!(refused(cpu(1), Wish::EXECUTION), Err(Quota::CpuSeconds));
    assert_eq!(refused(cpu(0), Wish::ONE_SHOT), Err(Quota::CpuSeconds));
    assert!(refused(cpu(0), Wish::SESSION).is_ok(), "a session uses none by itself");
    let none = Caps { session_creations: Some(1), ..Caps::default() };
    assert_eq!(refused(none, Wish::SESSION), Err(Quota::SessionCreations));
    assert_eq!(refused(none, Wish::ONE_SHOT), Err(Quota::SessionCreations));
    assert!(refused(none, Wish::EXECUTION).is_ok());
    let little = Caps { stored_mb: Some(0), ..Caps::default() };
    let exhausted = ledger.take("ada", &little, Wish::EXECUTION, now).expect_err("nothing may be stored");
    assert_eq!((exhausted.quota, exhausted.anew), (Quota::StoredMb, None));
    assert_eq!(used(&ledger, "ada", now).0, 2, "what is refused does not count");
}

#[test]
fn counts_come_back_from_the_store_and_who_has_none_is_forgotten() {
    let (ledger, now) = (Ledger::new(Period::Day), at("2026-11-30T06:30:00Z"));
    ledger.take("ada", &Caps::default(), Wish::ONE_SHOT, now).expect("no quota");
    ledger.charge("ada", Duration::from_millis(1500), now);
    let _held = ledger.stored("eve", now);
    let stored = ledger.changes(now);
    assert_eq!(stored.len(), 1);
    assert!(ledger.changes(now).is_empty(), "nothing has changed since");
    let next = Ledger::new(Period::Day);
    next.restore(stored[0].clone(), now);
    assert_eq!(used(&next, "ada", now), (1, 1, Duration::from_millis(1500)));
    let tomorrow = at("2026-12-01T00:00:00Z");
    let late = Ledger::new(Period::Day);
    late.restore(stored[0].clone(), tomorrow);
    assert_eq!(used(&late, "ada", tomorrow), (0, 0, Duration::ZERO));
    assert!(ledger.changes(tomorrow).is_empty());
    assert_eq!(ledger.entries.len(), 1, "whose log is open is kept");
}

#[derive(Debug, Clone)]
enum Act {
    Take(u64),
    GiveBack(usize),
    Pass(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0u64..6).prop_map(Act::Take),
        2 => any::<usize>().prop_map(Act::GiveBack),
        1 => (-1800i64..3600).prop_map(Act::Pass),
    ]
}

proptest! {
    /// Whatever is asked, given back, and at whatever time: what is kept of a period is never more than its quota, and
    /// what is refused would have been.
    #[test]
    fn no_period_has_more_than_its_quota(acts in prop::collection::vec(act(), 0..200)) {
        let ledger = Ledger::new(Period::Hour);
        let mut now = at("2026-11-30T06:30:00Z");
        let (mut held, mut latest): (Vec<Timestamp>, _) = (Vec::new(), Timestamp::MIN);
        for act in acts {
            match act {
                Act::Take(most) => {
                    let result = ledger.take("ada", &caps(most), Wish::EXECUTION, now);
                    latest = latest.max(ledger.started(now));
                    let of_period = held.iter().filter(|started| **started == latest).count() as u64;
                    match result {
                        Ok(started) => {
                            prop_assert!(of_period < most);
                            held.push(started);
                        }
                        Err(exhausted) => {
                            prop_assert!(of_period >= most);
                            prop_assert!(exhausted.anew.is_some_and(|anew| anew > latest));
                        }
                    }
                }
                Act::GiveBack(at) if !held.is_empty() => {
                    let started = held.swap_remove(at % held.len());
                    ledger.give_back("ada", Wish::EXECUTION, started);
                }
                Act::GiveBack(_) => {}
                Act::Pass(seconds) => now += jiff::SignedDuration::from_secs(seconds),
            }
        }
    }
}
