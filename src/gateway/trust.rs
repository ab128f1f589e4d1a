//! What the supervisor lends to this process, put in force: who is let in, and what the listener shows.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use crate::certificates::{Files, MAX_PACKED_BYTES};
use crate::config::Config;
use crate::edge::Tls;
use crate::edge::auth::Auth;
use crate::edge::auth::keys::KeySet;
use crate::edge::auth::revoked::{MAX_LIST_BYTES, Revocations};
use crate::keys::{KeyFile, MAX_FILE_BYTES};
use crate::supervisor::lending::Loan;
use crate::supervisor::link::{Lent, borrowed};

/// The shortest time between two words on keys that are missing.
const MISSED_EVERY: Duration = Duration::from_millis(100);

/// The checks of this server, and what the configuration says of them.
pub(super) struct Trust {
    auth: Auth,
    tls: Option<watch::Sender<Tls>>,
    algorithms: Vec<String>,
}

impl Trust {
    /// With all that was lent at the start.
    ///
    /// # Errors
    /// If there are no keys among it, or no certificate where there is to be one, or if they cannot be used.
    pub(super) fn new(config: &Config, loans: Vec<Loan>) -> anyhow::Result<Self> {
        let settings = &config.auth;
        let algorithms = settings.algorithms.clone();
        let (mut keys, mut revoked, mut tls) = (None, None, None);
        for (what, memory) in loans {
            match taken(what, memory, &algorithms)? {
                Taken::Keys(taken) => keys = Some(taken),
                Taken::Revocations(taken) => revoked = Some(taken),
                Taken::Certificate(taken) => tls = Some(watch::Sender::new(taken)),
            }
        }
        let keys = match settings.jwks_url {
            // They are still to be fetched, and the server answers meanwhile.
            Some(_) => keys.unwrap_or_default(),
            None => keys.context("the supervisor lends no keys")?,
        };
        anyhow::ensure!(tls.is_some() == config.edge.tls_cert.is_some(), "the supervisor lends no certificate");
        let leeway = Duration::from_secs(settings.leeway_s);
        let auth = Auth::new(keys, settings.issuer.clone(), settings.audience.clone(), leeway);
        if let Some(revoked) = revoked {
            auth.set_revoked(revoked);
        }
        Ok(Self { auth, tls, algorithms })
    }

    /// Returns when a token came of a key that is not known, but not within [`MISSED_EVERY`].
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub(super) async fn missed(&self) {
        tokio::time::sleep(MISSED_EVERY).await;
        self.auth.missed().await;
    }

    pub(super) fn auth(&self) -> Auth {
        self.auth.clone()
    }

    /// What the listener shows, where it speaks TLS.
    pub(super) fn tls(&self) -> Option<watch::Receiver<Tls>> {
        self.tls.as_ref().map(watch::Sender::subscribe)
    }

    /// Takes what has changed. What cannot be used is told in the log and changes nothing.
    pub(super) fn take(&self, what: Lent, memory: OwnedFd) {
        match taken(what, memory, &self.algorithms) {
            Ok(Taken::Keys(keys)) => self.auth.set_keys(keys),
            Ok(Taken::Revocations(revoked)) => self.auth.set_revoked(revoked),
            // Connections that have begun keep what they were shown.
            Ok(Taken::Certificate(tls)) => drop(self.tls.as_ref().map(|shown| shown.send_replace(tls))),
            Err(error) => tracing::error!("what was lent is not taken: {error:#}"),
        }
    }
}

/// What was lent, read.
enum Taken {
    Keys(KeySet),
    Revocations(Revocations),
    Certificate(Tls),
}

fn taken(what: Lent, memory: OwnedFd, algorithms: &[String]) -> anyhow::Result<Taken> {
    let read = |max| borrowed(memory, max).context("what was lent cannot be read");
    let file = match what {
        Lent::Secret => KeyFile::Secret(read(MAX_FILE_BYTES as usize)?),
        Lent::PublicKeys => KeyFile::Document(read(MAX_FILE_BYTES as usize)?.to_vec()),
        Lent::Revocations => {
            let revoked = Revocations::parse(&read(MAX_LIST_BYTES)?);
            return Ok(Taken::Revocations(revoked.context("nobody can be kept out")?));
        }
        Lent::Certificate => {
            let files = Files::unpack(&read(MAX_PACKED_BYTES)?).context("the certificate is not whole")?;
            let identity = files.parse()?;
            return Ok(Taken::Certificate(Tls::new(identity.certified, identity.client_roots)?));
        }
    };
    KeySet::new(&file, algorithms).map(Taken::Keys).context("tokens cannot be checked")
}
