//! The embedded backend: one SQLite file, one thread that owns it, and a commit for all that has gathered meanwhile.
//! Changes that nobody waits for gather for some milliseconds: until somebody asks for something.
//!
//! WAL with `synchronous=NORMAL`: what was answered survives the death of the process, and in a crash of the machine the
//! last moments may be lost, never the whole. `secure_delete` overwrites what is deleted, and a deletion is answered
//! only after the WAL was emptied, so no copy is left there.

mod quotas;
mod rows;
#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, Thread};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::HistoryEntry;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::{Answer, Backend, QuotaUsage, SessionRow, SessionState, StoreError};

/// Jobs that wait for the thread. A caller beyond that waits, and its thread with it: that many are worked off in some
/// milliseconds, unless the disk stands still, and then so do the logs.
const QUEUE: usize = 1024;
/// Jobs of one commit.
const BATCH: usize = 256;
/// How long changes that nobody waits for gather before they are stored together.
const GATHER: Duration = Duration::from_millis(20);
/// Unanswered changes that are kept while there is no room.
const MAX_OWED: usize = 4096;

/// Each step brings the file from the format of its position to the next one.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE session (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        config TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        ended_at INTEGER,
        last_activity INTEGER NOT NULL,
        status TEXT NOT NULL,
        expression_count INTEGER NOT NULL,
        state_lost INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE execution (
        position INTEGER PRIMARY KEY,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        execution_id TEXT NOT NULL,
        execution_count INTEGER NOT NULL,
        code TEXT NOT NULL,
        success INTEGER NOT NULL,
        execution_time_ms INTEGER NOT NULL,
        timestamp TEXT NOT NULL,
        \"limit\" TEXT,
        violation TEXT,
        usage TEXT NOT NULL,
        UNIQUE (session, execution_id)
    ) STRICT;
    CREATE INDEX execution_of_session ON execution (session, position);
",
    "
    CREATE TABLE quota_usage (
        subject TEXT NOT NULL,
        period_start INTEGER NOT NULL,
        executions INTEGER NOT NULL,
        session_creations INTEGER NOT NULL,
        cpu_time_ms INTEGER NOT NULL,
        PRIMARY KEY (subject, period_start)
    ) STRICT, WITHOUT ROWID;
",
];

/// Before the first table, or `auto_vacuum` has no effect.
const SETTINGS: &str = "
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA secure_delete = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA busy_timeout = 5000;
";

/// The embedded backend. Its thread ends with the last handle, after all that was asked.
#[derive(Debug)]
pub struct Sqlite {
    jobs: SyncSender<Box<dyn Job>>,
    /// Unparked, it gathers no longer.
    thread: Thread,
}

impl Sqlite {
    /// Opens a database file (0600), and makes it if it is not there.
    ///
    /// # Errors
    /// See [`super::Store::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = |error| StoreError::File(Arc::new(error));
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(file)?;
        let mut connection = Connection::open(path)?;
        connection.execute_batch(SETTINGS)?;
        migrate(&mut connection, &MIGRATIONS)?;
        let (jobs, waiting) = sync_channel(QUEUE);
        let worker = Worker { connection, owed: Vec::new() };
        let run = move || worker.run(&waiting);
        let thread = thread::Builder::new().name("store".into()).spawn(run).map_err(file)?.thread().clone();
        Ok(Self { jobs, thread })
    }

    fn ask<T, F>(&self, purpose: Purpose, work: F) -> Answer<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let sent = self.jobs.send(Box::new(Ask { purpose, work, value: None, answer }));
        self.thread.unpark();
        async move {
            sent.map_err(|_| StoreError::Closed)?;
            answered.await.map_err(|_| StoreError::Closed)?
        }
        .boxed()
    }

    fn tell<F>(&self, what: &'static str, work: F)
    where
        F: FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        let sent = self.jobs.try_send(Box::new(Tell { what, work })).or_else(|error| match error {
            TrySendError::Full(job) => {
                self.thread.unpark();
                self.jobs.send(job).map_err(drop)
            }
            TrySendError::Disconnected(_) => Err(()),
        });
        if sent.is_err() {
            tracing::error!(what, "the store is closed");
        }
    }
}

impl Backend for Sqlite {
    fn create_session(&self, row: SessionRow) -> Answer<()> {
        self.ask(Purpose::Any, move |db| rows::create_session(db, &row))
    }

    fn sessions(&self) -> Answer<Vec<SessionRow>> {
        self.ask(Purpose::Any, rows::sessions)
    }

    fn state(&self, id: SessionId) -> Answer<Option<SessionState>> {
        self.ask(Purpose::Any, move |db| rows::state(db, &id))
    }

    fn history(&self, id: SessionId, limit: u64, offset: u64) -> Answer<(u64, Vec<HistoryEntry>)> {
        self.ask(Purpose::Any, move |db| rows::history(db, &id, limit, offset))
    }

    fn delete_session(&self, id: SessionId) -> Answer<()> {
        self.ask(Purpose::Erase, move |db| rows::delete_session(db, &id))
    }

    fn flush(&self) -> Answer<()> {
        self.ask(Purpose::Any, |_| Ok(()))
    }

    fn finish(&self, id: SessionId, entry: HistoryEntry) {
        self.tell("an execution", move |db| rows::finish(db, &id, &entry));
    }

    fn touch(&self, id: SessionId, at: Timestamp) {
        self.tell("a use", move |db| rows::touch(db, &id, at));
    }

