//! The binary: parse, configure, log, run, exit code.

use std::process::ExitCode;

use clap::Parser as _;
use repltool::cli::args::{Args, Command};
use repltool::supervisor::Reread;
use repltool::{caller, cli, gateway, sandbox, serve, telemetry};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Gateway => gateway::run(),
        Command::Outbound => caller::run(),
        Command::SandboxInit => exit_code(Err(sandbox::oci::main().into())),
        Command::Client(command) => cli::run(command),
        Command::Serve(flags) => exit_code(run_server(flags)),
        Command::Embedded(flags) => exit_code(serve::embedded::run(flags.language, flags.config.as_deref())),
    }
}

fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("repltool: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_server(flags: cli::args::Serve) -> anyhow::Result<()> {
    let again = flags.clone();
    let config = flags.into_config()?;
    telemetry::init(&config.log)?;
    serve::run(config, Some(Reread::new(move || Ok(again.clone().into_config()?))))
}
