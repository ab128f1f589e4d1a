//! The command line: one file for each command. Commands that need a server are clients of it like any other.
//!
//! `serve` is not among them: it is the server. This folder knows nothing of sessions; the commands that work without a
//! server borrow one function each: of the probe (`doctor`), of the token's signature (`token`), of the audit
//! log's files (`audit`), and of each runtime whether an interpreter can be used (`config check`).

pub mod args;
mod attach;
mod audit;
mod config;
mod connect;
pub mod doctor;
mod embedded;
mod execute;
mod interactive;
mod manage;
mod print;
mod stop;
mod table;
mod token;

use std::process::ExitCode;

use anyhow::Context;
use args::Client;
use print::PrintError;

/// How a command prints what it found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Runs a command and tells what went wrong on standard error.
///
/// Call it while the process has one thread: the probe forks.
pub fn run(command: Client) -> ExitCode {
    let outcome = match command {
        Client::Execute(args) => execute::run(*args),
        Client::Token(args) => token::run(args).map(|()| ExitCode::SUCCESS),
        Client::Doctor { output } => Ok(doctor::run(output)),
        Client::Interactive(args) => interactive::run(*args),
        Client::Create(args) => in_runtime(manage::create(args)),
        Client::Sessions(args) => in_runtime(manage::sessions(args)),
        Client::Attach(args) if args.interactive => interactive::run_attached(args),
        Client::Attach(args) => in_runtime(attach::attach(args)),
        Client::History(args) => in_runtime(manage::history(args)),
        Client::Interrupt(args) => in_runtime(manage::interrupt(args)),
        Client::Restart(args) => in_runtime(manage::restart(args)),
        Client::Terminate(args) => in_runtime(manage::terminate(args)),
        Client::Config(command) => config::run(command),
        Client::Audit(command) => audit::run(command),
    };
    outcome.unwrap_or_else(|error| {
        if let Some(PrintError::Closed) = error.downcast_ref() {
            return ExitCode::from(stop::OUTPUT_CLOSED);
        }
        eprintln!("repltool: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs the part of a command that speaks to a server; it gives the exit code.
fn in_runtime(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(command);
    // Not by dropping it: that would wait for a write to a terminal or pipe that takes nothing.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}
