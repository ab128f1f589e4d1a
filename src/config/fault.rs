//! What can be wrong with the settings. Each message is one line and says where the fault stands and what is expected.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Origin;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is of the wrong type or out of range, or asks for what this version does not have.
    #[error("{key} = {value} ({origin}) must be {expected}")]
    Value {
        /// The full key.
        key: String,
        /// What it was given.
        value: String,
        /// File, variable or flag.
        origin: Origin,
        /// What it must be.
        expected: String,
    },
    /// No such key in this version.
    #[error("{key} ({origin}) is no setting of this version{hint}")]
    Unknown {
        /// The full key.
        key: String,
        /// File or variable.
        origin: Origin,
        /// The key that may have been meant, as a half sentence, or nothing.
        hint: String,
    },
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else could change the file, and with it who is let in.
    #[error("the configuration file {0} can be written by others; give it to the server's user and run `chmod go-w {0}`", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// The file is too large, or not a file.
    #[error("the configuration file {} must be a regular file of at most 1 MiB", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is no TOML.
    #[error("{origin} is not valid TOML: {reason}")]
    Syntax {
        /// File and line.
        origin: Origin,
        /// What the parser says.
        reason: String,
    },
    /// A public address with a key that nobody chose.
    #[error(
        "edge.listen = {0} is not a loopback address; set auth.key_file to a key of your own first, or auth.jwks_url"
    )]
    KeyNeeded(SocketAddr),
    /// Of what TLS needs, one part is missing.
    #[error("{0} is set and {1} is not; both are needed for TLS")]
    HalfTls(&'static str, &'static str),
    /// Something that rests on a setting that is not there.
    #[error("{0} needs {1}")]
    Needs(&'static str, &'static str),
    /// A public address without encryption.
    #[error(
        "edge.listen = {0} is not a loopback address and speaks no TLS; set edge.tls_cert and edge.tls_key, or \
         edge.tls_by_proxy = true where a proxy in front encrypts"
    )]
    PlainText(SocketAddr),
    /// Two places for the same thing.
    #[error("auth.key_file and auth.jwks_url are both set; leave out the one that is not to be asked for keys")]
    Keys,
    /// Nothing to sign webhooks with.
    #[error("alerts.webhook_url needs alerts.webhook_secret_file; make a secret with `openssl rand -hex 32`")]
    WebhookSecret,
    /// One session may take more than all together.
    #[error("store.session_mb = {0} is more than store.total_mb = {1}")]
    Store(u64, u64),
    /// No data directory was named, and there is no home.
    #[error("there is no place for the data directory; use --data-dir or set XDG_STATE_HOME or HOME")]
    NoHome,
    /// The layers do not fit together.
    #[error("the configuration cannot be put together")]
    Merge(#[source] toml::de::Error),
}
