//! Every key with what its value must be. A key that is not in this table does not exist.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strsim::levenshtein;
use toml::Value;

/// What the value of a key must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// `true` or `false`.
    Switch,
    /// A whole number within bounds, both included.
    Count(i64, i64),
    /// A number from 0 to 1, both included.
    Ratio,
    /// Text that is not empty and has no control characters.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `address:port`.
    Address,
    /// `https://…`, or `http://…` on this machine.
    Site,
    /// A list of texts that pass a check.
    List(fn(&str) -> bool, &'static str),
    /// What this version does not have: the key may not stand anywhere, and this is what to do instead. Safety may rest on
    /// such a key, so it is refused rather than ignored.
    Absent(&'static str),
}

const DAY: i64 = 86_400;

const BACKEND: Rule = Rule::Word(&["native", "oci"]);
const POLICY: Rule = Rule::Word(&["refuse", "warn", "record"]);
const MODULES: Rule = Rule::List(
    is_module,
    "a list of modules such as [\"default\", \"requests\"]; \"default\" is the level's own list, \"*\" everything, \"!name\" not this one",
);

/// Every key. The bounds of counts keep arithmetic far from overflow and catch a value in the wrong unit.
#[rustfmt::skip]
pub(super) const RULES: &[(&str, Rule)] = &[
    ("data_dir", Rule::Text),
    ("sessions.max", Rule::Count(1, 100_000)),
    ("sessions.max_per_subject", Rule::Count(1, 100_000)),
    ("sessions.queue", Rule::Count(1, 1024)),
    ("sessions.idle_timeout_s", Rule::Count(1, 30 * DAY)),
    ("sessions.idle_after_s", Rule::Count(1, 30 * DAY)),
    ("edge.listen", Rule::Address),
    ("edge.tls_cert", Rule::Text),
    ("edge.tls_key", Rule::Text),
    ("edge.tls_client_ca", Rule::Text),
    ("edge.tls_by_proxy", Rule::Switch),
    ("edge.redirect_listen", Rule::Address),
    ("edge.metrics_addr", Rule::Address),
    ("edge.allowed_hosts", Rule::List(is_host, "a list of host names such as \"repl.example\" or \"repl.example:8000\"")),
    ("edge.allowed_origins", Rule::List(is_origin, "a list of origins such as \"https://host:port\"")),
    ("edge.trusted_proxies", Rule::List(is_network, "a list of addresses or networks such as \"10.0.0.0/8\"")),
    ("edge.proxy_protocol", Rule::Switch),
    ("edge.max_sockets_per_subject", Rule::Count(1, 100_000)),
    ("edge.header_timeout_s", Rule::Count(1, 300)),
    ("edge.body_timeout_s", Rule::Count(1, 3600)),
    ("edge.drain_s", Rule::Count(0, 3600)),
    ("rate_limit.enabled", Rule::Switch),
    ("rate_limit.requests_per_minute", Rule::Count(1, 1_000_000_000)),
    ("rate_limit.burst", Rule::Count(1, 1_000_000_000)),
    ("rate_limit.failed_logins_per_minute", Rule::Count(1, 1_000_000_000)),
    ("quotas.period", Rule::Word(&["hour", "day", "month"])),
    ("quotas.executions", Rule::Count(0, 1_000_000_000_000)),
    ("quotas.session_creations", Rule::Count(0, 1_000_000_000_000)),
    ("quotas.cpu_seconds", Rule::Count(0, 1_000_000_000_000)),
    ("quotas.stored_mb", Rule::Count(0, 1_073_741_824)),
    ("auth.key_file", Rule::Text),
    ("auth.revocations_file", Rule::Text),
    ("auth.jwks_url", Rule::Site),
    ("auth.jwks_refresh_s", Rule::Count(1, DAY)),
    ("auth.issuer", Rule::Text),
    ("auth.audience", Rule::Text),
    ("auth.algorithms", Rule::List(is_algorithm, "a list of algorithms: \"HS256\", \"RS256\", \"PS256\", \"ES256\", \"EdDSA\"")),
    ("auth.leeway_s", Rule::Count(0, 300)),
    ("store.session_mb", Rule::Count(1, 1_048_576)),
    ("store.total_mb", Rule::Count(1, 1_073_741_824)),
    ("store.keep_ended_s", Rule::Count(0, 3650 * DAY)),
    ("store.redis_url", Rule::Absent("this version stores everything in data_dir, on one machine")),
    ("sandbox.backend", BACKEND),
    ("sandbox.oci_runtime", Rule::Text),
    ("sandbox.strict.backend", BACKEND),
    ("sandbox.standard.backend", BACKEND),
    ("sandbox.relaxed.backend", BACKEND),
    ("sandbox.allow_reduced_isolation", Rule::Switch),
    ("sandbox.levels", Rule::List(is_level, "a list of the levels \"strict\", \"standard\" and \"relaxed\"")),
    ("sandbox.strict.policy", POLICY),
    ("sandbox.strict.python_modules", MODULES),
    ("sandbox.strict.javascript_modules", MODULES),
    ("sandbox.standard.policy", POLICY),
    ("sandbox.standard.python_modules", MODULES),
    ("sandbox.standard.javascript_modules", MODULES),
    ("sandbox.standard.commands", Rule::Word(&["utilities", "builtins"])),
    ("sandbox.relaxed.policy", POLICY),
    ("sandbox.relaxed.python_modules", MODULES),
    ("sandbox.relaxed.javascript_modules", MODULES),
    ("sandbox.violations_per_minute", Rule::Count(1, 1_000_000_000)),
    ("sandbox.disk_mb", Rule::Count(1, 1_048_576)),
    ("sandbox.max_processes.strict", Rule::Count(2, 32_768)),
    ("sandbox.max_processes.standard", Rule::Count(2, 32_768)),
    ("sandbox.max_processes.relaxed", Rule::Count(2, 32_768)),
    ("pool.min", Rule::Count(0, 1000)),
    ("pool.max", Rule::Count(0, 1000)),
    ("pool.max_age_s", Rule::Count(1, DAY)),
    ("pool.zygote", Rule::Switch),
    ("pool.preload", Rule::List(is_package, "a list of packages such as [\"numpy\", \"pandas\"]")),
    ("runtimes.python", Rule::Text),
    ("runtimes.javascript", Rule::Text),
    ("runtimes.bash", Rule::Text),
    ("log.level", Rule::Word(&["error", "warn", "info", "debug", "trace"])),
    ("log.format", Rule::Word(&["text", "json"])),
    ("audit.file_mb", Rule::Count(1, 1024)),
    ("audit.keep_days", Rule::Count(90, 36_500)),
    ("audit.on_failure", Rule::Word(&["refuse", "continue"])),
    ("alerts.violations_per_minute", Rule::Count(0, 1_000_000_000)),
    ("alerts.failed_logins_per_minute", Rule::Count(0, 60)),
    ("alerts.limit_kills_per_10min", Rule::Count(0, 1_000_000_000)),
    ("alerts.cooldown_s", Rule::Count(1, DAY)),
    ("alerts.webhook_url", Rule::Site),
    ("alerts.webhook_secret_file", Rule::Text),
    ("traces.otlp_url", Rule::Site),
    ("traces.sample_ratio", Rule::Ratio),
    ("outbound.ca_file", Rule::Text),
];

/// A key with its rule, or none if there is no such key.
pub(super) fn rule(key: &str) -> Option<(&'static str, Rule)> {
    RULES.iter().find(|(name, _)| *name == key).copied()
}

/// The known key, or section as `[section]`, that looks most like this one, if any looks like it at all.
pub(super) fn closest(key: &str) -> Option<String> {
    let key = key.to_lowercase().replace('-', "_");
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    // Of names that end alike, the one that begins alike, too.
    let score = |name: &str| {
        let whole = levenshtein(&key, name);
        (whole.min(levenshtein(&leaf(&key), &leaf(name)) + 1), whole)
    };
    let keys = RULES.iter().map(|(name, _)| (score(name), (*name).to_owned()));
    let sections = RULES.iter().filter_map(|(name, _)| name.rsplit_once('.'));
    // The name of a section stands alone where the section is empty, or a value is where it should be.
    let sections = sections.map(|(section, _)| ((levenshtein(&key, section), 0), format!("[{section}]")));
    keys.chain(sections).min().filter(|((edits, _), _)| *edits <= 3).map(|(_, name)| name)
}

/// Whether keys begin with this name and a dot.
pub(super) fn is_section(name: &str) -> bool {
    RULES.iter().any(|(key, _)| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

impl Rule {
    /// What is expected of the value of this key, for the error message.
    pub(super) fn expectation(self, key: &str) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Count(min, max) => format!("a whole number{} from {min} to {max}", unit(key)),
            Self::Ratio => "a number from 0 to 1".to_owned(),
            Self::Text => "a text that is not empty and has no control characters".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Address => "an address with a port, such as 127.0.0.1:8000".to_owned(),
            Self::Site => "https://host[:port]/path, or http:// with a loopback host; no user, no fragment".to_owned(),
            Self::List(_, what) => what.to_owned(),
            Self::Absent(instead) => format!("left out: {instead}"),
        }
    }

    /// Whether a value is as it must be; nothing is converted on the way.
    pub(super) fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Switch, Value::Boolean(_)) => true,
            (Self::Count(min, max), Value::Integer(number)) => (min..=max).contains(number),
            (Self::Ratio, Value::Float(share)) => (0.0..=1.0).contains(share),
            (Self::Ratio, Value::Integer(share)) => (0..=1).contains(share),
            (Self::Text, Value::String(text)) => is_text(text),
            (Self::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Address, Value::String(text)) => text.parse::<SocketAddr>().is_ok(),
            (Self::Site, Value::String(text)) => is_site(text),
            (Self::List(check, _), Value::Array(items)) => items.iter().all(|item| item.as_str().is_some_and(check)),
            _ => false,
        }
    }

    /// Reads a value from the environment, where everything is text. What cannot be read stays text, which
    /// [`Rule::admits`] then refuses.
    pub(super) fn read(self, text: &str) -> Value {
        let read = match self {
            Self::Switch => text.parse().ok().map(Value::Boolean),
            Self::Count(..) => text.parse().ok().map(Value::Integer),
            Self::Ratio => text.parse().ok().map(Value::Float),
            Self::List(..) if text.is_empty() => Some(Value::Array(Vec::new())),
            Self::List(..) => Some(Value::Array(text.split(',').map(|item| item.trim().into()).collect())),
            Self::Text | Self::Word(_) | Self::Address | Self::Site | Self::Absent(_) => None,
        };
        read.unwrap_or_else(|| text.into())
    }
}

