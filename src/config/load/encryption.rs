//! What has to be between the keys of the edge.

use super::ConfigError;
use crate::config::Edge;

/// Everything that is wrong between keys that are each right by themselves.
pub(super) fn check(edge: &Edge) -> Vec<ConfigError> {
    let mut faults = Vec::new();
    let (cert, key) = (("edge.tls_cert", edge.tls_cert.is_some()), ("edge.tls_key", edge.tls_key.is_some()));
    let client_ca = ("edge.tls_client_ca", edge.tls_client_ca.is_some());
    for ((there, is_there), (needed, is_needed_there)) in [(cert, key), (key, cert), (client_ca, cert)] {
        if is_there && !is_needed_there {
            faults.push(ConfigError::HalfTls(there, needed));
        }
    }
    if !edge.listen.ip().is_loopback() && !cert.1 && !edge.tls_by_proxy && faults.is_empty() {
        faults.push(ConfigError::PlainText(edge.listen));
    }
    if edge.proxy_protocol && edge.trusted_proxies.is_empty() {
        let needed = "the proxies that speak it in edge.trusted_proxies; from anybody else it is not believed";
        faults.push(ConfigError::Needs("edge.proxy_protocol", needed));
    }
    if edge.redirect_listen.is_some() {
        if !cert.1 && !edge.tls_by_proxy {
            faults.push(ConfigError::Needs(
                "edge.redirect_listen",
                "TLS to send clients to: edge.tls_cert, or edge.tls_by_proxy",
            ));
        }
        if edge.allowed_hosts.is_empty() {
            let needed = "the name to send clients to as the first of edge.allowed_hosts";
            faults.push(ConfigError::Needs("edge.redirect_listen", needed));
        }
    }
    faults
}
