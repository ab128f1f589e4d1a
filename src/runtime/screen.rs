//! Screening: reads code before it runs, and finds what breaks the policy of its level or what nobody writes by accident:
//! imports of modules that are not allowed, fork bombs, files of others opened by name, input in a shell's command.
//!
//! It is advice, never the wall. It gives honest programs an early and clear error, and the operator a record; whoever
//! wants to get past it does, and meets the sandbox. So it would rather miss something than refuse honest code: what is
//! merely *suspicious* is told and runs (but for the level strict), and what it cannot read in time runs unscreened.
//!
//! ```text
//!   code ─▶ syntax tree ─▶ queries of the language (screen/*.scm) ─▶ findings ─▶ the level's policy ─▶ judgement
//! ```
//! Knows no sessions and no configuration but what it is given. Pure: the same code gets the same judgement, unless the
//! time runs out.

mod find;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod rules;
mod words;

use std::sync::LazyLock;
use std::time::Duration;

use repltool_protocol::event::{Exception, Violation, ViolationLayer};
use repltool_protocol::rest::{Language, SandboxMode};
use serde::{Deserialize, Serialize};

use super::modules::{Modules, way_out};
use crate::config::PolicyAction;
use find::{Finding, Limits};
use rules::{Certainty, Rules};

/// Findings of one execution that are told; the first ones.
pub const MAX_FINDINGS: usize = 16;
/// CPU time of a glance, within which ordinary short code is read.
pub const GLANCE: Duration = Duration::from_millis(10);
/// The rule that a module is imported which the level does not allow.
pub const IMPORT: &str = "import";
/// Not a rule: a part of the code was not read.
pub const UNSCREENED: &str = "unscreened";

/// What a level does about findings, and what may be imported in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What is done about what is certain.
    pub action: PolicyAction,
    /// What Python programs may import.
    pub python: Modules,
    /// What JavaScript programs may import.
    pub javascript: Modules,
}

/// What is to become of an execution. The default is that it runs and there is nothing to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Set if it must not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Refusal>,
    /// Everything that was found, in the order of the code, at most [`MAX_FINDINGS`], with what is done about each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<(Violation, PolicyAction)>,
}

/// Why an execution does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The first finding for which it is refused.
    pub violation: Violation,
    /// What its result says.
    pub exception: Exception,
}

impl Judgement {
    /// Of code for which there was no time.
    pub fn unscreened() -> Self {
        let violation =
            Violation { rule: UNSCREENED.to_owned(), detail: find::TOO_MUCH.to_owned(), layer: ViolationLayer::Policy };
        Self { refuse: None, violations: vec![(violation, PolicyAction::Record)] }
    }

    /// Whether there is nothing to do or to tell.
    pub fn is_empty(&self) -> bool {
        self.refuse.is_none() && self.violations.is_empty()
    }

    /// The first violation that is more than recorded.
    pub fn told(&self) -> Option<&Violation> {
        self.violations.iter().find(|(_, action)| *action != PolicyAction::Record).map(|(violation, _)| violation)
    }
}

/// The rules of every language and the policies of every level. The rules of a language are compiled once, when they are
/// needed first, which takes a moment.
#[derive(Debug)]
pub struct Screen {
    python: LazyLock<Rules>,
    javascript: LazyLock<Rules>,
    bash: LazyLock<Rules>,
    strict: Policy,
    standard: Policy,
    relaxed: Policy,
}

impl Screen {
    /// A screen; `policy` says what holds at each level.
    pub fn new(policy: impl Fn(SandboxMode) -> Policy) -> Self {
        Self {
            python: LazyLock::new(|| Rules::compile(Language::Python)),
            javascript: LazyLock::new(|| Rules::compile(Language::Javascript)),
            bash: LazyLock::new(|| Rules::compile(Language::Bash)),
            strict: policy(SandboxMode::Strict),
            standard: policy(SandboxMode::Standard),
            relaxed: policy(SandboxMode::Relaxed),
        }
    }

