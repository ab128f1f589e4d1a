//! What the configuration says of clients and can say anew while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use super::Shared;
use super::forwarded::Proxies;
use super::hosts::Hosts;
use crate::config::Config;

/// A value that is read by many, and replaced whole now and then.
#[derive(Debug)]
pub(super) struct Swap<T>(RwLock<Arc<T>>);

impl<T> Swap<T> {
    pub(super) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// The value of now. Whoever holds it keeps it.
    pub(super) fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

/// Reaches a running edge.
#[derive(Debug, Clone)]
pub struct LiveSettings(pub(super) Arc<Shared>);

impl LiveSettings {
    /// Puts other settings in force, for every request from now on: names and origins, proxies, rates, sockets of a
    /// subject. Sockets that are open keep the rate they began with; where rates differ, every count begins anew.
    pub fn apply(&self, config: &Config) {
        let (shared, edge) = (&self.0, &config.edge);
        shared.hosts.set(Hosts::new(&edge.allowed_hosts, &edge.allowed_origins));
        shared.proxies.set(Proxies::new(&edge.trusted_proxies));
        shared.limits.set(&config.rate_limit, edge.max_sockets_per_subject);
    }
}