/// The unit that the name of a key ends with, as half a sentence.
fn unit(key: &str) -> &'static str {
    match key.rsplit_once('_') {
        Some((_, "s")) => " of seconds",
        Some((_, "mb")) => " of MiB",
        _ => "",
    }
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// `scheme://host[:port]`, as a browser writes it into `Origin`: no path, no user.
fn is_origin(text: &str) -> bool {
    text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).is_some_and(is_host)
}

/// `host[:port]`, as it stands in `Host`.
fn is_host(text: &str) -> bool {
    // The colons of an IPv6 address stand in brackets.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let of_hosts = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
    !host.is_empty() && host.chars().all(of_hosts) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Without TLS nobody can be believed but this machine.
fn is_site(text: &str) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |(name, _)| name);
    let is_local = matches!(name, "localhost" | "[::1]") || name.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback());
    let is_printable = text.len() <= 2048 && text.chars().all(|c| c.is_ascii_graphic() && c != '#');
    is_printable && is_host(host) && (scheme == "https" || (scheme == "http" && is_local))
}

fn is_algorithm(text: &str) -> bool {
    matches!(text, "HS256" | "RS256" | "PS256" | "ES256" | "EdDSA")
}

fn is_level(text: &str) -> bool {
    matches!(text, "strict" | "standard" | "relaxed")
}

/// `name`, `!name`, `*` or `default`; a name as Python and Node write it.
fn is_module(text: &str) -> bool {
    let name = text.strip_prefix('!').unwrap_or(text);
    let of_names = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '@' | ':');
    text == "*" || (!name.is_empty() && name.chars().all(of_names))
}

fn is_package(text: &str) -> bool {
    let is_name = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !part.is_empty();
    text.len() <= 100 && text.split('.').all(is_name)
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<IpAddr>().is_ok_and(|address| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}
