//! What leads to an alert, and what does not.

use proptest::prelude::*;

use super::*;
use crate::audit::What;

fn config() -> config::Alerts {
    config::Alerts {
        violations_per_minute: 5,
        failed_logins_per_minute: 3,
        limit_kills_per_10min: 2,
        cooldown_s: 300,
        ..config::Alerts::default()
    }
}

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn time(s: u64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + i64::try_from(s).unwrap()).unwrap()
}

fn of(kind: Kind, subject: &str, times: u64) -> Sighting {
    Sighting { kind, whose: Whose::Subject(subject.to_owned()), times, session: None }
}

fn see(detector: &mut Detector, s: u64, sighting: Sighting) -> Option<(u64, u64)> {
    detector.see(seconds(s), time(s), sighting).map(|alert| (alert.count, alert.held_back))
}

#[test]
fn the_threshold_raises_one_alert_and_the_next_one_tells_what_was_held_back() {
    let mut detector = Detector::new(config());
    let ada = || of(Kind::Violations, "ada", 1);
    assert!((0..4).all(|s| see(&mut detector, s, ada()).is_none()));
    assert_eq!(see(&mut detector, 4, of(Kind::PolicyViolations, "ada", 4)), None, "another kind");
    assert_eq!(see(&mut detector, 4, of(Kind::Violations, "eve", 4)), None, "another subject");
    let alert = detector.see(seconds(5), time(5), ada()).unwrap();
    assert_eq!((alert.count, alert.held_back, alert.first, alert.last), (5, 0, time(0), time(5)));
    assert_eq!(see(&mut detector, 6, of(Kind::Violations, "ada", 7)), None);
    assert_eq!(see(&mut detector, 304, of(Kind::Violations, "ada", 5)), None, "the cool-down is not over");
    assert_eq!(see(&mut detector, 305, ada()), Some((6, 12)));
    assert_eq!(see(&mut detector, 700, of(Kind::Violations, "ada", 9)), Some((9, 0)));
}

#[test]
fn what_is_long_ago_does_not_count() {
    let mut detector = Detector::new(config());
    let kill = || of(Kind::LimitKills, "ada", 1);
    assert_eq!(see(&mut detector, 0, kill()), None);
    assert_eq!(see(&mut detector, 600, kill()), None, "ten minutes later");
    assert_eq!(see(&mut detector, 1100, kill()), Some((2, 0)));
}

#[test]
fn a_threshold_of_zero_switches_a_rule_off_and_what_must_not_happen_needs_none() {
    let off =
        config::Alerts { violations_per_minute: 0, failed_logins_per_minute: 0, limit_kills_per_10min: 0, ..config() };
    let mut detector = Detector::new(off);
    let counted = [Kind::Violations, Kind::PolicyViolations, Kind::FailedLogins, Kind::LimitKills];
    for kind in Kind::ALL {
        let told = see(&mut detector, 0, of(kind, "ada", 1000)).is_some();
        assert_eq!(told, !counted.contains(&kind), "{kind:?}");
    }
}

#[test]
fn records_are_read_for_what_they_tell() {
    let record = |kind, what| Sighting::of(&Record::new(kind, what)).map(|it| (it.kind, it.whose, it.times));
    let ada = Whose::Subject("ada".to_owned());
    let what = || What { subject: Some("ada".into()), peer: Some("2001:db8::1".parse().unwrap()), ..What::default() };
    let reason = |reason: &str| What { reason: Some(reason.into()), ..what() };
    let violation = |layer, action: &str| What { layer: Some(layer), times: Some(3), ..reason(action) };
    let kernel = record(RecordKind::Violation, violation(ViolationLayer::Kernel, "refuse"));
    assert_eq!(kernel, Some((Kind::Violations, ada.clone(), 3)));
    let policy = record(RecordKind::Violation, violation(ViolationLayer::Policy, "warn"));
    assert_eq!(policy, Some((Kind::PolicyViolations, ada.clone(), 3)));
    assert_eq!(record(RecordKind::Violation, violation(ViolationLayer::Policy, "record")), None);
    let network = Whose::Address("2001:db8::".parse().unwrap());
    assert_eq!(record(RecordKind::AuthFailed, what()), Some((Kind::FailedLogins, network.clone(), 1)));
    let too_often = What { status: Some(429), subject: None, ..what() };
    assert_eq!(record(RecordKind::Refused, too_often), Some((Kind::FailedLogins, network, 1)));
    assert_eq!(record(RecordKind::Refused, What { status: Some(429), ..what() }), None, "of a subject");
    let killed = What { limit: Some(repltool_protocol::event::Limit::Memory), ..what() };
    assert_eq!(record(RecordKind::Execution, killed), Some((Kind::LimitKills, ada.clone(), 1)));
    assert_eq!(record(RecordKind::Execution, what()), None);
    assert_eq!(record(RecordKind::SessionEnded, reason("violations")), Some((Kind::SessionKilled, ada, 1)));
    assert_eq!(record(RecordKind::SessionEnded, reason("terminated")), None);
    assert_eq!(record(RecordKind::Alert, reason("violations")), None, "an alert leads to none");
}

#[test]
fn a_crowd_is_forgotten_but_for_the_newest() {
    let mut detector = Detector::new(config());
    see(&mut detector, 0, of(Kind::Violations, "first", 4));
    see(&mut detector, 0, of(Kind::Violations, "kept", 4));
    for i in 0..MAX_KNOWN - 1 {
        see(&mut detector, 1, of(Kind::Violations, &format!("{i}"), 1));
        see(&mut detector, 1, of(Kind::Violations, "kept", 0));
    }
    assert_eq!(detector.known(), MAX_KNOWN);
    assert_eq!(see(&mut detector, 2, of(Kind::Violations, "first", 1)), None, "forgotten");
    assert_eq!(see(&mut detector, 2, of(Kind::Violations, "kept", 1)), Some((5, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a model that keeps every sighting.
    #[test]
    fn alerts_are_those_of_a_list_of_all_that_was_seen(
        sightings in proptest::collection::vec((0_u64..40, 0_usize..3, 1_u64..4), 1..200)
    ) {
        let mut detector = Detector::new(config());
        let (mut now, mut seen, mut told) = (0, Vec::new(), [None; 3]);
        for (later, who, times) in sightings {
            now += later;
            seen.push((now, who, times));
            let step = now / 5;
            let counts = |(at, by, _): &&(u64, usize, u64)| *by == who && at / 5 + 12 > step;
            let count: u64 = seen.iter().filter(counts).map(|(_, _, times)| times).sum();
            let due = count >= 5 && told[who].is_none_or(|told| now - told >= 300);
            let alert = see(&mut detector, now, of(Kind::Violations, &who.to_string(), times));
            prop_assert_eq!(alert.map(|(count, _)| count), due.then_some(count));
            if due {
                told[who] = Some(now);
            }
        }
    }
}
