//! The supervisor: starts and restarts the gateway, owns the sandboxes and ends them with itself.
//!
//! It is single-threaded, holds whatever privilege there is, and parses nothing that came over a network or out of a
//! sandbox. It knows no sessions beyond their names, no HTTP and no user code.
//!
//! ```text
//!   start ─▶ gateway up ─▶ serving ──SIGTERM──▶ draining ─▶ sandboxes killed ─▶ exit 0
//!               ▲             │
//!               └── reaped ◀──┘ gateway gone: sandboxes live on and are handed to the next one
//! ```

mod bounds;
pub mod budget;
mod calling;
mod child;
mod draining;
mod error;
mod gateway;
mod gauge;
pub mod handle;
mod homes;
pub mod lending;
mod limits;
pub mod link;
mod notify;
mod pool;
mod pressure;
mod processes;
mod program;
mod reloading;
mod sandboxes;
mod sealing;
mod standing;
mod waits;
mod zygotes;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures::FutureExt as _;
use repltool_protocol::rest::SandboxMode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::config::Config;
use crate::outbound::link::Order;
use crate::sandbox;
use crate::sandbox::probe::Report;
pub use bounds::FDS_BESIDE;
use bounds::Refusal;
use calling::Calling;
pub use error::SupervisorError;
use gateway::Gateway;
use lending::{Lending, Source};
use link::{Create, LinkError, StoreRoot, ToGateway, ToSupervisor, VERSION, Welcome};
pub use program::{MemoryArgument, Program};
pub use reloading::Reread;
pub(crate) use sandboxes::monotonic_ns;
use sandboxes::{Happening, Sandboxes};
use sealing::Sealing;
use waits::{end_of, until};

/// What a supervisor is started with.
#[derive(Debug)]
pub struct Parts {
    /// The effective configuration.
    pub config: Config,
    /// The bound socket of the API.
    pub listener: std::net::TcpListener,
    /// The bound socket that sends clients there.
    pub redirect: Option<std::net::TcpListener>,
    /// The bound socket of metrics; none: they are not served on an address of their own.
    pub metrics: Option<std::net::TcpListener>,
    /// What can be run.
    pub programs: Vec<Program>,
    /// The levels whose sandboxes a container runtime makes.
    pub containers: Vec<(SandboxMode, sandbox::oci::Runtime)>,
    /// The walls of a sandbox that this host gives.
    pub isolation: Report,
    /// The files that say who is let in, and what the listener shows.
    pub sources: Vec<Source>,
    /// How the settings are read once more; none: they stay as they are.
    pub reread: Option<Reread>,
    /// What is called outside, if anything is.
    pub order: Option<Order>,
    /// The part of the data directory that belongs to the gateway.
    pub store: StoreRoot,
    /// The first of the users of this server, where it may use users of its own.
    pub base_uid: Option<u32>,
    /// A pipe at whose end the server ends at once, without draining: nobody is left whom it serves.
    pub leash: Option<OwnedFd>,
}

/// The shortest time between two starts of a gateway that keeps dying.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// How often deadlines are looked at and emptied cgroups removed.
const TICK: Duration = Duration::from_millis(250);

/// Runs until SIGTERM or SIGINT, then drains; or until the leash ends. Returns when every sandbox is gone.
///
/// # Errors
/// See [`SupervisorError`]; after the first start of the gateway its loss is no error but a restart.
pub async fn run(mut parts: Parts) -> Result<(), SupervisorError> {
    let leash = parts.leash.take();
    let mut supervisor = Supervisor::new(parts)?;
    let outcome = tokio::select! {
        outcome = supervisor.serve() => outcome,
        () = end_of(leash) => {
            supervisor.end_gateway().await;
            Ok(())
        }
    };
    supervisor.sandboxes.kill_all().await;
    outcome
}

struct Supervisor {
    parts: Parts,
    sandboxes: Sandboxes,
    sealing: Sealing,
    lending: Lending,
    calling: Option<Calling>,
    gateway: Option<Gateway>,
    /// Some gateway has accepted connections.
    is_serving: bool,
    restart_at: Instant,
    reporter: standing::Reporter,
}

enum Wake {
    Stop,
    Reload,
    FromGateway(Result<Vec<ToSupervisor>, LinkError>),
    GatewayGone,
    Sandbox(Happening),
    Keys(OwnedFd),
    LimitsDue,
    SpareWanted,
    Tick,
}

