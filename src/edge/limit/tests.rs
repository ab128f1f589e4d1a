use std::collections::BTreeSet;
use std::sync::Arc;

use governor::clock::FakeRelativeClock;

use super::*;

fn terms(per_minute: u32, burst: u32) -> Terms {
    Terms::new("default", count(per_minute), count(burst))
}

fn rate(per_minute: u32, burst: u32) -> (Rate<String, FakeRelativeClock>, FakeRelativeClock) {
    let clock = FakeRelativeClock::default();
    (Rate::with_clock(terms(per_minute, burst), clock.clone()), clock)
}

fn headers(standing: &Standing) -> (String, String) {
    let mut headers = HeaderMap::new();
    standing.write(&mut headers);
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    (text("ratelimit"), text("ratelimit-policy"))
}

fn principal(subject: &str) -> Principal {
    let secret = [7; 32];
    let grant = super::super::auth::Grant { subject, ..Default::default() };
    let token = super::super::auth::sign(&secret, &grant, Duration::from_secs(60)).unwrap();
    let keys = super::super::auth::keys::KeySet::secret(&secret).unwrap();
    super::super::auth::Auth::new(keys, None, None, Duration::ZERO).verify(&token).unwrap()
}

fn visit(client: &str) -> Visit {
    Visit::new(client.parse().unwrap())
}

#[test]
fn a_burst_comes_at_once_and_then_one_for_each_interval() {
    let (rate, clock) = rate(60, 3);
    let ada = "ada".to_owned();
    let left: Vec<_> = (0..3).map(|_| rate.charge(&ada).remaining()).collect();
    assert_eq!(left, [2, 1, 0]);
    assert!(!rate.charge(&ada).is_granted());
    clock.advance(Duration::from_millis(999));
    assert!(!rate.charge(&ada).is_granted(), "what was refused has cost nothing, and nothing has come back yet");
    clock.advance(Duration::from_millis(1));
    assert!(rate.charge(&ada).is_granted());
    assert!(!rate.charge(&ada).is_granted());
    assert!(rate.charge(&"eve".to_owned()).is_granted(), "each key has its own");
    clock.advance(Duration::from_secs(3600));
    assert_eq!(rate.charge(&ada).remaining(), 2, "no more than a burst gathers");
}

#[test]
fn a_burst_is_never_more_than_a_minutes() {
    let (rate, _) = rate(10, 200);
    let granted = (0..30).filter(|_| rate.charge(&"ada".to_owned()).is_granted()).count();
    assert_eq!((granted, rate.terms().burst()), (10, 10));
}

#[test]
fn headers_tell_what_is_left_and_when_there_is_more() {
    let (common, _) = rate(6000, 200);
    let ada = "ada".to_owned();
    assert_eq!(headers(&common.charge(&ada)), ("\"default\";r=199;t=1".into(), "\"default\";q=200;w=2".into()));
    let (slow, clock) = rate(7, 2);
    slow.charge(&ada);
    assert_eq!(headers(&slow.charge(&ada)), ("\"default\";r=0;t=9".into(), "\"default\";q=2;w=18".into()));
    clock.advance(Duration::from_millis(2000));
    let refused = slow.charge(&ada);
    assert_eq!(headers(&refused).0, "\"default\";r=0;t=7", "60 / 7 s are 8.57, of which 2 have passed");
    assert_eq!(refused.wait_s(), 7);
    clock.advance(Duration::from_secs(7));
    assert!(slow.charge(&ada).is_granted(), "whoever waits that long is served");
}

#[test]
fn keys_are_dropped_once_nothing_is_left_of_them() {
    let (rate, clock) = rate(60, 3);
    for n in 0..1000 {
        rate.charge(&n.to_string());
    }
    clock.advance(Duration::from_millis(500));
    rate.charge(&"late".to_owned());
    rate.sweep();
    assert_eq!(rate.keys(), 1001);
    clock.advance(Duration::from_millis(1500));
    rate.sweep();
    assert_eq!(rate.keys(), 1, "the late one is as good as new half a second later");
    clock.advance(Duration::from_millis(500));
    rate.sweep();
    assert_eq!(rate.keys(), 0);
}

