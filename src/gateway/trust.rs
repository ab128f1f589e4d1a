//! What the supervisor lends to this process, put in force: who is let in.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context;

use crate::config;
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
    algorithms: Vec<String>,
}

impl Trust {
    /// With all that was lent at the start.
    ///
    /// # Errors
    /// If there are no keys among it, or if they are no keys.
    pub(super) fn new(settings: &config::Auth, loans: Vec<Loan>) -> anyhow::Result<Self> {
        let algorithms = settings.algorithms.clone();
        let (mut keys, mut revoked) = (None, None);
        for (what, memory) in loans {
            match taken(what, memory, &algorithms)? {
                Taken::Keys(taken) => keys = Some(taken),
                Taken::Revocations(taken) => revoked = Some(taken),
            }
        }
        let keys = match settings.jwks_url {
            // They are still to be fetched, and the server answers meanwhile.
            Some(_) => keys.unwrap_or_default(),
            None => keys.context("the supervisor lends no keys")?,
        };
        let leeway = Duration::from_secs(settings.leeway_s);
        let auth = Auth::new(keys, settings.issuer.clone(), settings.audience.clone(), leeway);
        if let Some(revoked) = revoked {
            auth.set_revoked(revoked);
        }
        Ok(Self { auth, algorithms })
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

    /// Takes what has changed. What cannot be used is told in the log and changes nothing.
    pub(super) fn take(&self, what: Lent, memory: OwnedFd) {
        match taken(what, memory, &self.algorithms) {
            Ok(Taken::Keys(keys)) => self.auth.set_keys(keys),
            Ok(Taken::Revocations(revoked)) => self.auth.set_revoked(revoked),
            Err(error) => tracing::error!("what was lent is not taken: {error:#}"),
        }
    }
}

/// What was lent, read.
enum Taken {
    Keys(KeySet),
    Revocations(Revocations),
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
    };
    KeySet::new(&file, algorithms).map(Taken::Keys).context("tokens cannot be checked")
}
