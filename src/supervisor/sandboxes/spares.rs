//! Sandboxes that wait for sessions: booted before anybody asks, given to one session, and never to a second one.
//!
//! What a session has of its own is applied when it gets one, before any code of its client can run: its ceilings by the
//! supervisor, its directory and its environment by the driver, whose first message the supervisor leaves in the socket
//! before the gateway has it. A session that wants what cannot be changed in a running interpreter starts its own.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use repltool_protocol::rest::{Language, ResourceLimits, SandboxMode};
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::time::Instant;

use super::first_message::first_message;
use super::making::{MakeError, Wanted, kind, prepare};
use super::{Copies, SandboxId, Sandboxes, copies};
use crate::config::Backend;
use crate::metrics::standing::Pooled;
use crate::sandbox;
use crate::sandbox::probe::Tier;
use crate::sandbox::zygote::Zygote;
use crate::supervisor::homes::Home;
use crate::supervisor::link::{self, Create, Held};
use crate::supervisor::notify::Allowance;
use crate::supervisor::pool::{Kind, Pool};
use crate::supervisor::zygotes::{Offer, Zygotes};
use crate::supervisor::{Parts, Program, pressure};

/// How long one may boot. Longer than any client waits.
const BOOT_LIMIT: Duration = Duration::from_secs(30);
/// Variables that interpreters read once, when they start, beside all that begin with `LC_`.
const AT_START: [&str; 8] = ["FUNCNEST", "LANG", "LANGUAGE", "OLDPWD", "PWD", "SHLVL", "TZ", "_"];
/// When a zygote that boots is asked for again.
const SOON: Duration = Duration::from_millis(50);
/// How often it is asked whether memory is short.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Boots = FuturesUnordered<futures::future::BoxFuture<'static, SandboxId>>;

/// See the module.
pub(super) struct Spares {
    pool: Pool,
    homes: HashMap<SandboxId, Home>,
    copies: HashMap<SandboxId, Copies>,
    /// The one that was handed out last, until [`Sandboxes::finish_hand_out`].
    handed: Option<SandboxId>,
    boots: Boots,
    zygotes: Zygotes,
    looked_at: Instant,
}

impl Spares {
    pub(super) fn new(parts: &Parts) -> Self {
        let sandbox = &parts.config.sandbox;
        let offered = sandbox.levels.iter().filter(|mode| sandbox.backend(**mode) == Backend::Native);
        // Without namespaces the end of a sandbox ends whatever its user has, so none is made ahead.
        let modes: Vec<SandboxMode> = offered.copied().filter(|_| parts.isolation.tier != Tier::C).collect();
        let languages = parts.programs.iter().map(|program| program.language);
        let kinds = languages.flat_map(|language| modes.iter().map(move |mode| Kind { language, mode: *mode }));
        let pool = Pool::new(parts.config.pool.clone(), kinds);
        Self {
            pool,
            homes: HashMap::new(),
            copies: HashMap::new(),
            handed: None,
            boots: FuturesUnordered::new(),
            zygotes: Zygotes::default(),
            looked_at: Instant::now(),
        }
    }

