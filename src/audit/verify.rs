//! Checks a log from its first record to its last: numbers, hashes, files, signatures. It only reads, and may run while
//! the log is written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::chain::{Hash, Head, MAX_LINE_BYTES};
use super::files::{self, Numbered};
use super::record::{Kind, Record, What};
use super::seal::{self, PublicKey, Seal, SealError};

/// What a signature that does not fit means.
const REWRITTEN: &str = "it or an earlier one was rewritten, with all that follow: it is not what was signed";
/// Files may go while they are looked for; after so many times something else is wrong.
const TRIES: usize = 3;

/// Why nothing can be said of a log.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is none.
    #[error("there is no audit log in {}", .0.display())]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Keys or checkpoints cannot be read.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The first thing that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The first record that is not as it was written, or is not there.
    pub record: u64,
    /// The file that it is in, or should be.
    pub file: String,
    /// What is wrong, in words.
    pub problem: String,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Records that were checked.
    pub records: u64,
    /// Files that they are in.
    pub files: usize,
    /// The number of the first one that is kept.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
    /// The time of the first one.
    pub first_time: Option<String>,
    /// The time of the last one.
    pub last_time: Option<String>,
    /// The last checkpoint.
    pub checkpoint: Option<Seal>,
    /// Records after that, which no signature holds yet.
    pub unsigned: u64,
    /// Bytes of a last line that was never completed: no attack, a crash.
    pub half_written: u64,
    /// Nothing if the log is as it was written.
    pub fault: Option<Fault>,
}

/// Checks the log of a data directory. `key` takes the place of the directory's own public key, and `anchor` is a copy of
/// an earlier `audit.head`, both from a place that whoever can write the directory cannot.
///
/// # Errors
/// See [`VerifyError`]. What is wrong with the log is no error but told.
pub fn verify(data_dir: &Path, key: Option<&Path>, anchor: Option<&Path>) -> Result<Verdict, VerifyError> {
    let folder = super::folder(data_dir);
    for _ in 1..TRIES {
        match verify_once(data_dir, &folder, key, anchor) {
            // Old files were dropped just now.
            Err(VerifyError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
    verify_once(data_dir, &folder, key, anchor)
}

fn verify_once(
    data_dir: &Path,
    folder: &Path,
    key: Option<&Path>,
    anchor: Option<&Path>,
) -> Result<Verdict, VerifyError> {
    let files = files::list(folder).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => VerifyError::Missing(folder.to_owned()),
        _ => VerifyError::Read { path: folder.to_owned(), source },
    })?;
    if files.is_empty() {
        return Err(VerifyError::Missing(folder.to_owned()));
    }
    let key = key.map_or_else(|| PublicKey::of(data_dir), PublicKey::read)?;
    // Read first: what was signed by now is in the files that are read next.
    let kept = seal::last_seal(data_dir)?;
    let anchor = anchor.map(seal::read_seal).transpose()?.flatten();
    let known: Vec<Seal> = [anchor, kept].into_iter().flatten().collect();
    let mut check = Check::new(key, &known);
    if let Some(fault) = check.foreign_seal(&files) {
        return Ok(Verdict { fault: Some(fault), ..check.verdict });
    }
    let mut lines = Lines { files: &files, open: None, next: 0, torn: 0 };
    let mut ahead = lines.next()?;
    while let Some(line) = ahead {
        ahead = lines.next()?;
        if let Err(fault) = check.line(&line, ahead.as_ref()) {
            return Ok(Verdict { fault: Some(fault), ..check.verdict });
        }
    }
    check.verdict.half_written = lines.torn;
    let latest = seal::last_seal(data_dir)?;
    Ok(check.end(files.len(), latest.as_ref()))
}

/// A line of a file.
struct Line {
    file: u32,
    /// Whether it is the first of its file.
    opens: bool,
    bytes: Vec<u8>,
}

/// The lines of all files in their order, without line breaks.
struct Lines<'a> {
    files: &'a [Numbered],
    open: Option<(u32, BufReader<File>)>,
    next: usize,
    /// Bytes of a line without end in the last file.
    torn: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<Line>, VerifyError> {
        let mut opens = false;
        loop {
            let Some((file, reader)) = &mut self.open else {
                let Some(next) = self.files.get(self.next) else { return Ok(None) };
                let read = |source| VerifyError::Read { path: next.path.clone(), source };
                self.open = Some((next.number, BufReader::new(File::open(&next.path).map_err(read)?)));
                self.next += 1;
                opens = true;
                continue;
            };
            let mut bytes = Vec::new();
            let path = || self.files.get(self.next - 1).map(|it| it.path.clone()).unwrap_or_default();
            let mut limited = reader.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            limited.read_until(b'\n', &mut bytes).map_err(|source| VerifyError::Read { path: path(), source })?;
            let is_last = self.next == self.files.len();
            match bytes.pop() {
                None => self.open = None,
                Some(b'\n') => return Ok(Some(Line { file: *file, opens, bytes })),
                // The writer is in the middle of it, or died there.
                Some(_) if is_last && bytes.len() < MAX_LINE_BYTES => {
                    self.torn = bytes.len() as u64 + 1;
                    self.open = None;
                }
                Some(byte) => {
                    bytes.push(byte);
                    return Ok(Some(Line { file: *file, opens, bytes }));
                }
            }
        }
    }
}

