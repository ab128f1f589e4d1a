//! What was typed, as clap reads it. What it means is decided where it is used: by [`crate::config`] for the server, by
//! each command for itself.

mod sessions;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

pub use sessions::{
    Attach, Create, Embedded, Execute, Interactive, Interrupt, OfSession, SessionFlags, Sessions, Terminate,
};

use super::Output;
use crate::config::{self, Config, ConfigError, Overrides};

/// Stateful, sandboxed REPL sessions over WebSocket and REST.
#[derive(Debug, Parser)]
#[command(name = "repltool", version, arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server
    Serve(Serve),
    /// The server's network side; started by `serve`
    #[command(hide = true)]
    Gateway,
    /// Calls what the settings name outside; started by `serve`
    #[command(hide = true)]
    Outbound,
    /// The first process of a container; started by a container runtime
    #[command(hide = true)]
    SandboxInit,
    /// The server of one command, started by that command
    #[command(hide = true)]
    Embedded(Embedded),
    /// Commands that run beside a server.
    #[command(flatten)]
    Client(Client),
}

/// Commands that run beside a server, most of them as its clients.
#[derive(Debug, Subcommand)]
pub enum Client {
    /// Run code in a session of its own and print what it prints
    ///
    /// The exit code is 0 if the program ran to its end, 1 if it failed, 124 if its time ran out, 130 after Ctrl-C.
    Execute(Box<Execute>),
    /// Print a token for a server of this machine
    Token(Token),
    /// Tell which layers of the sandbox this host gives
    Doctor {
        /// How to print it
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Type code, and see what it prints while it runs
    ///
    /// Ends at Ctrl-D. Without a terminal it reads code from standard input, and the exit code is that of the last
    /// execution.
    Interactive(Box<Interactive>),
    /// Create a session that stays, and print its id
    Create(Create),
    /// List the sessions
    Sessions(Sessions),
    /// Show what happens in a session from now on
    ///
    /// The exit code is 0 if the session was terminated, 130 after Ctrl-C, which ends nothing but this command.
    Attach(Attach),
    /// Print the past executions of a session
    History(OfSession),
    /// Interrupt what a session runs; its variables stay
    Interrupt(Interrupt),
    /// Give a session a fresh interpreter; its variables go, its files stay
    Restart(OfSession),
    /// End sessions and delete all that belongs to them
    Terminate(Terminate),
    /// Show or check the settings of a server
    #[command(subcommand)]
    Config(super::config::Command),
    /// Check, search or tell the audit log of a server on this machine
    #[command(subcommand)]
    Audit(super::audit::Command),
}

/// Arguments of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Serve {
    /// Settings, as TOML; others must not be able to write the file
    #[arg(long, value_name = "FILE", env = "REPLTOOL_CONFIG")]
    config: Option<PathBuf>,
    /// Where clients connect [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Keys, tokens and logs [default: $XDG_STATE_HOME/repltool]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Where metrics are served [default: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_addr: Option<SocketAddr>,
    /// Sessions of all subjects together [default: 1000]
    #[arg(long, value_name = "COUNT")]
    max_sessions: Option<u32>,
    /// Sessions of one subject [default: 100]
    #[arg(long, value_name = "COUNT")]
    max_sessions_per_subject: Option<u32>,
    /// Whether requests are limited in rate [default: on]
    #[arg(long, value_enum, value_name = "SWITCH")]
    rate_limits: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Serve {
    /// Puts the flags over environment, file and defaults.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn into_config(self) -> Result<Config, ConfigError> {
        config::load(self.config.as_deref(), std::env::vars_os(), self.overrides())
    }

    /// Like [`Serve::into_config`], with every fault and the place of every value.
    pub fn read(self) -> config::Reading {
        config::read(self.config.as_deref(), std::env::vars_os(), self.overrides())
    }

    fn overrides(&self) -> Overrides {
        let mut flags = Overrides::default();
        flags
            .set("--listen", "edge.listen", self.listen.map(|it| it.to_string()))
            .set("--data-dir", "data_dir", self.data_dir.clone())
            .set("--metrics-addr", "edge.metrics_addr", self.metrics_addr.map(|it| it.to_string()))
            .set("--max-sessions", "sessions.max", self.max_sessions.map(i64::from))
            .set("--max-sessions-per-subject", "sessions.max_per_subject", self.max_sessions_per_subject.map(i64::from))
            .set("--rate-limits", "rate_limit.enabled", self.rate_limits.map(|it| it == Switch::On));
        flags
    }
}