impl Supervisor {
    fn new(mut parts: Parts) -> Result<Self, SupervisorError> {
        let sandboxes = Sandboxes::new(&parts)?;
        let sealing = Sealing::new(&parts.config.data_dir)?;
        let reporter = standing::Reporter::new()?;
        let lending = Lending::new(std::mem::take(&mut parts.sources), &parts.config);
        let lending = lending.map_err(SupervisorError::Lending)?;
        let calling = parts.order.take().map(|order| Calling::new(&order)).transpose()?;
        let restart_at = Instant::now();
        Ok(Self { parts, sandboxes, sealing, lending, calling, gateway: None, is_serving: false, restart_at, reporter })
    }

    async fn serve(&mut self) -> Result<(), SupervisorError> {
        let mut stop = signal(SignalKind::terminate()).map_err(|e| SupervisorError::Io("signal", e))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| SupervisorError::Io("signal", e))?;
        let mut reload = signal(SignalKind::hangup()).map_err(|e| SupervisorError::Io("signal", e))?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.start_gateway()?;
        loop {
            let (due, spare_due) = (self.sandboxes.limits_due(), self.sandboxes.spare_due());
            let wake = tokio::select! {
                biased; // a stop is obeyed, and limits are kept, even when a gateway floods the link
                _ = stop.recv() => Wake::Stop,
                _ = interrupt.recv() => Wake::Stop,
                _ = reload.recv() => Wake::Reload,
                () = until(due) => Wake::LimitsDue,
                _ = tick.tick() => Wake::Tick,
                wake = Gateway::wake(&mut self.gateway) => wake,
                happening = self.sandboxes.next() => Wake::Sandbox(happening),
                keys = Calling::next(&mut self.calling) => Wake::Keys(keys),
                // Last of all: whoever waits for something waits for no interpreter of nobody's.
                () = until(spare_due), if self.is_serving => Wake::SpareWanted,
            };
            match wake {
                Wake::Stop => return self.drain().await,
                Wake::Reload => self.reload(),
                Wake::FromGateway(Ok(messages)) => {
                    messages.into_iter().for_each(|message| self.obey(message));
                    // However much a gateway sends, sandboxes get their turn.
                    if let Some(happening) = self.sandboxes.next().now_or_never() {
                        self.happened(happening);
                    }
                }
                Wake::FromGateway(Err(error)) => self.lose_gateway(&error),
                Wake::GatewayGone => self.gateway_ended(),
                Wake::Sandbox(happening) => self.happened(happening),
                Wake::Keys(keys) => self.take_keys(keys),
                Wake::LimitsDue => self.check_limits(),
                Wake::SpareWanted => self.sandboxes.make_spare(&self.parts),
                Wake::Tick => self.tick()?,
            }
        }
    }

    fn start_gateway(&mut self) -> Result<(), SupervisorError> {
        let (fds, sockets) = self.welcome_fds()?;
        let welcome = Welcome {
            version: VERSION,
            config: self.parts.config.clone(),
            store: StoreRoot { path: self.parts.store.path.clone(), user: self.parts.store.user },
            boot_id: standing::boot_id(),
            interpreters: self.parts.programs.iter().map(|it| (it.language, it.version.clone())).collect(),
            isolation: self.parts.isolation.clone(),
            sealed: self.sealing.last(),
            is_first: self.sealing.is_first_gateway(),
            sockets,
        };
        let mut gateway = Gateway::start()?;
        gateway.send(&ToGateway::Welcome(Box::new(welcome)), fds);
        gateway.lend(self.lending.all());
        gateway.hand_over(self.sandboxes.held());
        gateway.flush(&self.sandboxes);
        tracing::info!(pid = gateway.pid(), sandboxes = self.sandboxes.len(), "gateway started");
        self.gateway = Some(gateway);
        self.restart_at = Instant::now() + RESTART_PAUSE;
        Ok(())
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Hello { version } if version == VERSION => {}
            ToSupervisor::Hello { version } => self.lose_gateway(&LinkError::Version(version)),
            ToSupervisor::Adopted(sandbox) => {
                let news = self.sandboxes.adopted(sandbox);
                if let Some(gateway) = &mut self.gateway {
                    news.into_iter().for_each(|news| gateway.send(&news, Vec::new()));
                    gateway.adopted(sandbox, &self.sandboxes);
                }
            }
            ToSupervisor::Serving => {
                self.is_serving = true;
                let redirect = self.parts.redirect.as_ref().and_then(|it| it.local_addr().ok());
                tracing::info!(listen = ?self.listen(), redirect = redirect.map(tracing::field::display), "serving");
            }
            ToSupervisor::Create(create) => self.create(&create),
            ToSupervisor::Kill(sandbox) => self.sandboxes.kill(sandbox),
            ToSupervisor::LetGo(sandbox) => self.sandboxes.let_go(sandbox),
            ToSupervisor::Watch { sandbox, watch } => self.sandboxes.watch(sandbox, watch),
            ToSupervisor::Measure(sandbox) => {
                let measured = self.sandboxes.measure(sandbox).map(ToGateway::Measured);
                self.tell(measured);
            }
            ToSupervisor::Release(session) => self.sandboxes.release(&session),
            ToSupervisor::KeysWanted => self.calling.iter().for_each(Calling::want_keys),
            ToSupervisor::Seal(head) => {
                let sealed = self.sealing.seal(head);
                self.tell(sealed);
            }
        }
    }

    fn listen(&self) -> Option<SocketAddr> {
        self.parts.listener.local_addr().ok()
    }

    fn create(&mut self, create: &Create) {
        let Some(gateway) = &mut self.gateway else { return };
        let made = match gateway.is_deaf() {
            true => Err(Refusal::Deaf.into()),
            false => self.sandboxes.create(create, &self.parts),
        };
        match made {
            Ok((held, fds)) => gateway.send(&ToGateway::Created { request: create.request, held }, fds),
            Err(error) => {
                tracing::error!(session = %create.session, error = &error as &dyn std::error::Error, "no sandbox");
                gateway.send(&ToGateway::NotCreated { request: create.request, reason: error.to_string() }, Vec::new());
            }
        }
        gateway.flush(&self.sandboxes);
        self.sandboxes.finish_hand_out();
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Exit(sandbox) => {
                let exited = self.sandboxes.ended(sandbox).map(ToGateway::Exited);
                self.tell(exited);
            }
            Happening::Booted(sandbox) => self.sandboxes.spare_booted(sandbox),
            Happening::Calls(watched) => {
                let (round, news) = self.sandboxes.look_at_calls(&watched);
                self.tell(news);
                self.sandboxes.refuse_calls(watched, &round);
            }
        }
    }

    fn check_limits(&mut self) {
        let news = self.sandboxes.check_limits();
        self.tell(news);
    }

    fn tell(&mut self, news: impl IntoIterator<Item = ToGateway>) {
        if let Some(gateway) = &mut self.gateway {
            gateway.tell(news, &self.sandboxes);
        }
    }

    /// A gateway that breaks the rules of the link is ended; what follows is as if it had crashed.
    fn lose_gateway(&mut self, error: &LinkError) {
        if let Some(gateway) = &mut self.gateway {
            if !matches!(error, LinkError::Closed) {
                tracing::error!(error = error as &dyn std::error::Error, "the gateway is ended");
            }
            gateway.kill();
        }
    }

    /// The old gateway has been reaped: only now may a new one read the pipes.
    fn gateway_ended(&mut self) {
        self.gateway = None;
        self.sandboxes.all_unadopted();
        tracing::warn!(sandboxes = self.sandboxes.len(), "gateway is gone; a new one takes over");
        if Instant::now() >= self.restart_at {
            self.restart_or_wait();
        }
    }

    fn restart_or_wait(&mut self) {
        if let Err(error) = self.start_gateway() {
            tracing::error!(error = &error as &dyn std::error::Error, "the gateway cannot be started; trying again");
            self.restart_at = Instant::now() + RESTART_PAUSE;
        }
    }

    fn tick(&mut self) -> Result<(), SupervisorError> {
        self.sandboxes.sweep();
        self.report();
        let changed = self.lending.changed(&self.parts.config);
        self.lend(changed);
        if self.gateway.is_none() && Instant::now() >= self.restart_at {
            self.restart_or_wait();
        }
        Ok(())
    }

    async fn end_gateway(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            gateway.kill();
            gateway.ended().await;
        }
    }
}
