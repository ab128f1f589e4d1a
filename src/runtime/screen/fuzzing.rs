//! Laws of screening, as functions of any bytes: they panic where a law is broken. For the programs in `fuzz/`.

use std::time::Duration;

use repltool_protocol::rest::{Language, SandboxMode};

use super::find::{self, Limits};
use super::{MAX_FINDINGS, Policy, Screen, judge, words};
use crate::config::PolicyAction;
use crate::runtime::modules::Modules;

const LANGUAGES: [Language; 3] = [Language::Python, Language::Javascript, Language::Bash];
const MODES: [SandboxMode; 3] = [SandboxMode::Strict, SandboxMode::Standard, SandboxMode::Relaxed];
const ACTIONS: [PolicyAction; 3] = [PolicyAction::Refuse, PolicyAction::Warn, PolicyAction::Record];
/// So long that nothing of what a program in `fuzz/` makes up is cut short by it.
const LIMITS: Limits = Limits { bytes: 1 << 20, time: Duration::from_secs(3600) };

/// What the laws hold for; made once.
#[derive(Debug)]
pub struct Laws(Screen);

impl Default for Laws {
    fn default() -> Self {
        Self(Screen::new(|mode| Policy {
            action: PolicyAction::Refuse,
            python: Modules::resolve(Language::Python, mode, &["default".to_owned()]),
            javascript: Modules::resolve(Language::Javascript, mode, &["default".to_owned()]),
        }))
    }
}

impl Laws {
    /// The first byte chooses language, level and policy, the others are the code. Findings lie within the code, are
    /// told briefly and on one line, and are the same when the code is read again; a program is refused if and only if a
    /// finding says so.
    pub fn hold(&self, bytes: &[u8]) {
        let [choice, code @ ..] = bytes else { return };
        let choice = usize::from(*choice);
        let (language, mode) = (LANGUAGES[choice % 3], MODES[choice / 3 % 3]);
        let action = ACTIONS[choice / 9 % 3];
        let code = String::from_utf8_lossy(code);
        let lines = code.matches('\n').count() + 1;
        let allowed = |module: &str| module.len().is_multiple_of(2);
        let findings = find::find(self.0.rules(language), &code, &allowed, LIMITS);
        assert!(findings.len() <= MAX_FINDINGS);
        assert!(findings.is_sorted_by_key(|finding| finding.line));
        for finding in &findings {
            assert!((1..=lines).contains(&finding.line), "{finding:?}");
            assert!(finding.detail.chars().count() <= words::MAX_DETAIL, "{finding:?}");
            assert!(!finding.detail.contains(char::is_control), "{finding:?}");
        }
        assert_eq!(findings, find::find(self.0.rules(language), &code, &allowed, LIMITS));
        let judgement = judge(language, mode, action, findings);
        let refuses = judgement.violations.iter().any(|(_, action)| *action == PolicyAction::Refuse);
        assert_eq!(judgement.refuse.is_some(), refuses);
        assert!(!refuses || action == PolicyAction::Refuse);
        assert!(judgement.refuse.is_none_or(|refusal| !refusal.exception.message.contains('\n')));
    }
}
