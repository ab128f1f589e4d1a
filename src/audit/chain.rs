//! The chain: how a record becomes a line that holds the hash of the line before it. Pure.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::record::Record;

/// The longest line, in bytes; a record is far below.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024;

/// A SHA-256, written as 64 hex digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of some bytes; of a line, without its line break.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(hash)
    }
}

/// Bytes as hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from hex digits in lower case, two each.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        unhex(text).map(Self).ok_or("64 hex digits in lower case are a hash")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How far a log has come: the number of its last record, and the hash of that line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// 0 before the first record.
    pub count: u64,
    /// Zeros before the first record.
    pub hash: Hash,
}

#[derive(Serialize)]
struct Line<'a> {
    n: u64,
    #[serde(flatten)]
    record: &'a Record,
    prev: Hash,
}

impl Head {
    /// The line of the next record, without a line break.
    pub(super) fn line(self, record: &Record) -> Vec<u8> {
        let line = Line { n: self.count.saturating_add(1), record, prev: self.hash };
        serde_json::to_vec(&line).expect("a record has texts for keys and nothing that JSON lacks")
    }

    /// Appends the line of the next record, with its line break. Gives the new head.
    pub(super) fn append(self, record: &Record, lines: &mut Vec<u8>) -> Self {
        let line = self.line(record);
        lines.extend_from_slice(&line);
        lines.push(b'\n');
        Self { count: self.count.saturating_add(1), hash: Hash::of(&line) }
    }
}

/// The number in a line, if it is a record.
pub(super) fn number(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        n: u64,
    }
    serde_json::from_slice::<Numbered>(line).ok().map(|it| it.n)
}

/// How far a log has come whose end is this. A line that is no record counts all the same: it stands in the place of one.
pub(super) fn head_of(end: &[u8]) -> Option<Head> {
    let lines = end.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let last = lines.clone().next_back()?;
    let mut beyond = lines.rev().enumerate();
    let count = beyond.find_map(|(beyond, line)| Some(number(line)?.saturating_add(beyond as u64)))?;
    Some(Head { count, hash: Hash::of(last) })
}
