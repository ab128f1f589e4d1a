//! What the writer of a log tells its readers: how far it is, where its records lie, what it has dropped; and the ring
//! of events that were rendered a moment ago.
//!
//! Locks are held for a few instructions, never across a read or an `.await`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use repltool_protocol::ids::{ExecutionId, Seq};

use super::Rendered;
use super::files::Files;

/// A place is remembered for every so many bytes of an index segment; a reader that seeks scans no more than that.
const MARK_BYTES: u64 = 16 * 1024;
/// Rendered events kept for other readers, in bytes with their overhead.
const RING_BYTES: usize = 256 * 1024;
/// What an event in the ring costs beside its text.
const RING_OVERHEAD: usize = 160;

/// How far a log is; readers wait for it to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The last number given out.
    pub(super) last: Seq,
    /// The last number that is no longer kept.
    pub(super) dropped: Seq,
    /// Whether nothing will follow.
    pub(super) ended: bool,
}

/// A place in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl Place {
    /// The place so many bytes further on.
    pub(super) fn plus(self, len: usize) -> Self {
        Self { offset: self.offset.saturating_add(len as u64), ..self }
    }
}

/// What is known of one index segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The last number given out before it.
    pub(super) base: Seq,
    /// Where the spools' announced bytes ended before it.
    pub(super) announced: [u64; 2],
    /// Where its records begin and end.
    pub(super) start: u64,
    pub(super) end: u64,
    marks: Vec<(Seq, u64)>,
}

impl Segment {
    pub(super) fn new(number: u64, base: Seq, announced: [u64; 2], start: u64) -> Self {
        Self { number, base, announced, start, end: start, marks: Vec::new() }
    }

    /// Takes note of a unit that ends at `end` and began at `offset`; `seq` is the number of its event, if it is one.
    pub(super) fn grow(&mut self, seq: Option<Seq>, offset: u64, end: u64) {
        let last_mark = self.marks.last().map_or(self.start, |(_, offset)| *offset);
        if let Some(seq) = seq
            && offset - last_mark >= MARK_BYTES
        {
            self.marks.push((seq, offset));
        }
        self.end = end;
    }

    /// Where to begin the scan for the first event after `after`.
    fn seek(&self, after: Seq) -> u64 {
        let at = self.marks.partition_point(|(seq, _)| *seq <= after.next());
        at.checked_sub(1).and_then(|at| self.marks.get(at)).map_or(self.start, |(_, offset)| *offset)
    }
}

/// Where a reader finds what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Records lie from there to this offset.
    Records { end: u64 },
    /// The segment holds nothing more; the next one begins here, after this number.
    Following { from: Place, base: Seq },
    /// The segment is the last one and holds nothing more.
    Nothing,
    /// The segment is no longer kept.
    Dropped,
}

/// The segments of the index, ascending, and the executions that have no result yet.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) segments: VecDeque<Segment>,
    pub(super) pending: Vec<ExecutionId>,
}

impl Map {
    /// Where a reader finds the first event after `after`, or after the later number that is given with it; `None` if
    /// nothing is kept.
    pub(super) fn seek(&self, after: Seq) -> Option<(Place, Seq)> {
        let at = self.segments.partition_point(|segment| segment.base <= after);
        let segment = self.segments.get(at.saturating_sub(1))?;
        Some((Place { segment: segment.number, offset: segment.seek(after) }, segment.base))
    }

    /// What a reader at this place finds.
    pub(super) fn at(&self, place: Place) -> Next {
        match self.find(place.segment).and_then(|at| self.segments.get(at)) {
            Some(here) if place.offset < here.end => Next::Records { end: here.end },
            _ => self.beyond(place),
        }
    }

    /// What a reader finds that has done with the segment of this place.
    pub(super) fn beyond(&self, place: Place) -> Next {
        let Some(at) = self.find(place.segment) else { return Next::Dropped };
        self.segments.get(at + 1).map_or(Next::Nothing, |following| Next::Following {
            from: Place { segment: following.number, offset: following.start },
            base: following.base,
        })
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.segments.binary_search_by_key(&number, |segment| segment.number).ok()
    }
}

/// Events rendered a moment ago, ascending, so that readers at the same place share them.
#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<(Arc<Rendered>, Place)>,
    bytes: usize,
}

/// One for each log, held by its writer and its readers.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) files: Files,
    pub(super) segment_bytes: u64,
    pub(super) map: Mutex<Map>,
    ring: Mutex<Ring>,
    cursors: AtomicUsize,
}

impl Shared {
    pub(super) fn new(files: Files, segment_bytes: u64, map: Map) -> Self {
        Self { files, segment_bytes, map: Mutex::new(map), ring: Mutex::default(), cursors: AtomicUsize::new(0) }
    }

    pub(super) fn join(&self) {
        self.cursors.fetch_add(1, Ordering::Relaxed);
    }

    /// A cursor is gone. With nobody left to share with, the ring is emptied.
    pub(super) fn leave(&self) {
        if self.cursors.fetch_sub(1, Ordering::Relaxed) <= 2 {
            *lock(&self.ring) = Ring::default();
        }
    }

    /// The event that begins with this number and the place after it, if it was rendered a moment ago.
    pub(super) fn rendered(&self, seq: Seq) -> Option<(Arc<Rendered>, Place)> {
        if self.is_alone() {
            return None;
        }
        let ring = lock(&self.ring);
        let at = ring.events.binary_search_by_key(&seq, |(event, _)| event.first).ok()?;
        ring.events.get(at).cloned()
    }

    /// Offers an event to other readers. One that is older than what the ring holds is left out, so that a reader far
    /// behind does not drive out what those in front are about to ask for.
    pub(super) fn offer(&self, event: &Arc<Rendered>, after: Place) {
        if self.is_alone() || event.json.len() > RING_BYTES {
            return;
        }
        let mut ring = lock(&self.ring);
        if ring.events.back().is_some_and(|(newest, _)| newest.seq >= event.first) {
            return;
        }
        ring.bytes += event.json.len() + RING_OVERHEAD;
        ring.events.push_back((event.clone(), after));
        while ring.bytes > RING_BYTES
            && let Some((oldest, _)) = ring.events.pop_front()
        {
            ring.bytes -= oldest.json.len() + RING_OVERHEAD;
        }
    }

    fn is_alone(&self) -> bool {
        self.cursors.load(Ordering::Relaxed) < 2
    }
}

/// Locks without regard to poison: no code that runs under these locks can leave them half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