/// Which server, and who asks.
#[derive(Debug, clap::Args)]
pub struct Server {
    /// The server [default: the one of the data directory]
    #[arg(long, env = "REPLTOOL_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The token [default: the one of the data directory]
    #[arg(long, env = "REPLTOOL_TOKEN", hide_env_values = true, value_name = "JWT")]
    pub token: Option<String>,
    /// The data directory of a server on this machine
    #[arg(long, env = "REPLTOOL_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Certificates of authorities that are trusted besides the system's, as PEM
    #[arg(long, env = "REPLTOOL_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Arguments of `token`.
#[derive(Debug, clap::Args)]
pub struct Token {
    /// Who the token stands for
    #[arg(long, value_name = "NAME")]
    pub subject: String,
    /// What it allows: tool:execute session:read sandbox:relaxed metrics:read audit:read admin
    #[arg(long, value_name = "NAMES", default_value = "tool:execute session:read")]
    pub scope: String,
    /// How long it is good for, such as 90s, 1h30m or 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = ttl)]
    pub ttl: Duration,
    /// Settings of the server
    #[arg(long, value_name = "FILE", env = "REPLTOOL_CONFIG")]
    pub config: Option<PathBuf>,
    /// The data directory of the server
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
}

/// The longest life of a token: ten years, in days.
const MAX_TTL_DAYS: i64 = 3660;

fn ttl(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let exact = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|error| error.to_string())?;
    let range = jiff::SignedDuration::from_secs(1)..=jiff::SignedDuration::from_hours(24 * MAX_TTL_DAYS);
    let exact = Some(exact).filter(|it| range.contains(it)).and_then(|it| Duration::try_from(it).ok());
    exact.ok_or_else(|| format!("from 1s to {MAX_TTL_DAYS}d is needed"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use repltool_protocol::rest::{Language, SandboxMode};

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Args::try_parse_from(line.split(' ')).map(|args| args.command)
    }

    fn execute(line: &str) -> Execute {
        match parse(line).unwrap() {
            Command::Client(Client::Execute(execute)) => *execute,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn no_arguments_show_the_help() {
        let error = parse("repltool").unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        let help = error.to_string();
        assert!(help.contains("serve") && help.contains("execute") && !help.contains("gateway"), "{help}");
    }

    #[test]
    fn flags_of_serve_are_over_everything() {
        let line = "repltool serve --data-dir /d --listen 127.0.0.1:1 --metrics-addr 127.0.0.1:2 --max-sessions 3 \
                    --max-sessions-per-subject 4 --rate-limits off";
        let Command::Serve(serve) = parse(line).unwrap() else { panic!("not serve") };
        let config = serve.into_config().unwrap();
        assert_eq!(config.data_dir, PathBuf::from("/d"));
        assert_eq!((config.edge.listen.port(), config.edge.metrics_addr.port()), (1, 2));
        assert_eq!((config.sessions.max, config.sessions.max_per_subject), (3, 4));
        assert!(!config.rate_limit.enabled);
    }

    #[test]
    fn execute_has_defaults_and_bounds() {
        let plain = execute("repltool execute");
        assert_eq!((plain.timeout, plain.session.language), (Duration::from_secs(30), Language::Python));
        assert_eq!(execute("repltool execute --timeout 0.5").timeout, Duration::from_millis(500));
        let relaxed = execute("repltool execute --sandbox-mode relaxed").session;
        assert_eq!(relaxed.sandbox_mode, SandboxMode::Relaxed);
        for wrong in
            ["--timeout 0", "--timeout 301", "--timeout nan", "--language perl", "--max-memory 5000", "--file a -c b"]
        {
            assert!(parse(&format!("repltool execute {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_life_of_a_token_is_read_in_units() {
        let seconds = |text: &str| ttl(text).map(|it| it.as_secs()).ok();
        assert_eq!(seconds("1h"), Some(3600));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("2s"), Some(2));
        assert_eq!(seconds("7d"), Some(7 * 86_400));
        for wrong in ["", "0s", "-1h", "10", "99999d", "1 month"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
