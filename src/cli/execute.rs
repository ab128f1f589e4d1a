//! `repltool execute`: runs code in a session of its own, prints what it prints when it prints it, and leaves nothing.
//! Or in a session that is there already, which stays.

use std::io::Read;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use rand::distr::{Alphanumeric, SampleString};
use repltool_protocol::event::Event;
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, SessionId};
use repltool_protocol::rest::{ExecutionRequest, Session, SessionConfig};
use tokio::time::timeout;

use super::args::Execute;
use super::attach::GAP;
use super::print::{Screen, exit_code, json};
use super::stop::Stop;
use super::{Output, connect};
use crate::client::{Client, ClientError};

/// How long the server may take to delete the session.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the code; the exit code says how it ended.
pub(super) fn run(args: Execute) -> anyhow::Result<ExitCode> {
    let code = read_code(&args)?;
    super::in_runtime(run_code(args, code))
}

fn read_code(args: &Execute) -> anyhow::Result<String> {
    if let Some(code) = &args.code {
        return Ok(code.clone());
    }
    let mut code = String::new();
    match args.script.as_ref().or(args.file.as_ref()) {
        Some(path) => {
            code = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => drop(std::io::stdin().read_to_string(&mut code).context("cannot read the code from standard input")?),
    }
    if code.is_empty() {
        bail!("there is no code; use --file FILE, -c CODE or standard input");
    }
    Ok(code)
}

async fn run_code(args: Execute, code: String) -> anyhow::Result<u8> {
    let mut stop = Stop::new()?;
    let request = ExecutionRequest {
        session_id: None,
        code,
        timeout_ms: u64::try_from(args.timeout.as_millis()).ok(),
        execution_id: Some(fresh_id()),
        // Nobody answers a program that asks: it reads end of file.
        stdin: Some(String::new()),
    };
    if let Some(session) = &args.existing {
        let client = connect::client(args.server)?;
        return in_that_session(&client, session, &request, args.output, &mut stop).await;
    }
    let reached = tokio::select! {
        reached = connect::reach(args.server, args.session.language) => reached?,
        code = stop.requested() => return Ok(code),
    };
    let outcome = in_own_session(&reached.client, &args.session.config(), &request, args.output, &mut stop).await;
    reached.leave().await;
    outcome
}

/// A name for an execution that no other has.
pub(super) fn fresh_id() -> ExecutionId {
    Alphanumeric.sample_string(&mut rand::rng(), 22).parse().expect("letters and digits are an id")
}

/// Runs the code in a session that stays, and interrupts it if the command is told to stop.
async fn in_that_session(
    client: &Client,
    session: &SessionId,
    request: &ExecutionRequest,
    output: Output,
    stop: &mut Stop,
) -> anyhow::Result<u8> {
    let mut screen = Screen::of_session();
    tokio::select! {
        outcome = execute(client, session, request, output, &mut screen) => outcome,
        code = stop.requested() => {
            let interrupt = client.interrupt(session, request.execution_id.as_ref());
            match timeout(GRACE, interrupt).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("repltool: the execution could not be interrupted: {error}"),
                Err(_) => eprintln!("repltool: the execution could not be interrupted: the server does not answer"),
            }
            Ok(code)
        }
    }
}

/// Creates a session, runs the code in it, and deletes it however that ended.
async fn in_own_session(
    client: &Client,
    config: &SessionConfig,
    request: &ExecutionRequest,
    output: Output,
    stop: &mut Stop,
) -> anyhow::Result<u8> {
    let session = match create(client, config, stop).await? {
        ControlFlow::Continue(session) => session.session_id,
        ControlFlow::Break(code) => return Ok(code),
    };
    let mut screen = Screen::of_one_execution();
    let outcome = tokio::select! {
        outcome = execute(client, &session, request, output, &mut screen) => outcome,
        code = stop.requested() => Ok(code),
    };
    delete(client, &session).await;
    outcome
}

/// Creates a session of this command. Told to stop meanwhile, it leaves none and gives the exit code.
pub(super) async fn create(
    client: &Client,
    config: &SessionConfig,
    stop: &mut Stop,
) -> anyhow::Result<ControlFlow<u8, Session>> {
    let mut create = std::pin::pin!(client.create(config));
    let code = tokio::select! {
        session = &mut create => return Ok(ControlFlow::Continue(session.map_err(connect::explain)?)),
        code = stop.requested() => code,
    };
    // The session may be there already, so its name is waited for: else nobody would delete it.
    if let Ok(Ok(session)) = timeout(GRACE, create).await {
        delete(client, &session.session_id).await;
    }
    Ok(ControlFlow::Break(code))
}

async fn execute(
    client: &Client,
    session: &SessionId,
    request: &ExecutionRequest,
    output: Output,
    screen: &mut Screen,
) -> anyhow::Result<u8> {
    match output {
        Output::Text => live(client, session, request, screen).await,
        Output::Json => {
            let result = client.execute(session, request).await.map_err(connect::explain)?;
            json(&result)?;
            Ok(exit_code(result.success, result.limit))
        }
    }
}

/// Prints events as they come.
async fn live(
    client: &Client,
    session: &SessionId,
    request: &ExecutionRequest,
    screen: &mut Screen,
) -> anyhow::Result<u8> {
    let mut events = client.execute_live(session, request).await.map_err(connect::explain)?;
    while let Some(frame) = events.next().await.map_err(connect::explain)? {
        match frame {
            ServerFrame::Event(logged) => {
                screen.event(&logged.event).await?;
                if let Event::Result(outcome) = logged.event {
                    return Ok(exit_code(outcome.success, outcome.limit));
                }
            }
            ServerFrame::Notice(Notice::Gap { .. }) => screen.say(GAP).await?,
            ServerFrame::Notice(_) => {}
        }
    }
    bail!("the server ended the stream before the program had ended")
}

/// Deletes a session of this command.
pub(super) async fn delete(client: &Client, session: &SessionId) {
    let problem = match timeout(GRACE, client.delete(session)).await {
        Ok(Ok(())) => return,
        Ok(Err(ClientError::Refused(problem))) if matches!(problem.status, 404 | 410) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the server does not answer".to_owned(),
    };
    eprintln!("repltool: session {session} could not be deleted, it ends by its idle timeout: {problem}");
}
