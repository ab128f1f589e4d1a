//! How a sandbox is made: what was asked for, what this server's configuration says, and the way to its descriptors.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, SandboxMode};
use rustix::event::{EventfdFlags, eventfd};

use super::{Live, Sandboxes, ended};
use crate::config::{self, Commands};
use crate::sandbox::cgroup::CgroupError;
use crate::sandbox::workdir::Workdir;
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
    /// It waits for a session.
    #[error("the sandbox belongs to no session")]
    NoSession,
    /// It has booted in a moment.
    #[error("the zygote has not booted yet")]
    Booting,
    /// No working directory.
    #[error("the working directory cannot be made")]
    Workdir(#[source] std::io::Error),
    /// A step of the sandbox failed.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// What a session may use could not be set.
    #[error(transparent)]
    Limits(#[from] CgroupError),
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
    /// Gives a sandbox to a session, one that waits or a new one; the descriptors are for the gateway.
    pub(in crate::supervisor) fn create(
        &mut self,
        create: &Create,
        parts: &Parts,
    ) -> Result<(Held, Vec<OwnedFd>), MakeError> {
        bounds::check(create, &self.config)?;
        let is_idle = |session: &SessionId| !self.live.values().any(|live| live.session.as_ref() == Some(session));
        if !self.homes.make_room(&create.session, self.most, is_idle) {
            return Err(Refusal::Full.into());
        }
        let program =
            parts.programs.iter().find(|program| program.language == create.language).ok_or(MakeError::NoProgram)?;
        if let Some(handed) = self.hand_out(create, program)? {
            return Ok(handed);
        }
        self.make_room_for_session();
        if self.live.len() + self.leaving.len() >= self.most {
            return Err(Refusal::Full.into());
        }
        let (workdir, identity) = self.homes.of(&create.session).map_err(MakeError::Workdir)?;
        if matches!(identity, Identity::Plain { .. }) {
            // The end of one that still dies would end the next one, too: they have one user.
            let same = |live: &&mut Live| live.session.as_ref() == Some(&create.session);
            self.live.values_mut().filter(same).for_each(|live| live.sandbox.end());
        }
        let id = SandboxId(self.next);
        self.next += 1;
        let wanted = Wanted {
            mode: create.mode,
            environment: &create.environment,
            directory: create.working_directory.as_deref().unwrap_or(""),
            memory_bytes: create.memory_bytes,
            cpu_seconds: create.cpu_seconds,
        };
        let prepared = prepare(&self.config, id, &wanted, program, (workdir, identity))?;
        let sandbox = sandbox::spawn(&self.plan, &prepared.request(program, wanted.mode))?;
        self.keep(id, sandbox, Some(create.session.clone()), create.memory_bytes)?;
        self.hand_over(id).ok_or(MakeError::NoSession)
    }

    /// Watches a sandbox from now on.
    pub(super) fn keep(
        &mut self,
        id: SandboxId,
        mut sandbox: Sandbox,
        session: Option<SessionId>,
        memory_bytes: u64,
    ) -> Result<(), MakeError> {
        if let Some(listener) = sandbox.listener.take() {
            self.listeners.add(id, listener).map_err(MakeError::Descriptor)?;
        }
        let pidfd = sandbox.pidfd.try_clone().map_err(MakeError::Descriptor)?;
        let gauge = Gauge::new(&sandbox, memory_bytes);
        let counted = gauge.is_counted();
        let violations =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| MakeError::Descriptor(e.into()))?;
        let live = Live {
            sandbox,
            violations,
            allowance: Allowance::new(self.config.violations_per_minute, tokio::time::Instant::now()),
            too_many_violations: false,
            untold: Vec::new(),
            adopted: session.is_some(),
            session,
            deadline_ns: None,
            gauge,
            exited: None,
            let_go: false,
        };
        self.ends.push(Box::pin(ended(id, pidfd)));
        self.limits.add(id, counted);
        self.live.insert(id, live);
        Ok(())
    }
}

/// What a sandbox is to have, whoever it is for.
pub(super) struct Wanted<'a> {
    pub(super) mode: SandboxMode,
    pub(super) environment: &'a [(String, String)],
    /// Below the working directory of the session.
    pub(super) directory: &'a str,
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
}

/// All that is asked of a sandbox, as far as it has to live somewhere.
pub(super) struct Prepared<'a> {
    name: String,
    kind: Kind,
    home: (&'a Workdir, Identity),
    argv: Vec<CString>,
    environment: Vec<CString>,
    directory: &'a str,
    files: Vec<(&'a str, &'a [u8])>,
    limits: Limits,
}

impl Prepared<'_> {
    /// As the sandbox is asked for.
    pub(super) fn request<'a>(&'a self, program: &'a Program, mode: SandboxMode) -> Request<'a> {
        Request {
            name: &self.name,
            mode,
            kind: self.kind,
            own: &program.own,
            identity: self.home.1,
            workdir: self.home.0,
            argv: &self.argv,
            environment: &self.environment,
            cwd: self.directory,
            files: &self.files,
            binds: &program.binds,
            interrupt: program.interrupt,
            limits: self.limits,
        }
    }

    /// The same with other arguments.
    pub(super) fn executing(self, argv: Vec<CString>) -> Self {
        Self { argv, ..self }
    }
}

/// Puts together what is asked of a sandbox at a home.
pub(super) fn prepare<'a>(
    config: &config::Sandbox,
    id: SandboxId,
    wanted: &Wanted<'a>,
    program: &'a Program,
    home: (&'a Workdir, Identity),
) -> Result<Prepared<'a>, MakeError> {
    let limits = Limits {
        memory_bytes: wanted.memory_bytes,
        memory_rlimit: program.memory_rlimit,
        max_processes: config.max_processes(wanted.mode),
        cpu_seconds: wanted.cpu_seconds,
        // More than the file systems hold: a program is to see ENOSPC of those, before the signal of this limit.
        file_bytes: config.disk_mb << 21,
        tmp_bytes: config.disk_mb << 20,
        tmp_inodes: config.disk_mb * 256,
        open_files: OPEN_FILES,
    };
    Ok(Prepared {
        name: format!("sandbox-{}", id.0),
        kind: kind(program.language, config),
        home,
        argv: argv(program, wanted.memory_bytes),
        environment: environment(wanted.environment, home.0)?,
        directory: wanted.directory,
        files: program.files.get(&wanted.mode).into_iter().flatten().map(|(at, it)| (*at, &**it)).collect(),
        limits,
    })
}

/// The whole environment of a program: what every program finds, and over it the session's own.
fn environment(own: &[(String, String)], workdir: &Workdir) -> Result<Vec<CString>, MakeError> {
    let located: Vec<_> = BASE_ENVIRONMENT.iter().map(|(name, path)| (*name, workdir.locate(path))).collect();
    let tmp = Some(workdir.locate("/tmp")).filter(|it| it != "/tmp");
    let base = located.iter().map(|(name, value)| (*name, value.as_str()));
    let base = base.chain(tmp.as_deref().map(|tmp| ("TMPDIR", tmp)));
    let own = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = base.chain(own).collect::<BTreeMap<_, _>>().into_iter();
    all.map(|(name, value)| CString::new(format!("{name}={value}")).map_err(|_| MakeError::Environment)).collect()
}

/// What a program is to the levels.
pub(super) fn kind(language: Language, config: &config::Sandbox) -> Kind {
    match language {
        Language::Bash | Language::Shell => Kind::Shell { utilities: config.standard.commands == Commands::Utilities },
        Language::Python | Language::Javascript => Kind::Interpreter,
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
