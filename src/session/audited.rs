//! What the audit log is told of a session: never code, output or input, only what identifies and measures them.

use repltool_protocol::event::{Outcome, Violation};
use repltool_protocol::ids::ExecutionId;

use super::{End, Identity};
use crate::audit::{Hash, Kind, Record, What};
use crate::store::SessionRow;

/// What every record of a session has.
fn of(identity: &Identity) -> What {
    What {
        subject: Some(identity.owner.as_str().into()),
        session_id: Some(identity.id.clone()),
        language: Some(identity.language),
        sandbox_mode: Some(identity.sandbox_mode),
        ..What::default()
    }
}

pub(super) fn created(identity: &Identity) -> Record {
    Record::new(Kind::SessionCreated, What { limits: Some(identity.limits), ..of(identity) })
}

/// `success` is whether it can be used.
pub(super) fn changed(kind: Kind, identity: &Identity, reason: &str, success: bool) -> Record {
    Record::new(kind, What { reason: Some(reason.into()), success: Some(success), ..of(identity) })
}

pub(super) fn ended(identity: &Identity, reason: &str) -> Record {
    Record::new(Kind::SessionEnded, What { reason: Some(reason.into()), ..of(identity) })
}

/// The end of a session that was being deleted when the gateway died.
pub(super) fn erased(row: &SessionRow) -> Record {
    let what = What {
        subject: Some(row.owner.as_str().into()),
        session_id: Some(row.id.clone()),
        language: Some(row.config.language),
        sandbox_mode: Some(row.config.sandbox_mode),
        reason: Some(reason(End::Terminated).into()),
        ..What::default()
    };
    Record::new(Kind::SessionEnded, what)
}

/// Why a session ended, in one word.
pub(super) fn reason(end: End) -> &'static str {
    match end {
        End::Terminated => "terminated",
        End::IdleTimeout => "idle_timeout",
        End::Violations => "violations",
    }
}

pub(super) fn execution(identity: &Identity, outcome: &Outcome, code: &str) -> Record {
    let violation = outcome.violation.as_ref();
    let what = What {
        event_type: Some("repl_execution"),
        execution_id: Some(outcome.id.clone()),
        execution_count: Some(outcome.execution_count),
        success: Some(outcome.success),
        duration_ms: Some(outcome.execution_time_ms),
        code_sha256: Some(Hash::of(code.as_bytes())),
        limits: Some(identity.limits),
        usage: Some(outcome.usage),
        limit: outcome.limit,
        exception: outcome.exception.as_ref().map(|it| it.name.as_str().into()),
        exit_code: outcome.exit_code,
        state_lost: Some(outcome.state_lost),
        rule: violation.map(|it| it.rule.as_str().into()),
        ..of(identity)
    };
    Record::new(Kind::Execution, what)
}

/// `action` is what is done about it.
pub(super) fn violation(
    identity: &Identity,
    execution: Option<&ExecutionId>,
    violation: &Violation,
    times: u32,
    action: &str,
) -> Record {
    let what = What {
        execution_id: execution.cloned(),
        rule: Some(violation.rule.as_str().into()),
        detail: Some(violation.detail.as_str().into()),
        layer: Some(violation.layer),
        times: Some(times),
        reason: Some(action.into()),
        ..of(identity)
    };
    Record::new(Kind::Violation, what)
}