/// What of a record the chain rests on.
#[derive(Debug, Deserialize)]
struct Seen {
    n: u64,
    time: String,
    kind: String,
    prev: Hash,
    #[serde(default)]
    file: Option<u32>,
    #[serde(default)]
    base: Option<Seal>,
    #[serde(default)]
    seal: Option<Seal>,
    #[serde(default)]
    dropped: Option<u64>,
}

fn read(line: &Line) -> Option<Seen> {
    serde_json::from_slice(&line.bytes).ok()
}

struct Check<'a> {
    key: PublicKey,
    /// What was signed, by other sources than the log.
    known: &'a [Seal],
    verdict: Verdict,
    head: Option<Head>,
    /// The hashes of the last records, from the last checkpoint on, and whether each is to be signed.
    hashes: VecDeque<(Hash, bool)>,
    /// The last record that the log says was dropped.
    dropped: u64,
    first_file: u32,
    last_file: u32,
}

impl<'a> Check<'a> {
    fn new(key: PublicKey, known: &'a [Seal]) -> Self {
        let (verdict, hashes) = (Verdict::default(), VecDeque::new());
        Self { key, known, verdict, head: None, hashes, dropped: 0, first_file: 0, last_file: 0 }
    }

    fn fault(&self, record: u64, file: u32, problem: impl Into<String>) -> Fault {
        Fault { record, file: files::name(file), problem: problem.into() }
    }

    fn foreign_seal(&self, files: &[Numbered]) -> Option<Fault> {
        let foreign = self.known.iter().find(|seal| !self.key.signed(seal))?;
        let problem = "a checkpoint outside of the log (audit.head) was signed with another key, or edited";
        let file = files.last().map(Numbered::name).unwrap_or_default();
        Some(Fault { record: foreign.count, file, problem: problem.to_owned() })
    }

    /// Takes the next line; the one after it tells which of two is wrong where they do not fit.
    fn line(&mut self, line: &Line, ahead: Option<&Line>) -> Result<(), Fault> {
        let place = self.head.map_or(0, |head| head.count).saturating_add(1);
        let Some(seen) = read(line) else {
            return Err(self.fault(
                place,
                line.file,
                "it is no record any more: edited, or something was put in between",
            ));
        };
        let head = *self.head.get_or_insert(Head { count: seen.n.saturating_sub(1), hash: seen.prev });
        self.check_place(line, &seen, head, ahead)?;
        self.check_file(line, &seen)?;
        if seen.prev != head.hash {
            let hash = Hash::of(&line.bytes);
            let is_signed = self.known.iter().any(|seal| seal.head() == head);
            let fits_next = !is_signed && ahead.and_then(read).is_none_or(|next| next.prev == hash);
            return Err(match (line.opens, fits_next) {
                (false, true) => {
                    self.fault(head.count, line.file, "it was edited: its hash is not the one that follows it")
                }
                (true, true) => {
                    self.fault(head.count, self.last_file, "it was edited, or another file was put in place")
                }
                (_, false) => self.fault(seen.n, line.file, "it was edited: it names another record before it"),
            });
        }
        self.check_seals(line, &seen, head)?;
        let hash = Hash::of(&line.bytes);
        if self.known.iter().any(|seal| seal.count == seen.n && seal.head != hash) {
            return Err(self.fault(seen.n, line.file, REWRITTEN));
        }
        self.take(hash, seen);
        Ok(())
    }

    fn check_place(&self, line: &Line, seen: &Seen, head: Head, ahead: Option<&Line>) -> Result<(), Fault> {
        let wanted = head.count.saturating_add(1);
        if seen.n == wanted {
            return Ok(());
        }
        let next = ahead.and_then(read).map(|next| next.n);
        let fits_next = next == Some(seen.n.saturating_add(1));
        let problem = match seen.n > wanted {
            _ if next == Some(wanted.saturating_add(1)) => "it was edited: it has another number",
            true if next == Some(wanted) => "it stands behind a later one: the order was changed",
            true if fits_next || ahead.is_none() => "it was removed, with all up to the one that follows here",
            false if fits_next => "it is followed by earlier ones: repeated, or the order was changed",
            _ => "it was edited or removed: another number stands in its place",
        };
        Err(self.fault(wanted, line.file, problem))
    }

