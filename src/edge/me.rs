//! `GET /me`: who the caller is to this server, what it may have, and how much of that is left.

use http::StatusCode;
use repltool_protocol::me::{Me, MeLimits, MeQuotaUsage, MeQuotas, MeUsage, QuotaPeriod};

use super::auth::ReplLimits;
use super::limit::Standing;
use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::Call;
use crate::config::Period;
use crate::session::quotas::{self, Caps};
use crate::session::timestamp;

/// `GET /me`; `standing` is what this request itself was charged to.
pub(super) fn me(call: &Call, standing: Option<&Standing>) -> Result<Answer, Fault> {
    let (shared, principal) = (&call.connection.shared, &call.principal);
    let (sessions, max_sessions) = shared.registry.share(&principal.subject);
    let max_sessions = ReplLimits::at_most(max_sessions, principal.limits.max_sessions);
    let (sockets, max_sockets) = shared.limits.places(principal);
    let requests = shared.limits.requests(principal);
    let standing_of_quotas = shared.registry.account(&principal.owner()).standing();
    let me = Me {
        subject: principal.subject.clone(),
        scopes: principal.scopes.names().map(str::to_owned).collect(),
        expires_at: timestamp(principal.expires_at),
        limits: MeLimits {
            sessions: max_sessions as u64,
            sockets: max_sockets as u64,
            requests_per_minute: requests.map(|(per_minute, _)| per_minute.into()),
            burst: requests.map(|(_, burst)| burst.into()),
            session: principal.limits.most(),
            quotas: limits(&standing_of_quotas),
        },
        usage: MeUsage {
            sessions: sessions as u64,
            sockets: sockets as u64,
            requests_left: standing.map(|it| it.remaining().into()),
            quotas: usage(&standing_of_quotas),
        },
    };
    respond::json(StatusCode::OK, &me)
}

fn limits(standing: &quotas::Standing) -> MeQuotas {
    let Caps { executions, session_creations, cpu_seconds, stored_mb } = standing.caps;
    let period = match standing.period {
        Period::Hour => QuotaPeriod::Hour,
        Period::Day => QuotaPeriod::Day,
        Period::Month => QuotaPeriod::Month,
    };
    MeQuotas { period, executions, session_creations, cpu_seconds, stored_mb }
}

fn usage(standing: &quotas::Standing) -> MeQuotaUsage {
    MeQuotaUsage {
        period_ends_at: timestamp(standing.ends),
        executions: standing.executions,
        session_creations: standing.session_creations,
        cpu_time_ms: u64::try_from(standing.cpu.as_millis()).unwrap_or(u64::MAX),
        stored_bytes: standing.stored_bytes,
    }
}
