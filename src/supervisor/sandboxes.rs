//! The sandboxes that live, with the supervisor's own copies of their descriptors.

mod first_message;
mod making;
mod refusing;
mod spares;
mod watching;

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use repltool_protocol::ids::SessionId;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::Interest;

use super::bounds::{self};
use super::gauge::Gauge;
use super::homes::Homes;
use super::limits::LimitQueue;
use super::link::{self, DEADLINE_SLACK, Exited, Held, Refused, SandboxId};
use super::notify::{Allowance, Listeners};
use super::{Parts, SupervisorError};
use crate::config::Config;
use crate::sandbox::cgroup::Counter;
use crate::sandbox::janitor::Janitor;
use crate::sandbox::probe::Tier;
use crate::sandbox::workdir::Workdirs;
use crate::sandbox::{Plan, Sandbox};
use making::MakeError;
pub(super) use refusing::Happening;
use spares::Spares;

type Ends = FuturesUnordered<futures::future::BoxFuture<'static, SandboxId>>;

struct Live {
    sandbox: Sandbox,
    /// None while it waits for one.
    session: Option<SessionId>,
    deadline_ns: Option<u64>,
    gauge: Gauge,
    /// How many of its calls were refused since a gateway last read it.
    violations: OwnedFd,
    /// How many more may be.
    allowance: Allowance,
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
    /// Sandboxes whose processes are gone and whose cgroups are not yet.
    leaving: Vec<Sandbox>,
    /// Sessions that ended while a sandbox of theirs still died.
    to_release: HashSet<SessionId>,
    spares: Spares,
    next: u64,
    /// How many there may be.
    most: usize,
    config: crate::config::Sandbox,
}

impl Sandboxes {
    pub(super) fn new(parts: &Parts) -> Result<Self, SupervisorError> {
        let Config { sandbox, data_dir, .. } = &parts.config;
        let reduced = parts.isolation.tier == Tier::C;
        let workdirs = if reduced { Workdirs::plain(data_dir) } else { Workdirs::new(&data_dir.join("homes")) };
        let workdirs = workdirs.map_err(SupervisorError::Workdirs)?;
        if workdirs.is_attached() {
            tracing::debug!(
                "this linux is older than 6.15: working directories are mounted in a namespace of the server's own"
            );
        }
        let mut plan = if reduced { Plan::compile_reduced(&data_dir.join("drivers"))? } else { Plan::compile()? };
        parts.containers.iter().for_each(|(mode, runtime)| plan.contain(*mode, runtime.clone()));
        Ok(Self {
            _janitor: Janitor::start(&plan).map_err(|e| SupervisorError::Io("the start of the janitor", e))?,
            plan,
            live: BTreeMap::new(),
            limits: LimitQueue::new(cpus()),
            homes: Homes::new(workdirs, parts.base_uid, sandbox.disk_mb),
            ends: FuturesUnordered::new(),
            listeners: Listeners::default(),
            leaving: Vec::new(),
            to_release: HashSet::new(),
            spares: Spares::new(parts),
            next: 1,
            most: bounds::most_sandboxes(parts.config.sessions.max, bounds::open_files()),
            config: sandbox.clone(),
        })
    }

    /// How many there are for sessions.
    pub(super) fn len(&self) -> usize {
        self.of_sessions().count()
    }

    fn of_sessions(&self) -> impl Iterator<Item = (&SandboxId, &Live)> {
        self.live.iter().filter(|(_, live)| live.session.is_some())
    }

    /// Every sandbox that a session has, those with an armed deadline first: someone waits for them.
    pub(super) fn held(&self) -> Vec<SandboxId> {
        let had = || self.of_sessions().filter(|(_, live)| !live.let_go);
        let busy = had().filter(|(_, live)| live.deadline_ns.is_some());
        let idle = had().filter(|(_, live)| live.deadline_ns.is_none());
        busy.chain(idle).map(|(id, _)| *id).collect()
    }

    /// Copies of a sandbox's descriptors for a new gateway; none if it has ended, or an earlier gateway has let it go.
    pub(super) fn hand_over(&self, id: SandboxId) -> Option<(Held, Vec<OwnedFd>)> {
        let live = self.live.get(&id).filter(|live| !live.let_go)?;
        self.held_as(id, live, copies(live).ok()?).ok()
    }

    /// What the gateway is told of a sandbox, with its descriptors.
    fn held_as(&self, id: SandboxId, live: &Live, copies: Copies) -> Result<(Held, Vec<OwnedFd>), MakeError> {
        let Live { session: Some(session), deadline_ns, .. } = live else { return Err(MakeError::NoSession) };
        let Copies { counters, fds } = copies;
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
        let of_session = self.live.iter().filter(|(_, live)| live.session.as_ref() == Some(session));
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
        let (adopted, let_go) = (live.adopted, live.let_go || live.session.is_none());
        if let_go {
            self.forget(id);
        }
        adopted.then_some(exited)
    }

    /// Gives back what Linux keeps of a sandbox that has ended, and with the last one of a released session its home.
    fn forget(&mut self, id: SandboxId) {
        let Some(mut live) = self.live.remove(&id) else { return };
        self.limits.remove(id);
        live.sandbox.reap();
        self.leaving.push(live.sandbox);
        self.sweep_leaving();
        let Some(session) = live.session else { return self.forget_spare(id) };
        if !self.live.values().any(|other| other.session.as_ref() == Some(&session)) && self.to_release.remove(&session)
        {
            self.homes.release(&session);
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
        self.sweep_spares();
        self.sweep_leaving();
    }

    fn sweep_leaving(&mut self) {
        self.homes.tidy();
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
                    Happening::Calls(_) | Happening::Booted(_) => {}
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

/// Descriptors of a sandbox for a gateway, in the order of [`super::link::SandboxFds`].
struct Copies {
    counters: Vec<Counter>,
    fds: Vec<OwnedFd>,
}

fn copies(live: &Live) -> Result<Copies, MakeError> {
    let Live { sandbox, violations, .. } = live;
    let mut fds = Vec::with_capacity(link::MAX_FDS);
    for fd in [&sandbox.stdout, &sandbox.stderr, &sandbox.control, &sandbox.init, violations] {
        fds.push(fd.try_clone().map_err(MakeError::Descriptor)?);
    }
    let (counters, files): (Vec<_>, Vec<_>) = sandbox.open_meters().map_err(MakeError::Descriptor)?.into_iter().unzip();
    fds.extend(files.into_iter().map(OwnedFd::from));
    Ok(Copies { counters, fds })
}

async fn ended(id: SandboxId, pidfd: OwnedFd) -> SandboxId {
    match link::register(pidfd, Interest::READABLE) {
        Ok(pidfd) => drop(pidfd.readable().await),
        Err(error) => tracing::error!(%error, sandbox = id.0, "the end of a sandbox cannot be watched"),
    }
    id
}

/// CPUs that a sandbox can run on at once.
fn cpus() -> u32 {
    std::thread::available_parallelism().ok().and_then(|cpus| u32::try_from(cpus.get()).ok()).unwrap_or(1)
}

/// CLOCK_MONOTONIC, which all processes of the machine share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
