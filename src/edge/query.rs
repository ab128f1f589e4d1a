//! Query strings: a few known names with plain values. Names that are not known are left alone, as HTTP has it.

use std::borrow::Cow;
use std::str::FromStr;

use repltool_protocol::rest::{DEFAULT_PAGE, MAX_PAGE};

use super::problem::Fault;

/// A query string, read when asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// Takes what stands after the question mark.
    pub(super) fn new(query: Option<&'a str>) -> Self {
        Self(query.unwrap_or_default())
    }

    /// A page of a list: `limit` and `offset`.
    ///
    /// # Errors
    /// Whatever is no number within the bounds.
    pub(super) fn page(self) -> Result<(u64, u64), Fault> {
        let limit = self.limit()?.unwrap_or(DEFAULT_PAGE);
        let offset = self.number("offset")?.unwrap_or(0);
        // The store counts rows in 63 bits.
        if i64::try_from(offset).is_err() {
            return Err(Fault::field("offset", "too large"));
        }
        Ok((limit, offset))
    }

    /// `limit` within 1 to [`MAX_PAGE`], if it is there.
    ///
    /// # Errors
    /// Anything else.
    pub(super) fn limit(self) -> Result<Option<u64>, Fault> {
        self.up_to("limit", MAX_PAGE)
    }

    /// A whole number within 1 to `most`, if it is there.
    ///
    /// # Errors
    /// Anything else.
    pub(super) fn up_to(self, name: &str, most: u64) -> Result<Option<u64>, Fault> {
        let number = self.number(name)?;
        if number.is_some_and(|it| !(1..=most).contains(&it)) {
            return Err(Fault::field(name, format!("1 to {most} is needed")));
        }
        Ok(number)
    }

    /// A whole number, if it is there.
    ///
    /// # Errors
    /// Anything but decimal digits within 64 bits.
    pub(super) fn number(self, name: &str) -> Result<Option<u64>, Fault> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => Ok(Some(number)),
            Ok(_) | Err(_) => Err(Fault::field(name, "a whole number from 0 is needed")),
        }
    }

    /// `true` or `false`, or absent, which is `false`.
    ///
    /// # Errors
    /// Anything else.
    pub(super) fn flag(self, name: &str) -> Result<bool, Fault> {
        let Some(text) = self.get(name)? else { return Ok(false) };
        bool::from_str(&text).map_err(|_| Fault::field(name, "true or false is needed"))
    }

    /// The value of a name, if it is there.
    ///
    /// # Errors
    /// A name that is there twice, or a value that is no text.
    pub(super) fn get(self, name: &str) -> Result<Option<Cow<'a, str>>, Fault> {
        let mut values = self.0.split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        });
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Fault::field(name, "given more than once"));
        }
        decode(value).map(Some).ok_or_else(|| Fault::field(name, "not readable"))
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(text.into());
    }
    let bytes = unescape(&text.replace('+', " "))?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Replaces percent escapes by the bytes that they stand for; `None` if one is broken.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Result<(u64, u64), String> {
        Query::new(Some(query)).page().map_err(|fault| fault.document("x").errors.remove(0).field)
    }

    #[test]
    fn pages_have_bounds() {
        assert_eq!(page(""), Ok((100, 0)));
        assert_eq!(page("limit=10&offset=25&user_id=eve"), Ok((10, 25)));
        assert_eq!(page("limit=1%30"), Ok((10, 0)));
        for query in [
            "limit=0",
            "limit=-1",
            "limit=+5",
            "limit=100000",
            "limit=abc",
            "limit=18446744073709551616",
            "limit=",
            "limit",
            "limit=1&limit=2",
            "limit=%",
            "limit=%zz",
            "limit=1.0",
        ] {
            assert_eq!(page(query), Err("limit".into()), "{query}");
        }
        for query in ["limit=10&offset=-5", "offset=x", "offset=18446744073709551615"] {
            assert_eq!(page(query), Err("offset".into()), "{query}");
        }
    }

    #[test]
    fn values_are_decoded() {
        let get = |query| Query::new(Some(query)).get("q").unwrap().map(Cow::into_owned);
        assert_eq!(get("q=a+b%20c%C3%A9"), Some("a b cé".into()));
        assert_eq!(get("x=1&q"), Some(String::new()));
        assert_eq!(get("Q=1"), None);
        assert!(Query::new(Some("q=%ff")).get("q").is_err());
        assert!(Query::new(Some("q=1")).flag("q").is_err());
        assert_eq!(Query::new(Some("q=true")).flag("q"), Ok(true));
    }
}
