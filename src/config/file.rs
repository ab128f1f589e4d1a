//! The TOML file: who may have written it, and what stands on which line.

use std::io::Read;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use serde::Deserialize as _;
use toml::Value;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

use super::load::cut;
use super::rules::is_section;
use super::{ConfigError, Origin};

/// The largest configuration file, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;

/// One value of the file.
pub(super) struct Leaf {
    /// The names of the tables around it and its own, with dots between them.
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Reads the values of a file, in the order of their lines.
///
/// # Errors
/// All that is wrong with it as a file and as TOML; nothing about its keys.
pub(super) fn leaves(path: &Path) -> Result<Vec<Leaf>, Vec<ConfigError>> {
    let text = read(path).map_err(|error| vec![error])?;
    let file = TomlFile { path, text: &text };
    let (table, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        return Err(file.faults(&errors));
    }
    let mut leaves = Vec::new();
    file.flatten("", table.into_inner(), &mut leaves).map_err(|error| vec![error])?;
    leaves.sort_by_key(|(start, _)| *start);
    Ok(leaves.into_iter().map(|(_, leaf)| leaf).collect())
}

struct TomlFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl TomlFile<'_> {
    /// The place of the byte at `start`.
    fn origin(&self, start: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(start);
        Origin::File { path: self.path.to_owned(), line: 1 + before.filter(|byte| **byte == b'\n').count() }
    }

    /// The first error of each line: what follows it on the same line is most often its consequence.
    fn faults(&self, errors: &[Error]) -> Vec<ConfigError> {
        let mut faults: Vec<ConfigError> = Vec::new();
        for error in errors {
            let fault = self.fault(error.span().map_or(0, |span| span.start), error);
            let told = |earlier: &ConfigError| match (earlier, &fault) {
                (ConfigError::Syntax { origin: a, .. }, ConfigError::Syntax { origin: b, .. }) => a == b,
                _ => false,
            };
            if !faults.iter().any(told) {
                faults.push(fault);
            }
        }
        faults
    }

    fn fault(&self, start: usize, error: &Error) -> ConfigError {
        let reason = cut(error.message().lines().collect::<Vec<_>>().join("; "));
        ConfigError::Syntax { origin: self.origin(start), reason }
    }

    /// Joins the names of nested tables by dots. An empty table stays, unless it is the beginning of a key.
    fn flatten(&self, prefix: &str, table: DeTable<'_>, leaves: &mut Vec<(usize, Leaf)>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let start = name.span().start;
            let key = if prefix.is_empty() { name.into_inner().into() } else { format!("{prefix}.{}", name.get_ref()) };
            let deeper = value.get_ref().as_table().is_some_and(|table| is_section(&key) || !table.is_empty());
            match value.get_ref() {
                DeValue::Table(table) if deeper => self.flatten(&key, table.clone(), leaves)?,
                _ => {
                    let value = Value::deserialize(ValueDeserializer::from(value));
                    let value = value.map_err(|error| self.fault(start, &error))?;
                    leaves.push((start, Leaf { key, value, origin: self.origin(start) }));
                }
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    // NONBLOCK, because opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(ConfigError::NoFile { path: path.to_owned() });
    }
    let owned = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    if !owned || stat.st_mode & 0o022 != 0 {
        return Err(ConfigError::Writable { path: path.to_owned() });
    }
    let mut text = String::new();
    std::fs::File::from(file).take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::NoFile { path: path.to_owned() });
    }
    Ok(text)
}
