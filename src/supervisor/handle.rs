//! The gateway's end of the link: asks the supervisor for sandboxes and hears when they end.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::link::{
    self, Create, Exited, Held, Lent, LinkError, MAX_PACKET_BYTES, Measured, Refused, SandboxFds, SandboxId, ToGateway,
    ToSupervisor, VERSION, Watch, Welcome,
};
use crate::audit::{Head, Seal};
use crate::config::Config;

/// Packets that wait for room on the link. Each session has at most a handful outstanding; past this the supervisor
/// does not answer any more and the gateway gives up.
const OUTBOX: usize = 65_536;
/// News of one sandbox that its holder has not taken yet. What comes when it is full is dropped: a limit comes once for
/// each thing that begins, and measurements as often as they are asked for. A limit of which nobody heard is kept by
/// the supervisor itself.
const NEWS: usize = 64;

/// A sandbox in the gateway's hands.
#[derive(Debug)]
pub struct Delivered {
    /// What it is.
    pub held: Held,
    /// Its descriptors.
    pub fds: SandboxFds,
    /// Told once every process in it is gone; an error if the supervisor is.
    pub exit: oneshot::Receiver<Exited>,
    /// What the supervisor tells of it until then; closed after that.
    pub news: mpsc::Receiver<News>,
}

/// What the supervisor tells of a sandbox that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A limit has struck, see [`ToGateway::Limit`].
    Limit(Limit),
    /// Answers [`SupervisorHandle::measure`].
    Measured(Measured),
    /// Calls were refused, see [`ToGateway::Refused`].
    Refused(Refused),
}

/// Who hears of a sandbox.
#[derive(Debug)]
struct Holder {
    exit: oneshot::Sender<Exited>,
    news: mpsc::Sender<News>,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The supervisor could not make one; what it said.
    #[error("{0}")]
    Refused(String),
    /// The supervisor is gone.
    #[error("the supervisor does not answer")]
    Unreachable,
}

/// Asks the supervisor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: AsyncFd<OwnedFd>,
    outbox: Mutex<VecDeque<Vec<u8>>>,
    outbox_filled: Notify,
    requests: Mutex<HashMap<u64, oneshot::Sender<Result<Delivered, CreateError>>>>,
    holders: Mutex<HashMap<SandboxId, Holder>>,
    next_request: AtomicU64,
    /// The last checkpoint of the audit log that was signed for this gateway.
    sealed: watch::Sender<Option<Seal>>,
}

/// What the gateway process is told beside the answers to its requests.
#[derive(Debug)]
pub enum Notice {
    /// A sandbox from before this gateway.
    Handover(Box<Delivered>),
    /// There are no more of those.
    HandoverDone,
    /// Something of the operator's, see [`ToGateway::Lent`].
    Lent(Lent, OwnedFd),
    /// The settings that are in force from now on.
    Configured(Box<Config>),
    /// Stop in good order.
    Drain,
}

/// Receives the first message on the link.
///
/// # Errors
/// See [`LinkError`]; `Version` if the supervisor is of another version.
pub async fn welcome(socket: &AsyncFd<OwnedFd>) -> Result<(Box<Welcome>, OwnedFd), LinkError> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    let (message, fds) = receive(socket, &mut buffer).await?;
    let ToGateway::Welcome(welcome) = message else { return Err(LinkError::Descriptors) };
    if welcome.version != VERSION {
        return Err(LinkError::Version(welcome.version));
    }
    let listener = fds.into_iter().next().ok_or(LinkError::Descriptors)?;
    Ok((welcome, listener))
}

impl SupervisorHandle {
    /// Takes over the link. The future serves it until the supervisor is gone and must be polled all the while;
    /// notices go to `notices`, which must be read.
    pub fn new(
        socket: AsyncFd<OwnedFd>,
        notices: mpsc::Sender<Notice>,
    ) -> (Self, impl Future<Output = LinkError> + Send) {
        let shared = Arc::new(Shared {
            socket,
            outbox: Mutex::default(),
            outbox_filled: Notify::new(),
            requests: Mutex::default(),
            holders: Mutex::default(),
            next_request: AtomicU64::new(1),
            sealed: watch::Sender::new(None),
        });
        let handle = Self { shared: shared.clone() };
        handle.send(&ToSupervisor::Hello { version: VERSION });
        let serve = async move {
            tokio::select! {
                error = shared.read(notices) => error,
                error = shared.write() => error,
            }
        };
        (handle, serve)
    }

