//! What `serve` does about TLS before a supervisor runs: the certificate is read and judged, and the address that people and
//! the command line are told is one that it covers.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context as _;
use jiff::Timestamp;

use crate::certificates::{Files, Identity};
use crate::config::{Config, Edge};
use crate::supervisor::link::CertificateFds;
use crate::supervisor::{Certificate, LoadedCertificate};

/// The certificate of the listener, if it is to speak TLS.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn certificate(config: &Config) -> anyhow::Result<Option<Certificate>> {
    let Edge { tls_cert, tls_key, tls_client_ca, .. } = &config.edge;
    if tls_cert.is_none() {
        return Ok(None);
    }
    let files = [tls_cert, tls_key, tls_client_ca].into_iter().flatten().cloned().collect();
    Certificate::new(load, config, files).map(Some)
}

fn load(config: &Config) -> anyhow::Result<LoadedCertificate> {
    let (files, identity) = read(&config.edge)?;
    let fds = CertificateFds::new(&files.chain, &files.key, files.client_ca.as_deref());
    Ok(LoadedCertificate { fds: fds.context("no memory for the certificate")?, good_until: identity.good_until() })
}

fn read(edge: &Edge) -> anyhow::Result<(Files, Identity)> {
    let missing = "edge.tls_cert and edge.tls_key are needed";
    let (chain, key) = (edge.tls_cert.as_deref().context(missing)?, edge.tls_key.as_deref().context(missing)?);
    let files = Files::read(chain, key, edge.tls_client_ca.as_deref())?;
    let identity = files.parse()?;
    identity.judge(Timestamp::now())?;
    Ok((files, identity))
}

/// The listener that sends clients to the encrypted one.
///
/// # Errors
/// Why it cannot be.
pub(super) fn redirect(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot listen on {address}, which edge.redirect_listen names"))
}

/// The url of a server that this machine reaches at `address`. With TLS it has a name that the certificate covers, if there
/// is one: the address itself, a name of `edge.allowed_hosts`, or `localhost`.
///
/// # Errors
/// Why the certificate cannot be used.
pub(super) fn url(config: &Config, address: SocketAddr) -> anyhow::Result<String> {
    if config.edge.tls_cert.is_none() {
        return Ok(format!("http://{address}"));
    }
    let (_, identity) = read(&config.edge)?;
    let names = config.edge.allowed_hosts.iter().map(|name| name.split(':').next().unwrap_or_default().to_owned());
    let localhost = address.ip().is_loopback().then(|| "localhost".to_owned());
    let named = names.chain(localhost).find(|name| identity.covers(name));
    match named.filter(|_| !identity.covers(&address.ip().to_string())) {
        Some(name) => Ok(format!("https://{name}:{}", address.port())),
        None => Ok(format!("https://{address}")),
    }
}
