//! Reads the layers, checks each value where it stands, so that a message can say where it came from, and merges them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::rules::{Rule, closest, rule};
use super::{Config, ConfigError, Origin, Settings, file, masked};

const PREFIX: &str = "REPLTOOL_";
/// What a message shows of a key or a value, in characters.
const MAX_SHOWN: usize = 100;

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

/// The settings as far as they can be read, and all that is wrong with them.
#[derive(Debug)]
pub struct Reading {
    /// What is left out for a fault has its default here. To be used only if there is no fault.
    pub settings: Settings,
    /// In the order of the layers.
    pub faults: Vec<ConfigError>,
}

/// Reads every layer. `environment` is all of it; names that are not ours are left alone.
///
/// # Errors
/// The first fault; see [`ConfigError`].
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    flags: Overrides,
) -> Result<Config, ConfigError> {
    let Reading { settings, faults } = read(file, environment, flags);
    faults.into_iter().next().map_or(Ok(settings.config), Err)
}

/// Like [`load`], but gives every fault, and where each value came from.
pub fn read(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    flags: Overrides,
) -> Reading {
    let environment: Vec<_> = environment.into_iter().collect();
    let mut layers = Layers::default();
    if let Some(path) = file {
        layers.add_file(path);
    }
    for (name, value) in &environment {
        layers.add_variable(name, value);
    }
    for (flag, key, value) in flags.0 {
        layers.add(key, value, Origin::Flag(flag));
    }
    layers.finish(data_dir_by_default(|name| lookup(&environment, name)))
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

/// What was said so far. A later value of a key takes the place of an earlier one.
#[derive(Default)]
struct Layers {
    values: BTreeMap<&'static str, Value>,
    origins: BTreeMap<&'static str, Origin>,
    faults: Vec<ConfigError>,
}

impl Layers {
    fn add_file(&mut self, path: &Path) {
        match file::leaves(path) {
            Ok(leaves) => leaves.into_iter().for_each(|leaf| self.add(&leaf.key, leaf.value, leaf.origin)),
            Err(faults) => self.faults.extend(faults),
        }
    }

    fn add_variable(&mut self, name: &OsStr, value: &OsStr) {
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { return };
        if !rest.contains("__") && rest != "DATA_DIR" {
            return;
        }
        let origin = Origin::Environment(cut(format!("{PREFIX}{rest}")));
        let key = rest.to_lowercase().replace("__", ".");
        if rest.contains(char::is_lowercase) {
            // Two spellings of one name would be two values of one key, in no order.
            let capitals = cut(format!("{PREFIX}{}", rest.to_uppercase().escape_debug()));
            let hint = format!("; names of variables are in capitals: {capitals}");
            self.faults.push(ConfigError::Unknown { key: printable(&key), origin, hint });
            return;
        }
        let Some(text) = value.to_str() else {
            let (value, expected) = (cut(format!("{value:?}")), "UTF-8".to_owned());
            self.faults.push(ConfigError::Value { key: printable(&key), value, origin, expected });
            return;
        };
        let value = rule(&key).map_or_else(|| text.into(), |(_, rule)| rule.read(text));
        self.add(&key, value, origin);
    }

    fn add(&mut self, key: &str, value: Value, origin: Origin) {
        let Some((key, rule)) = rule(key) else {
            // What is much longer than any key looks like none.
            let known = Some(key).filter(|key| key.len() <= MAX_SHOWN).and_then(closest);
            let hint = known.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
            self.faults.push(ConfigError::Unknown { key: printable(key), origin, hint });
            return;
        };
        if !rule.admits(&value) {
            let (value, expected) = (show(&value), rule.expectation(key));
            self.faults.push(ConfigError::Value { key: key.to_owned(), value, origin, expected });
            return;
        }
        self.values.insert(key, value);
        self.origins.insert(key, origin);
    }

    /// Merges the layers with the defaults, makes paths independent of the current directory, and checks what is between
    /// keys. That is left out where a key is wrong by itself: what follows from a fault is none.
    fn finish(mut self, home: Option<PathBuf>) -> Reading {
        if home.is_none() && !self.values.contains_key("data_dir") {
            self.faults.push(ConfigError::NoHome);
        }
        let defaults = Config::with_data_dir(home.unwrap_or_default());
        let mut config = self.merge().unwrap_or_else(|error| {
            self.faults.push(error);
            defaults.clone()
        });
        if !self.values.contains_key("data_dir") {
            config.data_dir = defaults.data_dir;
        }
        if let Err(error) = make_absolute(&mut config) {
            self.faults.push(error);
        }
        if self.faults.is_empty() {
            self.faults = check_between(&config);
        }
        Reading { settings: Settings { config, origins: self.origins }, faults: self.faults }
    }

    fn merge(&self) -> Result<Config, ConfigError> {
        // Deserialising takes the defaults of what is not there, but for the data directory.
        let mut merged = Table::from_iter([("data_dir".to_owned(), Value::from(""))]);
        let offered = |key: &str| rule(key).is_some_and(|(_, rule)| !matches!(rule, Rule::Absent(_)));
        for (key, value) in self.values.iter().filter(|(key, _)| offered(key)) {
            insert(&mut merged, key, value.clone());
        }
        merged.try_into().map_err(ConfigError::Merge)
    }
}

/// Puts a value at the place that its key names, table by table.
fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Some(section) = section.as_table_mut() {
                insert(section, rest, value);
            }
        }
    }
}

