//! Which modules a program may import at a level: the configured list, with the built-in lists (`modules/*.txt`) in the
//! place of `default`. Advice to honest programs, which get an early and clear error; the kernel is the wall. Knows no
//! code and no driver.

use std::collections::BTreeSet;

use repltool_protocol::rest::{Language, SandboxMode};

const PYTHON: &str = include_str!("modules/python.txt");
const JAVASCRIPT: &str = include_str!("modules/javascript.txt");
/// Sections of those files, in their order.
const LEVELS: [SandboxMode; 3] = [SandboxMode::Strict, SandboxMode::Standard, SandboxMode::Relaxed];

/// What may be imported. What is denied is so whatever else is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modules {
    kind: Kind,
    everything: bool,
    allowed: BTreeSet<String>,
    denied: BTreeSet<String>,
}

/// How a language writes names of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Python,
    Javascript,
    /// Bash, which imports nothing.
    Other,
}

impl Modules {
    /// What a configured list means at a level. An entry is the name of a module, `default` for the built-in list of the
    /// level, `*` for everything, or `!name` for what is never allowed. Bash may import everything there is, which is
    /// nothing.
    pub fn resolve(language: Language, mode: SandboxMode, entries: &[String]) -> Self {
        let (kind, built_in) = match language {
            Language::Python => (Kind::Python, PYTHON),
            Language::Javascript => (Kind::Javascript, JAVASCRIPT),
            Language::Bash | Language::Shell => (Kind::Other, ""),
        };
        let mut modules =
            Self { kind, everything: kind == Kind::Other, allowed: BTreeSet::new(), denied: BTreeSet::new() };
        for entry in entries {
            match entry.as_str() {
                "default" => built_in_entries(built_in, mode).for_each(|entry| modules.add(entry)),
                entry => modules.add(entry),
            }
        }
        modules
    }

    fn add(&mut self, entry: &str) {
        match entry.strip_prefix('!') {
            Some(name) => self.denied.insert(self.kind.plain(name).to_owned()),
            None if entry == "*" => std::mem::replace(&mut self.everything, true),
            None => self.allowed.insert(self.kind.plain(entry).to_owned()),
        };
    }

    /// Whether a program may import a module by this name: `json`, `os.path`, `node:fs/promises`. A submodule is allowed
    /// if its package is, and denied if its package is.
    pub fn allows(&self, module: &str) -> bool {
        let module = self.kind.plain(module);
        let listed = |list: &BTreeSet<String>| self.kind.with_packages(module).any(|name| list.contains(name));
        (self.everything || listed(&self.allowed)) && !listed(&self.denied)
    }

    /// The list without `default`, in order and each entry once: resolving it again gives the same.
    pub fn entries(&self) -> Vec<String> {
        let everything = self.everything.then(|| "*".to_owned());
        let denied = self.denied.iter().map(|name| format!("!{name}"));
        everything.into_iter().chain(denied).chain(self.allowed.iter().cloned()).collect()
    }
}

impl Kind {
    /// The name without what does not tell modules apart.
    fn plain(self, name: &str) -> &str {
        match self {
            Self::Javascript => name.strip_prefix("node:").unwrap_or(name),
            Self::Python | Self::Other => name,
        }
    }

    /// A module's name and those of the packages that it is in.
    fn with_packages(self, module: &str) -> impl Iterator<Item = &str> {
        let between = if self == Self::Javascript { '/' } else { '.' };
        let packages = module.match_indices(between).map(|(at, _)| &module[..at]);
        std::iter::once(module).chain(packages)
    }
}

/// The policy as a driver reads it, from [`FILE`]; none for Bash. `action` is what becomes of an import that is not
/// allowed: only `refuse` keeps it from happening.
pub fn told_to_driver(language: Language, mode: SandboxMode, action: &str, entries: &[String]) -> Option<Vec<u8>> {
    let modules = Modules::resolve(language, mode, entries);
    let policy = serde_json::json!({
        "level": name(mode),
        "action": action,
        "modules": modules.entries(),
        "way_out": way_out(language, mode),
    });
    (modules.kind != Kind::Other).then(|| policy.to_string().into_bytes())
}

/// Where a driver finds it in its sandbox.
pub const FILE: &str = "/run/repltool/imports.json";

/// What to do about a module that is not allowed, as the end of a sentence.
pub fn way_out(language: Language, mode: SandboxMode) -> String {
    let level = name(mode);
    let key = match language {
        Language::Javascript => "javascript_modules",
        _ => "python_modules",
    };
    let operator = format!("ask the operator for sandbox.{level}.{key}");
    match mode {
        SandboxMode::Relaxed => operator,
        _ => format!("use sandbox_mode \"relaxed\" (needs the scope sandbox:relaxed), or {operator}"),
    }
}

fn name(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Strict => "strict",
        SandboxMode::Standard => "standard",
        SandboxMode::Relaxed => "relaxed",
    }
}

/// The entries of a level and of those before it.
fn built_in_entries(text: &'static str, mode: SandboxMode) -> impl Iterator<Item = &'static str> {
    let after = LEVELS.iter().skip_while(move |level| **level != mode).nth(1);
    let end = after.and_then(|level| text.find(&format!("[{}]", name(*level)))).unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.starts_with(['#', '[']));
    lines.flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests;
