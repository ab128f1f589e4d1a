//! What a gateway may ask for.
//!
//! It checks what clients send, and it is what clients attack: so here all of it is held against the configuration and the
//! bounds of the protocol once more. A gateway that works never meets a refusal. Knows no sandbox and no clock.

use repltool_protocol::environment::{self, EnvironmentError};
use repltool_protocol::rest::{ResourceLimits, SandboxMode, TIMEOUT_MS};
use rustix::process::{Resource, getrlimit};

use super::link::{Create, FDS_PER_SESSION, Watch};
use crate::config;

/// Why no sandbox is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The configuration does not offer the level.
    #[error("this server offers no sandboxes of this level")]
    Level,
    /// More or less memory than a session can have.
    #[error("the memory is not within the bounds of a session")]
    Memory,
    /// More or less CPU time than a session can have.
    #[error("the CPU time is not within the bounds of a session")]
    CpuTime,
    /// Variables that a session cannot have.
    #[error("the environment is refused")]
    Environment(#[source] EnvironmentError),
    /// A working directory that a session cannot have.
    #[error("the working directory is refused")]
    Directory,
    /// More sandboxes, or more sessions with one, than the server has room for.
    #[error("there are too many sandboxes")]
    Full,
    /// The answers to earlier requests are not taken.
    #[error("earlier answers have not been taken")]
    Deaf,
}

/// Descriptors that the supervisor needs for everything but sandboxes.
pub const FDS_BESIDE: u64 = 256;
/// The longest path of a working directory, in bytes.
const MAX_DIRECTORY_BYTES: usize = 1024;
/// What sessions that end leave behind for a moment while new ones begin, beside one sandbox for each.
const BESIDE: usize = 64;

/// Checks what is asked for.
///
/// # Errors
/// The first [`Refusal`] there is.
pub(super) fn check(create: &Create, sandbox: &config::Sandbox) -> Result<(), Refusal> {
    if !sandbox.levels.contains(&create.mode) {
        return Err(Refusal::Level);
    }
    let (least, most) = (ResourceLimits::MEMORY_MB.start() << 20, ResourceLimits::MEMORY_MB.end() << 20);
    if !(least..=most).contains(&create.memory_bytes) {
        return Err(Refusal::Memory);
    }
    // The CPU time of all executions that a session can have.
    let most = ResourceLimits::CPU_TIME.end() * ResourceLimits::EXPRESSIONS.end();
    if !(1..=most).contains(&create.cpu_seconds) {
        return Err(Refusal::CpuTime);
    }
    let variables = create.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    environment::check(variables).map_err(Refusal::Environment)?;
    match &create.working_directory {
        Some(_) if create.mode == SandboxMode::Strict => Err(Refusal::Directory),
        Some(path) if !is_below(path) => Err(Refusal::Directory),
        _ => Ok(()),
    }
}

/// Names one below the other, none of which leads up or begins anew.
fn is_below(path: &str) -> bool {
    let parts = || path.split('/');
    path.len() <= MAX_DIRECTORY_BYTES
        && !path.contains('\0')
        && (path.is_empty() || parts().all(|part| !matches!(part, "" | "." | "..")))
}

/// Descriptors that this process may have.
pub(super) fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many sandboxes there may be, and how many sessions that have had one: a session that starts anew has two of them
/// for a moment. Never more than there are descriptors for.
pub(super) fn most_sandboxes(max_sessions: usize, open_files: u64) -> usize {
    let room = open_files.saturating_sub(FDS_BESIDE) / FDS_PER_SESSION;
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    max_sessions.saturating_mul(2).saturating_add(BESIDE).min(room)
}

/// What is watched, lowered to the most that an execution can have from now on.
pub(super) fn lowered(watch: Watch, now_ns: u64) -> Watch {
    let latest = now_ns.saturating_add(TIMEOUT_MS.end() * 1_000_000);
    Watch {
        deadline_ns: watch.deadline_ns.map(|deadline| deadline.min(latest)),
        cpu_ns: watch.cpu_ns.min(ResourceLimits::CPU_TIME.end() * 1_000_000_000),
        ..watch
    }
}

#[cfg(test)]
mod tests {
    use repltool_protocol::rest::Language;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn create() -> Create {
        Create {
            request: 1,
            session: "0123456789abcdefghijkl".parse().unwrap(),
            language: Language::Python,
            mode: SandboxMode::Standard,
            environment: Vec::new(),
            working_directory: None,
            memory_bytes: 256 * MIB,
            cpu_seconds: 30_000,
        }
    }