    /// Compiles the rules of a language now, if that has not been done.
    pub fn prepare(&self, language: Language) {
        self.rules(language);
    }

    /// Judges code. Takes CPU time by the length of the code, and not much more than half a second; short code takes
    /// microseconds.
    pub fn examine(&self, language: Language, mode: SandboxMode, code: &str) -> Judgement {
        let findings = self.find(language, mode, code, Limits::default());
        judge(language, mode, self.policy(mode).action, findings)
    }

    /// [`Self::examine`] for a thread that serves others: gives up after [`GLANCE`].
    pub fn glance(&self, language: Language, mode: SandboxMode, code: &str) -> Option<Judgement> {
        let findings = self.find(language, mode, code, Limits { time: GLANCE, ..Limits::default() });
        let is_whole = findings.iter().all(|finding| finding.rule != UNSCREENED);
        is_whole.then(|| judge(language, mode, self.policy(mode).action, findings))
    }

    fn find(&self, language: Language, mode: SandboxMode, code: &str, limits: Limits) -> Vec<Finding<'_>> {
        let policy = self.policy(mode);
        let is_refused = |module: &str| match language {
            Language::Python => !policy.python.allows(module),
            Language::Javascript => !policy.javascript.allows(module),
            Language::Bash | Language::Shell => true,
        };
        find::find(self.rules(language), code, &is_refused, limits)
    }

    fn policy(&self, mode: SandboxMode) -> &Policy {
        match mode {
            SandboxMode::Strict => &self.strict,
            SandboxMode::Standard => &self.standard,
            SandboxMode::Relaxed => &self.relaxed,
        }
    }

    fn rules(&self, language: Language) -> &Rules {
        match language {
            Language::Python => &self.python,
            Language::Javascript => &self.javascript,
            Language::Bash | Language::Shell => &self.bash,
        }
    }
}

fn judge(language: Language, mode: SandboxMode, policy: PolicyAction, findings: Vec<Finding>) -> Judgement {
    let mut judgement = Judgement::default();
    for finding in findings {
        let action = action(mode, policy, &finding);
        // Where such code runs, the driver sees what is really imported, and tells that.
        if action != PolicyAction::Refuse && finding.is_seen_by_driver {
            continue;
        }
        let violation =
            Violation { rule: finding.rule.to_owned(), detail: finding.detail.clone(), layer: ViolationLayer::Policy };
        if action == PolicyAction::Refuse && judgement.refuse.is_none() {
            let exception = exception(language, mode, &finding);
            judgement.refuse = Some(Refusal { violation: violation.clone(), exception });
        }
        judgement.violations.push((violation, action));
    }
    judgement
}

fn action(mode: SandboxMode, policy: PolicyAction, finding: &Finding) -> PolicyAction {
    match (policy, finding.certainty) {
        _ if finding.rule == UNSCREENED => PolicyAction::Record,
        (PolicyAction::Refuse, Certainty::Suspicious) if mode != SandboxMode::Strict => PolicyAction::Warn,
        (policy, _) => policy,
    }
}

fn exception(language: Language, mode: SandboxMode, finding: &Finding) -> Exception {
    let Finding { rule, detail, line, .. } = finding;
    let level = words::level(mode);
    let (name, message) = if finding.is_seen_by_driver {
        let way_out = way_out(language, mode);
        ("ImportError", format!("\"import {detail}\" (line {line}) is not allowed in the level {level}; {way_out}"))
    } else {
        let name = if *rule == IMPORT { "ImportError" } else { "PolicyViolation" };
        let way_out = words::way_out(mode);
        (name, format!("\"{detail}\" (line {line}) breaks the rule {rule} of the level {level}; {way_out}"))
    };
    let traceback = vec![format!("{name}: {message}")];
    Exception { name: name.to_owned(), message, traceback }
}

#[cfg(test)]
mod tests;
