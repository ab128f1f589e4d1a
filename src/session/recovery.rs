//! What becomes of the sessions of an earlier run: those whose kernel lives go on with it, the others are there without
//! their state, what was to be deleted is, and what a crash kept from the history is made up for.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use repltool_protocol::ids::{ExecutionId, SessionId};

use super::actor::{Origin, stored_code};
use super::admission::Fingerprint;
use super::audited;
use super::log::{Found, Log, LogError, Tail};
use super::registry::{OpenError, Registry};
use super::{Identity, Lifespan};
use crate::runtime::Kernel;
use crate::store::SessionRow;
use crate::supervisor::handle::{Delivered, SupervisorHandle};

/// Pages of history read at a start, to know the executions that were.
const HISTORY_PAGE: u64 = 1000;

impl Registry {
    /// Takes up the sessions of an earlier run: with the kernels that live, without the others.
    ///
    /// # Errors
    /// [`OpenError::Store`]. A session whose log cannot be read is told in the server's log and left out.
    pub async fn take_up(&self, mut kernels: Vec<Delivered>, tail: Tail) -> Result<(), OpenError> {
        self.shared.quotas.load().await?;
        let (gone, rows): (Vec<_>, Vec<_>) =
            self.shared.store.sessions().await?.into_iter().partition(is_to_be_deleted);
        for row in &gone {
            kernels.retain(|delivered| delivered.held.session != row.id);
            self.shared.supervisor.release(&row.id);
            self.shared.audit.note(audited::erased(row));
        }
        futures::future::join_all(gone.iter().map(|row| self.erase(&row.id))).await;
        for row in rows {
            let kernel = newest(&mut kernels, &row.id, &self.shared.supervisor);
            let id = row.id.clone();
            if let Err(error) = self.take_up_one(row, kernel, tail).await {
                tracing::error!(session = %id, error = &error as &dyn std::error::Error, "a session cannot be taken up");
                self.shared.supervisor.release(&id);
            }
        }
        for orphan in kernels {
            tracing::warn!(session = %orphan.held.session, "a sandbox without a session is killed");
            self.shared.supervisor.release(&orphan.held.session);
        }
        Ok(())
    }

    /// Deletes what is stored of a session that has no actor. What cannot be deleted is told in the server's log.
    pub(super) async fn erase(&self, id: &SessionId) {
        match std::fs::remove_dir_all(self.shared.logs.join(id.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(session = %id, error = &error as &dyn std::error::Error, "a session's log is left over");
            }
            Ok(()) | Err(_) => {}
        }
        if let Err(error) = self.shared.store.delete_session(id).await {
            tracing::error!(session = %id, error = &error as &dyn std::error::Error, "a session's rows are left over");
        }
    }

    async fn take_up_one(&self, row: SessionRow, kernel: Option<Delivered>, tail: Tail) -> Result<(), LogError> {
        let dir = self.shared.logs.join(row.id.as_str());
        let (log, reader, found) = Log::open(&dir, self.shared.log_limits, tail)?;
        let mut known = self.known_executions(&row.id).await;
        self.complete_history(&row.id, &log, &found, &mut known);
        let identity = Arc::new(Identity {
            id: row.id,
            owner: row.owner,
            language: row.config.language,
            sandbox_mode: row.config.sandbox_mode,
            limits: row.config.resource_limits,
            created_at: row.created_at,
            lifespan: Lifespan::Kept,
        });
        let origin = match (row.ended_at, kernel) {
            (Some(at), kernel) => {
                // It was being terminated when the gateway before us died.
                if kernel.is_some() {
                    self.shared.supervisor.release(&identity.id);
                }
                Origin::Ended { at, found }
            }
            (None, Some(delivered)) => self.adopted(delivered, found, known),
            (None, None) => Origin::Recovered { found, known },
        };
        // Sessions that were there are kept, also where the caps are smaller now.
        let permits = self.permits(&identity.owner, None).ok();
        self.run(identity, row.config, log, reader, permits, origin);
        Ok(())
    }

    fn adopted(&self, delivered: Delivered, found: Found, known: Vec<(ExecutionId, Fingerprint)>) -> Origin {
        let deadline_ns = delivered.held.deadline_ns;
        match Kernel::new(self.shared.supervisor.clone(), delivered) {
            Ok(kernel) => Origin::Adopted { kernel, deadline_ns, found, known },
            Err(error) => {
                tracing::error!(%error, "a kernel cannot be taken over");
                Origin::Recovered { found, known }
            }
        }
    }

    /// A result is told as soon as it is in the log; its place in the history may have been lost with the gateway.
    fn complete_history(&self, id: &SessionId, log: &Log, found: &Found, known: &mut Vec<(ExecutionId, Fingerprint)>) {
        let in_history: HashSet<_> = known.iter().map(|(id, _)| id.clone()).collect();
        for ended in found.ended.iter().filter(|ended| !in_history.contains(&ended.id)) {
            match log.load(ended) {
                Ok((command, outcome)) => {
                    let Some(code) = stored_code(&command.body) else { continue };
                    known.push((command.id, Fingerprint::of(&code)));
                    self.shared.store.finish(id, &outcome, &code);
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "an execution is missing in the history");
                }
            }
        }
    }

    async fn known_executions(&self, id: &SessionId) -> Vec<(ExecutionId, Fingerprint)> {
        let mut known = Vec::new();
        while let Ok((total, page)) = self.shared.store.history(id, HISTORY_PAGE, known.len() as u64).await {
            let last = page.is_empty();
            known.extend(page.into_iter().map(|entry| (entry.execution_id, Fingerprint::of(&entry.code))));
            if last || known.len() as u64 >= total {
                break;
            }
        }
        known
    }
}

/// It was being terminated when the gateway before us died, or it was that of a request which died with it.
fn is_to_be_deleted(row: &SessionRow) -> bool {
    row.ended_at == Some(SessionRow::TO_BE_DELETED)
}

/// Takes the sandboxes of a session out of those that were handed over. Of two, the older one has ended, and the gateway
/// before us died before it could let it go.
fn newest(kernels: &mut Vec<Delivered>, session: &SessionId, supervisor: &SupervisorHandle) -> Option<Delivered> {
    let mut own: Vec<_> = kernels.extract_if(.., |delivered| delivered.held.session == *session).collect();
    own.sort_by_key(|delivered| delivered.held.sandbox);
    let newest = own.pop();
    own.iter().for_each(|older| supervisor.let_go(older.held.sandbox));
    newest
}
