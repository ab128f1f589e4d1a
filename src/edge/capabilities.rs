//! `GET /capabilities`: what this server offers, settled when it starts.

use http::StatusCode;
use repltool_protocol::frame::SUBPROTOCOL;
use repltool_protocol::rest::capabilities::{
    Capabilities, LanguageSupport, ModeSupport, ResourceBounds, SandboxLayer, SandboxSupport, ServerLimits,
    timeout_bounds,
};
use repltool_protocol::rest::{Language, MAX_CODE_CHARS, MAX_MESSAGE_BYTES, MAX_PAGE, ResourceLimits, SandboxMode};

use super::auth::Scope;
use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::Call;
use super::validate;
use crate::config::{Backend, Config, Sandbox};

/// What was found on the host.
#[derive(Debug)]
pub struct Host {
    /// Interpreters: the language of each, and what it says its version is.
    pub interpreters: Vec<(Language, String)>,
    /// How much isolation there is, as one word.
    pub tier: String,
    /// The layers of the sandbox, and whether each stood.
    pub layers: Vec<(String, bool)>,
}

/// `GET /capabilities`
pub(super) fn get(call: &Call) -> Result<Answer, Fault> {
    respond::json(StatusCode::OK, &call.connection.shared.config.capabilities)
}

/// What a server with these settings offers on this host.
pub fn describe(config: &Config, host: Host) -> Capabilities {
    let layers = host.layers.into_iter().map(|(name, active)| SandboxLayer { name, active });
    Capabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: SUBPROTOCOL.to_owned(),
        languages: host.interpreters.into_iter().map(|(language, version)| support(language, version)).collect(),
        sandbox: SandboxSupport { tier: host.tier, layers: layers.collect(), modes: modes(&config.sandbox) },
        limits: limits(config),
    }
}

fn support(language: Language, version: String) -> LanguageSupport {
    let (interpreter, synonyms) = match language {
        Language::Python => ("CPython", vec![]),
        Language::Javascript => ("Node.js", vec![]),
        Language::Bash | Language::Shell => ("GNU Bash", vec![Language::Shell]),
    };
    let min_memory_mb = validate::min_memory_mb(language);
    LanguageSupport { name: language, synonyms, interpreter: interpreter.to_owned(), version, min_memory_mb }
}

/// The levels that this server offers, the tightest first.
pub(super) fn modes(sandbox: &Sandbox) -> Vec<ModeSupport> {
    let most = *ResourceLimits::MEMORY_MB.end();
    let known = [
        (SandboxMode::Strict, vec![Scope::Execute], ResourceLimits::STRICT_MEMORY_MB),
        (SandboxMode::Standard, vec![Scope::Execute], most),
        (SandboxMode::Relaxed, vec![Scope::Execute, Scope::Relaxed], most),
    ];
    let mode = |(name, scopes, max_memory_mb): (_, Vec<Scope>, u64)| ModeSupport {
        name,
        scopes: scopes.into_iter().map(|scope| scope.name().to_owned()).collect(),
        max_processes: sandbox.max_processes(name).into(),
        max_memory_mb,
        backend: match sandbox.backend(name) {
            Backend::Native => "native".to_owned(),
            Backend::Oci => sandbox.oci_runtime.rsplit('/').next().unwrap_or_default().to_owned(),
        },
    };
    known.into_iter().filter(|(name, ..)| sandbox.levels.contains(name)).map(mode).collect()
}

fn limits(config: &Config) -> ServerLimits {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    ServerLimits {
        resource_limits: ResourceBounds::of_protocol(),
        timeout_ms: timeout_bounds(),
        max_code_chars: count(MAX_CODE_CHARS),
        max_message_bytes: count(MAX_MESSAGE_BYTES),
        max_file_bytes: config.sandbox.disk_mb << 20,
        max_page: MAX_PAGE,
        queue: count(config.sessions.queue),
        idle_timeout_s: config.sessions.idle_timeout_s,
        idle_after_s: config.sessions.idle_after_s,
        keep_ended_s: config.store.keep_ended_s,
        max_sessions: count(config.sessions.max),
        max_sessions_per_subject: count(config.sessions.max_per_subject),
    }
}
