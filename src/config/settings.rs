//! The effective settings, key by key, each with the layer that it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use toml::Value;

use super::Config;
use super::rules::{RULES, Rule};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The TOML file.
    File {
        /// The file.
        path: PathBuf,
        /// The line of its key, from 1 on.
        line: usize,
    },
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name.
    Flag(&'static str),
}

impl Origin {
    /// The layer in one word.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.to_string_lossy().escape_debug()),
            Self::Environment(name) => write!(f, "{}", name.escape_debug()),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The full key.
    pub key: &'static str,
    /// Its value; none if it is not set and has no default.
    pub value: Option<Value>,
    /// Where the value came from.
    pub origin: Origin,
}

/// What all layers say together.
#[derive(Debug)]
pub struct Settings {
    /// The result.
    pub config: Config,
    pub(super) origins: BTreeMap<&'static str, Origin>,
}

impl Settings {
    /// Every setting that there is, section by section.
    pub fn iter(&self) -> impl Iterator<Item = Setting> {
        let values = Value::try_from(&self.config).unwrap_or(Value::Boolean(false));
        RULES.iter().map(move |(key, rule)| {
            let value = match rule {
                Rule::Absent(_) => None,
                _ => key.split('.').try_fold(&values, |table, name| table.get(name)).cloned(),
            };
            let origin = self.origins.get(key).cloned().unwrap_or(Origin::Default);
            Setting { key, value, origin }
        })
    }
}

/// A text without the user and password of a URL in it: `redis://***@host`.
pub fn masked(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    // The last `@`, wherever it stands: a password may hold what ends an address elsewhere.
    match rest.rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => text.to_owned(),
    }
}
