//! The process that calls the addresses outside that the operator has named, and no other: fetches the keys of an issuer,
//! posts webhooks and traces.
//!
//! The supervisor starts it as `repltool outbound` with a link as its standard input, and sends it all that it needs. Then
//! it gives up everything but that ([`confine::caller`]). It is not meant for people.
//!
//! ```text
//!   supervisor ── order, "keys wanted" ──▶ caller ◀── posts ── gateway
//!        ▲                                  │  │                 ▲
//!        └────────── keys ──────────────────┘  └──── outcomes ───┘
//! ```

mod keys;
mod posts;
mod request;
mod sign;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::outbound::link::{Called, Ended, MAX_ORDER_BYTES, Order, Outcome, ToCaller};
use crate::sandbox::confine;
use crate::supervisor::link::{self, LinkError, MAX_PACKET_BYTES, borrowed, lend};

use request::{Client, Site};

/// Runs until the supervisor is gone, or says that the server ends.
pub fn run() -> ExitCode {
    match begin() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the process that calls outside ends: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn begin() -> anyhow::Result<()> {
    let supervisor =
        rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).context("the link is not on standard input")?;
    let (order, gateway) = receive_order(&supervisor)?;
    crate::telemetry::init(&order.log).context("the log cannot be installed")?;
    let sites = Sites::of(&order)?;
    confine::caller(order.user, &sites.ports()).context("it cannot be confined")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(call(order, sites, supervisor, gateway))
}

/// The addresses, read.
struct Sites {
    keys: Option<Site>,
    webhook: Option<Site>,
    traces: Option<Site>,
}

impl Sites {
    fn of(order: &Order) -> anyhow::Result<Self> {
        let site = |url: Option<&str>| url.map(Site::parse).transpose();
        Ok(Self {
            keys: site(order.keys.as_ref().map(|it| &*it.url)).context("auth.jwks_url")?,
            webhook: site(order.webhook.as_ref().map(|it| &*it.url)).context("alerts.webhook_url")?,
            traces: site(order.traces.as_deref()).context("traces.otlp_url")?,
        })
    }

    fn ports(&self) -> Vec<u16> {
        [&self.keys, &self.webhook, &self.traces].into_iter().flatten().map(Site::port).collect()
    }
}

fn receive_order(supervisor: &OwnedFd) -> anyhow::Result<(Order, OwnedFd)> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    loop {
        poll(&mut [PollFd::new(supervisor, PollFlags::IN)], None).context("the link cannot be read")?;
        match link::receive(supervisor.as_fd(), &mut buffer) {
            Ok((ToCaller::Start, fds)) => {
                let Ok([order, gateway]) = <[OwnedFd; 2]>::try_from(fds) else { bail!("a descriptor is missing") };
                let order = borrowed(order, MAX_ORDER_BYTES).context("the order cannot be read")?;
                return Ok((serde_json::from_slice(&order).context("the order cannot be read")?, gateway));
            }
            Ok((ToCaller::KeysWanted | ToCaller::Finish, _)) => bail!("there is no order"),
            Err(error) if link::would_block(&error) => {}
            Err(error) => return Err(error).context("the link failed"),
        }
    }
}

async fn call(order: Order, sites: Sites, supervisor: OwnedFd, gateway: OwnedFd) -> anyhow::Result<()> {
    let client = Client::new(&order).context("connections cannot be made")?;
    let gateway = Gateway(Arc::new(link::register(gateway, Interest::READABLE)?));
    let supervisor = link::register(supervisor, Interest::READABLE | Interest::WRITABLE)?;
    let (wanted, finish) = (Notify::new(), CancellationToken::new());
    let Sites { keys, webhook, traces } = sites;
    let fetching = async {
        match (keys, &order.keys) {
            (Some(site), Some(keys)) => {
                keys::fetch_for_ever(&client, &site, keys, &wanted, &gateway, &supervisor).await
            }
            _ => std::future::pending().await,
        }
    };
    let secret = order.webhook.as_ref().map(|it| Zeroizing::new(it.secret.clone()));
    let posting = posts::serve(&client, &gateway, webhook.zip(secret), traces, &finish);
    tokio::select! {
        outcome = listen(&supervisor, &wanted, &finish) => outcome,
        outcome = fetching => outcome,
        outcome = posting => outcome,
    }
}

/// Hears the supervisor until it is gone.
async fn listen(supervisor: &AsyncFd<OwnedFd>, wanted: &Notify, finish: &CancellationToken) -> anyhow::Result<()> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    loop {
        let mut ready = supervisor.readable().await.context("the link cannot be read")?;
        match link::receive(supervisor.get_ref().as_fd(), &mut buffer) {
            Ok((ToCaller::KeysWanted, _)) => wanted.notify_one(),
            Ok((ToCaller::Finish, _)) => finish.cancel(),
            Ok((ToCaller::Start, _)) => bail!("a second order"),
            Err(error) if link::would_block(&error) => ready.clear_ready(),
            Err(LinkError::Closed) => return Ok(()),
            Err(error) => return Err(error).context("the link failed"),
        }
    }
}

/// The link with the gateway. There may be none at its other end for a while: then posts wait in it.
#[derive(Clone)]
struct Gateway(Arc<AsyncFd<OwnedFd>>);

impl Gateway {
    /// Tells how a call has ended. What the link has no room for is not counted.
    fn tell(&self, called: Called, ended: Ended) {
        let packet = link::encode(&Outcome { called, ended });
        let sent = packet.and_then(|packet| link::send(self.0.get_ref().as_fd(), &packet, &[]));
        if let Err(error) = sent {
            tracing::debug!(error = &error as &dyn std::error::Error, "the gateway is not told of a call");
        }
    }

    /// The next packet.
    async fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            match self.try_receive(buffer)? {
                Some(bytes) => return Ok(bytes),
                None => ready.clear_ready(),
            }
        }
    }

    /// The next packet, if it is there.
    fn try_receive(&self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        match rustix::net::recv(self.0.get_ref(), buffer, rustix::net::RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends a set of keys to the supervisor.
async fn send_keys(supervisor: &AsyncFd<OwnedFd>, set: &[u8]) -> anyhow::Result<()> {
    let memory = lend(set).context("the keys cannot be lent")?;
    let packet = link::encode(&crate::outbound::link::FromCaller::Keys)?;
    loop {
        let mut ready = supervisor.writable().await.context("the link cannot be written")?;
        match link::send(supervisor.get_ref().as_fd(), &packet, &[memory.as_fd()]) {
            Err(error) if link::would_block(&error) => ready.clear_ready(),
            outcome => return outcome.context("the link failed"),
        }
    }
}