#[tokio::test]
async fn what_was_counted_is_forgotten_by_itself() {
    let often = RateLimit { requests_per_minute: 60_000, failed_logins_per_minute: 60_000, ..RateLimit::default() };
    let limits = Limits::new(&often, 1);
    let place = limits.place(&principal("ada")).unwrap();
    limits.charge(&mut visit("203.0.113.9"), &principal("ada")).unwrap();
    limits.charge_failure(&mut visit("203.0.113.9")).unwrap();
    let rates = limits.rates.get();
    let rates = (*rates).as_ref().unwrap();
    let keys = || (rates.requests.keys(), rates.logins.keys(), limits.places.subjects());
    assert_eq!(keys(), (1, 1, 1));
    drop(place);
    let forgotten = async {
        while keys() != (0, 0, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        forgotten = tokio::time::timeout(Duration::from_secs(60), forgotten) => forgotten.unwrap(),
        () = limits.sweep_every(Duration::from_millis(1)) => {}
    }
}

#[test]
fn failures_count_for_networks_as_they_are_given_to_people() {
    let key = |text: &str| network(text.parse().unwrap()).to_string();
    assert_eq!(key("203.0.113.9"), "203.0.113.9");
    assert_eq!(key("::ffff:203.0.113.9"), "203.0.113.9");
    assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(key("2001:db8:1:2::"), "2001:db8:1:2::");
}

#[test]
fn failures_of_a_peer_do_not_touch_its_good_requests() {
    let limits = Limits::new(&RateLimit { failed_logins_per_minute: 2, ..RateLimit::default() }, 1);
    let fails =
        |client| limits.charge_failure(&mut visit(client)).map_err(|fault| fault.header().unwrap().1.to_owned());
    assert_eq!(fails("2001:db8::1"), Ok(()));
    assert_eq!(fails("2001:db8::2"), Ok(()));
    assert_eq!(fails("2001:db8::3"), Err("30".into()), "one network, and two a minute");
    assert_eq!(fails("2001:db8:0:1::1"), Ok(()), "another network");
    let mut good = visit("2001:db8::1");
    limits.charge(&mut good, &principal("ada")).unwrap();
    assert_eq!(headers(good.standing().unwrap()).0, "\"default\";r=199;t=1");
}

#[test]
fn a_flood_of_addresses_fills_no_memory() {
    let limits = Limits::new(&RateLimit { failed_logins_per_minute: 1, ..RateLimit::default() }, 1);
    let address = |n: usize| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | ((n as u128) << 64)));
    for n in 0..MAX_PEERS {
        assert!(limits.charge_failure(&mut Visit::new(address(n))).is_ok());
    }
    assert!(limits.charge_failure(&mut Visit::new(address(MAX_PEERS))).is_ok(), "the first of the others");
    for n in MAX_PEERS + 1..MAX_PEERS + 1000 {
        assert!(limits.charge_failure(&mut Visit::new(address(n))).is_err(), "they share one count");
    }
    assert_eq!((*limits.rates.get()).as_ref().unwrap().logins.keys(), MAX_PEERS + 1);
    limits.charge(&mut Visit::new(address(MAX_PEERS)), &principal("ada")).unwrap();
}

#[test]
fn without_rates_nothing_is_refused_or_told_but_caps_stay() {
    let limits = Limits::new(&RateLimit { enabled: false, requests_per_minute: 1, ..RateLimit::default() }, 1);
    let (ada, mut visit) = (principal("ada"), visit("203.0.113.9"));
    for _ in 0..100 {
        limits.charge(&mut visit, &ada).unwrap();
        limits.charge_failure(&mut visit).unwrap();
    }
    assert!(visit.standing().is_none() && limits.requests(&ada).is_none());
    let meter = limits.meter(&ada);
    assert!((0..1000).all(|_| meter.charge() == Verdict::Granted));
    let _one = limits.place(&ada).unwrap();
    assert_eq!(limits.place(&ada).unwrap_err().code(), ProblemCode::RateLimited);
}

#[test]
fn messages_beyond_the_rate_are_refused_and_then_the_socket_is_cut() {
    let clock = FakeRelativeClock::default();
    let meter = Meter::with_clock(&terms(60, 5), clock.clone());
    let verdicts: Vec<_> = (0..11).map(|_| meter.charge()).collect();
    assert!(verdicts[..5].iter().all(|it| *it == Verdict::Granted), "{verdicts:?}");
    assert!(verdicts[5..10].iter().all(|it| *it == Verdict::Refused { wait_s: 1 }), "{verdicts:?}");
    assert_eq!(verdicts[10], Verdict::Cut);
    clock.advance(Duration::from_secs(2));
    let verdicts: Vec<_> = (0..5).map(|_| meter.charge()).collect();
    let refused = Verdict::Refused { wait_s: 1 };
    assert_eq!(verdicts, [Verdict::Granted, Verdict::Granted, refused, refused, Verdict::Cut]);
}

#[test]
fn places_are_never_more_than_the_cap_and_leave_nothing() {
    let places = Arc::new(Places::new(50));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let places = places.clone();
            std::thread::spawn(move || (0..100).filter_map(|_| places.take("ada", 50)).collect::<Vec<_>>())
        })
        .collect();
    let held: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!((held.len(), places.held("ada")), (50, 50));
    assert!(places.take("ada", 50).is_none());
    let _other = places.take("eve", 50).unwrap();
    drop(held);
    assert_eq!((places.held("ada"), places.subjects()), (0, 1));
    drop(_other);
    assert_eq!(places.subjects(), 0);
}

#[test]
fn those_who_come_together_get_no_more_than_there_is() {
    let rate = Arc::new(rate(60, 50).0);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let rate = rate.clone();
            std::thread::spawn(move || {
                let granted = (0..100).map(|_| rate.charge(&"ada".to_owned())).filter(Standing::is_granted);
                granted.map(|it| it.remaining()).collect::<Vec<_>>()
            })
        })
        .collect();
    let left: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(left.len(), 50);
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>().len(), 50, "each saw another number left");
}

