//! The gateway process: the only file that knows everyone in it. Gives up its privilege, builds the parts, serves,
//! drains.
//!
//! The supervisor starts it as `repltool gateway` with the link as its standard input. It is not meant for people.

mod audited;
mod calls;
mod trust;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alerts::Alerts;
use crate::config;
use crate::edge::capabilities::{self, Host};
use crate::edge::{Edge, EdgeConfig, Redirect};
use crate::metrics::{Facts, Metrics};
use crate::outbound::{Outbound, Target};
use crate::sandbox::probe::{Report, Tier};
use crate::sandbox::{confine, reduced};
use crate::session::log::Tail;
use crate::session::registry::Registry;
use crate::store::Store;
use crate::supervisor::handle::{Delivered, Notice, SupervisorHandle};
use crate::supervisor::lending::Loan;
use crate::supervisor::link::{
    self, FDS_PER_SESSION, LinkError, MAX_PACKET_BYTES, Socket, StoreRoot, ToGateway, VERSION, Welcome,
};
use crate::{telemetry, traces};

use calls::Calls;
use trust::Trust;

/// Notices of the supervisor that wait to be read.
const NOTICES: usize = 64;
/// How often it is seen how late a turn comes.
const TURN: Duration = Duration::from_millis(500);
/// Threads that serve connections; the work is short and never blocks for long.
const MAX_WORKERS: usize = 8;

/// Runs until the supervisor says drain, or is gone.
pub fn run() -> ExitCode {
    match prepare().and_then(|prepared| prepared.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the gateway ends: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A gateway that has given up its privilege and has started no thread yet.
struct Prepared {
    link: OwnedFd,
    welcome: Box<Welcome>,
    sockets: Sockets,
    root: PathBuf,
    /// Spans to be sent; none: no traces are taken.
    spans: Option<traces::Exporter>,
}

/// What came with the welcome.
struct Sockets {
    api: OwnedFd,
    /// What the supervisor tells.
    standing: File,
    others: Vec<(Socket, OwnedFd)>,
}

impl Sockets {
    fn take(&mut self, which: Socket) -> Option<OwnedFd> {
        let at = self.others.iter().position(|(socket, _)| *socket == which)?;
        Some(self.others.swap_remove(at).1)
    }
}

fn prepare() -> anyhow::Result<Prepared> {
    let link = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).context("the link is not on standard input")?;
    let (welcome, sockets) = receive_welcome(&link)?;
    let (layer, spans) = begin_traces(&welcome.config.traces).unzip();
    telemetry::init_beside(layer, &welcome.config.log).context("the log cannot be installed")?;
    let root = confine(&welcome).context("the gateway cannot be confined")?;
    Ok(Prepared { link, welcome, sockets, root, spans })
}

/// Without an address to send them to, no traces are taken.
fn begin_traces(settings: &config::Traces) -> Option<(telemetry::OtherLayer, traces::Exporter)> {
    settings.otlp_url.as_ref().map(|_| traces::begin(settings.sample_ratio.share()))
}

fn confine(welcome: &Welcome) -> anyhow::Result<PathBuf> {
    let StoreRoot { path, user } = &welcome.store;
    Ok(match (welcome.isolation.tier, user) {
        (Tier::C, Some(user)) => reduced::confine_gateway(path, *user)?,
        _ => confine::gateway(path, *user)?,
    })
}

/// The first message, before there is a runtime: giving up privilege counts for one thread only.
fn receive_welcome(link: &OwnedFd) -> anyhow::Result<(Box<Welcome>, Sockets)> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    loop {
        poll(&mut [PollFd::new(link, PollFlags::IN)], None).context("the link cannot be read")?;
        match link::receive(link.as_fd(), &mut buffer) {
            Ok((ToGateway::Welcome(welcome), fds)) if welcome.version == VERSION => {
                let mut fds = fds.into_iter();
                let api = fds.next().context("the listening socket is missing")?;
                let standing = fds.next().context("the page of the supervisor is missing")?.into();
                let others: Vec<_> = welcome.sockets.iter().copied().zip(fds).collect();
                ensure!(others.len() == welcome.sockets.len(), "a socket is missing");
                return Ok((welcome, Sockets { api, standing, others }));
            }
            Ok(_) => bail!("the supervisor speaks another version"),
            Err(error) if link::would_block(&error) => {}
            Err(error) => return Err(error).context("the link failed"),
        }
    }
}

impl Prepared {
    fn serve(self) -> anyhow::Result<()> {
        let workers = std::thread::available_parallelism().map_or(2, usize::from).min(MAX_WORKERS);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        runtime.block_on(self.serve_in_runtime())
    }

