//! What the input asks the live session: whether code is complete, and how it could go on.

use std::time::Duration;

use repltool_protocol::ids::SessionId;
use repltool_protocol::query::{CompletenessStatus, Completion};
use tokio::time::timeout;

use crate::client::Client;

/// How long somebody who types waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A session that can be asked. Cheap to clone.
#[derive(Clone)]
pub(super) struct Questions {
    client: Client,
    session: SessionId,
}

impl Questions {
    pub(super) fn new(client: &Client, session: &SessionId) -> Self {
        Self { client: client.clone(), session: session.clone() }
    }

    /// Whether code can be run as it is. It is, if nobody answers in time, or more would not help.
    pub(super) async fn is_complete(&self, code: &str) -> bool {
        let answer = timeout(PATIENCE, self.client.is_complete(&self.session, code)).await;
        !matches!(answer, Ok(Ok(answer)) if answer.status == CompletenessStatus::Incomplete)
    }

    /// What could stand at the cursor, in code points.
    pub(super) async fn complete(&self, code: &str, cursor: u64) -> Option<Completion> {
        timeout(PATIENCE, self.client.complete(&self.session, code, Some(cursor))).await.ok()?.ok()
    }
}