    /// Asks for a sandbox. `request` of `create` is filled in here.
    ///
    /// # Errors
    /// See [`CreateError`].
    ///
    /// # Cancel safety
    /// A sandbox that is made for a caller who has gone is killed.
    pub async fn create(&self, mut create: Create) -> Result<Delivered, CreateError> {
        let (reply, answer) = oneshot::channel();
        create.request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.requests).insert(create.request, reply);
        self.send(&ToSupervisor::Create(Box::new(create)));
        answer.await.map_err(|_| CreateError::Unreachable)?
    }

    /// Kills every process of a sandbox; its `exit` follows.
    pub fn kill(&self, sandbox: SandboxId) {
        self.send(&ToSupervisor::Kill(sandbox));
    }

    /// Lets a sandbox go: what still runs in it is killed, and nothing more is told of it.
    pub fn let_go(&self, sandbox: SandboxId) {
        self.send(&ToSupervisor::LetGo(sandbox));
    }

    /// Tells the supervisor what to watch from now on.
    pub fn watch(&self, sandbox: SandboxId, watch: Watch) {
        self.send(&ToSupervisor::Watch { sandbox, watch });
    }

    /// Asks what a sandbox has used since something last began in it; [`News::Measured`] follows.
    pub fn measure(&self, sandbox: SandboxId) {
        self.send(&ToSupervisor::Measure(sandbox));
    }

    /// Lets everything of a session go.
    pub fn release(&self, session: &SessionId) {
        self.send(&ToSupervisor::Release(session.clone()));
    }

    /// Asks for the signature under the audit log, which [`SupervisorHandle::sealed`] tells.
    pub fn seal(&self, head: Head) {
        self.send(&ToSupervisor::Seal(head));
    }

    /// The last checkpoint that was signed for this gateway.
    pub fn sealed(&self) -> watch::Receiver<Option<Seal>> {
        self.shared.sealed.subscribe()
    }

    /// Asks for keys to be fetched, if they are.
    pub fn want_keys(&self) {
        self.send(&ToSupervisor::KeysWanted);
    }

    /// Tells that connections are accepted.
    pub fn serving(&self) {
        self.send(&ToSupervisor::Serving);
    }

    fn send(&self, message: &ToSupervisor) {
        self.shared.send(message);
    }
}