    fn checked(change: impl FnOnce(&mut Create)) -> Result<(), Refusal> {
        let mut create = create();
        change(&mut create);
        check(&create, &config::Sandbox::default())
    }

    #[test]
    fn what_a_session_can_have_is_granted() {
        assert_eq!(checked(|_| {}), Ok(()));
        assert_eq!(checked(|it| it.mode = SandboxMode::Strict), Ok(()));
        assert_eq!(checked(|it| (it.memory_bytes, it.cpu_seconds) = (16 * MIB, 3600)), Ok(()));
        assert_eq!(checked(|it| (it.memory_bytes, it.cpu_seconds) = (4096 * MIB, 300 * 10_000)), Ok(()));
        for path in ["", "a", "a/b", "..a", "é"] {
            assert_eq!(checked(|it| it.working_directory = Some(path.into())), Ok(()), "{path}");
        }
        assert_eq!(checked(|it| it.environment = vec![("A".into(), "b".into())]), Ok(()));
    }

    #[test]
    fn a_level_that_is_not_configured_is_refused() {
        let sandbox = config::Sandbox { levels: vec![SandboxMode::Strict], ..config::Sandbox::default() };
        for (mode, granted) in
            [(SandboxMode::Strict, true), (SandboxMode::Standard, false), (SandboxMode::Relaxed, false)]
        {
            let outcome = check(&Create { mode, ..create() }, &sandbox);
            assert_eq!(outcome, if granted { Ok(()) } else { Err(Refusal::Level) }, "{mode:?}");
        }
    }

    #[test]
    fn limits_beyond_those_of_the_protocol_are_refused() {
        for bytes in [0, 1, 16 * MIB - 1, 4096 * MIB + 1, u64::MAX] {
            assert_eq!(checked(|it| it.memory_bytes = bytes), Err(Refusal::Memory), "{bytes}");
        }
        for seconds in [0, 300 * 10_000 + 1, u64::MAX] {
            assert_eq!(checked(|it| it.cpu_seconds = seconds), Err(Refusal::CpuTime), "{seconds}");
        }
    }

    #[test]
    fn directories_and_variables_are_checked_once_more() {
        let long = "a".repeat(1025);
        for path in ["..", "../..", "a/../..", "/", "/etc", ".", "a//b", "a/", "a\0b", &long] {
            assert_eq!(checked(|it| it.working_directory = Some(path.into())), Err(Refusal::Directory), "{path:?}");
        }
        let strict = |it: &mut Create| (it.mode, it.working_directory) = (SandboxMode::Strict, Some("a".into()));
        assert_eq!(checked(strict), Err(Refusal::Directory));
        for (name, value) in [("LD_PRELOAD", "/x"), ("PATH", "/x"), ("A", "\0"), ("A=B", ""), ("", "x")] {
            let outcome = checked(|it| it.environment = vec![(name.into(), value.into())]);
            assert!(matches!(outcome, Err(Refusal::Environment(_))), "{name:?}");
        }
        let outcome = checked(|it| it.environment = vec![("A".into(), "x".repeat(60 << 10))]);
        assert_eq!(outcome, Err(Refusal::Environment(EnvironmentError::TooLong)));
    }

    #[test]
    fn sandboxes_are_bounded_by_sessions_and_by_descriptors() {
        assert_eq!(most_sandboxes(3, u64::MAX), 70);
        assert_eq!(most_sandboxes(1000, 1000 * FDS_PER_SESSION + FDS_BESIDE), 1000);
        assert_eq!(most_sandboxes(usize::MAX, 0), 0);
    }

    #[test]
    fn nobody_is_watched_more_loosely_than_an_execution_can_be() {
        let watch = Watch { begins: true, deadline_ns: Some(u64::MAX), cpu_ns: u64::MAX };
        let held = Watch { begins: true, deadline_ns: Some(7 + 300_000_000_000), cpu_ns: 300_000_000_000 };
        assert_eq!(lowered(watch, 7), held);
        assert_eq!(lowered(held, 7), held);
        let short = Watch { begins: false, deadline_ns: None, cpu_ns: 1 };
        assert_eq!(lowered(short, u64::MAX), short);
    }
}
