//! The files that say who is let in and what the listener shows, each with how it is read and checked. The supervisor looks at them and knows nothing
//! of what is in them.

use anyhow::Context as _;
use zeroize::Zeroizing;

use super::encryption;
use crate::config::{Config, Edge};
use crate::edge::auth::keys::KeySet;
use crate::edge::auth::revoked::{MAX_LIST_BYTES, Revocations};
use crate::keys::{self, KeyFile};
use crate::supervisor::lending::{Content, Source};
use crate::supervisor::link::Lent;

/// Those that the configuration names.
pub(super) fn of(config: &Config) -> Vec<Source> {
    let Edge { tls_cert, tls_key, tls_client_ca, .. } = &config.edge;
    let keys = Source { paths: config.auth.key_file.iter().cloned().collect(), read: read_keys };
    let keys = config.auth.jwks_url.is_none().then_some(keys);
    let revocations = config.auth.revocations_file.clone();
    let revocations = revocations.map(|path| Source { paths: vec![path], read: read_revocations });
    let certificate = tls_cert.is_some().then(|| Source {
        paths: [tls_cert, tls_key, tls_client_ca].into_iter().flatten().cloned().collect(),
        read: read_certificate,
    });
    keys.into_iter().chain(revocations).chain(certificate).collect()
}

/// The configured key, or else the server's own, which is made if it is not there.
///
/// # Errors
/// If tokens cannot be checked with it.
pub(super) fn key_file(config: &Config) -> anyhow::Result<KeyFile> {
    let path = config.auth.key_file.as_deref();
    let file = keys::load_or_create(&config.data_dir, path)?;
    KeySet::new(&file, &config.auth.algorithms).with_context(|| match path {
        Some(path) => format!("the key file {} cannot be used", path.display()),
        None => format!("the key in {} cannot be used", config.data_dir.display()),
    })?;
    Ok(file)
}

fn read_keys(config: &Config) -> anyhow::Result<Content> {
    let (what, bytes) = match key_file(config)? {
        KeyFile::Secret(secret) => (Lent::Secret, secret),
        KeyFile::Document(text) => (Lent::PublicKeys, Zeroizing::new(text)),
    };
    Ok(Content { what, bytes, good_until: None })
}

/// The list, which must be there: a server that has lost it would let everybody in.
fn read_revocations(config: &Config) -> anyhow::Result<Content> {
    let path = config.auth.revocations_file.as_deref().context("auth.revocations_file is not set")?;
    let (list, _) = keys::contents(path, MAX_LIST_BYTES as u64)?;
    Revocations::parse(&list).with_context(|| format!("{} cannot be used", path.display()))?;
    Ok(Content { what: Lent::Revocations, bytes: list, good_until: None })
}

fn read_certificate(config: &Config) -> anyhow::Result<Content> {
    let (files, identity) = encryption::read(&config.edge)?;
    Ok(Content { what: Lent::Certificate, bytes: files.pack(), good_until: Some(identity.good_until()) })
}
