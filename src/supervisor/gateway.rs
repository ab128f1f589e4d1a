//! The gateway as the supervisor sees it: a child process, and the near end of the link to it.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::time::Instant;

use super::lending::Loan;
use super::link::{self, HANDOVER_WINDOW, LinkError, MAX_PACKET_BYTES, SandboxId, ToGateway, ToSupervisor};
use super::sandboxes::Sandboxes;
use super::{Wake, child};

/// Packets read before other things get their turn.
const BATCH: usize = 64;
/// Packets that may wait for a gateway to read: as many as one keeps for the supervisor. One that lets more lie is ended.
const OUTBOX: usize = 65_536;
/// Of these, packets with descriptors. While there are more, no sandbox is made.
const OUTBOX_WITH_FDS: usize = 64;
/// How long a gateway may live on after it has closed the link.
const CLOSED_GRACE: Duration = Duration::from_secs(1);

/// Why no gateway could be started.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// No socket pair.
    #[error("the link to the gateway cannot be made")]
    Link(#[source] io::Error),
    /// No process.
    #[error("the gateway process cannot be started")]
    Spawn(#[source] io::Error),
}

/// A running gateway.
///
/// The outbox holds what the socket had no room for: from a gateway that reads, an answer for each request in flight, one
/// end for each sandbox, and [`HANDOVER_WINDOW`] handovers. It is bounded against one that does not.
pub(super) struct Gateway {
    child: Child,
    link: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
    outbox: Outbox,
    to_hand_over: VecDeque<SandboxId>,
    in_handover: HashSet<SandboxId>,
    handover_told: bool,
    /// Since when nothing is read from it any more: it has closed the link, or it was killed.
    ending_since: Option<Instant>,
}

impl Gateway {
    /// Starts this program again as the gateway; the link is its standard input.
    pub(super) fn start() -> Result<Self, GatewayError> {
        let (near, far) = child::pair().map_err(GatewayError::Link)?;
        let child = child::start("gateway", far).map_err(GatewayError::Spawn)?;
        let link = link::register(near, Interest::READABLE | Interest::WRITABLE).map_err(GatewayError::Link)?;
        Ok(Self {
            child,
            link,
            buffer: vec![0; MAX_PACKET_BYTES],
            outbox: Outbox::default(),
            to_hand_over: VecDeque::new(),
            in_handover: HashSet::new(),
            handover_told: false,
            ending_since: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Whether it lets so much lie that it is to be given nothing more that holds descriptors.
    pub(super) fn is_deaf(&self) -> bool {
        self.outbox.with_fds > OUTBOX_WITH_FDS
    }

    /// Puts a message into the outbox. What comes when that is full is dropped: the gateway is ended for it.
    pub(super) fn send(&mut self, message: &ToGateway, fds: Vec<OwnedFd>) {
        match link::encode(message) {
            Ok(_) if self.outbox.is_full() => {}
            Ok(packet) => self.outbox.push(packet, fds),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a message to the gateway is lost"),
        }
    }

    /// Puts what is lent into the outbox.
    pub(super) fn lend(&mut self, loans: Vec<Loan>) {
        loans.into_iter().for_each(|(what, memory)| self.send(&ToGateway::Lent(what), vec![memory]));
    }

    /// Sends messages without descriptors.
    pub(super) fn tell(&mut self, news: impl IntoIterator<Item = ToGateway>, sandboxes: &Sandboxes) {
        news.into_iter().for_each(|news| self.send(&news, Vec::new()));
        self.flush(sandboxes);
    }

    /// Queues sandboxes that were there before this gateway.
    pub(super) fn hand_over(&mut self, sandboxes: Vec<SandboxId>) {
        self.to_hand_over.extend(sandboxes);
    }

    /// A handed-over sandbox was taken over: the next may go.
    pub(super) fn adopted(&mut self, sandbox: SandboxId, sandboxes: &Sandboxes) {
        self.in_handover.remove(&sandbox);
        self.flush(sandboxes);
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, sandboxes: &Sandboxes) {
        self.fill_window(sandboxes);
        self.outbox.write_to(self.link.as_fd());
    }

    fn fill_window(&mut self, sandboxes: &Sandboxes) {
        while self.in_handover.len() < HANDOVER_WINDOW {
            let Some(sandbox) = self.to_hand_over.pop_front() else { break };
            if let Some((held, fds)) = sandboxes.hand_over(sandbox) {
                self.send(&ToGateway::Handover(held), fds);
                self.in_handover.insert(sandbox);
            }
        }
        if self.to_hand_over.is_empty() && !self.handover_told {
            self.handover_told = true;
            self.send(&ToGateway::HandoverDone, Vec::new());
        }
    }

    /// What the gateway does next; never ends while there is none.
    pub(super) async fn wake(gateway: &mut Option<Self>) -> Wake {
        match gateway {
            Some(gateway) => gateway.next().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for messages or for the end of the process. Cancel-safe.
    pub(super) async fn next(&mut self) -> Wake {
        if let Some(since) = self.ending_since {
            return self.end_after(since + CLOSED_GRACE).await;
        }
        if self.outbox.is_full() {
            let deaf = io::Error::other("the gateway does not read what it is told");
            return Wake::FromGateway(Err(LinkError::Io(deaf)));
        }
        let interest =
            if self.outbox.packets.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        loop {
            let mut guard = tokio::select! {
                biased; // the end of the process outranks what it left on the link
                _ = self.child.wait() => return Wake::GatewayGone,
                guard = self.link.ready(interest) => match guard {
                    Ok(guard) => guard,
                    Err(error) => return Wake::FromGateway(Err(LinkError::Io(error))),
                },
            };
            if guard.ready().is_writable() && !self.outbox.write_to(guard.get_inner().as_fd()) {
                guard.clear_ready_matching(tokio::io::Ready::WRITABLE);
            }
            let mut messages: Vec<ToSupervisor> = Vec::new();
            // To make a sandbox takes so long that limits are looked at after each.
            while messages.len() < BATCH && !matches!(messages.last(), Some(ToSupervisor::Create(_))) {
                match link::receive(guard.get_inner().as_fd(), &mut self.buffer) {
                    Ok((message, fds)) if fds.is_empty() => messages.push(message),
                    Ok(_) => return Wake::FromGateway(Err(LinkError::Descriptors)),
                    Err(error) if link::would_block(&error) => {
                        guard.clear_ready_matching(tokio::io::Ready::READABLE);
                        break;
                    }
                    Err(LinkError::Closed) if messages.is_empty() => {
                        drop(guard);
                        let since = *self.ending_since.insert(Instant::now());
                        return self.end_after(since + CLOSED_GRACE).await;
                    }
                    // An empty packet looks the same, and comes only once.
                    Err(LinkError::Closed) => {
                        self.ending_since.get_or_insert_with(Instant::now);
                        break;
                    }
                    Err(error) => return Wake::FromGateway(Err(error)),
                }
            }
            if !messages.is_empty() {
                return Wake::FromGateway(Ok(messages));
            }
        }
    }

    /// Waits for the end of the process, which is ended if it does not come by then.
    async fn end_after(&mut self, patience: Instant) -> Wake {
        if tokio::time::timeout_at(patience, self.child.wait()).await.is_err() {
            self.kill();
            self.ended().await;
        }
        Wake::GatewayGone
    }

    /// Ends the process at once; [`Wake::GatewayGone`] follows.
    pub(super) fn kill(&mut self) {
        self.ending_since.get_or_insert_with(Instant::now);
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "the gateway had ended already");
        }
    }

    /// Waits for the end of the process.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }
}

/// What the socket had no room for yet, in order.
#[derive(Default)]
struct Outbox {
    packets: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    with_fds: usize,
}

impl Outbox {
    fn is_full(&self) -> bool {
        self.packets.len() >= OUTBOX
    }

    fn push(&mut self, packet: Vec<u8>, fds: Vec<OwnedFd>) {
        self.with_fds += usize::from(!fds.is_empty());
        self.packets.push_back((packet, fds));
    }

    /// Sends until it is empty or the socket is full; says whether it is empty.
    fn write_to(&mut self, link: BorrowedFd<'_>) -> bool {
        while let Some((packet, fds)) = self.packets.front() {
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match link::send(link, packet, &borrowed) {
                Ok(()) => {
                    self.with_fds -= usize::from(!fds.is_empty());
                    self.packets.pop_front();
                }
                Err(error) if link::would_block(&error) => return false,
                // The gateway is gone; that is told by the end of its process.
                Err(_) => *self = Self::default(),
            }
        }
        true
    }
}
