//! The messages between supervisor and gateway, and the descriptors that travel with them.
//!
//! One SOCK_SEQPACKET pair. A packet is one JSON message of at most [`MAX_PACKET_BYTES`] and up to [`MAX_FDS`]
//! descriptors. Both ends are ours, of the same binary or of two versions of it, so the first message carries
//! [`VERSION`]. A plain loop of sends stalls after some hundred packets, because the kernel bounds what lies in a
//! socket: handover has a window ([`HANDOVER_WINDOW`]), and the supervisor never waits in a send.

mod fds;
mod lent;
mod wire;

use std::io;
use std::time::Duration;

use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, SandboxMode};
use serde::{Deserialize, Serialize};

use crate::audit::{Head, Seal};
use crate::config::Config;
use crate::sandbox::cgroup::Counter;
pub use crate::sandbox::init_link as init;
use crate::sandbox::probe::Report;
pub use fds::SandboxFds;
pub use lent::{borrowed, lend};
pub use wire::{encode, receive, register, send, would_block};

/// Version of the messages. A gateway of another version is refused.
pub const VERSION: u32 = 6;
/// The largest packet.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;
/// Descriptors of one packet: those of one sandbox.
pub const MAX_FDS: usize = 9;
/// Descriptors that a session takes at most in each of the two processes: those above with their copies, the log's files,
/// and what is on its way.
pub const FDS_PER_SESSION: u64 = 16;
/// Sandboxes handed over and not yet adopted; the supervisor sends no more until some are.
pub const HANDOVER_WINDOW: usize = 32;

/// Names a sandbox for the life of the supervisor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SandboxId(pub u64);

/// What the supervisor tells the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToGateway {
    /// The first message. Its descriptors: the listening socket, the page of [`crate::metrics::standing`], then those that
    /// [`Welcome::sockets`] names.
    Welcome(Box<Welcome>),
    /// A sandbox that lives on from before the gateway was started; its descriptors are those of [`SandboxFds`].
    Handover(Held),
    /// Every sandbox has been handed over.
    HandoverDone,
    /// Answers [`ToSupervisor::Create`]; with the descriptors of [`SandboxFds`].
    Created {
        /// As in the request.
        request: u64,
        /// What was made.
        held: Held,
    },
    /// Answers [`ToSupervisor::Create`].
    NotCreated {
        /// As in the request.
        request: u64,
        /// Why not, for people.
        reason: String,
    },
    /// Every process of a sandbox is gone.
    Exited(Exited),
    /// A limit that is watched has struck; said once for each [`Watch`] that begins something, and again to a gateway
    /// that takes the sandbox over. The gateway is to stop the program and to begin a new watch; if it does not within
    /// [`LIMIT_SLACK`], the supervisor kills the sandbox. It may cross with a watch that begins: the counters tell.
    Limit {
        /// The sandbox.
        sandbox: SandboxId,
        /// Which limit.
        limit: Limit,
    },
    /// Answers [`ToSupervisor::Measure`].
    Measured(Measured),
    /// Calls of a sandbox were refused. Sent before the program goes on, and before [`SandboxFds::violations`] counts
    /// them.
    Refused {
        /// The sandbox.
        sandbox: SandboxId,
        /// What was refused.
        refused: Refused,
    },
    /// Answers [`ToSupervisor::Seal`]; there is no answer where nothing was signed.
    Sealed(Seal),
    /// Something of the operator's, in place of what was there of its kind; one descriptor, which [`lend`] made. All that
    /// there is comes before the handover is done, and anew when it changes.
    Lent(Lent),
    /// The settings were read again: these are in force.
    Configured(Box<Config>),
    /// Stop in good order.
    Drain,
}

/// What lies behind the descriptor of [`ToGateway::Lent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lent {
    /// The secret that tokens are checked with.
    Secret,
    /// The public keys that tokens are checked with, PEM or JSON.
    PublicKeys,
    /// The list of those that are let in no longer.
    Revocations,
    /// What a listener with TLS shows: [`crate::certificates::Files::pack`].
    Certificate,
}

/// Calls of one kind that a sandbox was refused, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The rule that was broken: `exec`, `process`, `network`, `namespace`, `mount` … (`sandbox/policy.rs`).
    pub rule: String,
    /// The call, and the path where there is one: `execve /usr/bin/id`. From the program: at most 300 bytes, printable.
    pub detail: String,
    /// How often, at least 1.
    pub times: u32,
}

/// What a gateway needs to begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// See [`VERSION`].
    pub version: u32,
    /// The effective configuration.
    pub config: Config,
    /// Where the gateway finds the store once it has confined itself.
    pub store: StoreRoot,
    /// Identifies this run of the machine.
    pub boot_id: String,
    /// The interpreters that were found: the language of each, and its version.
    pub interpreters: Vec<(Language, String)>,
    /// The walls of a sandbox that this host gives.
    pub isolation: Report,
    /// The last checkpoint of the audit log.
    pub sealed: Option<Seal>,
    /// Whether it is the first gateway of this server.
    pub is_first: bool,
    /// What came beside the listening socket and the page, in this order.
    pub sockets: Vec<Socket>,
}

/// A socket that not every server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Socket {
    /// It sends clients to the one that speaks TLS.
    Redirect,
    /// Metrics are served on it.
    Metrics,
    /// The link with the process that calls outside.
    Calls,
}

/// How the gateway reaches the part of the data directory that is its own.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoreRoot {
    /// The directory, as the supervisor sees it.
    pub path: std::path::PathBuf,
    /// The user to become before anything else, where the supervisor is root.
    pub user: Option<u32>,
}

