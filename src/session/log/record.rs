//! The records of the index: how one is laid out, written and read back.
//!
//! ```text
//! u32 length of what follows the CRC | u32 CRC-32 of it | u8 tag | u8 length of the id | u64 seq | u64 time | id | payload
//! ```
//! Numbers are little endian, times are milliseconds since 1970 in UTC. It knows nothing of files or readers.

use repltool_protocol::event::StreamName;
use repltool_protocol::ids::Seq;

use super::Kind;

/// Bytes before the id.
pub(super) const FIXED: usize = 26;
/// Length and CRC come first and are not counted by the length.
const PREFIX: usize = 8;
/// More than a stream can ever have: bytes, and bytes of a segment.
pub(super) const MAX_OFFSET: u64 = 1 << 48;
/// More than any body that a limit allows: a display has 4 MiB, code 4 MiB.
pub(super) const MAX_RECORD: usize = 32 * 1024 * 1024;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// Opens a segment; its seq is the last one given out before it.
    Header,
    /// A command that was accepted; its seq is that of its `queued` event.
    Command,
    /// Which message of a driver the next event holds; its seq is that event's.
    Message,
    /// What readers are told; its seq is its own.
    Event(Kind),
}

const TAGS: [(u8, Tag); 12] = [
    (1, Tag::Header),
    (2, Tag::Command),
    (3, Tag::Event(Kind::Queued)),
    (4, Tag::Event(Kind::Started)),
    (5, Tag::Event(Kind::Stream(StreamName::Stdout))),
    (6, Tag::Event(Kind::Stream(StreamName::Stderr))),
    (7, Tag::Event(Kind::Display)),
    (8, Tag::Event(Kind::InputRequest)),
    (9, Tag::Event(Kind::Result)),
    (10, Tag::Event(Kind::Status)),
    (11, Tag::Message),
    (12, Tag::Event(Kind::Violation)),
];

impl Tag {
    fn code(self) -> Option<u8> {
        TAGS.iter().find(|(_, tag)| *tag == self).map(|(code, _)| *code)
    }

    fn from_code(code: u8) -> Option<Self> {
        TAGS.iter().find(|(it, _)| *it == code).map(|(_, tag)| *tag)
    }
}

/// A record as it lies in a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) tag: Tag,
    pub(super) seq: Seq,
    pub(super) at_ms: u64,
    pub(super) id: Option<&'a str>,
    pub(super) payload: &'a [u8],
    /// Bytes of the whole record.
    pub(super) len: usize,
}

/// What a buffer begins with.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    Whole(Record<'a>),
    /// The buffer ends before the record does; so many bytes are needed at least.
    Short(usize),
    Damaged,
}

/// Reads the record at the begin of `bytes`; it checks the CRC.
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let len = match peek_len(bytes) {
        Ok(len) => len,
        Err(parsed) => return parsed,
    };
    let Some(record) = bytes.get(..len) else { return Parsed::Short(len) };
    whole(record).map_or(Parsed::Damaged, Parsed::Whole)
}

/// Tag and length of the record at the begin of `bytes`, without a look at its body; `None` where they cannot be told.
pub(super) fn peek(bytes: &[u8]) -> Option<(Tag, usize)> {
    let len = peek_len(bytes).ok()?;
    Some((Tag::from_code(*bytes.get(PREFIX)?)?, len))
}

fn peek_len(bytes: &[u8]) -> Result<usize, Parsed<'static>> {
    let Some(len) = u32_at(bytes, 0) else { return Err(Parsed::Short(FIXED)) };
    let len = PREFIX.saturating_add(len as usize);
    if (FIXED..=MAX_RECORD).contains(&len) { Ok(len) } else { Err(Parsed::Damaged) }
}

