//! The closed sets that labels take their values from, and how the server's own values are named in them.

use prometheus_client::encoding::EncodeLabelSet;
use repltool_protocol::event::{Limit, Outcome, Violation, ViolationLayer};
use repltool_protocol::rest::{Language, ProblemCode, SandboxMode};

/// Languages. `shell` counts as `bash`, which it is.
pub const LANGUAGES: [&str; 3] = ["python", "javascript", "bash"];
/// Sandbox levels.
pub const SANDBOX_MODES: [&str; 3] = ["strict", "standard", "relaxed"];
/// How an execution ended; see [`outcome`].
pub const OUTCOMES: [&str; 10] = [
    "success",
    "error",
    "refused",
    "cancelled",
    "state_lost",
    "wall_time",
    "cpu_time",
    "memory",
    "output",
    "processes",
];
/// Limits, the last five of the outcomes.
pub const LIMITS: [&str; 5] = ["wall_time", "cpu_time", "memory", "output", "processes"];
/// How a session ended.
pub const ENDS: [&str; 3] = ["terminated", "idle_timeout", "violations"];
/// Why an interpreter was lost.
pub const LOSSES: [&str; 9] =
    ["wall_time", "cpu_time", "memory", "output", "processes", "violations", "restart", "fault", "exit"];
/// Rules that Linux keeps; the last one is for whatever else is reported.
pub const KERNEL_RULES: [&str; 12] = [
    "exec",
    "process",
    "network",
    "namespace",
    "mount",
    "trace",
    "kernel",
    "identity",
    "machine",
    "handle",
    "device",
    OTHER,
];
/// Rules of the screening and of the policy on imports; the last one is for whatever else is reported.
pub const POLICY_RULES: [&str; 10] = [
    "import",
    "fork_bomb",
    "path_traversal",
    "shell_injection",
    "code_injection",
    "sandbox_escape",
    "reverse_shell",
    "destruction",
    "unscreened",
    OTHER,
];
/// Quotas of a subject, by their keys.
pub const QUOTAS: [&str; 4] = ["executions", "session_creations", "cpu_seconds", "stored_mb"];
/// Kinds of alerts.
pub const ALERTS: [&str; 7] = [
    "violations",
    "policy_violations",
    "failed_logins",
    "limit_kills",
    "session_killed",
    "audit_failed",
    "audit_damaged",
];
/// What is called outside, with how that ends. Of keys no call is dropped.
pub const CALLS: [(&str, &str); 8] = [
    ("keys", "delivered"),
    ("keys", "failed"),
    ("webhook", "delivered"),
    ("webhook", "failed"),
    ("webhook", "dropped"),
    ("traces", "delivered"),
    ("traces", "failed"),
    ("traces", "dropped"),
];
/// The two processes of a server.
pub const PROCESSES: [&str; 2] = ["supervisor", "gateway"];
/// What has no name of its own.
pub const OTHER: &str = "other";

/// A language at a sandbox level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Level {
    pub(super) language: &'static str,
    pub(super) sandbox_mode: &'static str,
}

impl Level {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of = |language| SANDBOX_MODES.into_iter().map(move |sandbox_mode| Self { language, sandbox_mode });
        LANGUAGES.into_iter().flat_map(of)
    }

    pub(super) fn of(language: Language, mode: SandboxMode) -> Self {
        Self { language: self::language(language), sandbox_mode: self::mode(mode) }
    }
}

/// A level, and how something at it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ending {
    pub(super) language: &'static str,
    pub(super) sandbox_mode: &'static str,
    pub(super) outcome: &'static str,
}

impl Ending {
    pub(super) fn of(level: Level, outcome: &'static str) -> Self {
        Self { language: level.language, sandbox_mode: level.sandbox_mode, outcome }
    }
}

/// An alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfKind {
    pub(super) kind: &'static str,
}

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfLanguage {
    pub(super) language: &'static str,
}

/// A limit that struck in a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Struck {
    pub(super) language: &'static str,
    pub(super) limit: &'static str,
}

/// An interpreter of a language that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Lost {
    pub(super) language: &'static str,
    pub(super) cause: &'static str,
}

/// Why something ended or was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
}

