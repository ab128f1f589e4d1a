//! The process that calls outside as the supervisor sees it: started where something is to be called, and again when it
//! dies. What it brings is a descriptor here, which is lent on and not looked into.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::link::{self, Lent, LinkError, MAX_PACKET_BYTES};
use super::{Supervisor, SupervisorError, child};
use crate::outbound::link::{FromCaller, Order, ToCaller};

/// The shortest time between two starts.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// How long what is still to be sent may take at the end of the server.
const FINISHING: Duration = Duration::from_secs(2);

/// That process, or the time at which there will be one.
pub(super) struct Calling {
    /// What it is to do, as it is sent.
    order: OwnedFd,
    /// The two ends of its link with the gateway. They stay open here, so that either may die and what lies in the link
    /// waits for the next one.
    for_gateway: OwnedFd,
    for_caller: OwnedFd,
    running: Option<Caller>,
    start_at: Instant,
}

struct Caller {
    child: Child,
    link: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

impl Calling {
    /// Starts nothing yet.
    pub(super) fn new(order: &Order) -> Result<Self, SupervisorError> {
        let io = |what| move |error| SupervisorError::Io(what, error);
        let bytes = serde_json::to_vec(order).map(Zeroizing::new);
        let bytes = bytes.map_err(|error| io("an order to call outside")(error.into()))?;
        let order = link::lend(&bytes).map_err(io("memfd_create"))?;
        let (for_gateway, for_caller) = child::pair().map_err(io("socketpair"))?;
        Ok(Self { order, for_gateway, for_caller, running: None, start_at: Instant::now() })
    }

    /// The end of the link for a new gateway.
    pub(super) fn for_gateway(&self) -> io::Result<OwnedFd> {
        self.for_gateway.try_clone()
    }

    /// Asks for the keys to be fetched.
    pub(super) fn want_keys(&self) {
        let Some(caller) = &self.running else { return };
        let sent =
            link::encode(&ToCaller::KeysWanted).and_then(|it| link::send(caller.link.get_ref().as_fd(), &it, &[]));
        // One that lets so much lie has been asked already.
        if let Err(error) = sent {
            tracing::debug!(error = &error as &dyn std::error::Error, "keys are not asked for");
        }
    }

    /// Has what lies in the link sent, after the last gateway. What takes longer than [`FINISHING`] is lost.
    pub(super) async fn finish(&mut self) {
        let Some(caller) = &mut self.running else { return };
        let sent = link::encode(&ToCaller::Finish).and_then(|it| link::send(caller.link.get_ref().as_fd(), &it, &[]));
        if sent.is_err() || tokio::time::timeout(FINISHING, caller.child.wait()).await.is_err() {
            tracing::warn!("not all that was to be sent outside was sent before the end");
        }
    }

    /// The next set of keys; for ever nothing if nothing is called. Starts the process anew when it has ended.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub(super) async fn next(calling: &mut Option<Self>) -> OwnedFd {
        let Some(calling) = calling else { return std::future::pending().await };
        loop {
            let Some(caller) = &mut calling.running else {
                tokio::time::sleep_until(calling.start_at).await;
                calling.start_at = Instant::now() + RESTART_PAUSE;
                match calling.start() {
                    Ok(caller) => calling.running = Some(caller),
                    Err(error) => tracing::error!(%error, "the process that calls outside cannot be started"),
                }
                continue;
            };
            match caller.keys().await {
                Some(keys) => return keys,
                None => {
                    // Dropped, it is killed and reaped.
                    calling.running = None;
                    tracing::warn!("the process that calls outside is gone; another one takes its place");
                }
            }
        }
    }

    fn start(&self) -> io::Result<Caller> {
        let (near, far) = child::pair()?;
        let child = child::start("outbound", far)?;
        let start = link::encode(&ToCaller::Start).map_err(io::Error::other)?;
        let fds = [self.order.as_fd(), self.for_caller.as_fd()];
        link::send(near.as_fd(), &start, &fds).map_err(io::Error::other)?;
        Ok(Caller { child, link: link::register(near, Interest::READABLE)?, buffer: vec![0; MAX_PACKET_BYTES] })
    }
}

impl Supervisor {
    /// The keys that were fetched are those of every gateway from now on.
    pub(super) fn take_keys(&mut self, keys: OwnedFd) {
        let loan = self.lending.add(Lent::PublicKeys, keys);
        self.lend(loan);
    }
}

impl Caller {
    /// The next set of keys; none at its end, or when it breaks the rules of the link.
    async fn keys(&mut self) -> Option<OwnedFd> {
        loop {
            let mut ready = tokio::select! {
                _ = self.child.wait() => return None,
                ready = self.link.readable() => ready.ok()?,
            };
            match link::receive(self.link.get_ref().as_fd(), &mut self.buffer) {
                Ok((FromCaller::Keys, fds)) => return <[OwnedFd; 1]>::try_from(fds).ok().map(|[keys]| keys),
                Err(error) if link::would_block(&error) => ready.clear_ready(),
                Err(LinkError::Closed) => return None,
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "the process that calls outside is ended"
                    );
                    return None;
                }
            }
        }
    }
}
