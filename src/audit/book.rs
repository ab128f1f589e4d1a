//! The file that is written, and the chain at its end. What was not synced yet is kept in memory as well, so that after a
//! fault all of it is written once more, at the same place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::chain::Head;
use super::files::{self, End, Numbered};
use super::record::{Kind, Record, Text, What};
use super::seal::Seal;

/// See the module.
pub(super) struct Book {
    folder: PathBuf,
    number: u32,
    file: File,
    head: Head,
    /// Bytes of the file that are on the disk.
    synced: u64,
    /// What follows them.
    tail: Vec<u8>,
    /// Bytes of the tail that were written.
    written: usize,
    /// Records that were signed and are not there.
    lacking: u64,
}

impl Book {
    /// Opens the log, and goes on at its end or after `last`, whichever is further. A line that was never completed is cut
    /// off, and that is recorded.
    pub(super) fn open(folder: &Path, last: Option<&Seal>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let files = files::list(folder)?;
        let signed = last.map(Seal::head).unwrap_or_default();
        let create = |number, found| {
            let book = Self::create(folder, number, signed, last)?;
            Ok(Self { lacking: signed.count.saturating_sub(found), ..book })
        };
        let Some(newest) = files.last() else { return create(1, 0) };
        let mut file = OpenOptions::new().read(true).write(true).open(&newest.path)?;
        let End { head, whole, torn } = files::end(&mut file)?;
        if torn > 0 {
            file.set_len(whole)?;
        }
        let Some(head) = head.map_or_else(|| head_before(&files), |head| Ok(Some(head)))? else {
            return create(newest.number.saturating_add(1), 0);
        };
        if head.count < signed.count {
            // Something is missing, which is told by the gap: no number is given twice.
            return create(newest.number.saturating_add(1), head.count);
        }
        let (folder, number) = (folder.to_owned(), newest.number);
        let mut book = Self { folder, number, file, head, synced: whole, tail: Vec::new(), written: 0, lacking: 0 };
        if whole == 0 {
            book.begin_file(last.cloned());
        }
        if torn > 0 {
            let detail = Some(Text::new(&format!("a half-written last record of {torn} bytes was cut off")));
            book.append(&Record::new(Kind::Repaired, What { detail, ..What::default() }));
        }
        Ok(book)
    }

    fn create(folder: &Path, number: u32, head: Head, base: Option<&Seal>) -> io::Result<Self> {
        let file = create_file(folder, number)?;
        let folder = folder.to_owned();
        let mut book = Self { folder, number, file, head, synced: 0, tail: Vec::new(), written: 0, lacking: 0 };
        book.begin_file(base.cloned());
        Ok(book)
    }

    fn begin_file(&mut self, base: Option<Seal>) {
        let what = What { file: Some(self.number), base, ..What::default() };
        self.append(&Record::new(Kind::File, what));
    }

    /// How far the log has come.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Records that were signed and were not there when it was opened.
    pub(super) fn lacking(&self) -> u64 {
        self.lacking
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.synced.saturating_add(self.tail.len() as u64)
    }

    /// Whether all of it is on the disk.
    pub(super) fn is_synced(&self) -> bool {
        self.tail.is_empty()
    }

    /// Appends a record, in memory. Gives its line, without a line break.
    pub(super) fn append(&mut self, record: &Record) -> &[u8] {
        let from = self.tail.len();
        self.head = self.head.append(record, &mut self.tail);
        self.tail.get(from..).and_then(|line| line.strip_suffix(b"\n")).unwrap_or_default()
    }

    /// Writes what was appended: others can read it then.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let rest = self.tail.get(self.written..).unwrap_or_default();
        let outcome = self.file.write_all_at(rest, self.synced.saturating_add(self.written as u64));
        self.written = if outcome.is_ok() { self.tail.len() } else { 0 };
        outcome
    }

    /// Writes what was appended, and waits until it is on the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        if let Err(error) = self.file.sync_data() {
            // What Linux could not write it may have forgotten.
            self.written = 0;
            return Err(error);
        }
        self.synced = self.len();
        self.tail.clear();
        self.written = 0;
        Ok(())
    }

    /// Goes on in a new file, after all of this one is on the disk.
    pub(super) fn rotate(&mut self, base: Option<Seal>) -> io::Result<()> {
        self.sync()?;
        let number = self.number.saturating_add(1);
        self.file = create_file(&self.folder, number)?;
        (self.number, self.synced) = (number, 0);
        self.begin_file(base);
        Ok(())
    }

    /// Drops the oldest files, as far as nothing was written into them for so long. That is recorded first: without that
    /// record they would count as stolen.
    pub(super) fn drop_old(&mut self, keep: Duration) -> io::Result<()> {
        self.sync()?;
        let files = files::list(&self.folder)?;
        let now = SystemTime::now();
        let is_old = |file: &&Numbered| {
            let modified = file.path.metadata().and_then(|it| it.modified());
            file.number < self.number && modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > keep))
        };
        let old: Vec<_> = files.iter().take_while(is_old).collect();
        let (Some(last), Some(next)) = (old.last(), files.get(old.len())) else { return Ok(()) };
        // Where that cannot be read something is wrong, and nothing goes.
        let Some(next) = files::first_number(&next.path)? else { return Ok(()) };
        let dropped = next.saturating_sub(1);
        let what = What { file: Some(last.number), dropped: Some(dropped), ..What::default() };
        self.append(&Record::new(Kind::Retention, what));
        self.sync()?;
        tracing::info!(files = old.len(), last_record = dropped, "old files of the audit log are dropped");
        old.into_iter().try_for_each(|file| std::fs::remove_file(&file.path))
    }
}

/// How far the log had come before its newest file, which has no record.
fn head_before(files: &[Numbered]) -> io::Result<Option<Head>> {
    for file in files.iter().rev().skip(1) {
        if let Some(head) = files::end(&mut File::open(&file.path)?)?.head {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// A new file. One that is there and empty was made by a try that failed.
fn create_file(folder: &Path, number: u32) -> io::Result<File> {
    let path = folder.join(files::name(number));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    if file.metadata()?.len() > 0 {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is not empty", path.display())));
    }
    File::open(folder)?.sync_all()?;
    Ok(file)
}
