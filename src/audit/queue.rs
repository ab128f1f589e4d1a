//! What lies between those who record and the one who writes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::OnFailure;
use super::listener::Listener;
use super::record::Record;
use super::seal::Seal;

/// Records that wait, of some 400 bytes each. Beyond it whoever can wait does: requests before they are answered, and
/// sessions before they go on. What each of those has still to say then goes beyond the number, a few records each.
pub(super) const CAPACITY: usize = 8192;
/// Records that are written at once.
const BATCH: usize = 1024;

/// How long records that nobody waits for gather before they are written together.
const GATHER: Duration = Duration::from_millis(2);

/// A record, and who waits until it is on the disk.
pub(super) type Entry = (Record, Option<oneshot::Sender<()>>);

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Told when the writer has something to do.
    work: Condvar,
    /// Told when there may be room.
    freed: Notify,
    /// Told when the writer has ended.
    ended: Notify,
    waiting: AtomicUsize,
    broken: AtomicBool,
    on_failure: OnFailure,
    listener: Option<Arc<dyn Listener>>,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    seal: Option<Seal>,
    lost: u64,
    closing: bool,
    ended: bool,
    /// Somebody waits for a record.
    awaited: bool,
    /// The writer lets records gather.
    gathers: bool,
}

impl State {
    fn is_urgent(&self) -> bool {
        self.awaited || self.closing || self.seal.is_some() || self.entries.len() >= BATCH
    }
}

/// What woke the writer.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) seal: Option<Seal>,
    pub(super) closing: bool,
}

impl Shared {
    pub(super) fn new(on_failure: OnFailure, listener: Option<Arc<dyn Listener>>) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            freed: Notify::new(),
            ended: Notify::new(),
            waiting: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            on_failure,
            listener,
        }
    }

    /// A poisoned lock is taken all the same: what it guards is whole between any two statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, record: Record, done: Option<oneshot::Sender<()>>) {
        let follows = self.listener.as_ref().and_then(|it| it.noted(&record));
        self.push_unheard(record, done);
        follows.into_iter().for_each(|record| self.push_unheard(record, None));
    }

    /// For the writer: a record has its place.
    pub(super) fn placed(&self, n: u64, record: &Record, line: &[u8]) {
        self.listener.iter().for_each(|it| it.placed(n, record, line));
    }

    /// For the writer: the log that was opened lacks so many records that were signed.
    pub(super) fn damaged(&self, lacking: u64) {
        let follows = self.listener.as_ref().and_then(|it| it.damaged(lacking));
        follows.into_iter().for_each(|record| self.push_unheard(record, None));
    }

    fn push_unheard(&self, record: Record, done: Option<oneshot::Sender<()>>) {
        let mut state = self.state();
        let broken = self.is_broken();
        if state.ended || (broken && self.on_failure == OnFailure::Continue && state.entries.len() >= CAPACITY) {
            state.lost = state.lost.saturating_add(1);
            return;
        }
        // Nobody waits for a disk that may not come back.
        let done = done.filter(|_| !broken);
        state.awaited |= done.is_some();
        state.entries.push_back((record, done));
        self.waiting.store(state.entries.len(), Ordering::Relaxed);
        if !state.gathers || state.is_urgent() {
            self.work.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        let goes_on = || self.is_broken() && self.on_failure == OnFailure::Continue;
        self.waiting.load(Ordering::Relaxed) < CAPACITY || goes_on() || self.state().ended
    }

    pub(super) async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(super) fn refuses(&self) -> bool {
        self.is_broken() && self.on_failure == OnFailure::Refuse
    }

    pub(super) fn sealed(&self, seal: Seal) {
        self.state().seal = Some(seal);
        self.work.notify_one();
    }

    pub(super) async fn close(&self) {
        self.state().closing = true;
        self.work.notify_one();
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            if self.state().ended {
                return;
            }
            ended.await;
        }
    }

    /// For the writer: waits for records, a signature or the end, at most so long, and for a moment more if nobody waits
    /// for what is to be written. While the log is broken records are nothing to do.
    pub(super) fn wait(&self, patience: Duration) -> Work {
        let broken = self.is_broken();
        let idle = |state: &mut State| {
            let records = !broken && !state.entries.is_empty();
            !records && (broken || state.seal.is_none()) && !state.closing
        };
        let waited = self.work.wait_timeout_while(self.state(), patience, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !broken && !state.entries.is_empty() && !state.is_urgent() {
            state.gathers = true;
            let waited = self.work.wait_timeout_while(state, GATHER, |state| !state.is_urgent());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.gathers = false;
        }
        Work { seal: state.seal.take(), closing: state.closing }
    }

    /// For the writer: waits for the answer of the supervisor, at most so long.
    pub(super) fn wait_for_seal(&self, patience: Duration) -> Option<Seal> {
        let waited = self.work.wait_timeout_while(self.state(), patience, |state| state.seal.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.seal.take()
    }

    /// For the writer: takes records out.
    pub(super) fn take(&self) -> Vec<Entry> {
        let mut state = self.state();
        let count = state.entries.len().min(BATCH);
        let taken = state.entries.drain(..count).collect();
        state.awaited = state.entries.iter().any(|(_, done)| done.is_some());
        self.waiting.store(state.entries.len(), Ordering::Relaxed);
        drop(state);
        self.freed.notify_waiters();
        taken
    }

    /// For the writer: whether records wait.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// For the writer: the log cannot be written from now on, or can again. Who waits for the disk waits no more.
    pub(super) fn set_broken(&self, broken: bool) {
        let mut state = self.state();
        self.broken.store(broken, Ordering::Relaxed);
        if broken {
            state.entries.iter_mut().for_each(|(_, done)| *done = None);
            state.awaited = false;
        }
        drop(state);
        self.freed.notify_waiters();
        let follows = self.listener.as_ref().filter(|_| broken).and_then(|it| it.failed());
        follows.into_iter().for_each(|record| self.push_unheard(record, None));
    }

    /// For the writer: how many records were lost, which is told then.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.state().lost)
    }

    /// For the writer: there is none any more. Gives the number of records that nobody will write.
    pub(super) fn end(&self) -> usize {
        let mut state = self.state();
        state.ended = true;
        let left = std::mem::take(&mut state.entries).len();
        self.waiting.store(0, Ordering::Relaxed);
        drop(state);
        self.freed.notify_waiters();
        self.ended.notify_waiters();
        left
    }
}
