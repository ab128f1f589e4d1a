//! Tokens that are let in no longer, whatever their signature says: single ones, and those of a subject.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::Principal;

/// The most entries of a list.
pub const MAX_ENTRIES: usize = 100_000;
/// The largest list, in bytes.
pub const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// What is wrong with a list of revocations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// It is no text.
    #[error("the list of revocations is no UTF-8")]
    Text,
    /// A line that says nothing.
    #[error(
        "line {0} of the list of revocations is none of `jti:ID`, `sub:NAME`, `sub:NAME before TIME` and `# comment`"
    )]
    Line(usize),
    /// The time of a line cannot be read.
    #[error("line {0} of the list of revocations needs a time such as 2026-11-30T04:00:00Z after `before`")]
    Time(usize),
    /// Above [`MAX_ENTRIES`].
    #[error("the list of revocations has more than {MAX_ENTRIES} entries; take out those whose tokens have expired")]
    Many,
}

/// Which tokens are revoked.
#[derive(Debug, Default)]
pub struct Revocations {
    tokens: HashSet<String>,
    /// Up to when the tokens of a subject were issued.
    subjects: HashMap<String, Timestamp>,
}

impl Revocations {
    /// Reads a list, an entry a line: `jti:ID` is one token, `sub:NAME` every token of a subject, and with ` before TIME`
    /// those that were issued before then. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// [`RevocationError`]: a list is taken as a whole or not at all.
    pub fn parse(list: &[u8]) -> Result<Self, RevocationError> {
        let text = str::from_utf8(list).map_err(|_| RevocationError::Text)?;
        let mut found = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let entry = line.trim();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            found.add(entry, number)?;
            if found.tokens.len() + found.subjects.len() > MAX_ENTRIES {
                return Err(RevocationError::Many);
            }
        }
        Ok(found)
    }

    fn add(&mut self, entry: &str, line: usize) -> Result<(), RevocationError> {
        match entry.split_once(':') {
            Some(("jti", id)) if !id.is_empty() => drop(self.tokens.insert(id.to_owned())),
            Some(("sub", rest)) if !rest.is_empty() => {
                let (name, before) = match rest.rsplit_once(" before ") {
                    Some((name, time)) => (name, time.trim().parse().map_err(|_| RevocationError::Time(line))?),
                    None => (rest, Timestamp::MAX),
                };
                let latest = self.subjects.entry(name.to_owned()).or_insert(before);
                *latest = before.max(*latest);
            }
            _ => return Err(RevocationError::Line(line)),
        }
        Ok(())
    }

    /// Whether a token is revoked. One that does not say when it was issued (`iat`) was issued before any time.
    pub(super) fn covers(&self, principal: &Principal) -> bool {
        let by_id = principal.token_id.as_ref().is_some_and(|id| self.tokens.contains(id));
        let before = self.subjects.get(&principal.subject);
        by_id || before.is_some_and(|before| principal.issued_at.is_none_or(|at| at < *before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_entry_a_line() {
        let list = Revocations::parse(
            b"# left the company\nsub:eve\n\n  jti:4711:x  \r\nsub:a b before 2026-11-30T04:00:00Z\nsub:a b before 2026-01-01T00:00:00Z",
        )
        .unwrap();
        assert!(list.tokens.contains("4711:x") && list.tokens.len() == 1);
        assert_eq!(list.subjects["eve"], Timestamp::MAX);
        assert_eq!(list.subjects["a b"].to_string(), "2026-11-30T04:00:00Z", "the later one");
        assert!(Revocations::parse(b"").unwrap().subjects.is_empty());
    }

    #[test]
    fn a_list_with_a_fault_is_not_taken() {
        for (list, fault) in [
            (&b"sub:ada\nada"[..], RevocationError::Line(2)),
            (b"jti:", RevocationError::Line(1)),
            (b"sub:", RevocationError::Line(1)),
            (b"SUB:ada", RevocationError::Line(1)),
            (b"sub:ada before noon", RevocationError::Time(1)),
            (b"sub:ada before 2026-11-30", RevocationError::Time(1)),
            (b"sub:\xff", RevocationError::Text),
        ] {
            assert_eq!(Revocations::parse(list).err(), Some(fault));
        }
        let many: String = (0..=MAX_ENTRIES).map(|n| format!("jti:{n}\n")).collect();
        assert_eq!(Revocations::parse(many.as_bytes()).err(), Some(RevocationError::Many));
        let (most, _) = many.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(Revocations::parse(most.as_bytes()).unwrap().tokens.len(), MAX_ENTRIES);
    }
}
