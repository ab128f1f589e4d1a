//! Violations: what the sandbox, the import policy or the screening of code found. Each is told in the log of the server,
//! and, unless it is to be recorded alone, as an event and in the result of what runs. Too many end the session.
//!
//! The word on a refused call and the end of the execution that made it come by different ways. A result waits until all
//! that was refused before it is known.

#[cfg(test)]
mod tests;

use std::time::Duration;

use repltool_protocol::event::{Event, StatusReason, Violation, ViolationLayer};
use tokio::time::Instant;

use super::Actor;
use crate::config::PolicyAction;
use crate::runtime::control::Finding;
use crate::runtime::screen::Refusal;
use crate::session::audited;
use crate::session::log::Message;
use crate::session::{End, Lifespan};
use crate::supervisor::budget::Budget;
use crate::supervisor::link::Refused;

/// What ends an execution whose session has broken too many rules.
pub(super) const TOO_MANY: &str = "the session was ended: too many violations of the sandbox's rules";
/// How long the end of an execution waits for the word on what it was refused.
const HEAR_LIMIT: Duration = Duration::from_secs(1);
/// The longest name of a rule, in bytes.
const MAX_RULE: usize = 64;
/// The longest detail, in bytes.
const MAX_DETAIL: usize = 300;

/// What a session knows of its violations.
#[derive(Debug)]
pub(super) struct Violations {
    /// What is done about code that breaks the policy of the session's level.
    policy: PolicyAction,
    budget: Budget,
    /// From which the budget counts.
    since: Instant,
    /// There were too many: the session is to be ended.
    pub(super) condemned: bool,
}

impl Violations {
    pub(super) fn new(policy: PolicyAction, per_minute: u32) -> Self {
        Self { policy, budget: Budget::new(per_minute), since: Instant::now(), condemned: false }
    }

    fn spend(&mut self, times: u64) {
        self.condemned |= !self.budget.spend(times, self.since.elapsed());
    }
}

impl Actor {
    /// Linux refused calls of a program.
    pub(super) fn on_refused(&mut self, refused: Refused) {
        let Refused { rule, detail, times } = refused;
        self.note_violation(Violation { rule, detail, layer: ViolationLayer::Kernel }, times, PolicyAction::Refuse);
        self.go_on_ending();
    }

    /// The driver tells with message `m` what the policy on imports found. A message that an earlier gateway stored comes
    /// again.
    pub(super) fn on_findings(&mut self, m: u64, findings: Vec<Finding>) {
        let Some(kernel) = self.kernel.as_ref().filter(|kernel| m > kernel.stored()) else { return };
        let message = Message { sandbox: kernel.sandbox().0, number: m };
        for Finding { rule, detail } in findings {
            let violation = Violation { rule, detail, layer: ViolationLayer::Policy };
            self.take_violation(violation, 1, self.violations.policy, Some(message));
        }
    }

    /// Takes a violation into account that happened so many times: it is recorded, and unless that is all that is
    /// wanted, readers are told, the result of what runs names it, if it is the first, and it counts to the budget.
    pub(super) fn note_violation(&mut self, violation: Violation, times: u32, action: PolicyAction) {
        self.take_violation(violation, times, action, None);
    }

    fn take_violation(&mut self, violation: Violation, times: u32, action: PolicyAction, message: Option<Message>) {
        let rule = legible(&violation.rule, MAX_RULE);
        let detail = legible(&violation.detail, MAX_DETAIL);
        let layer = violation.layer;
        let id = self.running.as_ref().map(|running| running.id.clone());
        tracing::warn!(
            target: "repltool::violation",
            session = %self.identity.id, execution = id.as_ref().map(|id| id.as_str()), rule, detail, ?layer, ?action,
            times, "violation"
        );
        let told = Violation { rule, detail, layer };
        self.audit.note(audited::violation(&self.identity, id.as_ref(), &told, times, action.name()));
        self.meter.violated(&told, times);
        let Violation { rule, detail, .. } = told;
        if action == PolicyAction::Record {
            return;
        }
        if let Some(running) = &mut self.running {
            let first = || Violation { rule: rule.clone(), detail: detail.clone(), layer };
            running.violation.get_or_insert_with(first);
        }
        let event = Event::Violation { id, rule, detail, layer, times };
        let appended = match message {
            Some(message) => self.log.append_message(message, &event),
            None => self.log.append(&event),
        };
        if let Err(error) = appended {
            self.stall(&error);
        }
        self.violations.spend(times.into());
    }

    /// The driver has told the end of what runs: whether all that was refused until now is known. If not, its end waits.
    pub(super) fn has_heard_all(&mut self) -> bool {
        let (Some(running), Some(kernel)) = (&mut self.running, &mut self.kernel) else { return true };
        kernel.count_refusals();
        if kernel.owed_refusals() == 0 {
            return true;
        }
        running.hears_until = Some(Instant::now() + HEAR_LIMIT);
        false
    }

    /// Goes on with an end that waits, if there is nothing more to wait for.
    fn go_on_ending(&mut self) {
        let (Some(running), Some(kernel)) = (&mut self.running, &self.kernel) else { return };
        if kernel.owed_refusals() == 0 && running.hears_until.take().is_some() {
            self.conclude();
        }
    }

    /// The word on what was refused does not come: it was lost, with an earlier gateway or on the way.
    pub(super) fn give_up_hearing(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        let owed = kernel.give_up_refusals();
        tracing::warn!(owed, "nothing was told of refused calls");
        self.violations.spend(owed);
        self.go_on_ending();
    }

    /// Too many violations: all that runs is killed at once, what was said stays readable for a while.
    pub(super) async fn end_condemned(mut self) {
        tracing::warn!(target: "repltool::violation", session = %self.identity.id, "ended: too many violations");
        if let Some(kernel) = &self.kernel {
            kernel.kill();
        }
        // That of one request is stored as ended from its beginning on.
        if self.identity.lifespan == Lifespan::Kept {
            self.store_end(jiff::Timestamp::now()).await;
        }
        self.close(TOO_MANY, End::Violations, StatusReason::Violations).await;
        self.lose_query();
        self.queries.clear();
        self.files = super::files::Asks::default();
        let until = Instant::now() + self.settings.keep_ended;
        match self.draining.take() {
            None => self.linger(until).await,
            Some((_, reply)) => {
                if self.identity.lifespan == Lifespan::OneShot {
                    self.delete().await;
                }
                let _ = reply.send(());
            }
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

/// The same text on one line, without what a terminal or a log takes for more than a letter, and at most `max_bytes`
/// long: a program chose it.
fn legible(text: &str, max_bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_bytes));
    for c in text.chars() {
        let c = if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER };
        if out.len() + c.len_utf8() > max_bytes {
            break;
        }
        out.push(c);
    }
    out
}

/// Neither a control character, nor one that ends a line or changes the direction of what follows.
fn is_plain(c: char) -> bool {
    let is_format =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_format
}
