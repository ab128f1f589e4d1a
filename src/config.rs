//! What was meant: every setting with its default applied and its bounds checked; immutable after start.
//!
//! Layers, each over the one before: defaults, the TOML file, the environment (`REPLTOOL_SECTION__KEY`), flags. The
//! supervisor reads them once and sends the result to its gateway, which reads no file of its own. This module knows
//! keys and values; what they do is told where they are used, and it opens nothing but the configuration file.

mod alerts;
mod audit;
mod fault;
mod file;
mod load;
mod outbound;
mod pool;
mod quotas;
mod ratio;
mod reload;
mod rules;
mod sandbox;
mod settings;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use alerts::Alerts;
pub use audit::{Audit, OnFailure};
pub use fault::ConfigError;
pub use load::{Overrides, Reading, load, locate_data_dir, read};
pub use outbound::{Outbound, Traces};
pub use pool::Pool;
pub use quotas::{Period, Quotas};
pub use ratio::{NoRatio, Ratio};
pub use reload::{Change, LIVE};
pub use sandbox::{Backend, Commands, Level, MaxProcesses, PolicyAction, RelaxedLevel, Sandbox, StandardLevel};
pub use settings::{Origin, Setting, Settings, masked};

/// The effective configuration. Holds paths of secrets, never secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `data_dir`: signing key, local token, store and logs; absolute.
    pub data_dir: PathBuf,
    /// `[sessions]`
    #[serde(default)]
    pub sessions: Sessions,
    /// `[edge]`
    #[serde(default)]
    pub edge: Edge,
    /// `[rate_limit]`
    #[serde(default)]
    pub rate_limit: RateLimit,
    /// `[quotas]`
    #[serde(default)]
    pub quotas: Quotas,
    /// `[auth]`
    #[serde(default)]
    pub auth: Auth,
    /// `[store]`
    #[serde(default)]
    pub store: Store,
    /// `[sandbox]`
    #[serde(default)]
    pub sandbox: Sandbox,
    /// `[pool]`
    #[serde(default)]
    pub pool: Pool,
    /// `[runtimes]`
    #[serde(default)]
    pub runtimes: Runtimes,
    /// `[log]`
    #[serde(default)]
    pub log: Log,
    /// `[audit]`
    #[serde(default)]
    pub audit: Audit,
    /// `[alerts]`
    #[serde(default)]
    pub alerts: Alerts,
    /// `[traces]`
    #[serde(default)]
    pub traces: Traces,
    /// `[outbound]`
    #[serde(default)]
    pub outbound: Outbound,
}

impl Config {
    /// Every default, with this data directory.
    pub fn with_data_dir(data_dir: impl AsRef<Path>) -> Self {
        Self {
            data_dir: data_dir.as_ref().to_owned(),
            sessions: Sessions::default(),
            edge: Edge::default(),
            rate_limit: RateLimit::default(),
            quotas: Quotas::default(),
            auth: Auth::default(),
            store: Store::default(),
            sandbox: Sandbox::default(),
            pool: Pool::default(),
            runtimes: Runtimes::default(),
            log: Log::default(),
            audit: Audit::default(),
            alerts: Alerts::default(),
            traces: Traces::default(),
            outbound: Outbound::default(),
        }
    }
}

/// Bounds on sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// Sessions of all subjects together.
    pub max: usize,
    /// Sessions of one subject.
    pub max_per_subject: usize,
    /// Executions that may wait in one session.
    pub queue: usize,
    /// Seconds without use until a session ends.
    pub idle_timeout_s: u64,
    /// Seconds without a running execution until a session is shown as `idle`.
    pub idle_after_s: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { max: 1000, max_per_subject: 100, queue: 16, idle_timeout_s: 300, idle_after_s: 60 }
    }
}

