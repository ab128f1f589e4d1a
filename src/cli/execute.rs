//! `repltool execute`: runs code in a session of its own, prints what it prints when it prints it, and leaves nothing.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use repltool_protocol::event::{Event, Limit, Outcome, StreamName};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{ExecutionRequest, ResourceLimits, Session, SessionConfig};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::Output;
use super::args::Execute;
use super::connect;
use crate::client::{Client, ClientError};

/// Exit codes beside 0 and 1: those of timeout(1), and of shells for what a signal ended.
const TIMED_OUT: u8 = 124;
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// How long the server may take to delete the session.
const DELETE_GRACE: Duration = Duration::from_secs(10);

/// Runs the code; the exit code says how it ended.
pub(super) fn run(args: Execute) -> anyhow::Result<ExitCode> {
    let code = read_code(&args)?;
    let client = connect::client(args.server)?;
    let defaults = ResourceLimits::default();
    let config = SessionConfig {
        language: args.language,
        sandbox_mode: args.sandbox_mode,
        environment: Default::default(),
        working_directory: None,
        resource_limits: ResourceLimits {
            max_cpu_time: args.max_cpu_time.unwrap_or(defaults.max_cpu_time),
            max_memory_mb: args.max_memory.unwrap_or(defaults.max_memory_mb),
            ..defaults
        },
    };
    let request = ExecutionRequest {
        session_id: None,
        code,
        timeout_ms: u64::try_from(args.timeout.as_millis()).ok(),
        execution_id: None,
        // Nobody answers a program that asks: it reads end of file.
        stdin: Some(String::new()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(in_own_session(&client, &config, &request, args.output));
    // Not by dropping it: that would wait for a write to a terminal or pipe that takes nothing.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

fn read_code(args: &Execute) -> anyhow::Result<String> {
    if let Some(code) = &args.code {
        return Ok(code.clone());
    }
    let mut code = String::new();
    match &args.file {
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

/// Creates a session, runs the code in it, and deletes it however that ended.
async fn in_own_session(
    client: &Client,
    config: &SessionConfig,
    request: &ExecutionRequest,
    output: Output,
) -> anyhow::Result<u8> {
    let mut stop = Stop::new()?;
    let mut create = std::pin::pin!(client.create(config));
    let (session, stopped) = tokio::select! {
        session = &mut create => (session.map_err(connect::explain)?, None),
        // The session may be there already, so its name is waited for: else nobody would delete it.
        code = stop.requested() => match timeout(DELETE_GRACE, create).await {
            Ok(Ok(session)) => (session, Some(code)),
            Ok(Err(_)) | Err(_) => return Ok(code),
        },
    };
    let outcome = match stopped {
        Some(code) => Ok(code),
        None => tokio::select! {
            outcome = execute(client, &session, request, output) => outcome,
            code = stop.requested() => Ok(code),
        },
    };
    delete(client, &session.session_id).await;
    outcome
}

async fn execute(client: &Client, session: &Session, request: &ExecutionRequest, output: Output) -> anyhow::Result<u8> {
    match output {
        Output::Text => live(client, session, request).await,
        Output::Json => {
            let result = client.execute(&session.session_id, request).await.map_err(connect::explain)?;
            let mut text = serde_json::to_string_pretty(&result)?;
            text.push('\n');
            print(&mut tokio::io::stdout(), &text).await?;
            Ok(exit_code(result.success, result.limit))
        }
    }
}

/// Prints events as they come.
async fn live(client: &Client, session: &Session, request: &ExecutionRequest) -> anyhow::Result<u8> {
    let mut events = client.execute_live(&session.session_id, request).await.map_err(connect::explain)?;
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(frame) = events.next().await.map_err(connect::explain)? {
        match frame {
            ServerFrame::Event(logged) => match logged.event {
                Event::Stream { stream: StreamName::Stdout, data, .. } => print(&mut stdout, &data).await?,
                Event::Stream { stream: StreamName::Stderr, data, .. } => print(&mut stderr, &data).await?,
                Event::Result(outcome) => {
                    if let Some(text) = &outcome.result_text {
                        print(&mut stdout, &format!("{text}\n")).await?;
                    }
                    print(&mut stderr, &epilogue(&outcome)).await?;
                    return Ok(exit_code(outcome.success, outcome.limit));
                }
                Event::Queued { .. } | Event::Started { .. } | Event::Status { .. } => {}
                Event::Display { .. } | Event::InputRequest { .. } => {}
            },
            ServerFrame::Notice(Notice::Gap { .. }) => {
                print(&mut stderr, "repltool: the server no longer has some of the output\n").await?;
            }
            ServerFrame::Notice(_) => {}
        }
    }
    bail!("the server ended the stream before the program had ended")
}

async fn print(out: &mut (impl AsyncWrite + Unpin), text: &str) -> anyhow::Result<()> {
    let written = async {
        out.write_all(text.as_bytes()).await?;
        out.flush().await
    };
    written.await.context("cannot write the output")
}

/// What standard error gets at the end: the traceback, as Python would print it, and the limit that struck.
fn epilogue(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(exception) = &outcome.exception {
        for line in &exception.traceback {
            text.push_str(line);
            text.push('\n');
        }
        if exception.traceback.is_empty() {
            text.push_str(&format!("{}: {}\n", exception.name, exception.message));
        }
    }
    if let Some(limit) = outcome.limit {
        text.push_str(&format!("repltool: ended by the limit on {}\n", name(limit)));
    }
    text
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::WallTime => "time (--timeout)",
        Limit::CpuTime => "cpu time (--max-cpu-time)",
        Limit::Memory => "memory (--max-memory)",
        Limit::Output => "output",
        Limit::Processes => "processes",
    }
}

fn exit_code(success: bool, limit: Option<Limit>) -> u8 {
    match (success, limit) {
        (true, _) => 0,
        (false, Some(Limit::WallTime)) => TIMED_OUT,
        (false, _) => 1,
    }
}

async fn delete(client: &Client, session: &SessionId) {
    let problem = match timeout(DELETE_GRACE, client.delete(session)).await {
        Ok(Ok(())) => return,
        Ok(Err(ClientError::Refused(problem))) if matches!(problem.status, 404 | 410) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the server does not answer".to_owned(),
    };
    eprintln!("repltool: session {session} could not be deleted, it ends by its idle timeout: {problem}");
}

/// The signals by which people and programs ask a command to stop.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of them, and gives the exit code that belongs to it.
    async fn requested(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}

#[cfg(test)]
mod tests {
    use repltool_protocol::event::{Exception, RawJson, Usage};

    use super::*;

    fn outcome(exception: Option<Exception>, limit: Option<Limit>) -> Outcome {
        Outcome {
            id: "e1".parse().unwrap(),
            execution_count: 1,
            success: false,
            result: RawJson::null(),
            result_text: None,
            exception,
            exit_code: None,
            limit,
            violation: None,
            truncated: false,
            state_lost: false,
            usage: Usage::default(),
            execution_time_ms: 1,
            timestamp: String::new(),
        }
    }

    #[test]
    fn exit_codes_tell_failure_from_timeout() {
        assert_eq!(exit_code(true, None), 0);
        assert_eq!(exit_code(false, None), 1);
        assert_eq!(exit_code(false, Some(Limit::Memory)), 1);
        assert_eq!(exit_code(false, Some(Limit::WallTime)), 124);
    }

    #[test]
    fn the_end_names_exception_and_limit() {
        let exception = |traceback| Exception { name: "StateLost".into(), message: "gone".into(), traceback };
        assert_eq!(epilogue(&outcome(Some(exception(vec!["a".into(), "b".into()])), None)), "a\nb\n");
        let told = epilogue(&outcome(Some(exception(vec![])), Some(Limit::Memory)));
        assert_eq!(told, "StateLost: gone\nrepltool: ended by the limit on memory (--max-memory)\n");
    }
}
