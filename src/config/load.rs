//! Reads the layers, checks each value where it stands, so that a message can say where it came from, and merges them.

use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{ConfigBuilder, File, FileFormat, Source, Value, ValueKind};
use rustix::fs::{Mode, OFlags};

use super::Config;
use super::rules::{closest, rule};

/// The largest configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
const PREFIX: &str = "REPLTOOL_";
/// What a message shows of a key or a value, in characters.
const MAX_SHOWN: usize = 100;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is of the wrong type or out of range.
    #[error("{key} = {value} ({origin}) must be {expected}")]
    Value {
        /// The full key.
        key: String,
        /// What it was given.
        value: String,
        /// File, variable or flag.
        origin: String,
        /// What it must be.
        expected: String,
    },
    /// No such key in this version.
    #[error("{key} ({origin}) is no setting of this version{hint}")]
    Unknown {
        /// The full key.
        key: String,
        /// File or variable.
        origin: String,
        /// The key that may have been meant, as a half sentence, or nothing.
        hint: String,
    },
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else could change the file, and with it who is let in.
    #[error("the configuration file {0} can be written by others; give it to the server's user and run `chmod go-w {0}`", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// The file is too large, or not a file.
    #[error("the configuration file {} must be a regular file of at most 1 MiB", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is no TOML.
    #[error("the configuration file {} is not valid TOML", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A public address with a key that nobody chose.
    #[error("edge.listen = {0} is not a loopback address; set auth.key_file to a secret of your own first")]
    KeyNeeded(SocketAddr),
    /// One session may take more than all together.
    #[error("store.session_mb = {0} is more than store.total_mb = {1}")]
    Store(u64, u64),
    /// No data directory was named, and there is no home.
    #[error("there is no place for the data directory; use --data-dir or set XDG_STATE_HOME or HOME")]
    NoHome,
    /// The layers do not fit together.
    #[error("the configuration cannot be put together")]
    Merge(#[source] config::ConfigError),
}

/// What flags say, over everything else.
#[derive(Debug, Default)]
pub struct Overrides(Vec<(&'static str, &'static str, Value)>);

impl Overrides {
    /// Adds a flag, if it was given: its name, its key, its value.
    pub fn set(&mut self, flag: &'static str, key: &'static str, value: Option<impl Into<Value>>) -> &mut Self {
        self.0.extend(value.map(|value| (flag, key, value.into())));
        self
    }
}

/// Reads every layer. `environment` is all of it; names that are not ours are left alone.
///
/// # Errors
/// See [`ConfigError`].
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    flags: Overrides,
) -> Result<Config, ConfigError> {
    let environment: Vec<_> = environment.into_iter().collect();
    let mut builder = config::Config::builder();
    if let Some(path) = file {
        builder = add_file(builder, path)?;
    }
    builder = add_environment(builder, &environment)?;
    for (flag, key, value) in flags.0 {
        builder = add_value(builder, key, value, flag)?;
    }
    let home = data_dir_by_default(|name| lookup(&environment, name));
    if let Some(default) = home.as_ref().and_then(|path| path.to_str()) {
        builder = builder.set_default("data_dir", default).map_err(ConfigError::Merge)?;
    }
    let merged = builder.build().map_err(ConfigError::Merge)?;
    if merged.get_string("data_dir").is_err() {
        return Err(ConfigError::NoHome);
    }
    finish(merged.try_deserialize().map_err(ConfigError::Merge)?)
}

/// The data directory for commands that need nothing else: the given one, or the default.
///
/// # Errors
/// [`ConfigError::NoHome`].
pub fn locate_data_dir(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    let found = given.or_else(|| data_dir_by_default(|name| std::env::var_os(name))).ok_or(ConfigError::NoHome)?;
    std::path::absolute(&found).map_err(|source| ConfigError::Read { path: found, source })
}

/// `$XDG_STATE_HOME/repltool`, else `~/.local/state/repltool`. Relative values do not count, as XDG has it.
fn data_dir_by_default(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("repltool"))
}

