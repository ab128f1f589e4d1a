//! The operator's files that say who is let in, and what the listener shows: read, watched, and lent to each gateway.
//!
//! What is in them is checked by whoever named them, when they are read; here they are bytes. One that is changed is read
//! within a second; those that belong together, once two looks saw the same. What is bad is told of once, and what was good
//! before it stays in force.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::link::{Lent, lend};
use crate::config::Config;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Before what was lent is good no longer, from when on and how often it is told.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
const TELL_EVERY: Duration = Duration::from_secs(24 * 3600);

/// What files say, checked.
#[derive(Debug)]
pub struct Content {
    /// What it is.
    pub what: Lent,
    /// What a gateway gets.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Until when it is good; none: for ever.
    pub good_until: Option<Timestamp>,
}

/// What a gateway is sent of them.
pub type Loan = (Lent, OwnedFd);

/// Something to lend.
#[derive(Debug)]
pub struct Source {
    /// The files that are looked at for changes.
    pub paths: Vec<PathBuf>,
    /// Reads and checks them.
    pub read: fn(&Config) -> anyhow::Result<Content>,
}

/// All of it, each as it was when it was good last.
pub(super) struct Lending {
    things: Vec<Thing>,
    /// What came from elsewhere.
    added: Option<Loan>,
    looked_at: Instant,
}

struct Thing {
    source: Source,
    /// Of the files that were taken, or refused.
    known: Vec<Option<Stamp>>,
    /// Of the last look.
    seen: Vec<Option<Stamp>>,
    what: Lent,
    memory: OwnedFd,
    good_until: Option<Timestamp>,
    next_word: Instant,
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
        let things = sources.into_iter().map(|source| Thing::read(source, config)).collect::<Result<_, _>>()?;
        Ok(Self { things, added: None, looked_at: Instant::now() })
    }

    /// What a new gateway is to have.
    pub(super) fn all(&self) -> Vec<Loan> {
        let added = self.added.iter().filter_map(|(what, memory)| copied(*what, memory));
        self.things.iter().filter_map(Thing::loan).chain(added).collect()
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
        let news = self.things.iter_mut().filter_map(|thing| {
            thing.warn();
            (thing.has_changed() && thing.renew(config)).then(|| thing.loan()).flatten()
        });
        news.collect()
    }

    /// Reads all of it, changed or not.
    pub(super) fn reload(&mut self, config: &Config) -> Vec<Loan> {
        for thing in &mut self.things {
            thing.seen = stamps(&thing.source.paths);
            thing.renew(config);
        }
        self.all()
    }
}

impl Thing {
    fn read(source: Source, config: &Config) -> anyhow::Result<Self> {
        // Looked at before it is read: what changes in between is seen the next time.
        let known = stamps(&source.paths);
        let Content { what, bytes, good_until } = (source.read)(config)?;
        let (seen, memory) = (known.clone(), lend(&bytes)?);
        Ok(Self { source, known, seen, what, memory, good_until, next_word: Instant::now() })
    }

    /// Looks. Several files are written one after the other: they have changed once they rest again.
    fn has_changed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.seen, stamps(&self.source.paths));
        self.seen != self.known && (self.seen == before || self.seen.len() == 1)
    }

    /// Reads it again, as it was seen; says whether it is good.
    fn renew(&mut self, config: &Config) -> bool {
        self.known.clone_from(&self.seen);
        let read = (self.source.read)(config).and_then(|content| Ok((lend(&content.bytes)?, content)));
        match read {
            Ok((memory, Content { what, good_until, .. })) => {
                tracing::info!(?what, paths = ?self.source.paths, "what has changed is in force");
                (self.what, self.memory, self.good_until) = (what, memory, good_until);
                self.next_word = Instant::now();
                true
            }
            Err(error) => {
                tracing::error!(what = ?self.what, "what has changed is not taken, and what was there before stays in force: {error:#}");
                false
            }
        }
    }

    /// Tells of an end that comes near.
    fn warn(&mut self) {
        let Some(good_until) = self.good_until else { return };
        let now = Instant::now();
        if now < self.next_word || good_until.duration_since(Timestamp::now()) > SOON {
            return;
        }
        self.next_word = now + TELL_EVERY;
        tracing::warn!(%good_until, what = ?self.what, paths = ?self.source.paths, "it expires soon; put a new one in its place");
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

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    paths.iter().map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
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
        Ok(Content { what: Lent::PublicKeys, bytes: Zeroizing::new(text.into_bytes()), good_until: None })
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
        let source = || Source { paths: vec![path.clone()], read };
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
