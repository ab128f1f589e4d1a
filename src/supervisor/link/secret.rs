//! Secrets on their way to the gateway.

use serde::{Deserialize, Serialize};

/// Bytes that are wiped when dropped and never printed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes over the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}
