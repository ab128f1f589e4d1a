//! Kernels: an interpreter in its sandbox, driven through four descriptors. Knows no sessions, no readers, and nobody
//! who asks.
//!
//! ```text
//!   boot ─▶ ready ⇄ running ─▶ (exit reported by init) ─▶ gone (told by the supervisor, after every process has ended)
//! ```

mod asks;
pub mod bash;
pub mod control;
pub mod files;
pub mod javascript;
mod meters;
pub mod modules;
mod news;
mod pipes;
pub mod python;
pub mod screen;
mod telling;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use repltool_protocol::event::{Limit, StreamName};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use crate::supervisor::handle::{CreateError, Delivered, News, SupervisorHandle};
use crate::supervisor::link::init::ExitStatus;
use crate::supervisor::link::{self, Create, Exited, Refused, SandboxId};
use control::{ControlError, Decoder, FromDriver};
use files::FileAnswer;
pub use meters::Used;
use meters::{Counters, Meters};
use news::Refusals;
use pipes::Pipe;

/// An interpreter of this host.
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// Where it is, links resolved.
    pub path: std::path::PathBuf,
    /// What it says it is.
    pub version: String,
    /// How it is started inside a sandbox.
    pub argv: Vec<std::ffi::CString>,
    /// Host trees that it needs beside `/usr`.
    pub binds: Vec<std::path::PathBuf>,
    /// Its own library.
    pub own: Vec<std::path::PathBuf>,
}

/// How long an interpreter may take to boot, on a busy machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(20);

/// What a kernel does.
#[derive(Debug)]
pub enum KernelEvent {
    /// There is output, or the end of a stream: call [`Kernel::read`].
    Output(StreamName),
    /// The driver says something.
    Driver(FromDriver),
    /// The driver broke the protocol or is gone; it cannot be used any more.
    DriverFault(ControlError),
    /// Init has done what it was asked, or found nothing to do it to.
    Asked(u64),
    /// Init has answered an ask about files.
    File {
        /// The number of the ask.
        id: u64,
        /// The answer.
        answer: FileAnswer,
    },
    /// A limit that the supervisor watches has struck.
    Limit(Limit),
    /// The supervisor has measured: [`Kernel::used`] is up to date.
    Measured,
    /// Calls of the program were refused.
    Refused(Refused),
    /// The interpreter has ended; the sandbox ends with it.
    Ended(ExitStatus),
    /// Every process of the sandbox is gone.
    Gone(Exited),
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] CreateError),
    /// A descriptor of the sandbox cannot be used.
    #[error("the sandbox cannot be reached")]
    Io(#[from] io::Error),
    /// The interpreter ended while it booted.
    #[error("the interpreter ended while it started")]
    Ended,
    /// The interpreter did not say that it is ready.
    #[error("the interpreter did not start within {0:?}")]
    Slow(Duration),
}

/// An interpreter in its sandbox. Dropping it kills it.
#[derive(Debug)]
pub struct Kernel {
    sandbox: SandboxId,
    supervisor: SupervisorHandle,
    stdout: Pipe,
    stderr: Pipe,
    control: AsyncFd<OwnedFd>,
    control_open: bool,
    decoder: Decoder,
    init: AsyncFd<OwnedFd>,
    init_open: bool,
    exit: Option<oneshot::Receiver<Exited>>,
    news: mpsc::Receiver<News>,
    refusals: Refusals,
    exit_status: Option<ExitStatus>,
    /// Set once every process is gone and while what they left is still being told.
    gone: Option<Exited>,
    meters: Meters,
    next_ask: u64,
    stored: u64,
}

impl Kernel {
    /// Makes a sandbox and waits until its interpreter is ready.
    ///
    /// # Errors
    /// See [`BootError`].
    ///
    /// # Cancel safety
    /// A kernel that nobody waits for any more is killed.
    pub async fn boot(supervisor: &SupervisorHandle, create: Create) -> Result<Self, BootError> {
        let delivered = supervisor.create(create).await?;
        let mut kernel = Self::new(supervisor.clone(), delivered)?;
        let ready = async {
            loop {
                match kernel.next(true).await {
                    KernelEvent::Driver(FromDriver::Ready { m, .. }) => {
                        kernel.note_stored(m);
                        // What a shell says before its driver is there.
                        kernel.discard(StreamName::Stdout);
                        kernel.discard(StreamName::Stderr);
                        return Ok(());
                    }
                    KernelEvent::Gone(_) | KernelEvent::DriverFault(_) => return Err(BootError::Ended),
                    // Nothing of the user's runs yet, so there is nothing to lose in what it says.
                    KernelEvent::Output(stream) => drop(kernel.discard(stream)),
                    _ => {}
                }
            }
        };
        match tokio::time::timeout(BOOT_TIMEOUT, ready).await {
            Ok(outcome) => outcome.map(|()| kernel),
            Err(_) => Err(BootError::Slow(BOOT_TIMEOUT)),
        }
    }

    /// Takes over a sandbox.
    ///
    /// # Errors
    /// An error of epoll(7).
    pub fn new(supervisor: SupervisorHandle, delivered: Delivered) -> io::Result<Self> {
        let Delivered { held, fds, exit, news } = delivered;
        let counters = Counters {
            cpu: fds.cpu,
            memory_peak: fds.memory_peak,
            oom_kills: fds.oom_kills,
            refused_forks: fds.refused_forks,
        };
        Ok(Self {
            sandbox: held.sandbox,
            supervisor,
            stdout: Pipe::new(fds.stdout)?,
            stderr: Pipe::new(fds.stderr)?,
            control: link::register(fds.control, Interest::READABLE)?,
            control_open: true,
            decoder: Decoder::default(),
            init: link::register(fds.init, Interest::READABLE)?,
            init_open: true,
            exit: Some(exit),
            news,
            refusals: Refusals::new(fds.violations),
            exit_status: None,
            gone: None,
            meters: Meters::new(counters, held.begun),
            next_ask: 1,
            stored: 0,
        })
    }

