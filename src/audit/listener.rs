//! Who hears of records beside the one who writes them.

use std::fmt;

use super::record::Record;

/// Hears of every record. It is called by whoever records, and by the thread that writes: it must not wait, and must not
/// record anything itself. What it gives back is recorded, and not told to [`Listener::noted`] again.
pub trait Listener: fmt::Debug + Send + Sync {
    /// A record was handed over; it may have to wait for its place.
    fn noted(&self, record: &Record) -> Option<Record>;

    /// A record has its place: its number, and its line without a line break. Numbers only grow.
    fn placed(&self, n: u64, record: &Record, line: &[u8]);

    /// The log cannot be written from now on.
    fn failed(&self) -> Option<Record>;

    /// A log was opened that lacks so many records which were signed.
    fn damaged(&self, lacking: u64) -> Option<Record>;
}
