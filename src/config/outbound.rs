//! What the server calls by itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Traces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// Where traces are sent, as OTLP over HTTP; none: nowhere.
    pub otlp_url: Option<String>,
}

/// Connections that the server opens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outbound {
    /// Certificates that are trusted, PEM; none: those that the system trusts.
    pub ca_file: Option<PathBuf>,
}
