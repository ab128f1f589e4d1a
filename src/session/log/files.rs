//! The files of a log: their names, and the descriptors that its writer and its readers share.
//!
//! A segment is named by its part and its number: `index.000000`, `stdout.000003`. It knows nothing of what is in them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use repltool_protocol::event::StreamName;

use super::shared::lock;

/// Output of programs is nobody else's business.
const MODE: u32 = 0o600;

/// Which of the three files a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Index,
    Spool(StreamName),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Spool(StreamName::Stdout) => "stdout",
            Self::Spool(StreamName::Stderr) => "stderr",
        }
    }
}

/// Names one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) part: Part,
    pub(super) number: u64,
}

impl Name {
    pub(super) fn index(number: u64) -> Self {
        Self { part: Part::Index, number }
    }

    pub(super) fn spool(stream: StreamName, number: u64) -> Self {
        Self { part: Part::Spool(stream), number }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.part.name(), self.number)
    }
}

/// The directory of a log. Descriptors are opened when somebody needs them, shared while somebody holds them, and
/// closed with their last holder.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    open: Mutex<Vec<(Name, Weak<File>)>>,
}

impl Files {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), open: Mutex::default() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn path(&self, name: Name) -> PathBuf {
        self.dir.join(name.to_string())
    }

    /// Opens a segment to read it, or shares the descriptor somebody has already.
    pub(super) fn read(&self, name: Name) -> io::Result<Arc<File>> {
        let mut open = lock(&self.open);
        if let Some(file) = open.iter().find(|(it, _)| *it == name).and_then(|(_, file)| file.upgrade()) {
            return Ok(file);
        }
        let file = Arc::new(File::open(self.path(name))?);
        remember(&mut open, name, &file);
        Ok(file)
    }

    /// Makes a segment that must not exist yet.
    pub(super) fn create(&self, name: Name) -> io::Result<Arc<File>> {
        self.write(name, OpenOptions::new().read(true).write(true).create_new(true))
    }

    /// Opens a segment to write on, and makes it if it is not there.
    pub(super) fn append(&self, name: Name) -> io::Result<Arc<File>> {
        self.write(name, OpenOptions::new().read(true).write(true).create(true).truncate(false))
    }

    fn write(&self, name: Name, options: &mut OpenOptions) -> io::Result<Arc<File>> {
        let file = Arc::new(options.mode(MODE).open(self.path(name))?);
        remember(&mut lock(&self.open), name, &file);
        Ok(file)
    }

    /// Unlinks a segment; it is no fault if it is gone already.
    pub(super) fn remove(&self, name: Name) -> io::Result<()> {
        lock(&self.open).retain(|(it, _)| *it != name);
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// The numbers of a part's segments, ascending.
    pub(super) fn numbers(&self, part: Part) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(part.name())?.strip_prefix('.'));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn remember(open: &mut Vec<(Name, Weak<File>)>, name: Name, file: &Arc<File>) {
    open.retain(|(it, held)| *it != name && held.strong_count() > 0);
    open.push((name, Arc::downgrade(file)));
}
