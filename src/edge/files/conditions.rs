//! What a request makes its answer depend on: `If-Match`, `If-None-Match`, `If-Range` and `Range` (RFC 9110, sections 13
//! and 14). Pure.

use std::ops::Range;

use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};
use repltool_protocol::rest::ProblemCode;

use crate::edge::problem::Fault;

/// The entity tag of a file. It differs whenever the file was replaced, or changed in a later tick of Linux's clock.
pub(super) fn tag(inode: u64, size: u64, modified: jiff::Timestamp) -> String {
    format!("\"{inode:x}-{size:x}-{:x}\"", modified.as_nanosecond())
}

/// Whether a request that changes something depends on what is there.
pub(super) fn are_given(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH)
}

/// Checks `If-Match`. `tag` is that of what is there: `None` for nothing, empty for what has no tag.
///
/// # Errors
/// `precondition_failed`.
pub(super) fn if_match(headers: &HeaderMap, tag: Option<&str>) -> Result<(), Fault> {
    match is_listed(headers, IF_MATCH, tag, |item| item) {
        Some(false) => Err(Fault::new(ProblemCode::PreconditionFailed, "If-Match: the file is another one by now")),
        Some(true) | None => Ok(()),
    }
}

/// Whether `If-None-Match` names what is there. `tag` is as in [`if_match`].
pub(in crate::edge) fn is_known(headers: &HeaderMap, tag: Option<&str>) -> bool {
    // Weak tags are compared by their text.
    is_listed(headers, IF_NONE_MATCH, tag, |item| item.strip_prefix("W/").unwrap_or(item)).unwrap_or(false)
}

/// Whether a header names a tag, if it is there at all. A tag of ours holds no comma.
fn is_listed(headers: &HeaderMap, name: HeaderName, tag: Option<&str>, read: fn(&str) -> &str) -> Option<bool> {
    if !headers.contains_key(&name) {
        return None;
    }
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let mut items = values.flat_map(|value| value.split(',')).map(str::trim).map(read);
    Some(tag.is_some_and(|tag| items.any(|item| item == "*" || item == tag)))
}

/// The part of a file of `size` bytes that is asked for; `None` if that is all of it. Several ranges at once, and what is
/// no range of bytes, count as all of it.
///
/// # Errors
/// `range_not_satisfiable`.
pub(super) fn range(headers: &HeaderMap, tag: &str, size: u64) -> Result<Option<Range<u64>>, Fault> {
    // A date could not tell two states of the same second apart, so it never lets a range through.
    let is_current = headers.get(IF_RANGE).is_none_or(|it| it.as_bytes() == tag.as_bytes());
    let mut values = headers.get_all(RANGE).into_iter();
    let (Some(value), None, true) = (values.next(), values.next(), is_current) else { return Ok(None) };
    let Some((first, last)) = bounds(value) else { return Ok(None) };
    let range = match (first, last) {
        (Some(first), last) => first..last.map_or(size, |last| last.saturating_add(1).min(size)),
        (None, length) => size.saturating_sub(length.unwrap_or(0))..size,
    };
    if range.is_empty() { Err(Fault::range_not_satisfiable(size)) } else { Ok(Some(range)) }
}

/// The two numbers of a range, of which one may be missing.
fn bounds(value: &HeaderValue) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = value.to_str().ok()?.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let is_range = match (first, last) {
        (Some(first), Some(last)) => first <= last,
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    };
    (unit.eq_ignore_ascii_case("bytes") && is_range).then_some((first, last))
}

/// Digits, or nothing. What is too long to be counted lies beyond every file.
fn number(text: &str) -> Option<Option<u64>> {
    match text {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(Some(digits.parse().unwrap_or(u64::MAX))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"1-2-3\"";

    fn with(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn tags_tell_files_apart() {
        let at = |nanosecond| jiff::Timestamp::from_nanosecond(nanosecond).unwrap();
        assert_eq!(tag(255, 16, at(17)), "\"ff-10-11\"");
        let tags = [tag(1, 23, at(4)), tag(12, 3, at(4)), tag(1, 23, at(5)), tag(2, 23, at(4)), tag(1, 23, at(-4))];
        assert!(tags.iter().all(|one| tags.iter().filter(|other| *other == one).count() == 1), "{tags:?}");
    }

    #[test]
    fn matches_are_strong_or_weak() {
        for (value, strong, weak) in [
            ("*", true, true),
            (TAG, true, true),
            ("W/\"1-2-3\"", false, true),
            ("\"x\", \"1-2-3\"", true, true),
            ("\"x\",W/\"1-2-3\" ", false, true),
            ("1-2-3", false, false),
            ("\"x\"", false, false),
            ("", false, false),
        ] {
            assert_eq!(if_match(&with(&[(IF_MATCH, value)]), Some(TAG)).is_ok(), strong, "{value}");
            assert_eq!(is_known(&with(&[(IF_NONE_MATCH, value)]), Some(TAG)), weak, "{value}");
            assert!(if_match(&with(&[(IF_MATCH, value)]), None).is_err(), "nothing is there: {value}");
            assert!(!is_known(&with(&[(IF_NONE_MATCH, value)]), None), "nothing is there: {value}");
            assert_eq!(is_known(&with(&[(IF_NONE_MATCH, value)]), Some("no tag")), value == "*", "{value}");
        }
        let two = with(&[(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, TAG)]);
        assert!(is_known(&two, Some(TAG)) && are_given(&two));
        assert!(!are_given(&HeaderMap::new()) && if_match(&HeaderMap::new(), None).is_ok());
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        let of = |value: &str| range(&with(&[(RANGE, value)]), TAG, 10);
        for (value, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-", 0..10),
            ("bytes=9-9", 9..10),
            ("bytes=5-100", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-100", 0..10),
            ("Bytes= 2-4 ", 2..5),
            ("bytes=3-99999999999999999999999", 3..10),
            ("bytes=3-18446744073709551615", 3..10),
        ] {
            assert_eq!(of(value), Ok(Some(expected)), "{value}");
        }
        for value in ["bytes=10-", "bytes=10-11", "bytes=99999999999999999999999-", "bytes=-0"] {
            let fault = of(value).unwrap_err();
            assert_eq!(fault.header().map(|(_, value)| value), Some("bytes */10"), "{value}");
        }
        assert!(range(&with(&[(RANGE, "bytes=0-")]), TAG, 0).is_err(), "an empty file has no first byte");
    }

    #[test]
    fn what_is_no_range_is_ignored() {
        for value in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4", "lines=0-1", "bytes=+1-2"]
        {
            assert_eq!(range(&with(&[(RANGE, value)]), TAG, 10), Ok(None), "{value}");
        }
        assert_eq!(range(&HeaderMap::new(), TAG, 10), Ok(None));
        assert_eq!(range(&with(&[(RANGE, "bytes=0-1"), (RANGE, "bytes=2-3")]), TAG, 10), Ok(None));
        for (known, expected) in
            [(TAG, Some(0..2)), ("W/\"1-2-3\"", None), ("\"x\"", None), ("Sat, 29 Oct 1994 19:43:31 GMT", None)]
        {
            assert_eq!(range(&with(&[(RANGE, "bytes=0-1"), (IF_RANGE, known)]), TAG, 10), Ok(expected), "{known}");
        }
    }
}
