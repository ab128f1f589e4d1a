//! The newest records that concern security, in memory, and who reads them as they come. A reader has no queue, only a
//! place: one that is slow slows nobody, and is told what it missed.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Records in memory, of some 500 bytes each; the oldest goes first.
pub(super) const CAPACITY: usize = 1024;
/// Readers at once.
pub(super) const MAX_READERS: usize = 64;

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ring: Mutex<Ring>,
    /// How many lines there were.
    count: watch::Sender<u64>,
    readers: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<Line>,
    /// How many lines there were before the first of them.
    gone: u64,
    /// The number of the last record before this gateway's first one.
    begin: u64,
    /// The number of the last record that is not in memory any more, or never was.
    floor: u64,
    /// The number of the last record of the log, of whatever kind.
    last: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number; none if it has none yet, since the audit log cannot be written.
    pub n: Option<u64>,
    /// As it stands in the audit log.
    pub json: Bytes,
}

/// What a reader meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Line(Line),
    /// Records with numbers from `from` to `to`, both included, may have been among what is told, and are not in memory.
    Gap {
        /// The first one.
        from: u64,
        /// The last one.
        to: u64,
    },
}

impl Default for Live {
    fn default() -> Self {
        let readers = Arc::new(Semaphore::new(MAX_READERS));
        Self(Arc::new(Shared { ring: Mutex::default(), count: watch::Sender::new(0), readers }))
    }
}

impl Live {
    /// Notes that the log has come to this number. If `json` is given, that record is told.
    pub(super) fn placed(&self, n: u64, json: Option<&[u8]>) {
        let mut ring = self.0.ring();
        if ring.last == 0 {
            ring.begin = n.saturating_sub(1);
            ring.floor = ring.begin;
        }
        ring.last = n;
        if let Some(json) = json {
            ring.push(Line { n: Some(n), json: Bytes::copy_from_slice(json) });
            self.0.tell(ring);
        }
    }

    /// Tells a record that has no number yet.
    pub(super) fn unnumbered(&self, json: Vec<u8>) {
        let mut ring = self.0.ring();
        ring.push(Line { n: None, json: json.into() });
        self.0.tell(ring);
    }

    /// A reader of what comes after this record, or else from now on; none if there are too many.
    pub fn reader(&self, after: Option<u64>) -> Option<Reader> {
        let permit = self.0.readers.clone().try_acquire_owned().ok()?;
        let count = self.0.count.subscribe();
        let ring = self.0.ring();
        // Before there is a record it is not known where numbers begin.
        let last = Some(ring.last).filter(|last| *last > 0);
        let seen = after.map_or(last, |after| Some(after.min(last.unwrap_or(after))));
        let told = match after.and(seen) {
            // What has no number goes with the record before it.
            Some(seen) => ring.lines.iter().rposition(|line| line.n.is_some_and(|n| n <= seen)).map_or(0, |at| at + 1),
            None => ring.lines.len(),
        };
        let at = ring.gone.saturating_add(told as u64);
        drop(ring);
        Some(Reader { shared: self.0.clone(), count, at, seen, _permit: permit })
    }
}

impl Shared {
    /// A poisoned lock is taken all the same: what it guards is whole between any two statements.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, ring: MutexGuard<'_, Ring>) {
        self.count.send_replace(ring.gone.saturating_add(ring.lines.len() as u64));
    }
}

impl Ring {
    fn push(&mut self, line: Line) {
        self.lines.push_back(line);
        if self.lines.len() > CAPACITY
            && let Some(oldest) = self.lines.pop_front()
        {
            self.gone = self.gone.saturating_add(1);
            self.floor = oldest.n.unwrap_or(self.floor);
        }
    }
}

/// A place among the records.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    count: watch::Receiver<u64>,
    /// How many lines are behind it.
    at: u64,
    /// The number of the last record that it has met, or need not meet; none: it begins with this gateway.
    seen: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// What is there now.
    pub fn try_next(&mut self) -> Option<Item> {
        let ring = self.shared.ring();
        self.at = self.at.max(ring.gone);
        let seen = self.seen.unwrap_or(ring.begin);
        if seen < ring.floor {
            self.seen = Some(ring.floor);
            return Some(Item::Gap { from: seen.saturating_add(1), to: ring.floor });
        }
        let line = ring.lines.get(usize::try_from(self.at.saturating_sub(ring.gone)).ok()?)?;
        self.at = self.at.saturating_add(1);
        self.seen = line.n.or(self.seen);
        Some(Item::Line(line.clone()))
    }

    /// Waits for what comes next.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn next(&mut self) -> Item {
        loop {
            self.count.mark_unchanged();
            if let Some(item) = self.try_next() {
                return item;
            }
            if self.count.changed().await.is_err() {
                // The sender is held by this reader too.
                std::future::pending::<()>().await;
            }
        }
    }
}
