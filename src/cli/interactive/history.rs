//! What was typed before, kept in a file for each language.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use reedline::{FileBackedHistory, History};

/// Entries of one language that are kept.
const ENTRIES: usize = 1000;

/// The history of a language; without a place for the file it lives in memory.
pub(super) fn of(language: &str) -> Box<dyn History> {
    Box::new(in_file(language).unwrap_or_default())
}

/// Others cannot read it: people type secrets. It is no part of the data directory, which belongs to a server.
fn in_file(language: &str) -> Option<FileBackedHistory> {
    let folder = folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file = folder.join(format!("history-{language}"));
    OpenOptions::new().append(true).create(true).mode(0o600).open(&file).ok()?;
    FileBackedHistory::with_file(ENTRIES, file).ok()
}

/// `$XDG_STATE_HOME/repltool-cli`, else `~/.local/state/repltool-cli`.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("repltool-cli"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_xdg() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/ada"));
        assert_eq!(folder(home), Some(PathBuf::from("/home/ada/.local/state/repltool-cli")));
        let state = |name: &str| (name == "XDG_STATE_HOME").then(|| PathBuf::from("/s"));
        assert_eq!(folder(state), Some(PathBuf::from("/s/repltool-cli")));
        assert_eq!(folder(|_| Some(PathBuf::from("relative"))), None);
    }
}
