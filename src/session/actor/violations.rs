//! Violations: what the sandbox, the import policy or the screening of code found.

use repltool_protocol::event::{Violation, ViolationLayer};

use super::Actor;
use crate::config::PolicyAction;
use crate::runtime::screen::Refusal;
use crate::supervisor::link::Refused;

impl Actor {
    /// Linux refused calls of a program.
    pub(super) fn on_refused(&mut self, refused: Refused) {
        let Refused { rule, detail, times } = refused;
        self.note_violation(Violation { rule, detail, layer: ViolationLayer::Kernel }, times, PolicyAction::Refuse);
    }

    /// Takes a violation into account that happened so many times: it is recorded, and unless that is all that is
    /// wanted, the result of what runs names it, if it is the first.
    pub(super) fn note_violation(&mut self, violation: Violation, times: u32, action: PolicyAction) {
        let execution = self.running.as_ref().map(|running| running.id.to_string());
        let Violation { rule, detail, layer } = &violation;
        tracing::warn!(
            target: "repltool::violation",
            session = %self.identity.id, execution, rule, detail, ?layer, ?action, times, "violation"
        );
        if action == PolicyAction::Record {
            return;
        }
        if let Some(running) = &mut self.running {
            running.violation.get_or_insert(violation);
        }
    }

    /// What the screening found in the code that starts.
    pub(super) fn note_judgement(&mut self) {
        let Some(running) = &self.running else { return };
        for (violation, action) in running.job.judgement.violations.clone() {
            self.note_violation(violation, 1, action);
        }
    }

    /// Ends the running execution if the screening refused it: its code reaches no driver. Says whether it has.
    pub(super) fn end_refused(&mut self) -> bool {
        let refusal = self.running.as_mut().and_then(|running| running.job.judgement.refuse.take());
        let Some(Refusal { violation, exception }) = refusal else { return false };
        let Some(running) = self.running.take() else { return false };
        let mut outcome = running.outcome();
        (outcome.violation, outcome.exception) = (Some(violation), Some(exception));
        self.settle(running, outcome);
        true
    }
}