    async fn serve_in_runtime(self) -> anyhow::Result<()> {
        let Self { link, welcome, mut sockets, root, spans } = self;
        let config = &welcome.config;
        let (redirect, metrics_socket) = (sockets.take(Socket::Redirect), sockets.take(Socket::Metrics));
        let calls_socket = sockets.take(Socket::Calls);
        let (notice, mut notices) = mpsc::channel(NOTICES);
        let (supervisor, link) = SupervisorHandle::new(link::register(link, Interest::READABLE)?, notice);
        let tasks = TaskTracker::new();
        let (lost, mut link_lost) = oneshot::channel();
        tasks.spawn(async move { lost.send(link.await) });

        let (kernels, loans) = take_over(&mut notices).await?;
        let trust = Trust::new(config, loans)?;
        let store = Store::open(&root.join("store.sqlite")).context("the store cannot be opened")?;
        let metrics = Metrics::new(facts(&welcome, sockets.standing));
        let (outbound, queues) = Outbound::new(|target| match target {
            Target::Webhook => config.alerts.webhook_url.is_some(),
            Target::Traces => config.traces.otlp_url.is_some(),
        });
        let calls = calls_socket.map(|link| Calls::begin(link, queues, metrics.clone(), &tasks));
        let alerts = Arc::new(Alerts::new(config.alerts.clone(), metrics.clone(), outbound.clone()));
        let security = alerts.live();
        let audit =
            audited::start(&welcome, &root, &supervisor, &tasks, alerts).context("the audit log cannot be started")?;
        let registry = Registry::new(config, &root, store.clone(), supervisor.clone(), audit.clone(), metrics.clone())?;
        let mark = RunMark::new(&root, &welcome.boot_id);
        registry.take_up(kernels, mark.tail()).await.context("sessions cannot be taken up")?;
        mark.begin().context("the store cannot be marked")?;
        registry.prepare(welcome.interpreters.iter().map(|(language, _)| *language));
        let quotas = registry.quotas();
        tasks.spawn(async move { quotas.keep().await });

        let edge_config = edge_config(&welcome, &trust);
        let edge = Edge::new(edge_config, trust.auth(), registry.clone(), audit.clone(), security, metrics.clone());
        let (live, drain) = (edge.live(), CancellationToken::new());
        if let Some(listener) = metrics_socket {
            tasks.spawn(edge.serve_metrics(tcp_listener(listener)?, drain.clone()));
        }
        let listener = tcp_listener(sockets.api)?;
        let port = listener.local_addr().map_or(0, |address| address.port());
        if let (Some(socket), Some(redirect)) = (redirect, Redirect::new(&config.edge, port)) {
            tasks.spawn(redirect.serve(tcp_listener(socket)?, drain.clone()));
        }
        let no_more_spans = CancellationToken::new();
        let exported =
            spans.map(|spans| tasks.spawn(spans.run(no_more_spans.clone(), metrics.clone(), outbound.clone())));
        tasks.spawn(watch_turns(metrics));
        let serve = edge.serve(listener, drain.clone());
        supervisor.serving();
        tokio::pin!(serve);
        let mut deadline = Instant::now();
        loop {
            tokio::select! {
                () = &mut serve => break,
                error = &mut link_lost => match error {
                    Ok(LinkError::Closed) | Err(_) => bail!("the supervisor is gone"),
                    Ok(error) => return Err(error).context("the link failed"),
                },
                () = trust.missed() => supervisor.want_keys(),
                notice = notices.recv() => match notice {
                    Some(Notice::Drain) => {
                        registry.refuse();
                        drain.cancel();
                        deadline = Instant::now() + Duration::from_secs(config.edge.drain_s);
                    }
                    Some(Notice::Lent(what, memory)) => trust.take(what, memory),
                    Some(Notice::Configured(config)) => {
                        crate::telemetry::set_level(config.log.level);
                        live.apply(&config);
                        audited::configured(&audit, &config);
                    }
                    Some(Notice::Handover(_) | Notice::HandoverDone) | None => {}
                },
            }
        }
        registry.drain(deadline).await;
        audited::end(&audit).await;
        store.close().await;
        no_more_spans.cancel();
        if let Some(exported) = exported {
            exported.await.context("the last spans are lost")?;
        }
        if let Some(calls) = calls {
            calls.finish().await;
        }
        mark.end().context("the store cannot be marked")
    }
}

/// Sandboxes that live on from before this gateway, and what is lent to it.
async fn take_over(notices: &mut mpsc::Receiver<Notice>) -> anyhow::Result<(Vec<Delivered>, Vec<Loan>)> {
    let (mut kernels, mut loans) = (Vec::new(), Vec::new());
    loop {
        match notices.recv().await {
            Some(Notice::Handover(delivered)) => kernels.push(*delivered),
            Some(Notice::Lent(what, memory)) => loans.push((what, memory)),
            Some(Notice::HandoverDone) => return Ok((kernels, loans)),
            // What there is to say of it is in the welcome.
            Some(Notice::Configured(_)) => {}
            Some(Notice::Drain) => bail!("drained before it began"),
            None => bail!("the supervisor is gone"),
        }
    }
}

