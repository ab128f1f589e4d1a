//! `repltool interactive`: code is typed, and what it prints is seen while it runs.
//!
//! On a terminal there is a line editor; in a pipe, complete inputs are read line by line. Either way this is a client
//! like any other: it attaches to a session, and the session says what is complete and what could be completed.

mod command;
mod conversation;
mod editor;
mod history;
mod input;
mod questions;
mod running;
mod terminal;

use std::ops::ControlFlow;
use std::process::ExitCode;

use repltool_protocol::rest::Language;

use super::args::{Attach, Interactive};
use super::execute::{create, delete};
use super::stop::Stop;
use super::{connect, in_runtime};
use conversation::Conversation;

/// Types into a session of its own, which ends with the command.
pub(super) fn run(args: Interactive) -> anyhow::Result<ExitCode> {
    in_runtime(in_own_session(args))
}

/// Types into a session that is there already, which stays.
pub(super) fn run_attached(args: Attach) -> anyhow::Result<ExitCode> {
    in_runtime(in_that_session(args))
}

async fn in_own_session(args: Interactive) -> anyhow::Result<u8> {
    let mut stop = Stop::new()?;
    let reached = tokio::select! {
        reached = connect::reach(args.server, args.session.language) => reached?,
        code = stop.requested() => return Ok(code),
    };
    let outcome = match create(&reached.client, &args.session.config(), &mut stop).await {
        Ok(ControlFlow::Continue(session)) => {
            let outcome = match Conversation::open(&reached.client, &session, args.timeout, stop).await {
                Ok(conversation) => conversation.hold().await,
                Err(error) => Err(error),
            };
            delete(&reached.client, &session.session_id).await;
            outcome
        }
        Ok(ControlFlow::Break(code)) => Ok(code),
        Err(error) => Err(error),
    };
    reached.leave().await;
    outcome
}

async fn in_that_session(args: Attach) -> anyhow::Result<u8> {
    let stop = Stop::new()?;
    let client = connect::client(args.server)?;
    let session = client.get(&args.session).await.map_err(connect::explain)?;
    Conversation::open(&client, &session, args.timeout, stop).await?.hold().await
}

fn name(language: Language) -> &'static str {
    match language {
        Language::Python => "python",
        Language::Javascript => "javascript",
        Language::Bash | Language::Shell => "bash",
    }
}
