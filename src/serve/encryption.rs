//! What `serve` does about TLS before a supervisor runs: the certificate is read and judged, and the address that people and
//! the command line are told is one that it covers.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context as _;
use jiff::Timestamp;

use crate::certificates::{Files, Identity};
use crate::config::{Config, Edge};

/// The files of a listener that speaks TLS, and what is in them: good now.
///
/// # Errors
/// Why they cannot be used.
pub(super) fn read(edge: &Edge) -> anyhow::Result<(Files, Identity)> {
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