fn lowered(subject: &str, limits: ReplLimits) -> Principal {
    let mut principal = principal(subject);
    principal.limits = limits;
    principal
}

#[test]
fn a_token_lowers_the_rate_of_its_holder_and_of_nobody_else() {
    let limits = Limits::new(&RateLimit::default(), 10);
    let slow = lowered("ada", ReplLimits { requests_per_minute: Some(6), burst: Some(2), ..ReplLimits::default() });
    let ask = |principal: &Principal| {
        let mut visit = visit("203.0.113.9");
        let outcome = limits.charge(&mut visit, principal).map_err(|fault| fault.code());
        (outcome, headers(visit.standing().unwrap()).1)
    };
    let policy = "\"lowered\";q=2;w=20".to_owned();
    assert_eq!(ask(&slow), (Ok(()), policy.clone()));
    assert_eq!(ask(&slow), (Ok(()), policy.clone()));
    assert_eq!(ask(&slow), (Err(ProblemCode::RateLimited), policy));
    // Another token of the same subject, and another subject with the same limits.
    assert_eq!(ask(&principal("ada")).1, "\"default\";q=200;w=2");
    assert!(ask(&principal("ada")).0.is_ok());
    assert!(ask(&lowered("eve", slow.limits)).0.is_ok());
    assert_eq!(limits.requests(&slow), Some((6, 2)));
    assert_eq!(limits.requests(&principal("ada")), Some((6000, 200)));
    let meter = limits.meter(&slow);
    assert_eq!([meter.charge(), meter.charge()], [Verdict::Granted; 2]);
    assert_ne!(meter.charge(), Verdict::Granted);
}

#[test]
fn no_token_raises_anything() {
    let limits = Limits::new(&RateLimit { requests_per_minute: 60, burst: 3, ..RateLimit::default() }, 2);
    let greedy = lowered(
        "ada",
        ReplLimits {
            requests_per_minute: Some(u64::MAX),
            burst: Some(u64::MAX),
            max_sockets: Some(u64::MAX),
            ..ReplLimits::default()
        },
    );
    assert_eq!(limits.requests(&greedy), Some((60, 3)));
    let granted = (0..10).filter(|_| limits.charge(&mut visit("203.0.113.9"), &greedy).is_ok()).count();
    assert_eq!(granted, 3);
    assert_eq!(limits.places(&greedy), (0, 2));
    let modest = lowered("eve", ReplLimits { max_sockets: Some(1), ..ReplLimits::default() });
    let _one = limits.place(&modest).unwrap();
    assert_eq!(limits.place(&modest).unwrap_err().code(), ProblemCode::RateLimited);
    let _two = limits.place(&principal("eve")).unwrap();
}

#[test]
fn lowered_rates_hold_without_others_and_are_forgotten() {
    let limits = Limits::new(&RateLimit { enabled: false, ..RateLimit::default() }, 2);
    let slow = lowered("ada", ReplLimits { requests_per_minute: Some(1), ..ReplLimits::default() });
    let charge = || limits.charge(&mut visit("203.0.113.9"), &slow).is_ok();
    assert_eq!([charge(), charge()], [true, false]);
    let bursts = lowered("ada", ReplLimits { burst: Some(1), ..ReplLimits::default() });
    assert_eq!(limits.requests(&bursts), None, "how many at once of how many?");
    assert_eq!(limits.lowered.rates(), 1);
    let quick = lowered("eve", ReplLimits { requests_per_minute: Some(1_000_000_000), ..ReplLimits::default() });
    limits.charge(&mut visit("203.0.113.9"), &quick).unwrap();
    assert_eq!(limits.lowered.rates(), 2);
    while limits.lowered.rates() > 1 {
        limits.lowered.sweep();
    }
    assert!(limits.charge(&mut visit("203.0.113.9"), &slow).is_err(), "what is used up is remembered");
}

#[test]
fn other_rates_begin_anew_and_the_same_ones_go_on() {
    let rates = RateLimit { requests_per_minute: 6, burst: 1, ..RateLimit::default() };
    let (limits, ada) = (Limits::new(&rates, 2), lowered("ada", ReplLimits::default()));
    let charge = || limits.charge(&mut visit("203.0.113.9"), &ada);
    charge().unwrap();
    limits.set(&rates, 2);
    assert!(charge().is_err(), "the count goes on");
    limits.set(&RateLimit { burst: 2, ..rates.clone() }, 2);
    assert!(charge().is_ok() && charge().is_ok() && charge().is_err(), "another rate");
    let place = limits.place(&ada).unwrap();
    limits.set(&RateLimit { enabled: false, ..rates }, 1);
    assert!(charge().is_ok(), "no rate");
    assert!(limits.place(&ada).is_err(), "fewer places, one of which is held");
    drop(place);
    assert!(limits.place(&ada).is_ok());
}
