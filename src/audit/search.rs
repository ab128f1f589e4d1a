//! Finds records by what is in them. It only reads, and proves nothing: that is for [`super::verify`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::chain::MAX_LINE_BYTES;
use super::files;

/// What is looked for; what is not named fits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// `session_id`
    pub session: Option<String>,
    /// `subject`
    pub subject: Option<String>,
    /// `kind`
    pub kind: Option<String>,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
    /// `code_sha256`
    pub code_sha256: Option<String>,
    /// Of all that fit, the newest so many.
    pub limit: Option<usize>,
}

/// Why a log cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was found cannot be handed on.
    #[error("what was found cannot be printed")]
    Take(#[source] io::Error),
}

impl Query {
    fn fits(&self, record: &Value) -> bool {
        let is = |name: &str, wanted: &Option<String>| wanted.as_deref().is_none_or(|it| record[name] == *it);
        let time = || record["time"].as_str().and_then(|it| it.parse::<Timestamp>().ok());
        is("session_id", &self.session)
            && is("subject", &self.subject)
            && is("kind", &self.kind)
            && is("code_sha256", &self.code_sha256)
            && self.since.is_none_or(|since| time().is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| time().is_some_and(|at| at < until))
    }
}

/// Hands the records that fit to `take`, the oldest first, each with its line as it stands in the log. A line that is no
/// record is passed over, as is a file that is dropped meanwhile.
///
/// # Errors
/// See [`SearchError`]; what `take` fails with ends the search.
pub fn search(
    data_dir: &Path,
    query: &Query,
    mut take: impl FnMut(&str, &Value) -> io::Result<()>,
) -> Result<(), SearchError> {
    let folder = super::folder(data_dir);
    let files = files::list(&folder).map_err(|source| SearchError::Read { path: folder, source })?;
    let mut newest: VecDeque<(String, Value)> = VecDeque::new();
    for file in files {
        let read = |source| SearchError::Read { path: file.path.clone(), source };
        let mut reader = match File::open(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => BufReader::new(other.map_err(read)?),
        };
        while let Some(line) = next_line(&mut reader).map_err(read)? {
            let Ok(record) = serde_json::from_str::<Value>(&line) else { continue };
            if !query.fits(&record) {
                continue;
            }
            match query.limit {
                None => take(&line, &record).map_err(SearchError::Take)?,
                Some(limit) => {
                    newest.push_back((line, record));
                    newest.drain(..newest.len().saturating_sub(limit));
                }
            }
        }
    }
    newest.iter().try_for_each(|(line, record)| take(line, record)).map_err(SearchError::Take)
}

/// The next whole line, without its line break. One that is too long comes in pieces, which are no records.
fn next_line(reader: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    bytes.pop_if(|byte| *byte == b'\n');
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
