//! Bearer tokens, as clients carry them. Knows nothing of what is in them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// A token. It is secret, so it prints as `***`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(transparent)]
pub struct BearerToken(
    /// The text, which is for whoever checks it.
    #[schemars(length(max = 8192))]
    pub String,
);

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
