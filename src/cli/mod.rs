//! The command line: one file for each command. Commands that need a server are clients of it like any other.
//!
//! `serve` is not among them: it is the server. This folder knows nothing of sessions; the commands that work without a
//! server borrow one function each: of the probe (`doctor`), of the token's signature (`token`), and of each runtime
//! whether an interpreter can be used (`config check`).

pub mod args;
mod config;
mod connect;
pub mod doctor;
mod execute;
mod token;

use std::process::ExitCode;

use args::Client;

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
        Client::Config(command) => config::run(command),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("repltool: {error:#}");
        ExitCode::FAILURE
    })
}