impl Shared {
    /// Sends at once if there is room, else queues. Order is kept.
    fn send(&self, message: &ToSupervisor) {
        let packet = match link::encode(message) {
            Ok(packet) => packet,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a request to the supervisor is lost");
                return;
            }
        };
        let mut outbox = lock(&self.outbox);
        if outbox.is_empty() {
            match link::send(self.socket.get_ref().as_fd(), &packet, &[]) {
                Err(error) if link::would_block(&error) => {}
                // A dead supervisor is told by the reading side.
                Ok(()) | Err(_) => return,
            }
        }
        if outbox.len() < OUTBOX {
            outbox.push_back(packet);
        }
        self.outbox_filled.notify_one();
    }

    async fn write(&self) -> LinkError {
        loop {
            self.outbox_filled.notified().await;
            if let Err(error) = self.write_outbox().await {
                return error;
            }
        }
    }

    /// Sends all that waits. Whether there is room is watched only meanwhile.
    async fn write_outbox(&self) -> Result<(), LinkError> {
        let socket = self.socket.get_ref().try_clone().map_err(LinkError::Io)?;
        let socket = link::register(socket, Interest::WRITABLE).map_err(LinkError::Io)?;
        while !lock(&self.outbox).is_empty() {
            let mut ready = socket.writable().await.map_err(LinkError::Io)?;
            let mut outbox = lock(&self.outbox);
            let Some(packet) = outbox.front() else { break };
            match link::send(socket.get_ref().as_fd(), packet, &[]) {
                Ok(()) => drop(outbox.pop_front()),
                Err(error) if link::would_block(&error) => ready.clear_ready(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read(&self, notices: mpsc::Sender<Notice>) -> LinkError {
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        loop {
            let (message, fds) = match receive(&self.socket, &mut buffer).await {
                Ok(message) => message,
                Err(error) => return error,
            };
            let notice = match message {
                ToGateway::Created { request, held } => {
                    self.created(request, held, fds);
                    continue;
                }
                ToGateway::NotCreated { request, reason } => {
                    if let Some(reply) = lock(&self.requests).remove(&request) {
                        let _ = reply.send(Err(CreateError::Refused(reason)));
                    }
                    continue;
                }
                ToGateway::Exited(exited) => {
                    if let Some(holder) = lock(&self.holders).remove(&exited.sandbox) {
                        let _ = holder.exit.send(exited);
                    }
                    continue;
                }
                ToGateway::Limit { sandbox, limit } => {
                    self.tell(sandbox, News::Limit(limit));
                    continue;
                }
                ToGateway::Measured(measured) => {
                    self.tell(measured.sandbox, News::Measured(measured));
                    continue;
                }
                ToGateway::Refused { sandbox, refused } => {
                    self.tell(sandbox, News::Refused(refused));
                    continue;
                }
                ToGateway::Sealed(seal) => {
                    self.sealed.send_replace(Some(seal));
                    continue;
                }
                ToGateway::Handover(held) => {
                    self.send(&ToSupervisor::Adopted(held.sandbox));
                    match self.delivered(held, fds) {
                        Ok(delivered) => Notice::Handover(Box::new(delivered)),
                        Err(error) => return error,
                    }
                }
                ToGateway::HandoverDone => Notice::HandoverDone,
                ToGateway::Lent(what) => match fds.into_iter().next() {
                    Some(memory) => Notice::Lent(what, memory),
                    None => return LinkError::Descriptors,
                },
                ToGateway::Configured(config) => Notice::Configured(config),
                ToGateway::Drain => Notice::Drain,
                ToGateway::Welcome(_) => return LinkError::Descriptors,
            };
            if notices.send(notice).await.is_err() {
                return LinkError::Closed;
            }
        }
    }

    fn created(&self, request: u64, held: Held, fds: Vec<OwnedFd>) {
        let sandbox = held.sandbox;
        let reply = lock(&self.requests).remove(&request);
        let wanted = match (reply, self.delivered(held, fds)) {
            (Some(reply), Ok(delivered)) => reply.send(Ok(delivered)).is_ok(),
            _ => false,
        };
        if !wanted {
            self.send(&ToSupervisor::LetGo(sandbox));
        }
    }

    fn delivered(&self, held: Held, fds: Vec<OwnedFd>) -> Result<Delivered, LinkError> {
        let fds = SandboxFds::new(fds, &held.counters)?;
        let (told, exit) = oneshot::channel();
        let (teller, news) = mpsc::channel(NEWS);
        lock(&self.holders).insert(held.sandbox, Holder { exit: told, news: teller });
        Ok(Delivered { held, fds, exit, news })
    }

    fn tell(&self, sandbox: SandboxId, news: News) {
        if let Some(holder) = lock(&self.holders).get(&sandbox)
            && let Err(error) = holder.news.try_send(news)
        {
            tracing::debug!(sandbox = sandbox.0, %error, "nobody takes the news");
        }
    }
}

async fn receive(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> Result<(ToGateway, Vec<OwnedFd>), LinkError> {
    loop {
        let mut ready = socket.readable().await.map_err(LinkError::Io)?;
        match link::receive(socket.get_ref().as_fd(), buffer) {
            Err(error) if link::would_block(&error) => ready.clear_ready(),
            other => return other,
        }
    }
}

/// A poisoned lock is taken all the same: what it guards is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
