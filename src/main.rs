//! The binary: parse, configure, log, run, exit code.

use std::process::ExitCode;

use clap::Parser as _;
use repltool::cli::args::{Args, Command};
use repltool::{cli, gateway, serve, telemetry};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Gateway => gateway::run(),
        Command::Client(command) => cli::run(command),
        Command::Serve(flags) => match run_server(flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("repltool: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run_server(flags: cli::args::Serve) -> anyhow::Result<()> {
    let config = flags.into_config()?;
    telemetry::init(&config.log)?;
    serve::run(config)
}
