//! The three levels, for each kind of program.
//!
//! | | strict | standard | relaxed |
//! |---|---|---|---|
//! | files | the program's own, read-only | private and size-limited; an interpreter has `/usr` beside them, a shell the basic utilities | private; `/usr` |
//! | network | none | none | the sandbox's own loopback |
//! | processes | threads; a shell may fork, and nothing may exec | fork; a shell may exec its utilities | fork and exec |

use libc::c_int;
use repltool_protocol::rest::{ResourceLimits, SandboxMode};

use super::Why;
use crate::sandbox::Kind;

/// What a level gives.
#[derive(Debug)]
pub(in crate::sandbox) struct Level {
    /// What of the host's system is shown.
    pub(in crate::sandbox) system: System,
    /// Whether there are `/tmp`, `/dev/shm`, the working directory, `/etc` and `/proc`.
    pub(in crate::sandbox) files: bool,
    /// What network there is.
    pub(in crate::sandbox) network: Network,
    /// Address families of `socket`, beside AF_UNIX.
    pub(in crate::sandbox) families: &'static [(c_int, Why)],
    /// Whether there may be more processes than the first one; threads may always be.
    pub(in crate::sandbox) forks: bool,
    /// What may be executed after the program itself.
    pub(in crate::sandbox) exec: Exec,
    /// The most that is granted of memory, in bytes, whatever is asked for.
    pub(in crate::sandbox) max_memory_bytes: u64,
}

/// What of the host's system is shown inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) enum System {
    /// All of `/usr`.
    Host,
    /// The program with its libraries, and the directories that it names as its own.
    Own,
    /// The same, and the basic utilities.
    Utilities,
}

/// What may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) enum Exec {
    /// The program itself, once, before any code of a user runs.
    Once,
    /// Whatever is shown inside.
    Shown,
}

/// The network of a level. Each sandbox has its own network namespace, so nothing is shared with anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) enum Network {
    /// Not even loopback.
    None,
    /// Loopback inside the sandbox.
    Loopback,
}

/// The level of a mode for a kind of program.
pub(in crate::sandbox) fn level(mode: SandboxMode, kind: Kind) -> &'static Level {
    match (mode, kind) {
        (SandboxMode::Strict, Kind::Interpreter) => &STRICT,
        (SandboxMode::Strict, Kind::Shell { .. }) => &STRICT_SHELL,
        (SandboxMode::Standard, Kind::Interpreter) => &STANDARD,
        (SandboxMode::Standard, Kind::Shell { utilities: true }) => &STANDARD_SHELL,
        (SandboxMode::Standard, Kind::Shell { utilities: false }) => &STANDARD_BUILTINS,
        (SandboxMode::Relaxed, _) => &RELAXED,
    }
}

/// Every level, for compiling them.
pub(in crate::sandbox) static ALL: [&Level; 6] =
    [&STRICT, &STRICT_SHELL, &STANDARD, &STANDARD_SHELL, &STANDARD_BUILTINS, &RELAXED];

/// The program's own files, threads, and nothing else. Every other level says what it adds.
const LEAST: Level = Level {
    system: System::Own,
    files: false,
    network: Network::None,
    families: &[],
    forks: false,
    exec: Exec::Once,
    max_memory_bytes: ResourceLimits::STRICT_MEMORY_MB << 20,
};

static STRICT: Level = LEAST;

/// A shell that cannot fork has neither `$( )` nor pipelines, and ends when it tries. What it forks can execute nothing.
static STRICT_SHELL: Level = Level { forks: true, ..LEAST };

/// Private files and processes of the program itself.
const PRIVATE: Level = Level { files: true, forks: true, max_memory_bytes: u64::MAX, ..LEAST };

static STANDARD: Level = Level { system: System::Host, ..PRIVATE };

/// A shell without `ls` serves nobody.
static STANDARD_SHELL: Level = Level { system: System::Utilities, exec: Exec::Shown, ..PRIVATE };

static STANDARD_BUILTINS: Level = PRIVATE;

static RELAXED: Level = Level {
    system: System::Host,
    network: Network::Loopback,
    families: &[
        (libc::AF_INET, "servers and clients on the sandbox's own loopback"),
        (libc::AF_INET6, "the same on ::1"),
    ],
    exec: Exec::Shown,
    ..PRIVATE
};
