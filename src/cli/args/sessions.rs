//! Arguments of the commands that make and use sessions.

use std::path::PathBuf;
use std::time::Duration;

use repltool_protocol::ids::{ExecutionId, Seq, SessionId};
use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode, SessionConfig, TIMEOUT_MS};

use super::{Output, Server};

/// What a new session is like.
#[derive(Debug, Clone, clap::Args)]
pub struct SessionFlags {
    /// The language of the code: python, javascript or bash
    #[arg(long, default_value = "python", value_parser = word::<Language>)]
    pub language: Language,
    /// How much the sandbox allows: strict, standard or relaxed
    #[arg(long, value_name = "LEVEL", default_value = "standard", value_parser = word::<SandboxMode>)]
    pub sandbox_mode: SandboxMode,
    /// CPU time of an execution, 1 to 300 [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=300))]
    pub max_cpu_time: Option<u64>,
    /// Memory of the session, 16 to 4096 [default: 256]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=4096))]
    pub max_memory: Option<u64>,
    /// Output of an execution, 1024 to 10485760 [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1024..=10_485_760))]
    pub max_output: Option<u64>,
}

impl SessionFlags {
    /// The session that is asked for.
    pub fn config(&self) -> SessionConfig {
        let defaults = ResourceLimits::default();
        SessionConfig {
            language: self.language,
            sandbox_mode: self.sandbox_mode,
            environment: Default::default(),
            working_directory: None,
            resource_limits: ResourceLimits {
                max_cpu_time: self.max_cpu_time.unwrap_or(defaults.max_cpu_time),
                max_memory_mb: self.max_memory.unwrap_or(defaults.max_memory_mb),
                max_output_size: self.max_output.unwrap_or(defaults.max_output_size),
                ..defaults
            },
        }
    }
}

/// Arguments of `execute`.
#[derive(Debug, clap::Args)]
pub struct Execute {
    /// Read the code from a file instead of standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["file", "code"])]
    pub script: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "FILE", conflicts_with = "code")]
    pub file: Option<PathBuf>,
    /// Take the code from the command line
    #[arg(short = 'c', long = "code", value_name = "CODE")]
    pub code: Option<String>,
    /// Run it in a session that is there already, and leave that one
    #[arg(
        long = "session",
        value_name = "ID",
        conflicts_with_all = ["language", "sandbox_mode", "max_cpu_time", "max_memory", "max_output"]
    )]
    pub existing: Option<SessionId>,
    /// What the session is like.
    #[command(flatten)]
    pub session: SessionFlags,
    /// How long it may run, 0.1 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = timeout)]
    pub timeout: Duration,
    /// text: what the program prints, as it prints it; json: the result, at the end
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `interactive`.
#[derive(Debug, clap::Args)]
pub struct Interactive {
    /// What the session is like.
    #[command(flatten)]
    pub session: SessionFlags,
    /// How long an execution may run, 0.1 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = timeout)]
    pub timeout: Duration,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// What the session is like.
    #[command(flatten)]
    pub session: SessionFlags,
    /// text: the id; json: the session
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `sessions`.
#[derive(Debug, clap::Args)]
pub struct Sessions {
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of commands that are about one session.
#[derive(Debug, clap::Args)]
pub struct OfSession {
    /// The session
    #[arg(value_name = "ID")]
    pub session: SessionId,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `attach`.
#[derive(Debug, clap::Args)]
pub struct Attach {
    /// The session
    #[arg(value_name = "ID")]
    pub session: SessionId,
    /// Show what came after this event, too
    #[arg(long, value_name = "SEQ", value_parser = seq)]
    pub after: Option<Seq>,
    /// Show everything that is kept
    #[arg(long, conflicts_with = "after")]
    pub from_start: bool,
    /// Type code into it, as with `interactive`; at the end the session stays
    #[arg(long, conflicts_with_all = ["after", "from_start", "output"])]
    pub interactive: bool,
    /// How long an execution may run that is typed, 0.1 to 300
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = timeout, requires = "interactive")]
    pub timeout: Duration,
    /// text: what programs print; json: one event a line
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `interrupt`.
#[derive(Debug, clap::Args)]
pub struct Interrupt {
    /// Which execution, if not the one that runs; one that waits is cancelled
    #[arg(long, value_name = "ID")]
    pub execution: Option<ExecutionId>,
    /// The session.
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `terminate`.
#[derive(Debug, clap::Args)]
pub struct Terminate {
    /// The sessions
    #[arg(value_name = "ID", required = true)]
    pub sessions: Vec<SessionId>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Which server, and who asks.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `embedded`.
#[derive(Debug, clap::Args)]
pub struct Embedded {
    /// The one language that it offers
    #[arg(long, value_parser = word::<Language>)]
    pub language: Language,
    /// Settings, of which those of sandboxes and interpreters count
    #[arg(long, env = "REPLTOOL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Reads one of the protocol's own words.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string().replacen("variant", "value", 1))
}

fn seq(text: &str) -> Result<Seq, String> {
    text.parse().map(Seq).map_err(|_| "the number of an event is needed".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(*TIMEOUT_MS.start())..=Duration::from_millis(*TIMEOUT_MS.end());
    let seconds = text.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    seconds.filter(|it| range.contains(it)).ok_or_else(|| "a number of seconds from 0.1 to 300 is needed".to_owned())
}
