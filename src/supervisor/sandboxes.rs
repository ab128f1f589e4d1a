//! The sandboxes that live, with the supervisor's own copies of their descriptors.

mod refusing;
mod watching;

use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::Language;
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};

use super::gauge::Gauge;
use super::homes::Homes;
use super::limits::LimitQueue;
use super::link::{self, Create, DEADLINE_SLACK, Exited, Held, Refused, SandboxId};
use super::notify::{Budget, Listeners};
use super::{Parts, Program, SupervisorError};
use crate::config::{Commands, Config};
use crate::sandbox::janitor::Janitor;
use crate::sandbox::workdir::Workdirs;
use crate::sandbox::{self, Kind, Limits, Plan, Request, Sandbox, SpawnError};
pub(super) use refusing::Happening;

type Ends = FuturesUnordered<futures::future::BoxFuture<'static, SandboxId>>;

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum MakeError {
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

struct Live {
    sandbox: Sandbox,
    session: SessionId,
    deadline_ns: Option<u64>,
    gauge: Gauge,
    /// How many of its calls were refused since a gateway last read it.
    violations: OwnedFd,
    /// It was killed because too many of them were.
    too_many_violations: bool,
    /// Refused calls of which no gateway knows.
    untold: Vec<Refused>,
    /// A gateway has it and watches its clock.
    adopted: bool,
    /// How it ended, once it has.
    exited: Option<Exited>,
    /// No gateway wants it any more.
    let_go: bool,
}

/// Every sandbox of this server.
pub(super) struct Sandboxes {
    plan: Plan,
    /// Takes the cgroups away if this process is killed.
    _janitor: Option<Janitor>,
    live: BTreeMap<SandboxId, Live>,
    limits: LimitQueue,
    homes: Homes,
    ends: Ends,
    listeners: Listeners,
    budget: Budget,
    /// Sandboxes whose processes are gone and whose cgroups are not yet.
    leaving: Vec<Sandbox>,
    /// Sessions that ended while a sandbox of theirs still died.
    to_release: HashSet<SessionId>,
    next: u64,
    config: crate::config::Sandbox,
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
    pub(super) fn new(parts: &Parts) -> Result<Self, SupervisorError> {
        let Config { sandbox, data_dir, .. } = &parts.config;
        let workdirs = Workdirs::new(&data_dir.join("homes")).map_err(SupervisorError::Workdirs)?;
        if workdirs.is_attached() {
            tracing::debug!(
                "this linux is older than 6.15: working directories are mounted in a namespace of the server's own"
            );
        }
        let mut plan = Plan::compile()?;
        parts.containers.iter().for_each(|(mode, runtime)| plan.contain(*mode, runtime.clone()));
        Ok(Self {
            _janitor: Janitor::start(&plan).map_err(|e| SupervisorError::Io("the start of the janitor", e))?,
            plan,
            live: BTreeMap::new(),
            limits: LimitQueue::new(cpus()),
            homes: Homes::new(workdirs, parts.base_uid, sandbox.disk_mb),
            ends: FuturesUnordered::new(),
            listeners: Listeners::default(),
            budget: Budget::new(sandbox.violations_per_minute),
            leaving: Vec::new(),
            to_release: HashSet::new(),
            next: 1,
            config: sandbox.clone(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Makes a sandbox; the descriptors are for the gateway.
    pub(super) fn create(&mut self, create: &Create, parts: &Parts) -> Result<(Held, Vec<OwnedFd>), MakeError> {
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
        let base = BASE_ENVIRONMENT.iter().map(|(name, value)| (*name, *value));
        let own = create.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment = base
            .chain(own)
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(name, value)| CString::new(format!("{name}={value}")))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| MakeError::Environment)?;
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
        let (workdir, identity) = self.homes.of(&create.session).map_err(MakeError::Workdir)?;
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
                files: &program.files,
                binds: &program.binds,
                interrupt: program.interrupt,
                limits,
            },
        );
        Ok(made?)
    }

    /// Every sandbox, those with an armed deadline first: someone waits for them.
    pub(super) fn held(&self) -> Vec<SandboxId> {
        let busy = self.live.iter().filter(|(_, live)| live.deadline_ns.is_some());
        let idle = self.live.iter().filter(|(_, live)| live.deadline_ns.is_none());
        busy.chain(idle).map(|(id, _)| *id).collect()
    }

    /// Copies of a sandbox's descriptors for a new gateway; none if it has ended.
    pub(super) fn hand_over(&self, id: SandboxId) -> Option<(Held, Vec<OwnedFd>)> {
        self.copies(id, self.live.get(&id)?).ok()
    }

    /// Descriptors in the order of [`super::link::SandboxFds`].
    fn copies(&self, id: SandboxId, live: &Live) -> Result<(Held, Vec<OwnedFd>), MakeError> {
        let Live { sandbox, session, deadline_ns, .. } = live;
        let mut fds = Vec::with_capacity(link::MAX_FDS);
        for fd in [&sandbox.stdout, &sandbox.stderr, &sandbox.control, &sandbox.init, &live.violations] {
            fds.push(fd.try_clone().map_err(MakeError::Descriptor)?);
        }
        let (counters, files): (Vec<_>, Vec<_>) =
            sandbox.open_meters().map_err(MakeError::Descriptor)?.into_iter().unzip();
        fds.extend(files.into_iter().map(OwnedFd::from));
        let (session, begun) = (session.clone(), self.limits.begun(id));
        Ok((Held { sandbox: id, session, deadline_ns: *deadline_ns, counters, begun }, fds))
    }

    /// The gateway is gone: deadlines are the supervisor's until the next one has taken over.
    pub(super) fn all_unadopted(&mut self) {
        self.live.values_mut().for_each(|live| live.adopted = false);
    }

    pub(super) fn kill(&self, id: SandboxId) {
        if let Some(live) = self.live.get(&id) {
            live.sandbox.kill();
        }
    }

    /// The gateway wants nothing more of a sandbox: kills what still runs, and keeps it no longer than that.
    pub(super) fn let_go(&mut self, id: SandboxId) {
        let Some(live) = self.live.get_mut(&id) else { return };
        live.let_go = true;
        if live.exited.is_some() {
            self.forget(id);
        } else {
            live.sandbox.kill();
        }
    }

    /// Lets the working directory and the users of a session go, and its sandboxes.
    pub(super) fn release(&mut self, session: &SessionId) {
        let of_session = self.live.iter().filter(|(_, live)| live.session == *session);
        let sandboxes: Vec<_> = of_session.map(|(id, _)| *id).collect();
        if sandboxes.is_empty() {
            return self.homes.release(session);
        }
        self.to_release.insert(session.clone());
        sandboxes.into_iter().for_each(|id| self.let_go(id));
    }

    /// A sandbox of which every process is gone.
    fn poll_exit(&mut self, context: &mut Context<'_>) -> Poll<SandboxId> {
        match self.ends.poll_next_unpin(context) {
            Poll::Ready(Some(id)) => Poll::Ready(id),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// The init of a sandbox has ended, and with it every process in it. Says what is to be told of it now. It is kept
    /// until a gateway lets it go: its last words lie in its pipes.
    pub(super) fn ended(&mut self, id: SandboxId) -> Option<Exited> {
        let exited = self.last_words(id)?;
        self.limits.remove(id);
        let live = self.live.get_mut(&id)?;
        live.sandbox.reap();
        live.exited = Some(exited);
        let (adopted, let_go) = (live.adopted, live.let_go);
        if let_go {
            self.forget(id);
        }
        adopted.then_some(exited)
    }

    /// Gives back what Linux keeps of a sandbox that has ended, and with the last one of a released session its home.
    fn forget(&mut self, id: SandboxId) {
        let Some(mut live) = self.live.remove(&id) else { return };
        self.limits.remove(id);
        self.budget.forget(id);
        live.sandbox.reap();
        self.leaving.push(live.sandbox);
        self.sweep_leaving();
        if !self.live.values().any(|other| other.session == live.session) && self.to_release.remove(&live.session) {
            self.homes.release(&live.session);
        }
    }

    /// Kills what is past its deadline with no gateway to see to it, and removes emptied cgroups.
    pub(super) fn sweep(&mut self) {
        let now = monotonic_ns();
        let slack = u64::try_from(DEADLINE_SLACK.as_nanos()).unwrap_or(u64::MAX);
        for live in self.live.values_mut() {
            if !live.adopted && live.deadline_ns.is_some_and(|deadline| now > deadline.saturating_add(slack)) {
                live.sandbox.kill();
            }
        }
        self.sweep_leaving();
    }

    fn sweep_leaving(&mut self) {
        self.leaving = std::mem::take(&mut self.leaving).into_iter().filter_map(Sandbox::release).collect();
    }

    /// Ends every sandbox and waits, a few seconds at most, until nothing is left of them.
    pub(super) async fn kill_all(&mut self) {
        let over: Vec<_> = self.live.iter_mut().filter_map(|(id, live)| live.sandbox.reap().map(|_| *id)).collect();
        for id in over {
            self.forget(id);
        }
        self.live.values().for_each(|live| live.sandbox.kill());
        let all = async {
            while !self.live.is_empty() {
                match self.next().await {
                    Happening::Exit(id) => self.forget(id),
                    // It is being killed.
                    Happening::Calls(_) => {}
                }
            }
            while !self.leaving.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                self.sweep_leaving();
            }
        };
        if tokio::time::timeout(Duration::from_secs(5), all).await.is_err() {
            tracing::error!(live = self.live.len(), cgroups = self.leaving.len(), "sandboxes are left behind");
        }
        self.plan.shutdown();
    }
}

async fn ended(id: SandboxId, pidfd: OwnedFd) -> SandboxId {
    match link::register(pidfd) {
        Ok(pidfd) => drop(pidfd.readable().await),
        Err(error) => tracing::error!(%error, sandbox = id.0, "the end of a sandbox cannot be watched"),
    }
    id
}

/// CPUs that a sandbox can run on at once.
fn cpus() -> u32 {
    std::thread::available_parallelism().ok().and_then(|cpus| u32::try_from(cpus.get()).ok()).unwrap_or(1)
}

/// The interpreter, its own idea of the ceiling, and the other arguments.
fn argv(program: &Program, memory_bytes: u64) -> Vec<CString> {
    let mut argv = program.argv.clone();
    if let Some(argument) = program.memory_argument {
        argv.insert(argv.len().min(1), argument(memory_bytes));
    }
    argv
}

/// CLOCK_MONOTONIC, which all processes of the machine share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
