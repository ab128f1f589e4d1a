//! What the input asks the live session: whether code is complete, and how it could go on.

use std::time::Duration;

use repltool_protocol::ids::SessionId;
use repltool_protocol::query::{CompletenessStatus, Completion};
use tokio::time::timeout;

use crate::client::Client;

/// How long somebody who types waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a script does, which has nothing to gain from a guess.
const PATIENCE_OF_SCRIPTS: Duration = Duration::from_secs(60);

/// The pause before a question that had no answer is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// A session that can be asked. Cheap to clone.
#[derive(Clone)]
pub(super) struct Questions {
    client: Client,
    session: SessionId,
    patience: Duration,
}

impl Questions {
    /// Asked by a person.
    pub(super) fn new(client: &Client, session: &SessionId) -> Self {
        Self { client: client.clone(), session: session.clone(), patience: PATIENCE }
    }

    /// Asked by a script.
    pub(super) fn of_script(self) -> Self {
        Self { patience: PATIENCE_OF_SCRIPTS, ..self }
    }

    /// Whether code can be run as it is. It is, if nobody answers in time, or more would not help.
    pub(super) async fn is_complete(&self, code: &str) -> bool {
        let ask = async {
            loop {
                match self.client.is_complete(&self.session, code).await {
                    Ok(answer) => return answer.status != CompletenessStatus::Incomplete,
                    // The session has ended, or the token has: what is run next is told so.
                    Err(error) if error.problem().is_some_and(|it| matches!(it.status, 401 | 403 | 404 | 410)) => {
                        return true;
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        timeout(self.patience, ask).await.unwrap_or(true)
    }

    /// What could stand at the cursor, in code points.
    pub(super) async fn complete(&self, code: &str, cursor: u64) -> Option<Completion> {
        timeout(self.patience, self.client.complete(&self.session, code, Some(cursor))).await.ok()?.ok()
    }
}
