//! The signals by which people and programs ask a command to stop.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit codes, as shells give them for what a signal ended.
pub(super) const INTERRUPTED: u8 = 130;
const HUNG_UP: u8 = 129;
const TERMINATED: u8 = 143;
/// For SIGPIPE: whoever read the output has gone.
pub(super) const OUTPUT_CLOSED: u8 = 141;

/// Listens for signals from when it is made.
pub(super) struct Stop {
    interrupt: Signal,
    hang_up: Signal,
    terminate: Signal,
}

impl Stop {
    /// Needs a runtime.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them and gives the exit code that belongs to it. Cancel-safe.
    pub(super) async fn requested(&mut self) -> u8 {
        match self.told().await {
            Told::Interrupt => INTERRUPTED,
            Told::Leave(code) => code,
        }
    }

    /// As [`Stop::requested`], where Ctrl-C may be for the program and not for the command. Cancel-safe.
    pub(super) async fn told(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Interrupt,
            _ = self.hang_up.recv() => Told::Leave(HUNG_UP),
            _ = self.terminate.recv() => Told::Leave(TERMINATED),
        }
    }
}

/// What a signal asks for.
pub(super) enum Told {
    /// Ctrl-C.
    Interrupt,
    /// To end, with this exit code.
    Leave(u8),
}

/// A listener for one signal. Needs a runtime.
pub(super) fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}