/// A quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfQuota {
    pub(super) quota: &'static str,
}

/// A call to an address outside, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Call {
    pub(super) target: &'static str,
    pub(super) outcome: &'static str,
}

/// A rule that was broken, and what found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) layer: &'static str,
}

impl Broken {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let kernel = KERNEL_RULES.into_iter().map(|rule| Self { rule, layer: layer(ViolationLayer::Kernel) });
        kernel.chain(POLICY_RULES.into_iter().map(|rule| Self { rule, layer: layer(ViolationLayer::Policy) }))
    }

    /// A name that is not listed, which only a program can have put there, is told as `other`.
    pub(super) fn of(violation: &Violation) -> Self {
        let known: &[&'static str] = match violation.layer {
            ViolationLayer::Kernel => &KERNEL_RULES,
            ViolationLayer::Policy => &POLICY_RULES,
        };
        let rule = known.iter().find(|known| **known == violation.rule).copied().unwrap_or(OTHER);
        Self { rule, layer: layer(violation.layer) }
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    pub(super) route: &'static str,
    pub(super) method: &'static str,
    pub(super) status: u16,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Asked {
    pub(super) route: &'static str,
    pub(super) method: &'static str,
}

/// What a client was told when it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Refused {
    pub(super) code: &'static str,
    pub(super) over: &'static str,
}

/// One of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfProcess {
    pub(super) process: &'static str,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) version: &'static str,
    pub(super) tier: &'static str,
}

/// The name of a language.
pub fn language(language: Language) -> &'static str {
    match language {
        Language::Python => "python",
        Language::Javascript => "javascript",
        Language::Bash | Language::Shell => "bash",
    }
}

/// The name of a level.
pub fn mode(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Strict => "strict",
        SandboxMode::Standard => "standard",
        SandboxMode::Relaxed => "relaxed",
    }
}

/// The name of a limit.
pub fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::WallTime => "wall_time",
        Limit::CpuTime => "cpu_time",
        Limit::Memory => "memory",
        Limit::Output => "output",
        Limit::Processes => "processes",
    }
}

fn layer(layer: ViolationLayer) -> &'static str {
    match layer {
        ViolationLayer::Kernel => "kernel",
        ViolationLayer::Policy => "policy",
    }
}

/// How an execution ended: `success`; the limit that ended it; `state_lost` with its interpreter; `cancelled` before it ran;
/// `refused` because its code broke the policy; else `error`, which is the program's own.
pub fn outcome(outcome: &Outcome) -> &'static str {
    let refused = outcome.violation.as_ref().is_some_and(|it| it.layer == ViolationLayer::Policy);
    match outcome.limit {
        _ if outcome.success => "success",
        Some(limit) => self::limit(limit),
        None if outcome.state_lost => "state_lost",
        None if outcome.execution_count == 0 => "cancelled",
        None if refused => "refused",
        None => "error",
    }
}

/// The name of a problem code, as clients get it.
pub fn problem(code: ProblemCode) -> &'static str {
    match code {
        ProblemCode::InvalidRequest => "invalid_request",
        ProblemCode::Unauthorized => "unauthorized",
        ProblemCode::Forbidden => "forbidden",
        ProblemCode::NotFound => "not_found",
        ProblemCode::MethodNotAllowed => "method_not_allowed",
        ProblemCode::Busy => "busy",
        ProblemCode::Conflict => "conflict",
        ProblemCode::Gone => "gone",
        ProblemCode::PreconditionFailed => "precondition_failed",
        ProblemCode::TooLarge => "too_large",
        ProblemCode::UnsupportedMediaType => "unsupported_media_type",
        ProblemCode::RangeNotSatisfiable => "range_not_satisfiable",
        ProblemCode::MisdirectedRequest => "misdirected_request",
        ProblemCode::SessionLimit => "session_limit",
        ProblemCode::RateLimited => "rate_limited",
        ProblemCode::ExpressionLimit => "expression_limit",
        ProblemCode::Internal => "internal",
        ProblemCode::SandboxUnavailable => "sandbox_unavailable",
        ProblemCode::Draining => "draining",
        ProblemCode::StorageFull => "storage_full",
    }
}
