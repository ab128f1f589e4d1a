//! Violations: what the sandbox, the import policy or the screening of code found.

use repltool_protocol::event::{Violation, ViolationLayer};

use super::Actor;
use crate::config::PolicyAction;
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
}
