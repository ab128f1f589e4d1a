//! The terminal while a program runs: lines that are typed for it, and passwords that are not to be seen.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of one read; Linux gives lines of at most 4096.
const READ_BYTES: usize = 4096;

/// Lines from the terminal, read only when they are asked for: what is typed before stays there for the line editor.
pub(super) struct Keyboard {
    tty: AsyncFd<OwnedFd>,
    typed: Vec<u8>,
}

impl Keyboard {
    /// Opens the terminal anew, so that reading it without blocking is no other's concern. Needs a runtime.
    #[expect(
        deprecated,
        reason = "what the constructor cannot know of every type holds for an OwnedFd: it stays open while it is registered"
    )]
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = rustix::fs::open("/dev/tty", flags, Mode::empty())?;
        Ok(Self { tty: AsyncFd::with_interest(tty, Interest::READABLE)?, typed: Vec::new() })
    }

    /// Waits for a line, without its end; `None` for Ctrl-D.
    ///
    /// # Cancel safety
    /// Cancel-safe: the beginning of a line is kept.
    pub(super) async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).take(end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            let mut chunk = [0; READ_BYTES];
            let read = |tty: &OwnedFd| Ok(rustix::io::read(tty, &mut chunk)?);
            match self.tty.async_io(Interest::READABLE, read).await? {
                0 => return Ok(None),
                length => self.typed.extend(chunk.iter().take(length)),
            }
        }
    }
}

/// While it lives, what is typed is not shown; the end of the line is.
pub(super) struct Hidden {
    before: Termios,
}

impl Hidden {
    /// `None` if standard input is no terminal.
    pub(super) fn new() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that has gone needs no setting.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