fn edge_config(welcome: &Welcome, trust: &Trust) -> EdgeConfig {
    let config = &welcome.config;
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    // What sessions leave is for connections.
    let for_sessions = u64::try_from(config.sessions.max).unwrap_or(u64::MAX).saturating_mul(FDS_PER_SESSION);
    let for_connections = open_files.saturating_sub(for_sessions).clamp(64, 100_000);
    EdgeConfig {
        allowed_hosts: config.edge.allowed_hosts.clone(),
        allowed_origins: config.edge.allowed_origins.clone(),
        trusted_proxies: config.edge.trusted_proxies.clone(),
        proxy_protocol: config.edge.proxy_protocol,
        rates: config.rate_limit.clone(),
        max_sockets_per_subject: config.edge.max_sockets_per_subject,
        tls: trust.tls(),
        header_timeout: Duration::from_secs(config.edge.header_timeout_s),
        body_timeout: Duration::from_secs(config.edge.body_timeout_s),
        max_file_bytes: config.sandbox.disk_mb << 20,
        max_connections: usize::try_from(for_connections).unwrap_or(usize::MAX),
        drain: Duration::from_secs(config.edge.drain_s),
        capabilities: capabilities::describe(config, host(welcome)),
    }
}

fn facts(welcome: &Welcome, standing: File) -> Facts {
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Facts {
        tier: match welcome.isolation.tier {
            Tier::A => "A",
            Tier::B => "B",
            Tier::C => "C",
            Tier::None => "none",
        },
        max_sessions: welcome.config.sessions.max,
        max_log_bytes: welcome.config.store.total_mb << 20,
        max_open_files: open_files.unwrap_or(u64::MAX),
        standing: Some(standing),
    }
}

/// Asks for a turn again and again, and counts how late it comes: what everybody else waits, too.
async fn watch_turns(metrics: Metrics) {
    let mut due = Instant::now();
    loop {
        due = due.max(Instant::now()) + TURN;
        tokio::time::sleep_until(due).await;
        metrics.delayed(due.elapsed());
    }
}

fn host(welcome: &Welcome) -> Host {
    let Report { tier, layers } = &welcome.isolation;
    Host {
        interpreters: welcome.interpreters.clone(),
        tier: format!("{tier:?}"),
        layers: layers.iter().map(|layer| (layer.name.clone(), layer.active)).collect(),
    }
}

fn tcp_listener(listener: OwnedFd) -> std::io::Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Tells whether the end of the logs can be trusted: it can unless the machine went down since they were written.
struct RunMark {
    path: PathBuf,
    boot_id: String,
}

impl RunMark {
    fn new(root: &Path, boot_id: &str) -> Self {
        Self { path: root.join("running"), boot_id: boot_id.to_owned() }
    }

    /// A mark of this boot: only processes died, and Linux kept what they wrote. No mark: an orderly end.
    fn tail(&self) -> Tail {
        match std::fs::read_to_string(&self.path) {
            Ok(boot_id) if boot_id == self.boot_id => Tail::Trusted,
            Ok(_) => Tail::Doubtful,
            Err(_) => Tail::Trusted,
        }
    }

    /// A mark that stands is left: written anew it would be empty for a moment, and a death in it would make every log
    /// doubtful.
    fn begin(&self) -> std::io::Result<()> {
        if std::fs::read_to_string(&self.path).is_ok_and(|boot_id| boot_id == self.boot_id) {
            return Ok(());
        }
        std::fs::write(&self.path, &self.boot_id)?;
        std::fs::File::open(&self.path)?.sync_all()
    }

    /// Everything is written out before the mark goes.
    fn end(&self) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            rustix::fs::syncfs(std::fs::File::open(folder)?)?;
        }
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_stands_is_not_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = RunMark::new(folder.path(), "this boot");
        assert_eq!(mark.tail(), Tail::Trusted, "an orderly end");
        mark.begin().expect("marked");
        let file = std::fs::File::options().write(true).open(&mark.path).expect("a file");
        file.set_modified(std::time::UNIX_EPOCH).expect("an old file");
        mark.begin().expect("marked");
        assert_eq!(file.metadata().and_then(|it| it.modified()).expect("a time"), std::time::UNIX_EPOCH);
        assert_eq!(mark.tail(), Tail::Trusted, "only processes died");
        let next = RunMark::new(folder.path(), "the next boot");
        assert_eq!(next.tail(), Tail::Doubtful);
        next.begin().expect("marked");
        assert_eq!((next.tail(), mark.tail()), (Tail::Trusted, Tail::Doubtful));
    }
}
