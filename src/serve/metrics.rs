//! The address on which metrics are served apart from clients.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Context;

use super::{reachable, write_private};
use crate::config::Config;

/// The file in the data directory that names the address.
const URL: &str = "metrics_url";

/// Binds `edge.metrics_addr`, and writes where metrics are to be had.
///
/// # Errors
/// If the address cannot be had.
pub(super) fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let wanted = config.edge.metrics_addr;
    let listener = TcpListener::bind(wanted)
        .with_context(|| format!("cannot serve metrics on {wanted}; choose another address with --metrics-addr"))?;
    let address = listener.local_addr().context("the socket for metrics has no address")?;
    write_private(&config.data_dir.join(URL), &format!("http://{}/metrics", reachable(address)))?;
    tracing::info!(%address, token = !address.ip().is_loopback(), "metrics are served");
    Ok(listener)
}

/// The server has ended.
pub(super) fn forget(data_dir: &Path) {
    let _ = std::fs::remove_file(data_dir.join(URL));
}
