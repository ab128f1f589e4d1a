//! What a kernel asks of the init of its sandbox, and what init says.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::SendFlags;

use super::files::{FileAnswer, FileAsk};
use super::{Kernel, KernelEvent};
use crate::supervisor::link::init::{Ask, Tell};
use crate::supervisor::link::{self, LinkError};

/// Room for any packet of init.
const TELL_BYTES: usize = 4096;

impl Kernel {
    /// Asks init to interrupt the program; [`KernelEvent::Asked`] with this number follows.
    pub fn interrupt(&mut self) -> u64 {
        self.ask(|id| Ask::Interrupt { id })
    }

    /// Asks init to kill every process but the interpreter; [`KernelEvent::Asked`] with this number follows.
    pub fn kill_rest(&mut self) -> u64 {
        self.ask(|id| Ask::KillRest { id })
    }

    /// Gives the program text to read, at most [`link::init::MAX_STDIN_BYTES`]; [`KernelEvent::Asked`] with this number
    /// follows when it has been taken.
    pub fn give(&mut self, text: &str, end: bool) -> u64 {
        self.ask(|id| Ask::Stdin { id, text: text.to_owned(), end })
    }

    /// Begins standard input anew; [`KernelEvent::Asked`] with this number follows.
    pub fn fresh_stdin(&mut self) -> u64 {
        self.ask(|id| Ask::FreshStdin { id })
    }

    /// Asks for something to be done to files; [`KernelEvent::File`] with this number follows.
    pub fn file(&mut self, what: FileAsk) -> u64 {
        self.ask(|id| Ask::File { id, what })
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

    /// What to do about a packet of init, if anything.
    pub(super) fn heard(&mut self, told: (Option<Tell>, Option<OwnedFd>)) -> Option<KernelEvent> {
        let (tell, descriptor) = told;
        match tell? {
            Tell::Done { id, .. } => Some(KernelEvent::Asked(id)),
            Tell::File { id, errno, existed } => {
                Some(KernelEvent::File { id, answer: FileAnswer { errno, existed, descriptor } })
            }
            Tell::Exit(status) => {
                self.exit_status = Some(status);
                Some(KernelEvent::Ended(status))
            }
            Tell::Hello { .. } => None,
        }
    }
}

/// One packet of init; one that cannot be read is `None`.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<(Option<Tell>, Option<OwnedFd>)> {
    match link::receive(socket, &mut [0; TELL_BYTES]) {
        Ok((tell, mut descriptors)) => Ok((Some(tell), descriptors.pop())),
        Err(LinkError::Malformed(_)) => Ok((None, None)),
        Err(LinkError::Io(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
