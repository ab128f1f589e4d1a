//! The certificate of a listener: read from its files and judged before it is shown to anybody.
//!
//! It knows files, PEM and X.509, and nothing of connections. Who starts a server judges what was read, so that an operator
//! is told at once and in words; the gateway takes the same bytes apart again.

use std::path::Path;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use crate::keys::{self, KeyError};

/// The largest file of certificates, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or is open to others.
    #[error(transparent)]
    File(#[from] KeyError),
    /// A file is no PEM.
    #[error("the file of {0} is not valid PEM: {1}")]
    Pem(&'static str, String),
    /// A file without what it is for.
    #[error("the file of {0} holds {1}")]
    Without(&'static str, &'static str),
    /// The two files do not belong together.
    #[error("the first certificate of edge.tls_cert does not belong to the key of edge.tls_key")]
    Mismatch,
    /// The certificate or key is of a kind that cannot be used.
    #[error("the certificate of edge.tls_cert cannot be used with the key of edge.tls_key: {0}")]
    Unusable(String),
    /// A certificate of the authorities cannot be used.
    #[error("a certificate of edge.tls_client_ca cannot be used: {0}")]
    Authority(String),
    /// The time of the certificate is over.
    #[error("the certificate of edge.tls_cert expired at {0}; put a new one in its place")]
    Expired(Timestamp),
    /// The time of the certificate has not come.
    #[error("the certificate of edge.tls_cert is not good before {0}; look at the clock of this machine")]
    Early(Timestamp),
}

/// What the files hold: PEM. Wiped when this is dropped.
pub struct Files {
    /// The certificate and those that lead to its root.
    pub chain: Zeroizing<Vec<u8>>,
    /// The private key.
    pub key: Zeroizing<Vec<u8>>,
    /// The authorities of clients.
    pub client_ca: Option<Zeroizing<Vec<u8>>>,
}

/// The most that [`Files::pack`] gives.
pub const MAX_PACKED_BYTES: usize = 3 * (MAX_FILE_BYTES as usize + LENGTH_BYTES);
/// What stands before each packed file: its length.
const LENGTH_BYTES: usize = 8;

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files(***)")
    }
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Identity {
    /// Both, ready for TLS.
    pub certified: CertifiedKey,
    /// Whose certificates a client needs; none: it needs no certificate.
    pub client_roots: Option<RootCertStore>,
    good_from: Timestamp,
    good_until: Timestamp,
}

impl Files {
    /// Reads the files. That of the key must be closed to others, as other keys are.
    ///
    /// # Errors
    /// Those of [`CertificateError`] that are about files.
    pub fn read(chain: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, CertificateError> {
        let read = |path| keys::contents(path, MAX_FILE_BYTES).map(|(content, _)| content);
        let (secret, mode) = keys::contents(key, MAX_FILE_BYTES)?;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open(key.to_owned()).into());
        }
        Ok(Self { chain: read(chain)?, key: secret, client_ca: client_ca.map(read).transpose()? })
    }

    /// All of it in one piece.
    pub fn pack(&self) -> Zeroizing<Vec<u8>> {
        let files = [Some(&self.chain), Some(&self.key), self.client_ca.as_ref()];
        let files = || files.into_iter().flatten();
        // Room for all, so that growing leaves no copies behind.
        let mut packed = Zeroizing::new(Vec::with_capacity(files().map(|file| LENGTH_BYTES + file.len()).sum()));
        for file in files() {
            packed.extend_from_slice(&(file.len() as u64).to_le_bytes());
            packed.extend_from_slice(file);
        }
        packed
    }

    /// Takes apart what [`Files::pack`] made; none for anything else.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let mut rest = packed;
        let mut next = || {
            let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
            let (file, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            rest = after;
            Some(Zeroizing::new(file.to_vec()))
        };
        let (chain, key, client_ca) = (next()?, next()?, next());
        rest.is_empty().then_some(Self { chain, key, client_ca })
    }

    /// Takes the files apart. Whether the time of the certificate is over is asked of [`Identity::judge`].
    ///
    /// # Errors
    /// Those of [`CertificateError`] that are about content.
    pub fn parse(&self) -> Result<Identity, CertificateError> {
        let chain = certificates(&self.chain, "edge.tls_cert")?;
        let (good_from, good_until) = validity(&chain)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| match error {
            PemError::NoItemsFound => CertificateError::Without(
                "edge.tls_key",
                "no private key; PEM of PKCS#8, PKCS#1 or SEC1 without a password is needed",
            ),
            other => CertificateError::Pem("edge.tls_key", other.to_string()),
        })?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch,
            other => CertificateError::Unusable(other.to_string()),
        })?;
        let client_roots = self.client_ca.as_ref().map(|pem| roots(pem)).transpose()?;
        Ok(Identity { certified, client_roots, good_from, good_until })
    }
}

impl Identity {
    /// Whether it is good now.
    ///
    /// # Errors
    /// [`CertificateError::Expired`] or [`CertificateError::Early`].
    pub fn judge(&self, now: Timestamp) -> Result<(), CertificateError> {
        if now > self.good_until {
            return Err(CertificateError::Expired(self.good_until));
        }
        if now < self.good_from {
            return Err(CertificateError::Early(self.good_from));
        }
        Ok(())
    }

    /// The end of its time.
    pub fn good_until(&self) -> Timestamp {
        self.good_until
    }

    /// Whether a client that asks for this host, a name or an address, takes it.
    pub fn covers(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        let Some(Ok(first)) = self.certified.cert.first().map(ParsedCertificate::try_from) else { return false };
        verify_server_name(&first, &name).is_ok()
    }
}

fn certificates(pem: &[u8], key: &'static str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| CertificateError::Pem(key, error.to_string()))?;
    if certificates.is_empty() {
        return Err(CertificateError::Without(key, "no certificate; PEM with BEGIN CERTIFICATE is needed"));
    }
    Ok(certificates)
}

/// From when and until when the whole chain is good.
fn validity(chain: &[CertificateDer<'_>]) -> Result<(Timestamp, Timestamp), CertificateError> {
    let unusable = |reason: &dyn std::fmt::Display| CertificateError::Unusable(reason.to_string());
    let (mut from, mut until) = (Timestamp::MIN, Timestamp::MAX);
    for certificate in chain {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| unusable(&error))?;
        let at = |seconds: i64| Timestamp::from_second(seconds).map_err(|error| unusable(&error));
        from = from.max(at(parsed.validity.not_before.timestamp())?);
        until = until.min(at(parsed.validity.not_after.timestamp())?);
    }
    Ok((from, until))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "edge.tls_client_ca")? {
        roots.add(certificate).map_err(|error| CertificateError::Authority(error.to_string()))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests;