fn make_absolute(config: &mut Config) -> Result<(), ConfigError> {
    let runtimes = &mut config.runtimes;
    let runtimes = [runtimes.python.as_mut(), runtimes.javascript.as_mut(), runtimes.bash.as_mut()];
    let (edge, auth) = (&mut config.edge, &mut config.auth);
    let tls = [edge.tls_cert.as_mut(), edge.tls_key.as_mut(), edge.tls_client_ca.as_mut()];
    let paths = [Some(&mut config.data_dir), auth.key_file.as_mut(), auth.revocations_file.as_mut()];
    let outside = [config.alerts.webhook_secret_file.as_mut(), config.outbound.ca_file.as_mut()];
    // An empty path is that of a data directory without a place, which is told already.
    let files = paths.into_iter().chain(tls).chain(outside).chain(runtimes).flatten();
    for path in files.filter(|path| !path.as_os_str().is_empty()) {
        let absolute = std::path::absolute(&*path);
        *path = absolute.map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    }
    Ok(())
}

fn check_between(config: &Config) -> Vec<ConfigError> {
    let mut faults = Vec::new();
    let (auth, alerts) = (&config.auth, &config.alerts);
    if auth.key_file.is_some() && auth.jwks_url.is_some() {
        faults.push(ConfigError::Keys);
    }
    if alerts.webhook_url.is_some() && alerts.webhook_secret_file.is_none() {
        faults.push(ConfigError::WebhookSecret);
    }
    if !config.edge.listen.ip().is_loopback() && auth.key_file.is_none() && auth.jwks_url.is_none() {
        faults.push(ConfigError::KeyNeeded(config.edge.listen));
    }
    faults.extend(encryption::check(&config.edge));
    if config.store.session_mb > config.store.total_mb {
        faults.push(ConfigError::Store(config.store.session_mb, config.store.total_mb));
    }
    faults
}

fn printable(key: &str) -> String {
    cut(key.escape_debug().to_string())
}

/// A value as TOML would write it, at most some 100 characters, without the password of a URL.
fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("{:?}", masked(text)),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Table(_) => "{…}".to_owned(),
        other => other.to_string(),
    };
    cut(text)
}

/// At most [`MAX_SHOWN`] characters of a text.
pub(super) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

mod encryption;

#[cfg(test)]
mod tests;