    fn check_file(&mut self, line: &Line, seen: &Seen) -> Result<(), Fault> {
        if self.first_file == 0 && line.file == 1 && seen.n != 1 {
            return Err(self.fault(
                1,
                line.file,
                "it was edited or removed: the first file begins with another number",
            ));
        }
        match (line.opens, seen.kind == "file") {
            (true, true) if seen.file == Some(line.file) => {}
            (true, true) => return Err(self.fault(seen.n, line.file, "this file has the name of another one")),
            (true, false) => return Err(self.fault(seen.n, line.file, "the beginning of this file was removed")),
            (false, true) => return Err(self.fault(seen.n, line.file, "a file was put behind another one")),
            (false, false) => return Ok(()),
        }
        if self.last_file > 0 && line.file != self.last_file.saturating_add(1) {
            return Err(self.fault(seen.n, line.file, "the file before this one is missing"));
        }
        if self.first_file == 0 {
            self.first_file = line.file;
        }
        self.last_file = line.file;
        Ok(())
    }

    fn check_seals(&self, line: &Line, seen: &Seen, head: Head) -> Result<(), Fault> {
        let foreign = "it holds a checkpoint that was signed with another key, or edited";
        if seen.base.as_ref().or(seen.seal.as_ref()).is_some_and(|seal| !self.key.signed(seal)) {
            return Err(self.fault(seen.n, line.file, foreign));
        }
        if (seen.kind == "checkpoint") != seen.seal.is_some() {
            return Err(self.fault(seen.n, line.file, "it was edited: a checkpoint and its signature belong together"));
        }
        let Some(seal) = &seen.seal else { return Ok(()) };
        if canonical(seal, head).as_deref() != Some(&line.bytes[..]) {
            return Err(self.fault(seen.n, line.file, "it was edited: it says more than was signed"));
        }
        self.check_signed(seal, line.file)
    }

    /// Whether what was signed is what stands there, as far back as that is known.
    fn check_signed(&self, seal: &Seal, file: u32) -> Result<(), Fault> {
        let last = self.head.map_or(0, |head| head.count);
        let back = usize::try_from(last.saturating_sub(seal.count)).unwrap_or(usize::MAX);
        let at = self.hashes.len().checked_sub(back.saturating_add(1));
        match at.and_then(|at| self.hashes.get(at)) {
            Some((hash, _)) if *hash != seal.head => Err(self.fault(seal.count, file, REWRITTEN)),
            _ => Ok(()),
        }
    }

    fn take(&mut self, hash: Hash, seen: Seen) {
        self.head = Some(Head { count: seen.n, hash });
        self.hashes.push_back((hash, seen.seal.is_none()));
        if let Some(seal) = seen.seal {
            let behind = usize::try_from(seen.n.saturating_sub(seal.count)).unwrap_or(usize::MAX);
            let gone = self.hashes.len().saturating_sub(behind.saturating_add(1));
            self.hashes.drain(..gone);
            self.verdict.checkpoint = Some(seal);
        }
        self.dropped = self.dropped.max(seen.dropped.unwrap_or(0));
        let verdict = &mut self.verdict;
        if verdict.records == 0 {
            (verdict.first, verdict.first_time) = (seen.n, Some(seen.time.clone()));
        }
        (verdict.records, verdict.last, verdict.last_time) = (verdict.records + 1, seen.n, Some(seen.time));
    }

    /// `latest` is the last checkpoint outside of the log, read after it.
    fn end(mut self, files: usize, latest: Option<&Seal>) -> Verdict {
        self.verdict.files = files;
        self.verdict.fault = self.fault_at_end(latest);
        let newest = self.known.iter().chain(self.verdict.checkpoint.as_ref()).max_by_key(|seal| seal.count);
        let signed = newest.map_or(0, |seal| seal.count);
        let numbered = (0..=self.verdict.last).rev().zip(self.hashes.iter().rev());
        let unsigned = numbered.filter(|(n, (_, counts))| *n > signed && *counts).count();
        (self.verdict.unsigned, self.verdict.checkpoint) = (unsigned as u64, newest.cloned());
        self.verdict
    }

    fn fault_at_end(&self, latest: Option<&Seal>) -> Option<Fault> {
        if self.verdict.first > self.dropped.saturating_add(1) {
            let problem =
                "it was removed, with all up to the first one here: the log does not say that they were dropped";
            return Some(self.fault(self.dropped.saturating_add(1), self.first_file, problem));
        }
        let last = self.verdict.last;
        if let Some(seal) = self.known.iter().find(|seal| seal.count > last) {
            let problem = format!("the end was cut off: {} records were signed, and {last} are there", seal.count);
            return Some(self.fault(last.saturating_add(1), self.last_file, problem));
        }
        let behind = self.verdict.checkpoint.as_ref().filter(|seal| latest.is_none_or(|kept| kept.count < seal.count));
        let problem = "audit.head, where the last signature is kept, is missing or older than the log";
        behind.map(|seal| self.fault(seal.count, self.last_file, problem))
    }
}

/// The line of a checkpoint, which holds nothing but the signature and its place.
fn canonical(seal: &Seal, head: Head) -> Option<Vec<u8>> {
    let what = What { seal: Some(seal.clone()), ..What::default() };
    Some(head.line(&Record::at(seal.time.parse().ok()?, Kind::Checkpoint, what)))
}
