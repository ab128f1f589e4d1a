//! The thread that writes. It takes what waits in one go, and what somebody waits for is synced at once, together with
//! all that came meanwhile; the rest, a second later at most. Once a second it asks for a signature, if there is
//! something new.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::book::Book;
use super::queue::{Shared, Work};
use super::record::{Kind, Record, What};
use super::seal::Seal;
use super::{Ask, Settings};

/// How long a record may wait for the disk, and what is new for a signature; and how long until a log that cannot be
/// written is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Where there is nothing to do until somebody says so.
const IDLE: Duration = Duration::from_secs(3600);
/// How long the end waits for its signature.
const LAST_SEAL: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Writer {
    shared: Arc<Shared>,
    folder: PathBuf,
    settings: Settings,
    ask: Ask,
    /// The last signature.
    seal: Option<Seal>,
    /// One that is not in the log yet.
    fresh: Option<Seal>,
    book: Option<Book>,
    /// Who waits until all that was appended is on the disk.
    waiting: Vec<oneshot::Sender<()>>,
    /// The last record that is worth a signature.
    worth: u64,
    /// Since when something is not synced or not signed.
    since: Option<Instant>,
    broken: bool,
}

/// Tells everybody that there is no writer any more, however it ended.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let left = self.0.end();
        if left > 0 {
            tracing::error!(records = left, "records of the audit log were not written");
        }
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, folder: PathBuf, settings: Settings, seal: Option<Seal>, ask: Ask) -> Self {
        Self {
            shared,
            folder,
            settings,
            ask,
            seal,
            fresh: None,
            book: None,
            waiting: Vec::new(),
            worth: 0,
            since: None,
            broken: false,
        }
    }

    /// Writes until it is told to end.
    pub(super) fn run(mut self) {
        let _guard = EndGuard(self.shared.clone());
        loop {
            let Work { seal, closing } = self.shared.wait(self.patience());
            self.fresh = seal.or(self.fresh.take());
            match self.round(closing) {
                Ok(()) => self.mend(),
                Err(error) => self.give_up(&error),
            }
            if closing && (self.broken || self.shared.is_empty()) {
                return self.finish();
            }
        }
    }

    fn patience(&self) -> Duration {
        match self.since {
            _ if self.broken => PAUSE,
            // It is opened before anything is to be written.
            _ if self.book.is_none() => Duration::ZERO,
            Some(since) => PAUSE.saturating_sub(since.elapsed()),
            None => IDLE,
        }
    }

    fn round(&mut self, closing: bool) -> io::Result<()> {
        let Self { shared, waiting, settings, .. } = self;
        let book = match &mut self.book {
            Some(book) => book,
            None => {
                let mut book = Book::open(&self.folder, self.seal.as_ref())?;
                book.drop_old(settings.keep)?;
                self.worth = book.head().count;
                self.since.get_or_insert_with(Instant::now);
                if book.lacking() > 0 {
                    shared.damaged(book.lacking());
                }
                self.book.insert(book)
            }
        };
        if self.broken {
            // What failed comes first.
            book.sync()?;
        }
        if let Some(seal) = self.fresh.take() {
            append_seal(book, &seal);
            self.seal = Some(seal);
        }
        if book.len() >= settings.file_bytes {
            book.rotate(self.seal.clone())?;
            book.drop_old(settings.keep)?;
        }
        let entries = shared.take();
        if !entries.is_empty() {
            for (record, done) in entries {
                append(shared, book, &record);
                waiting.extend(done);
            }
            self.worth = book.head().count;
        }
        book.write()?;
        if !book.is_synced() {
            self.since.get_or_insert_with(Instant::now);
        }
        let is_due = self.since.is_some_and(|since| since.elapsed() >= PAUSE);
        if closing || is_due || !waiting.is_empty() {
            book.sync()?;
            for done in waiting.drain(..) {
                // Who does not wait any more need not be told.
                let _ = done.send(());
            }
        }
        if is_due {
            let unsigned = self.seal.as_ref().is_none_or(|seal| seal.count < self.worth);
            if unsigned {
                (self.ask)(book.head());
            }
            // Asked again a second later, should no answer come.
            self.since = unsigned.then(Instant::now);
        }
        Ok(())
    }

    /// The log can be written: if it could not before, that is told, with what was lost.
    fn mend(&mut self) {
        if !std::mem::take(&mut self.broken) {
            return;
        }
        tracing::info!("the audit log can be written again");
        let lost = self.shared.take_lost();
        self.shared.set_broken(false);
        if let (1.., Some(book)) = (lost, &mut self.book) {
            let gap = Record::new(Kind::Gap, What { lost: Some(lost), ..What::default() });
            append(&self.shared, book, &gap);
            self.worth = book.head().count;
            self.since.get_or_insert_with(Instant::now);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.waiting.clear();
        if !std::mem::replace(&mut self.broken, true) {
            tracing::error!(error = error as &dyn std::error::Error, "the audit log cannot be written");
            self.shared.set_broken(true);
        }
    }

    /// The last signature, under everything.
    fn finish(mut self) {
        let Some(mut book) = self.book.take().filter(|_| !self.broken) else { return };
        if self.seal.as_ref().is_some_and(|seal| seal.count >= self.worth) {
            return;
        }
        if let Err(error) = book.sync() {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit log cannot be ended");
            return;
        }
        (self.ask)(book.head());
        // The answer to an earlier question may come first.
        while let Some(seal) = self.shared.wait_for_seal(LAST_SEAL) {
            append_seal(&mut book, &seal);
            if seal.count >= self.worth {
                break;
            }
        }
        if let Err(error) = book.sync() {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit log cannot be ended");
        }
    }
}

/// Appends a record, and tells who listens that it has its place.
fn append(shared: &Shared, book: &mut Book, record: &Record) {
    let n = book.head().count.saturating_add(1);
    shared.placed(n, record, book.append(record));
}

/// Its time is the one that was signed: so nothing in the record is but what the signature says, and its place.
fn append_seal(book: &mut Book, seal: &Seal) {
    let time = seal.time.parse().unwrap_or_else(|_| Timestamp::now());
    book.append(&Record::at(time, Kind::Checkpoint, What { seal: Some(seal.clone()), ..What::default() }));
}