    fn update(&self, id: SessionId, state: SessionState) {
        self.tell("a state", move |db| rows::update(db, &id, state));
    }

    fn end(&self, id: SessionId, at: Timestamp) {
        self.tell("an end", move |db| rows::end(db, &id, at));
    }

    fn quota_usage(&self) -> Answer<Vec<QuotaUsage>> {
        self.ask(Purpose::Any, quotas::usage)
    }

    fn keep_quota_usage(&self, usage: Vec<QuotaUsage>) {
        self.tell("usage of quotas", move |db| quotas::keep(db, &usage));
    }

    fn forget_quota_usage(&self, before: Timestamp) {
        self.tell("the end of a period", move |db| quotas::forget(db, before));
    }
}

/// What a commit has to be followed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Any,
    /// Nothing of what was deleted may be left in any file.
    Erase,
}

/// Something to do within a commit; it may be tried more than once.
trait Job: Send {
    fn purpose(&self) -> Purpose;
    /// Whether somebody waits for it.
    fn is_awaited(&self) -> bool;
    /// Makes one change at most, so that a failure leaves none behind.
    fn work(&mut self, db: &Connection) -> rusqlite::Result<()>;
    /// Told once it is committed, or has failed. What should be tried again is given back.
    fn done(self: Box<Self>, result: Result<(), StoreError>) -> Option<Box<dyn Job>>;
}

struct Ask<T, F> {
    purpose: Purpose,
    work: F,
    value: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send + 'static, F: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static> Job for Ask<T, F> {
    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn is_awaited(&self) -> bool {
        true
    }

    fn work(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.value = Some((self.work)(db)?);
        Ok(())
    }

    fn done(self: Box<Self>, result: Result<(), StoreError>) -> Option<Box<dyn Job>> {
        let Self { value, answer, .. } = *self;
        // Who asked may have gone away.
        let _ = answer.send(result.and_then(|()| value.ok_or(StoreError::Closed)));
        None
    }
}

struct Tell<F> {
    what: &'static str,
    work: F,
}

impl<F: FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static> Job for Tell<F> {
    fn purpose(&self) -> Purpose {
        Purpose::Any
    }

    fn is_awaited(&self) -> bool {
        false
    }

    fn work(&mut self, db: &Connection) -> rusqlite::Result<()> {
        (self.work)(db)
    }

    fn done(self: Box<Self>, result: Result<(), StoreError>) -> Option<Box<dyn Job>> {
        match result {
            Ok(()) => None,
            Err(StoreError::Full) => Some(self),
            Err(error) => {
                tracing::error!(what = self.what, error = &error as &dyn std::error::Error, "not stored");
                None
            }
        }
    }
}

/// What the thread owns.
struct Worker {
    connection: Connection,
    /// Changes nobody waits for that there was no room for; they come first in the next batch.
    owed: Vec<Box<dyn Job>>,
}

impl Worker {
    fn run(mut self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            if !first.is_awaited() {
                // Who asks for something meanwhile unparks, also if that was before.
                thread::park_timeout(GATHER);
            }
            let mut batch = std::mem::take(&mut self.owed);
            batch.push(first);
            batch.extend(jobs.try_iter().take(BATCH));
            self.commit(batch);
        }
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let mut results = match self.transact(&mut batch) {
            Ok(results) => results,
            Err(error) => vec![Err(error); batch.len()],
        };
        if batch.iter().any(|job| job.purpose() == Purpose::Erase)
            && let Err(error) = self.erase()
        {
            let erasing = batch.iter().zip(&mut results).filter(|(job, _)| job.purpose() == Purpose::Erase);
            erasing.for_each(|(_, result)| *result = Err(error.clone()));
        }
        self.owed = batch.into_iter().zip(results).filter_map(|(job, result)| job.done(result)).collect();
        if self.owed.len() > MAX_OWED {
            tracing::error!(count = self.owed.len() - MAX_OWED, "changes are lost: there is no room for them");
            self.owed.truncate(MAX_OWED);
        }
    }

    /// What became of each job; or why none of them is stored.
    fn transact(&mut self, batch: &mut [Box<dyn Job>]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let transaction = self.connection.transaction()?;
        let mut results = Vec::with_capacity(batch.len());
        for job in batch {
            let result = job.work(&transaction);
            if let Err(error) = result {
                // SQLite undoes one statement, or, after a failure of the disk, the whole transaction.
                if transaction.is_autocommit() {
                    return Err(error.into());
                }
                results.push(Err(error.into()));
            } else {
                results.push(Ok(()));
            }
        }
        transaction.commit()?;
        Ok(results)
    }

    fn erase(&self) -> Result<(), StoreError> {
        let mut vacuum = self.connection.prepare_cached("PRAGMA incremental_vacuum")?;
        let mut steps = vacuum.query([])?;
        // Each step frees one page.
        while steps.next()?.is_some() {}
        drop(steps);
        let is_busy: bool = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_busy {
            tracing::warn!(
                "another process reads the store: what was deleted stays in its WAL until the next deletion"
            );
        }
        Ok(())
    }
}

fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    let found: usize = transaction.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? as usize;
    let known = migrations.len();
    for step in migrations.get(found..).ok_or(StoreError::Format { found, known })? {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known as u32)?;
    transaction.commit()?;
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Database(Arc::new(error)),
        }
    }
}
