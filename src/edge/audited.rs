//! What the audit log is told at the edge: who came in, and who was not let in. It holds no token, no path and no query,
//! only the template of a path.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;

use super::auth::Principal;
use super::limit::{Records, Visit, Whose};
use super::problem::Fault;
use crate::audit::{Audit, Kind, Record, What};
use crate::config::RateLimit;

/// Tokens whose first request is remembered, 1 MiB of them. One that is forgotten counts as new when it comes again.
const MAX_TOKENS: usize = 32_768;

/// What is noted of a request on its way.
#[derive(Debug, Clone, Default)]
pub(super) struct Noted {
    /// Its name.
    pub(super) request_id: String,
    /// Its method.
    pub(super) method: Method,
    /// Who asks, once that is known.
    pub(super) subject: Option<String>,
    /// Why nobody is.
    pub(super) reason: Option<String>,
    /// What a refusal is about.
    pub(super) detail: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Audited {
    audit: Audit,
    records: Records,
    tokens: Mutex<Tokens>,
}

impl Audited {
    /// Tells this log.
    pub(super) fn new(audit: Audit, rates: &RateLimit) -> Self {
        Self { audit, records: Records::new(rates), tokens: Mutex::default() }
    }

    /// Records the first request of a token, before it is carried out.
    ///
    /// # Cancel safety
    /// Dropped before there is room for the record, the token's next request is not its first one.
    pub(super) async fn admitted(&self, visit: &Visit, principal: &Principal) {
        let is_new = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).is_new(principal);
        if is_new {
            self.audit.store(Record::new(Kind::Login, of(visit))).await;
        }
    }

    /// Records a socket, before its client hears that it is open.
    pub(super) async fn opened(&self, visit: &Visit, session: Option<&SessionId>) {
        let what = What { session_id: session.cloned(), status: Some(101), ..of(visit) };
        self.audit.store(Record::new(Kind::Login, what)).await;
    }

    /// Records a refusal, before it is told, unless it is none that concerns security, or there were too many. One that
    /// conceals a session is not waited for: it would take longer than one that does not.
    pub(super) async fn refused(&self, visit: &Visit, fault: &Fault) {
        match self.refusal(visit, fault) {
            Some(record) if fault.conceals().is_none() => self.audit.store(record).await,
            Some(record) => self.audit.note(record),
            None => {}
        }
    }

    /// As [`Audited::refused`], without waiting.
    pub(super) fn note_refusal(&self, visit: &Visit, fault: &Fault) {
        if let Some(record) = self.refusal(visit, fault) {
            self.audit.note(record);
        }
    }

    /// Records that an administrator has to do with somebody else's session.
    pub(super) fn note_admin(&self, subject: &str, session: &SessionId) {
        let what = What { subject: Some(subject.into()), session_id: Some(session.clone()), ..What::default() };
        self.audit.note(Record::new(Kind::AdminAccess, what));
    }

    fn refusal(&self, visit: &Visit, fault: &Fault) -> Option<Record> {
        let kind = match fault.code() {
            ProblemCode::Unauthorized => Kind::AuthFailed,
            ProblemCode::Forbidden
            | ProblemCode::MisdirectedRequest
            | ProblemCode::RateLimited
            | ProblemCode::SessionLimit => Kind::Refused,
            ProblemCode::NotFound if fault.conceals().is_some() => Kind::Refused,
            _ => return None,
        };
        let noted = &visit.noted;
        let whose = match &noted.subject {
            _ if kind == Kind::AuthFailed => Whose::Login(visit.client()),
            Some(subject) => Whose::Subject(subject),
            None => Whose::Address(visit.client()),
        };
        let untold = self.records.grant(whose)?;
        let reason = noted.reason.as_deref().filter(|_| kind == Kind::AuthFailed).unwrap_or(fault.detail());
        let what = What {
            status: Some(fault.status().as_u16()),
            session_id: fault.conceals().cloned(),
            reason: Some(reason.into()),
            detail: noted.detail.as_deref().map(Into::into),
            untold: Some(untold).filter(|untold| *untold > 0),
            ..of(visit)
        };
        Some(Record::new(kind, what))
    }

    /// Forgets who was refused long ago, again and again; does not return.
    pub(super) async fn sweep_every(&self, period: Duration) {
        let mut due = tokio::time::interval(period);
        loop {
            due.tick().await;
            self.records.sweep();
        }
    }
}

/// What every record of a request has.
fn of(visit: &Visit) -> What {
    let Noted { request_id, method, subject, .. } = &visit.noted;
    What {
        subject: subject.as_deref().map(Into::into),
        peer: Some(visit.client()),
        request_id: Some(request_id.as_str().into()),
        method: Some(method.as_str().into()),
        route: visit.template(),
        ..What::default()
    }
}

/// Tokens that were seen, by keyed hashes of what they say; the oldest goes first.
#[derive(Debug, Default)]
struct Tokens {
    key: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Tokens {
    fn is_new(&mut self, principal: &Principal) -> bool {
        let scopes: Vec<_> = principal.scopes.names().collect();
        let token = self.key.hash_one((&principal.subject, principal.expires_at.as_second(), scopes));
        if !self.known.insert(token) {
            return false;
        }
        self.order.push_back(token);
        if self.order.len() > MAX_TOKENS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
