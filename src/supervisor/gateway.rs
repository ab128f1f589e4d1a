//! The gateway as the supervisor sees it: a child process, and the near end of the link to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

use super::Wake;
use super::link::{self, HANDOVER_WINDOW, LinkError, MAX_PACKET_BYTES, SandboxId, ToGateway, ToSupervisor};
use super::sandboxes::Sandboxes;

/// Packets read before other things get their turn.
const BATCH: usize = 64;

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
/// The outbox holds what the socket had no room for. It is bounded by what can be outstanding: an answer for each
/// request in flight, one end for each sandbox, and [`HANDOVER_WINDOW`] handovers.
pub(super) struct Gateway {
    child: Child,
    link: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
    outbox: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    to_hand_over: VecDeque<SandboxId>,
    in_handover: usize,
    handover_told: bool,
}

impl Gateway {
    /// Starts this program again as the gateway; the link is its standard input.
    pub(super) fn start() -> Result<Self, GatewayError> {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
                .map_err(|e| GatewayError::Link(e.into()))?;
        let child = Command::new("/proc/self/exe")
            .arg("gateway")
            .arg0("repltool")
            .env_clear()
            .stdin(Stdio::from(far))
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(GatewayError::Spawn)?;
        let link = link::register(near).map_err(GatewayError::Link)?;
        Ok(Self {
            child,
            link,
            buffer: vec![0; MAX_PACKET_BYTES],
            outbox: VecDeque::new(),
            to_hand_over: VecDeque::new(),
            in_handover: 0,
            handover_told: false,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Puts a message into the outbox.
    pub(super) fn send(&mut self, message: &ToGateway, fds: Vec<OwnedFd>) {
        match link::encode(message) {
            Ok(packet) => self.outbox.push_back((packet, fds)),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a message to the gateway is lost"),
        }
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
    pub(super) fn adopted(&mut self, sandboxes: &Sandboxes) {
        self.in_handover = self.in_handover.saturating_sub(1);
        self.flush(sandboxes);
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, sandboxes: &Sandboxes) {
        self.fill_window(sandboxes);
        write_out(self.link.as_fd(), &mut self.outbox);
    }

    fn fill_window(&mut self, sandboxes: &Sandboxes) {
        while self.in_handover < HANDOVER_WINDOW {
            let Some(sandbox) = self.to_hand_over.pop_front() else { break };
            if let Some((held, fds)) = sandboxes.hand_over(sandbox) {
                self.send(&ToGateway::Handover(held), fds);
                self.in_handover += 1;
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
        let interest =
            if self.outbox.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        loop {
            let mut guard = tokio::select! {
                biased; // the end of the process outranks what it left on the link
                _ = self.child.wait() => return Wake::GatewayGone,
                guard = self.link.ready(interest) => match guard {
                    Ok(guard) => guard,
                    Err(error) => return Wake::FromGateway(Err(LinkError::Io(error))),
                },
            };
            if guard.ready().is_writable() && !write_out(guard.get_inner().as_fd(), &mut self.outbox) {
                guard.clear_ready_matching(tokio::io::Ready::WRITABLE);
            }
            let mut messages: Vec<(ToSupervisor, Vec<OwnedFd>)> = Vec::new();
            while messages.len() < BATCH {
                match link::receive(guard.get_inner().as_fd(), &mut self.buffer) {
                    Ok(message) => messages.push(message),
                    Err(error) if link::would_block(&error) => {
                        guard.clear_ready_matching(tokio::io::Ready::READABLE);
                        break;
                    }
                    Err(LinkError::Closed) if messages.is_empty() => {
                        drop(guard);
                        let _ = self.child.wait().await;
                        return Wake::GatewayGone;
                    }
                    Err(LinkError::Closed) => break,
                    Err(error) => return Wake::FromGateway(Err(error)),
                }
            }
            if !messages.is_empty() {
                return Wake::FromGateway(Ok(messages));
            }
        }
    }

    /// Ends the process at once; [`Wake::GatewayGone`] follows.
    pub(super) fn kill(&mut self) {
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "the gateway had ended already");
        }
    }

    /// Waits for the end of the process.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }
}

/// Sends from the outbox until it is empty or the socket is full; says whether it is empty.
fn write_out(link: BorrowedFd<'_>, outbox: &mut VecDeque<(Vec<u8>, Vec<OwnedFd>)>) -> bool {
    while let Some((packet, fds)) = outbox.front() {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        match link::send(link, packet, &borrowed) {
            Ok(()) => drop(outbox.pop_front()),
            Err(error) if link::would_block(&error) => return false,
            // The gateway is gone; that is told by the end of its process.
            Err(_) => outbox.clear(),
        }
    }
    true
}