    pub(super) fn poll_booted(&mut self, context: &mut Context<'_>) -> Poll<SandboxId> {
        match self.boots.poll_next_unpin(context) {
            Poll::Ready(Some(id)) => Poll::Ready(id),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Sandboxes {
    /// Gives a session one that waits, if there is one that fits.
    pub(super) fn hand_out(
        &mut self,
        create: &Create,
        program: &Program,
    ) -> Result<Option<(Held, Vec<OwnedFd>)>, MakeError> {
        let shelf = Kind { language: create.language, mode: create.mode };
        let first = first_message(create);
        let is_fit = first.is_some() && !self.homes.has(&create.session) && self.is_usual(create, program);
        let taken = self.spares.pool.take(shelf, is_fit, Instant::now());
        let taken = taken.or_else(|| if is_fit { self.fork_now(shelf, program) } else { None });
        let (Some(id), Some(first)) = (taken, first) else { return Ok(None) };
        let (Some(live), Some(home)) = (self.live.get_mut(&id), self.spares.homes.remove(&id)) else { return Ok(None) };
        live.session = Some(create.session.clone());
        live.adopted = true;
        Self::forget_refused(live);
        live.allowance = Allowance::new(self.config.violations_per_minute, Instant::now());
        // From here on it is the session's, whatever fails.
        let (workdir, identity) = home.place();
        let prepared = create.working_directory.iter().try_for_each(|path| workdir.make_directories(path, identity));
        self.homes.settle(&create.session, home);
        prepared.map_err(MakeError::Workdir)?;
        let memory_bytes =
            self.plan.memory_bytes(create.mode, kind(create.language, &self.config), create.memory_bytes);
        live.sandbox.set_memory(memory_bytes)?;
        live.gauge.set_memory(create.memory_bytes);
        if !first.is_empty() {
            send(&live.sandbox.control, &first, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
                .map_err(|error| MakeError::Descriptor(error.into()))?;
        }
        self.spares.handed = Some(id);
        let prepared = self.spares.copies.remove(&id);
        let live = &self.live[&id];
        let copies = prepared.map_or_else(|| copies(live), Ok)?;
        self.held_as(id, live, copies).map(Some)
    }

    /// What of a hand-out can be done when the gateway has the sandbox already: it gets its share of the processors.
    pub(in crate::supervisor) fn finish_hand_out(&mut self) {
        let Some(live) = self.spares.handed.take().and_then(|id| self.live.get(&id)) else { return };
        if let Err(error) = live.sandbox.share_processors() {
            tracing::warn!(error = &error as &dyn std::error::Error, "a sandbox is left with less than its share");
        }
    }

    /// Whether a session wants nothing that has to be known when its interpreter starts.
    fn is_usual(&self, create: &Create, program: &Program) -> bool {
        let at_start = |name: &str| AT_START.contains(&name) || name.starts_with("LC_");
        let has_usual_memory = create.memory_bytes == usual_memory_bytes();
        let can_change = program.memory_argument.is_none() && self.plan.has_memory_cgroup();
        (has_usual_memory || can_change) && !create.environment.iter().any(|(name, _)| at_start(name))
    }

    /// When one is to be made, if any.
    pub(in crate::supervisor) fn spare_due(&mut self) -> Option<Instant> {
        let is_busy = self.live.values().any(|live| live.deadline_ns.is_some());
        self.spares.pool.due(is_busy, Instant::now())
    }

    /// Makes the one that is wanted most. It boots by itself.
    pub(in crate::supervisor) fn make_spare(&mut self, parts: &Parts) {
        let now = Instant::now();
        let Some(shelf) = self.spares.pool.wants(now) else { return };
        if self.live.len() + self.leaving.len() >= self.most {
            return self.spares.pool.failed(shelf, now);
        }
        match self.try_spare(shelf, parts) {
            Ok(id) => self.spares.pool.begun(id, shelf, now),
            Err(MakeError::Booting) => self.spares.pool.put_off(shelf, now + SOON),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, ?shelf, "nothing can be kept ready");
                self.spares.pool.failed(shelf, now);
            }
        }
    }

    fn try_spare(&mut self, shelf: Kind, parts: &Parts) -> Result<SandboxId, MakeError> {
        let program = parts.programs.iter().find(|program| program.language == shelf.language);
        let program = program.ok_or(MakeError::NoProgram)?;
        if self.spares.pool.has_zygotes() && program.zygote_argv.is_some() {
            match self.spares.zygotes.offer(shelf.mode, Instant::now()) {
                Offer::Ready(_) => return self.make_one(shelf, program, true),
                Offer::Booting => return Err(MakeError::Booting),
                Offer::Wanted => {
                    if self.start_zygote(shelf.mode, program) {
                        return Err(MakeError::Booting);
                    }
                }
                Offer::None => {}
            }
        }
        self.make_one(shelf, program, false)
    }

    /// A fork of the zygote for a session that waits, if there is one to fork.
    fn fork_now(&mut self, shelf: Kind, program: &Program) -> Option<SandboxId> {
        program.zygote_argv.as_ref()?;
        let is_ready = matches!(self.spares.zygotes.offer(shelf.mode, Instant::now()), Offer::Ready(_));
        if !is_ready || self.live.len() + self.leaving.len() >= self.most {
            return None;
        }
        let made = self.make_one(shelf, program, true);
        made.inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no fork of a zygote")).ok()
    }

    fn make_one(&mut self, shelf: Kind, program: &Program, by_zygote: bool) -> Result<SandboxId, MakeError> {
        let id = SandboxId(self.next);
        self.next += 1;
        let home = self.homes.make().map_err(MakeError::Workdir)?;
        let made = self.spawn_spare(id, shelf, program, by_zygote, &home);
        match made {
            Ok(control) => {
                self.spares.homes.insert(id, home);
                self.spares.boots.push(Box::pin(booted(id, control)));
                Ok(id)
            }
            Err(error) => {
                self.homes.give_up(home);
                Err(error)
            }
        }
    }

    fn spawn_spare(
        &mut self,
        id: SandboxId,
        shelf: Kind,
        program: &Program,
        by_zygote: bool,
        home: &Home,
    ) -> Result<OwnedFd, MakeError> {
        let prepared = prepare(&self.config, id, &of_nobody(shelf.mode), program, home.place())?;
        let request = prepared.request(program, shelf.mode);
        let sandbox = match self.spares.zygotes.offer(shelf.mode, Instant::now()) {
            Offer::Ready(zygote) if by_zygote => {
                let made = sandbox::spawn_from(&self.plan, &request, zygote);
                match made {
                    Ok(made) => {
                        self.spares.zygotes.forked(shelf.mode);
                        made
                    }
                    Err(error) => {
                        let left = self.spares.zygotes.failed(shelf.mode, Instant::now());
                        left.into_iter().for_each(|home| self.homes.give_up(home));
                        return Err(error.into());
                    }
                }
            }
            _ => sandbox::spawn(&self.plan, &request)?,
        };
        sandbox.yield_processors()?;
        let control = sandbox.control.try_clone().map_err(MakeError::Descriptor)?;
        self.keep(id, sandbox, None, usual_memory_bytes())?;
        Ok(control)
    }

    /// Starts a zygote for a level; false if that cannot be.
    fn start_zygote(&mut self, mode: SandboxMode, program: &Program) -> bool {
        let now = Instant::now();
        let Some(argv) = program.zygote_argv.clone() else { return false };
        let Ok(home) = self.homes.make() else { return false };
        let started = prepare(&self.config, SandboxId(0), &of_nobody(mode), program, home.place())
            .map(|prepared| prepared.executing(argv))
            .and_then(|prepared| Ok(Zygote::start(&self.plan, &prepared.request(program, mode))?));
        match started {
            Ok(zygote) => {
                self.spares.zygotes.started(mode, zygote, home, now);
                true
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no zygote; every Python boots by itself");
                self.homes.give_up(home);
                self.spares.zygotes.failed(mode, now);
                false
            }
        }
    }

    /// One that waits has booted, or its driver is gone; the end of the sandbox tells that.
    pub(in crate::supervisor) fn spare_booted(&mut self, id: SandboxId) {
        if self.spares.pool.booted(id, Instant::now()) {
            // Whoever gets it waits for no more than has to be.
            let copies = self.live.get(&id).and_then(|live| copies(live).ok());
            self.spares.copies.extend(copies.map(|copies| (id, copies)));
            tracing::debug!(sandbox = id.0, "an interpreter waits for a session");
        }
    }

    /// Every process of one that belonged to no session is gone.
    pub(super) fn forget_spare(&mut self, id: SandboxId) {
        self.spares.pool.lost(id, Instant::now());
        self.spares.copies.remove(&id);
        if let Some(home) = self.spares.homes.remove(&id) {
            self.homes.give_up(home);
        }
    }

    /// Ends those that are not wanted any more.
    pub(super) fn sweep_spares(&mut self) {
        let now = Instant::now();
        if self.spares.looked_at + LOOK_EVERY <= now {
            self.spares.looked_at = now;
            self.spares.pool.set_memory_is_short(pressure::memory_is_short());
        }
        for id in self.spares.pool.surplus(now, BOOT_LIMIT) {
            self.kill(id);
        }
        for home in self.spares.zygotes.sweep(now) {
            self.homes.give_up(home);
        }
    }

    /// Sessions come first.
    pub(super) fn make_room_for_session(&mut self) {
        if self.live.len() + self.leaving.len() >= self.most
            && let Some(id) = self.spares.pool.sacrifice()
            && let Some(live) = self.live.get_mut(&id)
        {
            live.sandbox.end();
            self.forget(id);
            self.sweep_leaving();
        }
    }

    /// What is told of those that wait, in the order of the languages' labels.
    pub(in crate::supervisor) fn pooled(&self) -> [Pooled; 3] {
        [Language::Python, Language::Javascript, Language::Bash].map(|language| self.spares.pool.told(language))
    }
}

/// What one has that waits.
fn of_nobody(mode: SandboxMode) -> Wanted<'static> {
    Wanted {
        mode,
        environment: &[],
        directory: "",
        memory_bytes: usual_memory_bytes(),
        // What a session may use is counted and watched; this only stops what nobody watches any more.
        cpu_seconds: ResourceLimits::CPU_TIME.end() * ResourceLimits::EXPRESSIONS.end(),
    }
}

/// What sessions have that say nothing, in bytes.
fn usual_memory_bytes() -> u64 {
    ResourceLimits::default().max_memory_mb << 20
}

/// Its driver has said something, or nothing more will come. Nothing is read: what it said is for the gateway.
async fn booted(id: SandboxId, control: OwnedFd) -> SandboxId {
    match link::register(control, Interest::READABLE) {
        Ok(control) => drop(control.readable().await),
        Err(error) => tracing::error!(%error, sandbox = id.0, "the boot of an interpreter cannot be watched"),
    }
    id
}
