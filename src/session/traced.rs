//! What is told of the creation of a session where traces are taken.

use repltool_protocol::rest::SessionConfig;
use tracing::Instrument;

use super::registry::{CreateError, Owner, Registry};
use super::{Lifespan, SessionHandle};
use crate::metrics::labels;
use crate::traces;

impl Registry {
    /// Creates a session, in a span of the request that asks for it.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub(super) async fn create_traced(
        &self,
        owner: &Owner,
        config: SessionConfig,
        lifespan: Lifespan,
    ) -> Result<SessionHandle, CreateError> {
        let span = tracing::trace_span!("create_session");
        traces::note(&span, traces::LANGUAGE, labels::language(config.language));
        traces::note(&span, traces::SANDBOX_MODE, labels::mode(config.sandbox_mode));
        let created = self.create_for(owner, config, lifespan).instrument(span.clone()).await;
        if let Ok(handle) = &created {
            traces::note(&span, traces::SESSION, handle.identity().id.to_string());
        }
        traces::note(&span, traces::OUTCOME, if created.is_ok() { "success" } else { "error" });
        created
    }
}
