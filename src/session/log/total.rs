//! What all logs of a server take together. Past the ceiling, whoever writes gives up the oldest part of its own log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that all logs of a server share, with its ceiling. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Total(Arc<Sum>);

#[derive(Debug)]
struct Sum {
    bytes: AtomicU64,
    max: u64,
}

impl Total {
    /// A count at zero.
    pub fn new(max_bytes: u64) -> Self {
        Self(Arc::new(Sum { bytes: AtomicU64::new(0), max: max_bytes }))
    }

    /// What the logs take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Whether others hold it, too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn change(&self, from: u64, to: u64) {
        if to >= from {
            self.0.bytes.fetch_add(to - from, Ordering::Relaxed);
        } else {
            self.0.bytes.fetch_sub(from - to, Ordering::Relaxed);
        }
    }

    /// Whether the logs take more than they may.
    pub fn is_over(&self) -> bool {
        self.bytes() > self.0.max
    }
}

/// What one log has added to that count, and to that of its owner; taken off when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    totals: Option<(Total, Total)>,
    reported: u64,
}

impl Share {
    pub(super) fn of(total: Total, owners: Total) -> Self {
        Self { totals: Some((total, owners)), reported: 0 }
    }

    /// The log takes so many bytes now. Says whether all together take too much.
    pub(super) fn report(&mut self, bytes: u64) -> bool {
        let Some((total, owners)) = &self.totals else { return false };
        total.change(self.reported, bytes);
        owners.change(self.reported, bytes);
        self.reported = bytes;
        total.is_over()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.report(0);
    }
}
