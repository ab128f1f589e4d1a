//! A fresh token on an open socket: it takes the place of the one in force, or is refused and changes nothing.

use futures::FutureExt;
use futures::future::BoxFuture;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::RequestId;
use repltool_protocol::rest::ProblemCode;
use repltool_protocol::token::BearerToken;

use super::Socket;
use super::closing::Ending;
use crate::edge::auth::{Principal, Scope, Tenure};
use crate::edge::limit::Visit;
use crate::edge::problem::Fault;
use crate::edge::router;
use crate::session::timestamp;

impl Socket<'_> {
    pub(super) fn on_auth(&mut self, id: Option<RequestId>, token: &BearerToken) -> Result<(), Ending> {
        match self.successor(token) {
            Ok(principal) => {
                tracing::debug!(subject = principal.subject, "a socket has a fresh token");
                let expires_at = timestamp(principal.expires_at);
                self.lapsed = lapsed(self.connection.shared.auth.tenure(principal.clone()));
                self.principal = principal;
                id.map_or(Ok(()), |id| self.say(&Notice::Authenticated { id, expires_at }))
            }
            Err(fault) => self.say(&fault.notice(id.map(|id| id.to_string()))),
        }
    }

    /// Whom the token stands for, if that one may have this socket.
    fn successor(&self, token: &BearerToken) -> Result<Principal, Fault> {
        let mut visit = self.visit();
        let successor = self.judge(&mut visit, token);
        if let Err(fault) = &successor {
            self.connection.shared.audited.note_refusal(&visit, fault);
        }
        successor
    }

    /// What it does counts to the socket's client.
    pub(super) fn visit(&self) -> Visit {
        let mut visit = Visit::new(self.attachment.client);
        visit.noted.subject = Some(self.principal.subject.clone());
        visit
    }

    fn judge(&self, visit: &mut Visit, token: &BearerToken) -> Result<Principal, Fault> {
        let shared = &self.connection.shared;
        let principal = router::admit(shared, visit, Ok(&token.0), Some(Scope::Read))?;
        if principal.subject != self.principal.subject {
            tracing::warn!(subject = self.principal.subject, "somebody else's token was sent on a socket");
            return Err(Fault::new(ProblemCode::Forbidden, "the token is of another subject; open another socket"));
        }
        // Whoever sees everybody's sessions may lose the right to.
        shared
            .session(&principal, self.attachment.handle.identity().id.as_str())
            .map_err(|_| Fault::new(ProblemCode::Forbidden, "the token does not reach the session of this socket"))?;
        Ok(principal)
    }
}

/// Ends when the token is good no longer.
pub(super) fn lapsed(tenure: Tenure) -> BoxFuture<'static, ()> {
    async move { tenure.ended().await }.boxed()
}
