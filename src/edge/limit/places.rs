//! A cap on what a subject holds at once. Counting and taking are one step, and what was taken goes back by being dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

/// Subjects with what they hold; those that hold nothing are not there.
type Held = Arc<DashMap<String, usize>>;

#[derive(Debug)]
pub(super) struct Places {
    max: AtomicUsize,
    held: Held,
}

/// One of them.
#[derive(Debug)]
pub(in crate::edge) struct Place {
    subject: String,
    held: Held,
}

impl Places {
    /// So many for each subject.
    pub(super) fn new(max: usize) -> Self {
        Self { max: AtomicUsize::new(max), held: Held::default() }
    }

    /// Takes one, if the subject has fewer than `max`.
    pub(super) fn take(&self, subject: &str, max: usize) -> Option<Place> {
        // The entry is locked while it is looked at and changed.
        match self.held.entry(subject.to_owned()) {
            Entry::Occupied(held) if *held.get() >= max => return None,
            Entry::Occupied(mut held) => *held.get_mut() += 1,
            Entry::Vacant(_) if max == 0 => return None,
            Entry::Vacant(vacant) => drop(vacant.insert(1)),
        }
        Some(Place { subject: subject.to_owned(), held: self.held.clone() })
    }

    pub(super) fn held(&self, subject: &str) -> usize {
        self.held.get(subject).map_or(0, |held| *held)
    }

    pub(super) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// So many from now on; who holds more keeps them.
    pub(super) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Gives back the memory of subjects that hold nothing any more.
    pub(super) fn shrink(&self) {
        self.held.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn subjects(&self) -> usize {
        self.held.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut held) = self.held.entry(std::mem::take(&mut self.subject)) {
            match *held.get() {
                0 | 1 => drop(held.remove()),
                more => *held.get_mut() = more - 1,
            }
        }
    }
}