fn whole(record: &[u8]) -> Option<Record<'_>> {
    let covered = record.get(PREFIX..)?;
    if crc32fast::hash(covered) != u32_at(record, 4)? {
        return None;
    }
    let tag = Tag::from_code(*record.get(8)?)?;
    let id_end = FIXED + usize::from(*record.get(9)?);
    let id = std::str::from_utf8(record.get(FIXED..id_end)?).ok()?;
    Some(Record {
        tag,
        seq: Seq(u64_at(record, 10)?),
        at_ms: u64_at(record, 18)?,
        id: (!id.is_empty()).then_some(id),
        payload: record.get(id_end..)?,
        len: record.len(),
    })
}

/// Writes a record at the end of `out`; `None` if it would be longer than [`MAX_RECORD`].
pub(super) fn encode(out: &mut Vec<u8>, tag: Tag, seq: Seq, id: Option<&str>, payload: &[&[u8]]) -> Option<()> {
    let id = id.unwrap_or_default();
    let len = FIXED + id.len() + payload.iter().map(|part| part.len()).sum::<usize>();
    if len > MAX_RECORD {
        return None;
    }
    let start = out.len();
    out.reserve(len);
    out.extend_from_slice(&u32::try_from(len - PREFIX).ok()?.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[tag.code()?, u8::try_from(id.len()).ok()?]);
    out.extend_from_slice(&seq.0.to_le_bytes());
    out.extend_from_slice(&now_ms().to_le_bytes());
    out.extend_from_slice(id.as_bytes());
    for part in payload {
        out.extend_from_slice(part);
    }
    let (prefix, covered) = out.get_mut(start..)?.split_at_mut(PREFIX);
    prefix.get_mut(4..)?.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
    Some(())
}

/// Where the bytes of a `stream` event lie in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Range {
    pub(super) fn to_bytes(self) -> [u8; 12] {
        let mut out = [0; 12];
        let (offset, len) = out.split_at_mut(8);
        offset.copy_from_slice(&self.offset.to_le_bytes());
        len.copy_from_slice(&self.len.to_le_bytes());
        out
    }

    pub(super) fn from_bytes(payload: &[u8]) -> Option<Self> {
        let range = Self { offset: u64_at(payload, 0)?, len: u32_at(payload, 8)? };
        let is_piece = u64::from(range.len) <= super::spool::MAX_PIECE;
        (is_piece && range.end().is_some_and(|end| end <= MAX_OFFSET)).then_some(range)
    }

    /// This range and the one that follows it, if it does and both fit into one event.
    pub(super) fn join(self, next: Self) -> Option<Self> {
        let len = self.len.checked_add(next.len).filter(|len| u64::from(*len) <= super::spool::MAX_PIECE)?;
        (self.end() == Some(next.offset)).then_some(Self { offset: self.offset, len })
    }

    /// The offset after its last byte.
    pub(super) fn end(self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len))
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn record_reads_back_and_every_cut_is_short(
            seq: u64, id in "[a-z]{0,64}", body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let id = (!id.is_empty()).then_some(id.as_str());
            let mut bytes = Vec::new();
            encode(&mut bytes, Tag::Event(Kind::Display), Seq(seq), id, &[&body, b"!"]).expect("it is short");
            let Parsed::Whole(record) = parse(&bytes) else { panic!("it is whole") };
            prop_assert_eq!((record.tag, record.seq, record.id, record.len), (Tag::Event(Kind::Display), Seq(seq), id, bytes.len()));
            prop_assert_eq!(record.payload.strip_suffix(b"!"), Some(&body[..]));
            for cut in 0..bytes.len() {
                prop_assert!(matches!(parse(&bytes[..cut]), Parsed::Short(needed) if needed > cut));
            }
        }

        #[test]
        fn flipped_bit_is_never_a_whole_record(bit in 0usize..(40 * 8)) {
            let mut bytes = Vec::new();
            encode(&mut bytes, Tag::Event(Kind::Status), Seq(7), Some("ab"), &[b"twelve bytes"]).expect("it is short");
            prop_assert_eq!(bytes.len(), 40);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(parse(&bytes), Parsed::Whole(_)));
        }

        #[test]
        fn any_bytes_parse_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
            let _ = peek(&bytes);
            let _ = Range::from_bytes(&bytes);
        }
    }
}
