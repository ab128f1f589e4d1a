//! What the supervisor lends to this process, put in force: who is let in.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context;

use crate::config;
use crate::edge::auth::Auth;
use crate::edge::auth::keys::KeySet;
use crate::keys::{KeyFile, MAX_FILE_BYTES};
use crate::supervisor::lending::Loan;
use crate::supervisor::link::{Lent, borrowed};

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
        let (mut keys, algorithms) = (None, settings.algorithms.clone());
        for (what, memory) in loans {
            keys = Some(key_set(what, memory, &algorithms)?);
        }
        let keys = keys.context("the supervisor lends no keys")?;
        let leeway = Duration::from_secs(settings.leeway_s);
        let auth = Auth::new(keys, settings.issuer.clone(), settings.audience.clone(), leeway);
        Ok(Self { auth, algorithms })
    }

    pub(super) fn auth(&self) -> Auth {
        self.auth.clone()
    }

    /// Takes what has changed. What cannot be used is told in the log and changes nothing.
    pub(super) fn take(&self, what: Lent, memory: OwnedFd) {
        match key_set(what, memory, &self.algorithms) {
            Ok(keys) => self.auth.set_keys(keys),
            Err(error) => tracing::error!("what was lent is not taken: {error:#}"),
        }
    }
}

fn key_set(what: Lent, memory: OwnedFd, algorithms: &[String]) -> anyhow::Result<KeySet> {
    let bytes = borrowed(memory, MAX_FILE_BYTES as usize).context("the keys cannot be read")?;
    let file = match what {
        Lent::Secret => KeyFile::Secret(bytes),
        Lent::PublicKeys => KeyFile::Document(bytes.to_vec()),
    };
    KeySet::new(&file, algorithms).context("tokens cannot be checked")
}