    /// Its sandbox.
    pub fn sandbox(&self) -> SandboxId {
        self.sandbox
    }

    /// How the interpreter ended, once init has told.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.exit_status
    }

    /// Waits for what happens next; output only if it is wanted now. Cancel-safe. After [`KernelEvent::Gone`] it waits
    /// for ever.
    pub async fn next(&mut self, output: bool) -> KernelEvent {
        loop {
            // First, so that a driver that never stops talking hides no limit that has struck.
            if let Ok(news) = self.news.try_recv() {
                return self.told(news);
            }
            match self.decoder.take() {
                Ok(Some(message)) => return KernelEvent::Driver(message),
                Ok(None) => {}
                Err(error) => {
                    self.give_up_driver();
                    return KernelEvent::DriverFault(error);
                }
            }
            if let Some(refused) = self.gone.and_then(|_| self.last_refusal()) {
                return refused;
            }
            if let Some(exited) = self.gone.take() {
                self.meters.take(Used::of(&exited));
                return KernelEvent::Gone(exited);
            }
            let exit = async {
                match &mut self.exit {
                    Some(exit) => exit.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased; // what an interpreter said before it ended is heard before its end; output is served last, so that a flood hides nothing
                ready = self.control.readable(), if self.control_open => match ready {
                    Ok(mut ready) => match read_control(self.control.get_ref().as_fd(), &mut self.decoder) {
                        Ok(0) => { self.control_open = false; return KernelEvent::DriverFault(closed()); }
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                        Err(error) => { self.control_open = false; return KernelEvent::DriverFault(ControlError::Io(error)); }
                    },
                    Err(error) => { self.control_open = false; return KernelEvent::DriverFault(ControlError::Io(error)); }
                },
                ready = self.init.readable(), if self.init_open => match ready {
                    Ok(mut ready) => match asks::receive(self.init.get_ref().as_fd()) {
                        Ok(told) => if let Some(event) = self.heard(told) { return event; },
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                        Err(_) => self.init_open = false,
                    },
                    Err(_) => self.init_open = false,
                },
                Some(news) = self.news.recv() => return self.told(news),
                exited = exit => {
                    self.exit = None;
                    self.read_what_is_left();
                    self.gone = Some(exited.unwrap_or_default());
                }
                stream = pipes::readable(&self.stdout, &self.stderr), if output => return KernelEvent::Output(stream),
            }
        }
    }

    /// The end may be told before epoll tells of what the dead have sent.
    fn read_what_is_left(&mut self) {
        while self.control_open && read_control(self.control.get_ref().as_fd(), &mut self.decoder).is_ok_and(|n| n > 0)
        {
        }
        self.control_open = false;
        // Answers to asks mean nothing any more; how the program ended is noted on the way.
        while let Ok(told) = asks::receive(self.init.get_ref().as_fd()) {
            self.heard(told);
        }
        self.init_open = false;
    }

    /// The number up to which the driver's messages are in the log; told to it with the next execution.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// A message of the driver is in the log.
    pub fn note_stored(&mut self, message: u64) {
        self.stored = self.stored.max(message);
    }

    /// Lets `take` move bytes out of a stream: it is given the pipe and says how many it took, 0 at the end of the
    /// stream. `None` if there is nothing now.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn read<E>(
        &mut self,
        stream: StreamName,
        take: impl FnMut(BorrowedFd<'_>) -> Result<Option<usize>, E>,
    ) -> Result<Option<usize>, E> {
        self.pipe(stream).read(take)
    }

    /// Bytes that lie in a stream's pipe at this moment.
    pub fn pending(&self, stream: StreamName) -> usize {
        match stream {
            StreamName::Stdout => self.stdout.pending(),
            StreamName::Stderr => self.stderr.pending(),
        }
    }

    /// Throws away what lies in a stream; says how much that was.
    pub fn discard(&mut self, stream: StreamName) -> usize {
        self.pipe(stream).discard()
    }

    fn pipe(&mut self, stream: StreamName) -> &mut Pipe {
        match stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
        }
    }

    /// Counts what is used from now on. Gives the CPU time that was used since it was counted last.
    pub fn begin_usage(&mut self) -> Duration {
        self.meters.begin()
    }

    /// Counts what was used after the last answer of [`Self::used`] as what comes next.
    pub fn end_usage(&mut self) {
        self.meters.begin_at_last();
    }

    /// What was used since [`Self::begin_usage`] or [`Self::end_usage`].
    pub fn used(&mut self) -> Used {
        self.meters.read()
    }

    /// Whether [`Self::used`] is up to date at any time. Else the supervisor measures.
    pub fn has_counters(&self) -> bool {
        self.meters.has_counters()
    }

    /// Has the supervisor measure; [`KernelEvent::Measured`] follows.
    pub fn measure(&self) {
        self.supervisor.measure(self.sandbox);
    }

    /// Kills every process of the sandbox; [`KernelEvent::Gone`] follows.
    pub fn kill(&self) {
        self.supervisor.kill(self.sandbox);
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.supervisor.let_go(self.sandbox);
    }
}

fn closed() -> ControlError {
    ControlError::Io(io::ErrorKind::UnexpectedEof.into())
}

fn read_control(socket: BorrowedFd<'_>, decoder: &mut Decoder) -> io::Result<usize> {
    let mut bytes = [0; 16 * 1024];
    let (got, _) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
    decoder.fill(&bytes[..got]);
    Ok(got)
}
