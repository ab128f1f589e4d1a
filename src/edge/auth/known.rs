//! Tokens whose signature and claims were checked a moment ago, by their hash: a client sends the same one with each request.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use hashlink::LruCache;

use super::Principal;

/// Tokens that are remembered, some 400 bytes each; the one that was seen least lately makes room.
const MAX_TOKENS: usize = 4096;

/// The name of a token here. Tokens themselves are not kept.
pub(super) type Name = [u8; SHA256_OUTPUT_LEN];

pub(super) struct Known(Mutex<LruCache<Name, Principal>>);

impl Known {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_TOKENS)))
    }

    pub(super) fn name(token: &str) -> Name {
        let mut name = Name::default();
        name.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        name
    }

    /// Whom a token stands for, if it was good when it came last. Whether it still is has to be asked.
    pub(super) fn find(&self, name: &Name) -> Option<Principal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn remember(&self, name: Name, principal: Principal) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, principal);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
