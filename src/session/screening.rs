//! Screening before an execution is accepted: what becomes of it is stored with it. How code is read is the business of
//! [`crate::runtime::screen`].

use std::sync::Arc;
use std::time::Duration;

use repltool_protocol::rest::{Language, SandboxMode};
use tokio::sync::Semaphore;

use super::{Execute, Identity, Refusal};
use crate::config::Sandbox;
use crate::runtime::modules::Modules;
use crate::runtime::screen::{Judgement, Policy, Screen};

/// Bytes of code that may be screened at once; longer code would hold up a thread that serves others.
const SHORT: usize = 16 * 1024;
/// Codes that are screened at one time if they are long, or cost more than a glance: each takes up to half a second, and
/// up to 250 MiB if it is hostile. The others wait, in order.
const LONG_AT_ONCE: usize = 1;
/// How long a code waits for its turn; then it runs unscreened, so that nobody's hostile code holds up the others.
const PATIENCE: Duration = Duration::from_secs(5);

/// An execution with what becomes of it.
#[derive(Debug)]
pub struct Judged {
    /// What was asked for.
    pub execute: Execute,
    /// What is done about it.
    pub judgement: Judgement,
}

/// Screens the code of every session.
#[derive(Debug)]
pub struct Screening {
    screen: Arc<Screen>,
    long: Arc<Semaphore>,
}

impl Screening {
    /// Screening by the policies of the configuration.
    pub fn new(sandbox: &Sandbox) -> Self {
        let screen = Screen::new(|mode| policy(sandbox, mode));
        Self { screen: Arc::new(screen), long: Arc::new(Semaphore::new(LONG_AT_ONCE)) }
    }

    /// Makes ready for code of a language. Takes a moment, the first time.
    pub fn prepare(&self, language: Language) {
        self.screen.prepare(language);
    }

    /// Judges an execution of a session.
    ///
    /// # Errors
    /// [`Refusal::Internal`] if screening met a fault.
    ///
    /// # Cancel safety
    /// Safe: nothing has been accepted.
    pub(super) async fn judge(&self, identity: &Identity, execute: Execute) -> Result<Judged, Refusal> {
        let (language, mode) = (identity.language, identity.sandbox_mode);
        if execute.code.len() <= SHORT
            && let Some(judgement) = self.screen.glance(language, mode, &execute.code)
        {
            return Ok(Judged { execute, judgement });
        }
        let Ok(turn) = tokio::time::timeout(PATIENCE, self.long.clone().acquire_owned()).await else {
            return Ok(Judged { execute, judgement: Judgement::unscreened() });
        };
        let turn = turn.map_err(|_| Refusal::Internal)?;
        let screen = self.screen.clone();
        let judged = tokio::task::spawn_blocking(move || {
            // Kept until the end, also when nobody waits for it any more.
            let _turn = turn;
            let judgement = screen.examine(language, mode, &execute.code);
            Judged { execute, judgement }
        });
        judged.await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "code cannot be screened");
            Refusal::Internal
        })
    }
}

fn policy(sandbox: &Sandbox, mode: SandboxMode) -> Policy {
    let (python, javascript) = sandbox.modules(mode);
    Policy {
        action: sandbox.policy(mode),
        python: Modules::resolve(Language::Python, mode, python),
        javascript: Modules::resolve(Language::Javascript, mode, javascript),
    }
}
