//! The read end of an output pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use repltool_protocol::event::StreamName;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::supervisor::link;

/// A pipe that a program writes to. Once its end was read it is never ready again.
#[derive(Debug)]
pub(super) struct Pipe {
    fd: AsyncFd<OwnedFd>,
    open: bool,
    grown: bool,
}

/// What a pipe is made as, and what it grows to when a reader finds it full.
const SMALL: usize = 64 * 1024;
const LARGE: usize = 1024 * 1024;

impl Pipe {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: link::register(fd, Interest::READABLE)?, open: true, grown: false })
    }

    /// Calls `take`, which answers `None` when there is nothing now, and notes that as well as the end.
    ///
    /// What lies in the pipe counts, not what epoll has told of it: the word of a driver, or the end of a sandbox, may be
    /// heard before the news of what was written earlier.
    pub(super) fn read<E>(
        &mut self,
        mut take: impl FnMut(BorrowedFd<'_>) -> Result<Option<usize>, E>,
    ) -> Result<Option<usize>, E> {
        let mut failed = None;
        let mut looked = false;
        let took = self.fd.try_io(Interest::READABLE, |fd| {
            looked = true;
            match take(fd.as_fd()) {
                Ok(Some(took)) => Ok(Some(took)),
                Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => {
                    failed = Some(error);
                    Ok(None)
                }
            }
        });
        let took = match (failed, looked) {
            (Some(error), _) => return Err(error),
            (None, true) => took.unwrap_or(None),
            // The runtime knows of nothing to read; what comes after this look wakes the reader.
            (None, false) => take(self.fd.get_ref().as_fd())?,
        };
        match took {
            Some(0) => self.open = false,
            Some(full) if full >= SMALL && !self.grown => self.grow(),
            _ => {}
        }
        Ok(took)
    }

    /// A writer that fills the pipe is served in larger steps. Where the user's share of pipe memory is used up,
    /// F_SETPIPE_SZ fails and the pipe stays as it is.
    fn grow(&mut self) {
        self.grown = true;
        let _ = rustix::pipe::fcntl_setpipe_size(self.fd.get_ref(), LARGE);
    }

    pub(super) fn pending(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(self.fd.get_ref()).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn discard(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let mut total = 0;
        // At most what a full pipe holds: a program that writes for ever must not keep us here.
        while total < LARGE {
            let took = self.read(|pipe| match rustix::io::read(pipe, &mut buffer) {
                Ok(got) => Ok(Some(got)),
                Err(rustix::io::Errno::AGAIN) => Ok(None),
                Err(error) => Err(error),
            });
            match took {
                Ok(Some(got)) if got > 0 => total += got,
                Ok(_) => break,
                Err(_) => {
                    self.open = false;
                    break;
                }
            }
        }
        total
    }

    async fn readable(&self) {
        if !self.open || self.fd.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until one of the two can be read; neither is preferred. Cancel-safe.
pub(super) async fn readable(stdout: &Pipe, stderr: &Pipe) -> StreamName {
    tokio::select! {
        () = stdout.readable() => StreamName::Stdout,
        () = stderr.readable() => StreamName::Stderr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pipe: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        match rustix::io::read(pipe, &mut [0; 64]) {
            Ok(got) => Ok(Some(got)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    #[tokio::test]
    async fn what_was_written_is_there_before_the_runtime_knows_of_it() {
        let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        let mut pipe = Pipe::new(reading).expect("it can be watched");
        // Nothing is awaited in between, so the runtime has not looked at the pipe.
        rustix::io::write(&writing, b"last words").expect("room");
        assert_eq!(pipe.read(take).expect("readable"), Some(10));
        assert_eq!(pipe.read(take).expect("readable"), None);
    }

    #[tokio::test]
    async fn what_comes_after_a_look_into_an_empty_pipe_wakes_the_reader() {
        let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        let mut pipe = Pipe::new(reading).expect("it can be watched");
        for round in 0..100 {
            assert_eq!(pipe.read(take).expect("readable"), None);
            rustix::io::write(&writing, b"x").expect("room");
            tokio::time::timeout(std::time::Duration::from_secs(20), pipe.readable())
                .await
                .unwrap_or_else(|_| panic!("not woken in round {round}"));
            assert_eq!(pipe.read(take).expect("readable"), Some(1));
        }
    }
}