/// The network side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Edge {
    /// Where clients connect. Anything but a loopback address demands `auth.key_file`, and TLS here or at a proxy.
    pub listen: SocketAddr,
    /// The certificate that the listener shows and those that lead to its root, as PEM; none: it speaks no TLS.
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM.
    pub tls_key: Option<PathBuf>,
    /// The authorities of clients, as PEM; with it a client needs a certificate of one of them.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether a proxy encrypts what this listener does not.
    pub tls_by_proxy: bool,
    /// Where clients are told, in plain text, to come by TLS; none: nowhere.
    pub redirect_listen: Option<SocketAddr>,
    /// Where `/metrics` is served, on a loopback address to whoever asks.
    pub metrics_addr: SocketAddr,
    /// Host names that are answered besides `localhost`, loopback addresses and the address that a connection came in by:
    /// `host` with any port, or `host:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins, besides the server's own, whose pages may connect: `https://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Proxies whose forwarded addresses are believed: addresses, or networks as `address/bits`.
    pub trusted_proxies: Vec<String>,
    /// Whether those proxies begin each connection with the PROXY protocol, version 2.
    pub proxy_protocol: bool,
    /// Sockets of one subject at once; streams that wait for events count as such.
    pub max_sockets_per_subject: usize,
    /// Seconds in which the head of a request must have arrived.
    pub header_timeout_s: u64,
    /// Seconds in which a body of JSON must have arrived, and the next piece of a file.
    pub body_timeout_s: u64,
    /// Seconds that running requests have when the server stops.
    pub drain_s: u64,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_by_proxy: false,
            redirect_listen: None,
            metrics_addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            max_sockets_per_subject: 2000,
            header_timeout_s: 10,
            body_timeout_s: 60,
            drain_s: 10,
        }
    }
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Whether the rates hold at all.
    pub enabled: bool,
    /// Requests of one subject, and messages of one socket, in a minute.
    pub requests_per_minute: u32,
    /// How many of them may come at once; never more than those of a minute.
    pub burst: u32,
    /// Requests of one peer address in a minute that may fail authentication.
    pub failed_logins_per_minute: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { enabled: true, requests_per_minute: 6000, burst: 200, failed_logins_per_minute: 30 }
    }
}

/// Tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// The secret that signs tokens, or the public keys that check them; none: a secret, made in the data directory at the
    /// first start.
    pub key_file: Option<PathBuf>,
    /// Tokens and subjects that are let in no longer; none: nobody.
    pub revocations_file: Option<PathBuf>,
    /// Where the public keys are fetched that check tokens; none: they are in `key_file`.
    pub jwks_url: Option<String>,
    /// Seconds after which they are fetched anew, where their source says nothing else.
    pub jwks_refresh_s: u64,
    /// `iss` that a token must carry; none: not checked.
    pub issuer: Option<String>,
    /// `aud` that a token must carry; none: not checked.
    pub audience: Option<String>,
    /// Signature algorithms that are accepted; empty: those of the key.
    pub algorithms: Vec<String>,
    /// Seconds by which clocks may differ.
    pub leeway_s: u64,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            key_file: None,
            revocations_file: None,
            jwks_url: None,
            jwks_refresh_s: 300,
            issuer: None,
            audience: None,
            algorithms: Vec::new(),
            leeway_s: 30,
        }
    }
}

/// What is kept on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// MiB that the log and code of one session may take; the oldest part goes first.
    pub session_mb: u64,
    /// MiB of all sessions together.
    pub total_mb: u64,
    /// Seconds that the log and history of a session stay readable after its idle timeout.
    pub keep_ended_s: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { session_mb: 64, total_mb: 4096, keep_ended_s: 3600 }
    }
}

/// Interpreters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runtimes {
    /// Path of Python; none: found, the distribution's own first.
    pub python: Option<PathBuf>,
    /// Node.js, 18 or newer. None: the first that is found.
    pub javascript: Option<PathBuf>,
    /// GNU Bash, 5.1 or newer. None: the first that is found.
    pub bash: Option<PathBuf>,
}

/// The server's own log, on standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// What is left out.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// The least severe kind of line that is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Someone must act.
    Error,
    /// Someone might have to act.
    Warn,
    /// Changes in the life of the server and of sessions.
    #[default]
    Info,
    /// Decisions.
    Debug,
    /// Everything.
    Trace,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

#[cfg(test)]
mod tests;
