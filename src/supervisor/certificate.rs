//! The certificate of the listener: kept for the next gateway, looked at for changes, and replaced by another one that can be
//! used, by no other.
//!
//! What is kept is memory that each gateway gets a descriptor of: a gateway that comes up while the files are broken serves
//! with what was good. What is in the files is known to whoever gave the function that loads them.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::link::{CertificateFds, ToGateway};
use super::{Supervisor, SupervisorError};
use crate::config::Config;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Before the end of a certificate, from when on and how often it is told.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
const TELL_EVERY: Duration = Duration::from_secs(24 * 3600);

/// A certificate that can be used.
#[derive(Debug)]
pub struct LoadedCertificate {
    /// What a gateway gets.
    pub fds: CertificateFds,
    /// The end of its time.
    pub good_until: Timestamp,
}

/// What a file was like when it was last looked at: when it was changed, and how long it was.
type Stamp = Option<(SystemTime, u64)>;

/// The certificate that is shown, and where the next one will come from.
#[derive(Debug)]
pub struct Certificate {
    load: fn(&Config) -> anyhow::Result<LoadedCertificate>,
    files: Vec<PathBuf>,
    loaded: LoadedCertificate,
    /// Of the files that were loaded, or refused.
    known: Vec<Stamp>,
    /// Of the last look. Files are written one after the other: they are loaded once two looks see the same.
    seen: Vec<Stamp>,
    next_look: Instant,
    next_word: Instant,
}

/// When files are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Whatever they are like.
    Now,
    /// Once they have changed, and rest again.
    AtChanges,
}

impl Certificate {
    /// Loads the certificate for the first time; `files` are those that it is made of.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn new(
        load: fn(&Config) -> anyhow::Result<LoadedCertificate>,
        config: &Config,
        files: Vec<PathBuf>,
    ) -> anyhow::Result<Self> {
        let known = stamps(&files);
        let loaded = load(config)?;
        let now = Instant::now();
        Ok(Self { load, files, loaded, seen: known.clone(), known, next_look: now + LOOK_EVERY, next_word: now })
    }

    /// The descriptors for one more gateway.
    pub(super) fn copies(&self) -> io::Result<impl Iterator<Item = OwnedFd> + use<>> {
        self.loaded.fds.copies().map(Vec::into_iter)
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK_EVERY;
        self.warn(now);
        let before = std::mem::replace(&mut self.seen, stamps(&self.files));
        self.seen != self.known && self.seen == before
    }

    /// Loads the files; says whether there is something new.
    fn renew(&mut self, config: &Config) -> bool {
        self.known = stamps(&self.files);
        self.seen.clone_from(&self.known);
        match (self.load)(config) {
            Ok(loaded) => {
                tracing::info!(good_until = %loaded.good_until, "connections from now on get the new certificate");
                (self.loaded, self.next_word) = (loaded, Instant::now());
                true
            }
            Err(error) => {
                tracing::error!("the new certificate is refused, the old one stays: {error:#}");
                false
            }
        }
    }

    fn warn(&mut self, now: Instant) {
        let good_until = self.loaded.good_until;
        if now < self.next_word || good_until.duration_since(Timestamp::now()) > SOON {
            return;
        }
        self.next_word = now + TELL_EVERY;
        tracing::warn!(%good_until, "the certificate of edge.tls_cert expires soon; put a new one in its place");
    }
}

impl Supervisor {
    /// What a gateway serves with: the descriptors of its first message.
    pub(super) fn edge_copies(&self) -> Result<Vec<OwnedFd>, SupervisorError> {
        let failed = |what| move |error| SupervisorError::Io(what, error);
        let mut fds = Vec::new();
        for listener in [Some(&self.parts.listener), self.parts.redirect.as_ref()].into_iter().flatten() {
            fds.push(listener.try_clone().map_err(failed("dup of a listener"))?.into());
        }
        if let Some(certificate) = &self.parts.certificate {
            fds.extend(certificate.copies().map_err(failed("dup of the certificate"))?);
        }
        Ok(fds)
    }

    /// Hands the gateway another certificate, if there is one.
    pub(super) fn renew_certificate(&mut self, look: Look) {
        let Some(certificate) = &mut self.parts.certificate else { return };
        if look == Look::AtChanges && !certificate.is_due() || !certificate.renew(&self.parts.config) {
            return;
        }
        let Some(gateway) = &mut self.gateway else { return };
        match certificate.copies() {
            Ok(fds) => gateway.send(&ToGateway::Certificate, fds.collect()),
            Err(error) => tracing::error!(%error, "the gateway cannot be given the new certificate"),
        }
        gateway.flush(&self.sandboxes);
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| stamp(file)).collect()
}

fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
