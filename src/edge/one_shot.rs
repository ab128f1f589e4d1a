//! `POST /execute`: one execution in a session of its own, which nobody else sees and which is gone before the answer has
//! ended.
//!
//! The session belongs to the request. If the client goes away, nobody can see the result any more: the execution is
//! ended and the session deleted.

use http::StatusCode;
use repltool_protocol::rest::{OneShotRequest, SessionConfig};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::{self, Call};
use super::stream::{Feed, Format, Scope};
use super::{Shared, body, rest, validate};
use crate::session::registry::{CreateError, Owner};
use crate::session::{Execute, Refusal, SessionHandle};

/// `POST /execute`
pub(super) async fn execute(mut call: Call) -> Result<Answer, Fault> {
    let request: OneShotRequest = body::json(&mut call.request).await?;
    let format = Format::asked(call.request.headers());
    let (mut config, request) = request.into_parts();
    rest::may_create(&call.principal, &mut config, call.offered())?;
    validate::run(config.language, &request.code, request.timeout_ms)?;
    let place = format.map(|_| call.connection.shared.limits.place(&call.principal)).transpose()?;
    let (handle, own) = OwnSession::create(&call.connection.shared, call.principal.owner(), config).await?;
    router::note_session(handle.identity().id.as_str());
    let execute = Execute {
        id: request.execution_id,
        code: request.code,
        timeout: rest::timeout(request.timeout_ms),
        stdin: request.stdin,
        // Nobody else knows the session, so nobody could answer.
        interactive: false,
        account: call.connection.shared.registry.account(&call.principal.owner()),
    };
    let accepted = handle.execute(execute).await?;
    if let Some(format) = format {
        let cursor = handle.log().cursor(Some(accepted.after));
        let scope = Scope::Execution { id: accepted.id, log: handle.log().clone() };
        return Ok(Feed::new(cursor, format, scope).held_by(call.tenure()).holding(place).answer_then(own.delete()));
    }
    let result = rest::result(&handle, &accepted).await;
    own.delete().await;
    respond::json(StatusCode::OK, &result?)
}

/// The session of one request. Dropping it ends what runs in it and deletes it.
#[derive(Debug)]
struct OwnSession {
    /// Present until its deletion has begun.
    handle: Option<SessionHandle>,
    /// Where it is created and deleted: neither may stop half-way when a client goes away.
    tasks: TaskTracker,
}

impl OwnSession {
    /// Creates a session. It is deleted if the caller goes away meanwhile.
    ///
    /// # Errors
    /// Why the registry refused.
    async fn create(shared: &Shared, owner: Owner, config: SessionConfig) -> Result<(SessionHandle, Self), Fault> {
        let (registry, tasks) = (shared.registry.clone(), shared.tasks.clone());
        let creation = async move {
            let handle = registry.create_one_shot(&owner, config).await?;
            Ok::<_, CreateError>(Self { handle: Some(handle), tasks })
        };
        match shared.tasks.spawn(creation.in_current_span()).await {
            Ok(Ok(own)) => match own.handle.clone() {
                Some(handle) => Ok((handle, own)),
                None => Err(Refusal::Gone.into()),
            },
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(Fault::internal(&error)),
        }
    }

    /// Deletes the session, and returns when nothing is left of it.
    ///
    /// # Cancel safety
    /// It is deleted also if the future is dropped, or never polled.
    async fn delete(mut self) {
        if let Some(deletion) = self.begin_deletion() {
            // Its own log line tells what went wrong.
            let _ = deletion.await;
        }
    }

    fn begin_deletion(&mut self) -> Option<JoinHandle<()>> {
        let (handle, runtime) = (self.handle.take()?, Handle::try_current().ok()?);
        let deletion = async move {
            match handle.terminate().await {
                // It has deleted itself: by its idle timeout, or because the server stops.
                Ok(()) | Err(Refusal::Gone) => {}
                Err(refusal) => {
                    tracing::error!(session = %handle.identity().id, %refusal, "the session of a request is left over");
                }
            }
        };
        Some(self.tasks.spawn_on(deletion.in_current_span(), &runtime))
    }
}

impl Drop for OwnSession {
    fn drop(&mut self) {
        // Waited for by nobody, but by the end of the server.
        drop(self.begin_deletion());
    }
}
