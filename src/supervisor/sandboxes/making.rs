//! How a sandbox is made: what was asked for, what this server's configuration says, and the way to its descriptors.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::Language;
use rustix::event::{EventfdFlags, eventfd};

use super::{Live, Sandboxes, ended};
use crate::config::Commands;
use crate::sandbox::{self, Identity, Kind, Limits, Request, Sandbox, SpawnError};
use crate::supervisor::bounds::{self, Refusal};
use crate::supervisor::gauge::Gauge;
use crate::supervisor::link::{Create, Held, SandboxId};
use crate::supervisor::notify::Allowance;
use crate::supervisor::{Parts, Program};

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub(in crate::supervisor) enum MakeError {
    /// The gateway asks for what it may not have.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server was started without this language.
    #[error("this server has no interpreter for the language")]
    NoProgram,
    /// A NUL byte where none can be.
    #[error("the environment holds a NUL byte")]
    Environment,
    /// No descriptors are left.
    #[error("a descriptor cannot be copied")]
    Descriptor(#[source] std::io::Error),
    /// No working directory.
    #[error("the working directory cannot be made")]
    Workdir(#[source] std::io::Error),
    /// A step of the sandbox failed.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// What every program finds; a session's own environment is laid over it.
/// Caches and settings that libraries write lie beside the user's files, not among them.
const BASE_ENVIRONMENT: &[(&str, &str)] = &[
    ("HOME", "/workspace"),
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("TZ", "UTC"),
    ("XDG_CACHE_HOME", "/tmp/.cache"),
    ("XDG_CONFIG_HOME", "/tmp/.config"),
];
/// Descriptors that one program may have open.
const OPEN_FILES: u64 = 1024;

impl Sandboxes {
    /// Makes a sandbox; the descriptors are for the gateway.
    pub(in crate::supervisor) fn create(
        &mut self,
        create: &Create,
        parts: &Parts,
    ) -> Result<(Held, Vec<OwnedFd>), MakeError> {
        bounds::check(create, &self.config)?;
        let is_idle = |session: &SessionId| !self.live.values().any(|live| live.session == *session);
        if self.live.len() + self.leaving.len() >= self.most
            || !self.homes.make_room(&create.session, self.most, is_idle)
        {
            return Err(Refusal::Full.into());
        }
        let program =
            parts.programs.iter().find(|program| program.language == create.language).ok_or(MakeError::NoProgram)?;
        let id = SandboxId(self.next);
        self.next += 1;
        let mut sandbox = self.spawn(id, create, program)?;
        if let Some(listener) = sandbox.listener.take() {
            self.listeners.add(id, listener).map_err(MakeError::Descriptor)?;
        }
        let pidfd = sandbox.pidfd.try_clone().map_err(MakeError::Descriptor)?;
        let gauge = Gauge::new(&sandbox, create.memory_bytes);
        let counted = gauge.is_counted();
        let violations =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| MakeError::Descriptor(e.into()))?;
        let live = Live {
            sandbox,
            violations,
            allowance: Allowance::new(self.config.violations_per_minute, tokio::time::Instant::now()),
            too_many_violations: false,
            untold: Vec::new(),
            session: create.session.clone(),
            deadline_ns: None,
            gauge,
            adopted: true,
            exited: None,
            let_go: false,
        };
        let handed = self.copies(id, &live)?;
        self.ends.push(Box::pin(ended(id, pidfd)));
        self.limits.add(id, counted);
        self.live.insert(id, live);
        Ok(handed)
    }

    fn spawn(&mut self, id: SandboxId, create: &Create, program: &Program) -> Result<Sandbox, MakeError> {
        let (workdir, identity) = self.homes.of(&create.session).map_err(MakeError::Workdir)?;
        if matches!(identity, Identity::Plain { .. }) {
            // The end of one that still dies would end the next one, too: they have one user.
            self.live.values_mut().filter(|live| live.session == create.session).for_each(|live| live.sandbox.end());
        }
        let located: Vec<_> = BASE_ENVIRONMENT.iter().map(|(name, path)| (*name, workdir.locate(path))).collect();
        let tmp = Some(workdir.locate("/tmp")).filter(|it| it != "/tmp");
        let base = located.iter().map(|(name, value)| (*name, value.as_str()));
        let base = base.chain(tmp.as_deref().map(|tmp| ("TMPDIR", tmp)));
        let own = create.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment = base
            .chain(own)
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(name, value)| CString::new(format!("{name}={value}")))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| MakeError::Environment)?;
        let files: Vec<_> =
            program.files.get(&create.mode).into_iter().flatten().map(|(at, it)| (*at, &**it)).collect();
        let limits = Limits {
            memory_bytes: create.memory_bytes,
            memory_rlimit: program.memory_rlimit,
            max_processes: self.config.max_processes(create.mode),
            cpu_seconds: create.cpu_seconds,
            // More than the file systems hold: a program is to see ENOSPC of those, before the signal of this limit.
            file_bytes: self.config.disk_mb << 21,
            tmp_bytes: self.config.disk_mb << 20,
            tmp_inodes: self.config.disk_mb * 256,
            open_files: OPEN_FILES,
        };
        let kind = match create.language {
            Language::Bash | Language::Shell => {
                Kind::Shell { utilities: self.config.standard.commands == Commands::Utilities }
            }
            Language::Python | Language::Javascript => Kind::Interpreter,
        };
        let made = sandbox::spawn(
            &self.plan,
            &Request {
                name: &format!("sandbox-{}", id.0),
                mode: create.mode,
                kind,
                own: &program.own,
                identity,
                workdir,
                argv: &argv(program, create.memory_bytes),
                environment: &environment,
                cwd: create.working_directory.as_deref().unwrap_or(""),
                files: &files,
                binds: &program.binds,
                interrupt: program.interrupt,
                limits,
            },
        );
        Ok(made?)
    }
}

/// The interpreter, its own idea of the ceiling, and the other arguments.
fn argv(program: &Program, memory_bytes: u64) -> Vec<CString> {
    let mut argv = program.argv.clone();
    if let Some(argument) = program.memory_argument {
        argv.insert(argv.len().min(1), argument(memory_bytes));
    }
    argv
}
