//! The files of a log: `NNNNNNNN.jsonl` in one folder, numbered from 1 on.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::chain::{self, Head, MAX_LINE_BYTES};

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Numbered {
    pub(super) number: u32,
    pub(super) path: PathBuf,
}

impl Numbered {
    /// Its name, for people.
    pub(super) fn name(&self) -> String {
        name(self.number)
    }
}

/// The name of a file.
pub(super) fn name(number: u32) -> String {
    format!("{number:08}.jsonl")
}

/// All files, the oldest first. What has another name is none.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Numbered>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let digits = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jsonl"));
        let number = digits.filter(|digits| digits.len() == 8).and_then(|digits| digits.parse().ok());
        files.extend(number.map(|number| Numbered { number, path }));
    }
    files.sort();
    Ok(files)
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// How far the log has come with it; none if it has no record.
    pub(super) head: Option<Head>,
    /// Bytes up to the end of its last whole line.
    pub(super) whole: u64,
    /// Bytes after that: of a line that was never completed.
    pub(super) torn: u64,
}

/// Reads the end of a file.
pub(super) fn end(file: &mut File) -> io::Result<End> {
    // The last whole line, and one before it, lie within this.
    const SPAN: u64 = 4 * MAX_LINE_BYTES as u64;
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(SPAN);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(SPAN).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let torn = (bytes.len() - whole) as u64;
    bytes.truncate(whole);
    // The first of these lines may be the second half of one.
    let begin = if from == 0 { 0 } else { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
    let head = chain::head_of(bytes.get(begin..).unwrap_or_default());
    Ok(End { head, whole: length - torn, torn })
}

/// The number of the first record of a file.
pub(super) fn first_number(path: &Path) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_LINE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes.split(|byte| *byte == b'\n').next().and_then(chain::number))
}
