//! An event as a cursor finds it in the index, before its body is read.

use bytes::Bytes;
use repltool_protocol::event::StreamName;
use repltool_protocol::ids::{ExecutionId, Seq};

use super::Kind;
use super::record::Range;
use super::shared::Place;

/// An event as it lies in the index, or several of one stream told as one.
pub(super) struct Entry {
    pub(super) first: Seq,
    pub(super) seq: Seq,
    pub(super) at_ms: u64,
    pub(super) execution: Option<ExecutionId>,
    pub(super) payload: Payload,
    pub(super) next: Place,
}

pub(super) enum Payload {
    /// The range, and where in it the pieces begin that are told together, but for the first.
    Output(StreamName, Range, Vec<u32>),
    Json(Kind, Bytes),
}

/// What the chunk holds at a place.
pub(super) enum Look {
    Event(Entry),
    /// Nothing that the reader is told, or has not been told before.
    Pass(Place),
    /// More bytes are needed, so many from its begin.
    More(usize),
    Damaged,
}

/// Bytes that are no UTF-8 become U+FFFD; what is text is not copied. Each piece stands for itself: a character that was
/// cut for good between two of them stays cut.
pub(super) fn text(bytes: Vec<u8>, pieces: &[u32]) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if pieces.iter().all(|at| text.is_char_boundary(*at as usize)) => return text,
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let ends = pieces.iter().map(|at| *at as usize).chain(std::iter::once(bytes.len()));
    let mut begin = 0;
    let mut out = String::with_capacity(bytes.len());
    for end in ends {
        out.push_str(&String::from_utf8_lossy(&bytes[begin..end]));
        begin = end;
    }
    out
}