fn lookup(environment: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Checks what is between keys, and makes paths independent of the current directory.
fn finish(mut config: Config) -> Result<Config, ConfigError> {
    let runtimes = &mut config.runtimes;
    let runtimes = [runtimes.python.as_mut(), runtimes.javascript.as_mut(), runtimes.bash.as_mut()];
    let paths = [Some(&mut config.data_dir), config.auth.key_file.as_mut()];
    for path in paths.into_iter().chain(runtimes).flatten() {
        let absolute = std::path::absolute(&*path);
        *path = absolute.map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    }
    if !config.edge.listen.ip().is_loopback() && config.auth.key_file.is_none() {
        return Err(ConfigError::KeyNeeded(config.edge.listen));
    }
    if config.store.session_mb > config.store.total_mb {
        return Err(ConfigError::Store(config.store.session_mb, config.store.total_mb));
    }
    Ok(config)
}

type Builder = ConfigBuilder<DefaultState>;

fn add_file(mut builder: Builder, path: &Path) -> Result<Builder, ConfigError> {
    let syntax = |source| ConfigError::Syntax { path: path.to_owned(), source };
    let tables = File::from_str(&read_file(path)?, FileFormat::Toml).collect().map_err(|error| match error {
        config::ConfigError::FileParse { cause, .. } => syntax(cause),
        other => syntax(other.into()),
    })?;
    let origin = path.display().to_string();
    let mut leaves = Vec::new();
    flatten("", tables.into_iter().collect(), &mut leaves);
    leaves.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, value) in leaves {
        builder = add_value(builder, &key, value, &origin)?;
    }
    Ok(builder)
}

/// Joins the names of nested tables by dots. An empty table stays, unless it is the beginning of a key.
fn flatten(prefix: &str, tables: Vec<(String, Value)>, leaves: &mut Vec<(String, Value)>) {
    for (name, value) in tables {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        let section = super::rules::RULES
            .iter()
            .any(|(known, _)| known.strip_prefix(&*key).is_some_and(|rest| rest.starts_with('.')));
        match value.kind {
            ValueKind::Table(table) if section || !table.is_empty() => {
                flatten(&key, table.into_iter().collect(), leaves);
            }
            kind => leaves.push((key, kind.into())),
        }
    }
}

fn add_environment(mut builder: Builder, environment: &[(OsString, OsString)]) -> Result<Builder, ConfigError> {
    for (name, value) in environment {
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if !rest.contains("__") && rest != "DATA_DIR" {
            continue;
        }
        let origin = cut(format!("{PREFIX}{}", rest.escape_debug()));
        let key = rest.to_lowercase().replace("__", ".");
        let text = value.to_str().ok_or_else(|| ConfigError::Value {
            key: cut(key.clone()),
            value: cut(format!("{value:?}")),
            origin: origin.clone(),
            expected: "UTF-8".to_owned(),
        })?;
        let value = rule(&key).map_or_else(|| ValueKind::Nil, |rule| rule.read(text));
        builder = add_value(builder, &key, value.into(), &origin)?;
    }
    Ok(builder)
}

fn add_value(builder: Builder, key: &str, value: Value, origin: &str) -> Result<Builder, ConfigError> {
    let printable = || cut(key.escape_debug().to_string());
    let Some(rule) = rule(key) else {
        // What is much longer than any key looks like none.
        let hint = Some(key)
            .filter(|key| key.len() <= MAX_SHOWN)
            .and_then(closest)
            .map(|known| format!("; did you mean {known}?"))
            .unwrap_or_default();
        return Err(ConfigError::Unknown { key: printable(), origin: origin.to_owned(), hint });
    };
    if !rule.admits(&value.kind) {
        let (value, expected) = (show(&value.kind), rule.expectation());
        return Err(ConfigError::Value { key: printable(), value, origin: origin.to_owned(), expected });
    }
    builder.set_override(key, value).map_err(ConfigError::Merge)
}

/// A value as TOML would write it, at most some 100 characters.
fn show(value: &ValueKind) -> String {
    let text = match value {
        ValueKind::String(text) => format!("{text:?}"),
        ValueKind::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| show(&item.kind)).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Table(_) => "{…}".to_owned(),
        other => other.to_string(),
    };
    cut(text)
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    // NONBLOCK, because opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
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

#[cfg(test)]
mod tests;
