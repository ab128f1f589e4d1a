//! The operator's files that say who is let in: read, watched, and lent to each gateway.
//!
//! What is in them is checked by whoever named them, when they are read; here they are bytes. One that is changed is read
//! within a second. One that is bad is told of once, and what was good before it stays in force.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use zeroize::Zeroizing;

use super::link::{Lent, lend};
use crate::config::Config;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a file says, checked.
pub type Content = (Lent, Zeroizing<Vec<u8>>);
/// What a gateway is sent of it.
pub type Loan = (Lent, OwnedFd);

/// A file to lend.
#[derive(Debug)]
pub struct Source {
    /// Where it is looked at for changes; none: it has none.
    pub path: Option<PathBuf>,
    /// Reads and checks it.
    pub read: fn(&Config) -> anyhow::Result<Content>,
}

/// All of them, each as it was when it was good last.
pub(super) struct Lending {
    files: Vec<LentFile>,
    /// What came from elsewhere.
    added: Option<Loan>,
    looked_at: Instant,
}

struct LentFile {
    source: Source,
    seen: Option<Stamp>,
    what: Lent,
    memory: OwnedFd,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Lending {
    /// Reads every file.
    ///
    /// # Errors
    /// The first one that is not good.
    pub(super) fn new(sources: Vec<Source>, config: &Config) -> anyhow::Result<Self> {
        let files = sources.into_iter().map(|source| LentFile::read(source, config)).collect::<Result<_, _>>()?;
        Ok(Self { files, added: None, looked_at: Instant::now() })
    }

    /// What a new gateway is to have.
    pub(super) fn all(&self) -> Vec<Loan> {
        let added = self.added.iter().filter_map(|(what, memory)| copied(*what, memory));
        self.files.iter().filter_map(LentFile::loan).chain(added).collect()
    }

    /// Adds what was not in a file, in the place of what was added before; gives it for a gateway that is there.
    pub(super) fn add(&mut self, what: Lent, memory: OwnedFd) -> Vec<Loan> {
        let (what, memory) = self.added.insert((what, memory));
        copied(*what, memory).into_iter().collect()
    }

    /// What has changed since it was looked at last. Looks at nothing if that was a moment ago.
    pub(super) fn changed(&mut self, config: &Config) -> Vec<Loan> {
        if self.looked_at.elapsed() < LOOK_EVERY {
            return Vec::new();
        }
        self.looked_at = Instant::now();
        let news = self.files.iter_mut().filter_map(|file| {
            let stamp = stamp(file.source.path.as_deref());
            let is_new = stamp != file.seen;
            (is_new && file.renew(stamp, config)).then(|| file.loan()).flatten()
        });
        news.collect()
    }

    /// Reads all of them, changed or not.
    pub(super) fn reload(&mut self, config: &Config) -> Vec<Loan> {
        for file in &mut self.files {
            file.renew(stamp(file.source.path.as_deref()), config);
        }
        self.all()
    }
}

impl LentFile {
    fn read(source: Source, config: &Config) -> anyhow::Result<Self> {
        // Looked at before it is read: what changes in between is seen the next time.
        let seen = stamp(source.path.as_deref());
        let (what, bytes) = (source.read)(config)?;
        Ok(Self { source, seen, what, memory: lend(&bytes)? })
    }

    /// Reads it again; says whether it is good.
    fn renew(&mut self, seen: Option<Stamp>, config: &Config) -> bool {
        self.seen = seen;
        let read = (self.source.read)(config).and_then(|(what, bytes)| Ok((what, lend(&bytes)?)));
        match read {
            Ok((what, memory)) => {
                tracing::info!(?what, path = ?self.source.path, "a changed file is in force");
                (self.what, self.memory) = (what, memory);
                true
            }
            Err(error) => {
                tracing::error!("a changed file is not taken, and what it said before stays in force: {error:#}");
                false
            }
        }
    }

    fn loan(&self) -> Option<Loan> {
        copied(self.what, &self.memory)
    }
}

fn copied(what: Lent, memory: &OwnedFd) -> Option<Loan> {
    match memory.try_clone() {
        Ok(memory) => Some((what, memory)),
        Err(error) => {
            tracing::error!(%error, ?what, "the gateway cannot be told");
            None
        }
    }
}

fn stamp(path: Option<&Path>) -> Option<Stamp> {
    let metadata = std::fs::metadata(path?).ok()?;
    Some(Stamp {
        file: (metadata.dev(), metadata.ino()),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::supervisor::link::borrowed;

    /// Good if it begins with `good`.
    fn read(config: &Config) -> anyhow::Result<Content> {
        let mut text = String::new();
        std::fs::File::open(config.data_dir.join("file"))?.read_to_string(&mut text)?;
        anyhow::ensure!(text.starts_with("good"), "it is bad");
        Ok((Lent::PublicKeys, Zeroizing::new(text.into_bytes())))
    }

    fn texts(loans: Vec<Loan>) -> Vec<String> {
        let text = |(_, memory)| String::from_utf8(borrowed(memory, 100).unwrap().to_vec()).unwrap();
        loans.into_iter().map(text).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_lent_and_a_bad_one_leaves_the_last_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::with_data_dir(folder.path());
        let path = folder.path().join("file");
        let write = |text: &str| {
            std::fs::write(folder.path().join("new"), text).unwrap();
            std::fs::rename(folder.path().join("new"), &path).unwrap();
        };
        let source = || Source { path: Some(path.clone()), read };
        assert!(Lending::new(vec![source()], &config).is_err(), "there is none");
        write("good 1");
        let mut lending = Lending::new(vec![source()], &config).unwrap();
        assert_eq!(texts(lending.all()), ["good 1"]);
        write("good 2");
        assert!(lending.changed(&config).is_empty(), "it was looked at a moment ago");
        let mut later = async || {
            tokio::time::advance(LOOK_EVERY).await;
            texts(lending.changed(&config))
        };
        assert_eq!(later().await, ["good 2"]);
        assert!(later().await.is_empty(), "nothing has changed");
        write("bad");
        assert!(later().await.is_empty());
        std::fs::remove_file(&path).unwrap();
        assert!(later().await.is_empty());
        write("good 3");
        assert_eq!(later().await, ["good 3"]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(texts(lending.reload(&config)), ["good 3"]);
        assert_eq!(texts(lending.all()), ["good 3"]);
    }
}