/// A sandbox as both sides know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The session it was made for.
    pub session: SessionId,
    /// The deadline that is armed, as nanoseconds of CLOCK_MONOTONIC.
    pub deadline_ns: Option<u64>,
    /// The counters whose descriptors follow the others, in this order.
    pub counters: Vec<Counter>,
    /// What they showed when something last began.
    pub begun: Counts,
}

/// Counters of a sandbox that only grow. What the host does not count stays 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// CPU time of all processes, living and dead, in nanoseconds.
    pub cpu_ns: u64,
    /// Processes killed because the memory limit was reached.
    pub oom_kills: u64,
    /// Processes and threads that were refused.
    pub refused_forks: u64,
}

/// The end of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Whether Linux killed for memory in it since something last began.
    pub out_of_memory: bool,
    /// CPU time of all its processes since then. With counters of the host it is those that are to be believed: the
    /// gateway reads them at the moment when it begins.
    pub cpu_ns: u64,
    /// The most memory they used at once since that was last set back.
    pub peak_memory_bytes: u64,
    /// The limit that had struck in it since something last began: told before, found at its end, or the reason for
    /// which the supervisor killed it. A gateway that stopped it for another reason goes by that.
    pub limit: Option<Limit>,
    /// Whether the supervisor killed it because too many of its calls were refused.
    pub violations: bool,
}

/// What the gateway asks of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// The gateway of this version is up and has confined itself.
    Hello {
        /// See [`VERSION`].
        version: u32,
    },
    /// A sandbox of a handover was taken over; gives back its place in the window.
    Adopted(SandboxId),
    /// Connections are accepted.
    Serving,
    /// Make a sandbox.
    Create(Box<Create>),
    /// Kill every process of a sandbox. [`ToGateway::Exited`] follows.
    Kill(SandboxId),
    /// Nothing more is wanted of a sandbox: it is killed, if it lives, and forgotten. Until then also one that has ended
    /// is kept, for a gateway that has not read its last words.
    LetGo(SandboxId),
    /// What is to be watched of a sandbox from now on; takes the place of what was watched before.
    Watch {
        /// The sandbox.
        sandbox: SandboxId,
        /// What.
        watch: Watch,
    },
    /// Asks what was used since the last [`Watch`] that begins something. For hosts without counters of Linux.
    Measure(SandboxId),
    /// The session has ended: its working directory is let go and what still runs of it is killed.
    Release(SessionId),
    /// A token came of a key that is not known: keys that are fetched may have changed.
    KeysWanted,
    /// The audit log has come so far, and that is on the disk: sign it.
    Seal(Head),
}

/// What the supervisor watches of a sandbox: of an execution, or of the time between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Whether something begins here, from which use is counted. Else only the deadline is moved.
    pub begins: bool,
    /// Kill the sandbox at this instant of CLOCK_MONOTONIC, in nanoseconds, and [`DEADLINE_SLACK`] if no gateway does.
    /// None while nothing runs.
    pub deadline_ns: Option<u64>,
    /// CPU time of all processes, living and dead, that may be used from the beginning on, in nanoseconds.
    pub cpu_ns: u64,
}

/// What was used, where only the supervisor can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// CPU time of all its processes since the last [`Watch`] that began something.
    pub cpu_ns: u64,
    /// The most memory that was seen in use since then.
    pub peak_memory_bytes: u64,
}

/// How long after [`ToGateway::Limit`] the supervisor waits for the gateway to act.
pub const LIMIT_SLACK: Duration = Duration::from_secs(2);
/// How long after a deadline the supervisor waits for the gateway to act.
pub const DEADLINE_SLACK: Duration = Duration::from_secs(5);

/// A sandbox to make.
#[derive(Debug, Serialize, Deserialize)]
pub struct Create {
    /// Comes back in the answer.
    pub request: u64,
    /// The session it is for: one working directory and one pair of users each.
    pub session: SessionId,
    /// Which of the programs that the supervisor was started with.
    pub language: Language,
    /// Sandbox level.
    pub mode: SandboxMode,
    /// Environment variables beside those that every sandbox has.
    pub environment: Vec<(String, String)>,
    /// Below the working directory of the session.
    pub working_directory: Option<String>,
    /// Ceiling for all processes together, in bytes.
    pub memory_bytes: u64,
    /// Backstop for CPU time of one process, in seconds.
    pub cpu_seconds: u64,
}

/// Why the link failed. Each of these ends the gateway, which the supervisor then starts anew.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other process is gone.
    #[error("the other end of the link is gone")]
    Closed,
    /// A socket call failed.
    #[error("the link failed")]
    Io(#[source] io::Error),
    /// A packet is no message of this version.
    #[error("a packet on the link cannot be read")]
    Malformed(#[source] serde_json::Error),
    /// A message came with the wrong number of descriptors.
    #[error("a packet on the link has the wrong descriptors")]
    Descriptors,
    /// The message is larger than a packet may be.
    #[error("a message of {0} bytes does not fit into a packet")]
    TooBig(usize),
    /// The other end speaks another version.
    #[error("the other end of the link speaks version {0}, this one {VERSION}")]
    Version(u32),
}

impl From<rustix::io::Errno> for LinkError {
    fn from(errno: rustix::io::Errno) -> Self {
        match errno {
            rustix::io::Errno::CONNRESET | rustix::io::Errno::PIPE => Self::Closed,
            other => Self::Io(other.into()),
        }
    }
}
