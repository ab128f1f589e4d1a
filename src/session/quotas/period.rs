//! Where a period begins and ends. Periods lie fixed in the calendar of UTC.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::config::Period;

/// When the period began that this instant lies in.
pub(super) fn start(period: Period, at: Timestamp) -> Timestamp {
    let seconds = |span: i64| {
        let begun = at.as_second() - at.as_second().rem_euclid(span);
        Timestamp::from_second(begun).unwrap_or(Timestamp::MIN)
    };
    match period {
        Period::Hour => seconds(3600),
        Period::Day => seconds(86_400),
        Period::Month => {
            let first = TimeZone::UTC.to_datetime(at).date().first_of_month();
            TimeZone::UTC.to_timestamp(first.into()).unwrap_or(Timestamp::MIN)
        }
    }
}

/// When the period ends, and the next one begins, that began at this instant.
pub(super) fn end(period: Period, started: Timestamp) -> Timestamp {
    let after = |span: SignedDuration| started.checked_add(span).unwrap_or(Timestamp::MAX);
    match period {
        Period::Hour => after(SignedDuration::from_hours(1)),
        Period::Day => after(SignedDuration::from_hours(24)),
        // No month has more than 31 days, and the 32nd day lies in the next one.
        Period::Month => start(period, after(SignedDuration::from_hours(31 * 24))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn around(period: Period, now: &str) -> (String, String) {
        let begun = start(period, at(now));
        (begun.to_string(), end(period, begun).to_string())
    }

    #[test]
    fn periods_begin_where_the_calendar_has_them() {
        let told = |begun: &str, ends: &str| (begun.to_owned(), ends.to_owned());
        for (period, now, begun, ends) in [
            (Period::Hour, "2026-11-30T06:59:59.999Z", "2026-11-30T06:00:00Z", "2026-11-30T07:00:00Z"),
            (Period::Hour, "2026-11-30T07:00:00Z", "2026-11-30T07:00:00Z", "2026-11-30T08:00:00Z"),
            (Period::Day, "2026-12-31T23:59:59.999Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"),
            (Period::Day, "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"),
            (Period::Month, "2026-11-30T23:59:59Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
            (Period::Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            (Period::Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        ] {
            assert_eq!(around(period, now), told(begun, ends), "{now}");
        }
    }

    proptest! {
        /// Every instant lies in one period, and what follows is another one.
        #[test]
        fn every_instant_lies_in_one_period(second in 0i64..20_000_000_000, nanosecond in 0i32..1_000_000_000) {
            let now = Timestamp::new(second, nanosecond).expect("a time");
            for period in [Period::Hour, Period::Day, Period::Month] {
                let begun = start(period, now);
                let ends = end(period, begun);
                prop_assert!(begun <= now && now < ends);
                prop_assert_eq!(start(period, ends), ends);
                prop_assert_eq!(start(period, begun), begun);
            }
        }
    }
}
