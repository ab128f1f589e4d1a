//! Kernels: an interpreter in its sandbox, driven through four descriptors. Knows no sessions, no readers, and nobody
//! who asks.
//!
//! ```text
//!   boot ─▶ ready ⇄ running ─▶ (exit reported by init) ─▶ gone (told by the supervisor, after every process has ended)
//! ```

pub mod control;
pub mod files;
mod meters;
mod pipes;
pub mod python;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use repltool_protocol::event::StreamName;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::supervisor::handle::{CreateError, Delivered, SupervisorHandle};
use crate::supervisor::link::init::{Ask, ExitStatus, MAX_PACKET_BYTES, Tell};
use crate::supervisor::link::{self, Create, Exited, SandboxId};
use control::{ControlError, Decoder, FromDriver, ToDriver};
use meters::Meters;
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
    /// The interpreter has ended; the sandbox ends with it.
    Ended(ExitStatus),
    /// Every process of the sandbox is gone.
    Gone {
        /// Whether Linux killed for memory in it.
        out_of_memory: bool,
    },
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
                    KernelEvent::Driver(FromDriver::Ready { .. }) => return Ok(()),
                    KernelEvent::Gone { .. } | KernelEvent::DriverFault(_) => return Err(BootError::Ended),
                    // Nothing of the user's runs yet, so there is nothing to lose in what it says.
                    KernelEvent::Output(stream) => drop(kernel.discard(stream)),
                    KernelEvent::Driver(_) | KernelEvent::Asked(_) | KernelEvent::Ended(_) => {}
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
        let Delivered { held, fds, exit } = delivered;
        Ok(Self {
            sandbox: held.sandbox,
            supervisor,
            stdout: Pipe::new(fds.stdout)?,
            stderr: Pipe::new(fds.stderr)?,
            control: link::register(fds.control)?,
            control_open: true,
            decoder: Decoder::default(),
            init: link::register(fds.init)?,
            init_open: true,
            exit: Some(exit),
            exit_status: None,
            gone: None,
            meters: Meters::new(fds.cpu, fds.memory_peak),
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
            match self.decoder.take() {
                Ok(Some(message)) => return KernelEvent::Driver(message),
                Ok(None) => {}
                Err(error) => {
                    self.decoder = Decoder::default();
                    self.control_open = false;
                    return KernelEvent::DriverFault(error);
                }
            }
            if let Some(exited) = self.gone.take() {
                self.meters.close(&exited);
                return KernelEvent::Gone { out_of_memory: exited.out_of_memory };
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
                    Ok(mut ready) => match read_init(self.init.get_ref().as_fd()) {
                        Ok(Some(Tell::Done { id, .. })) => return KernelEvent::Asked(id),
                        Ok(Some(Tell::Exit(status))) => { self.exit_status = Some(status); return KernelEvent::Ended(status); }
                        Ok(Some(Tell::Hello { .. } | Tell::File { .. })) => {}
                        Ok(None) => self.init_open = false,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                        Err(_) => self.init_open = false,
                    },
                    Err(_) => self.init_open = false,
                },
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
        while let Ok(Some(tell)) = read_init(self.init.get_ref().as_fd()) {
            if let Tell::Exit(status) = tell {
                self.exit_status = Some(status);
            }
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

    /// Sends a message to the driver, whole or not at all.
    ///
    /// # Errors
    /// [`ControlError::Stuck`] if there is no room: with one message outstanding that is a driver that does not read.
    pub fn tell(&mut self, message: &ToDriver<'_>) -> Result<(), ControlError> {
        let frame = control::encode(message)?;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(self.control.get_ref(), &frame, flags) {
            Ok(sent) if sent == frame.len() => Ok(()),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Err(ControlError::Stuck),
            Err(error) => Err(ControlError::Io(error.into())),
        }
    }

    /// Begins to synchronise with a driver that another gateway spoke to; [`FromDriver::Hello`] follows.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub fn synchronise(&mut self) -> Result<(), ControlError> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        self.decoder.synchronise(nonce.clone());
        self.tell(&ToDriver::Hello { nonce: &nonce })
    }

    /// Asks init to interrupt the program; [`KernelEvent::Asked`] with this number follows.
    pub fn interrupt(&mut self) -> u64 {
        self.ask(|id| Ask::Interrupt { id })
    }

    /// Asks init to kill every process but the interpreter; [`KernelEvent::Asked`] with this number follows.
    pub fn kill_rest(&mut self) -> u64 {
        self.ask(|id| Ask::KillRest { id })
    }

    fn ask(&mut self, ask: impl FnOnce(u64) -> Ask) -> u64 {
        let id = self.next_ask;
        self.next_ask += 1;
        let packet = serde_json::to_vec(&ask(id)).unwrap_or_default();
        // A full or closed socket means that init does not answer, which its caller waits for only so long.
        let _ = rustix::net::send(self.init.get_ref(), &packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        id
    }

    /// Numbers asks after those of an earlier gateway, so that no late answer is taken for one of ours.
    pub fn number_asks_from(&mut self, first: u64) {
        self.next_ask = first;
    }

    /// Counts what is used from now on.
    pub fn begin_usage(&mut self) {
        self.meters.begin();
    }

    /// CPU time in milliseconds and peak memory in bytes since [`Self::begin_usage`]; 0 where the host does not count.
    pub fn usage(&self) -> (u64, u64) {
        self.meters.read()
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

/// One packet of init; `None` at the end. A packet that cannot be read is passed over.
fn read_init(socket: BorrowedFd<'_>) -> io::Result<Option<Tell>> {
    let mut bytes = [0; MAX_PACKET_BYTES];
    loop {
        let (got, _) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        if got == 0 {
            return Ok(None);
        }
        if let Ok(tell) = serde_json::from_slice(&bytes[..got]) {
            return Ok(Some(tell));
        }
    }
}
