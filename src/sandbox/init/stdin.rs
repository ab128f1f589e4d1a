//! What the program reads as standard input: a FIFO, because its end of file is not final.
//!
//! ```text
//!          fresh                                 end, after the text
//!   shut ─────────▶ open: text goes in, reads wait ─────────▶ shut: reads get what is left, then end of file
//!          fresh: what is left is thrown away, readers get an end of file ◀──┘
//! ```
//!
//! Init alone may write. It holds a read end, too: to throw away what was not read, and so that a program that closed its
//! own end makes nothing fail. Every copy of init has to let go of the write end at once, or readers would wait for it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};

use super::files::Files;
use super::processes::{Processes, Sleeper};
use crate::sandbox::init_link::{Outcome, Tell};

/// Texts that wait for the program to read. One more is void at once: the gateway sends one at a time.
const MAX_WAITING: usize = 4;

/// The ends of the FIFO that init holds.
pub(in crate::sandbox) struct Ends {
    path: PathBuf,
    /// Non-blocking.
    pub(in crate::sandbox) read: OwnedFd,
    /// Non-blocking; `None` while it is shut.
    pub(in crate::sandbox) write: Option<OwnedFd>,
}

impl Ends {
    /// Opens both. The path is one that leads there inside.
    pub(in crate::sandbox) fn open(path: &Path) -> rustix::io::Result<Self> {
        // In this order: without a reader, Linux refuses a writer that does not wait.
        let read = open_end(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let write = open_end(path, OFlags::WRONLY | OFlags::NONBLOCK)?;
        Ok(Self { path: path.to_owned(), read, write: Some(write) })
    }
}

/// The end that the program gets. The FIFO must have a writer.
pub(in crate::sandbox) fn open_for_program(path: &Path) -> rustix::io::Result<OwnedFd> {
    open_end(path, OFlags::RDONLY)
}

fn open_end(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

pub(super) struct Stdin {
    ends: Ends,
    waiting: VecDeque<Text>,
    /// Who slept when it was shut, and may have done so in a read.
    sleepers: Vec<Sleeper>,
}

struct Text {
    id: u64,
    bytes: Vec<u8>,
    written: usize,
    end: bool,
}

impl Stdin {
    pub(super) fn new(ends: Ends) -> Self {
        Self { ends, waiting: VecDeque::new(), sleepers: Vec::new() }
    }

    /// Takes a text. [`Stdin::write`] makes it go its way.
    pub(super) fn give(&mut self, id: u64, text: String, end: bool) -> Option<Tell> {
        if self.waiting.len() == MAX_WAITING {
            return Some(void(id));
        }
        self.waiting.push_back(Text { id, bytes: text.into_bytes(), written: 0, end });
        None
    }

    /// What to poll for room, while something waits for it.
    pub(super) fn wants_room(&self) -> Option<&OwnedFd> {
        self.ends.write.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Writes what there is room for. Returns the answers that are due, in order.
    pub(super) fn write(&mut self, processes: &Processes) -> Vec<Tell> {
        let mut answers = Vec::new();
        while let Some(mut text) = self.waiting.pop_front() {
            let Some(end) = &self.ends.write else {
                answers.push(void(text.id));
                continue;
            };
            if !text.write(end) {
                self.waiting.push_front(text);
                break;
            }
            answers.push(Tell::Done { id: text.id, outcome: Outcome::Delivered });
            if text.end {
                self.shut(processes);
            }
        }
        answers
    }

    /// Begins anew. Returns the answers to the texts that waited, and whether it could be done.
    pub(super) fn begin_anew(&mut self, processes: &Processes, files: &Files) -> (Vec<Tell>, Outcome) {
        let answers = self.waiting.drain(..).map(|text| void(text.id)).collect();
        self.shut(processes);
        self.throw_away();
        files.wait_for_arrivals();
        // Opened again at once, it would send readers that were woken but did not run yet back to sleep.
        processes.wait_for_sleepers(&std::mem::take(&mut self.sleepers));
        self.ends.write = open_end(&self.ends.path, OFlags::WRONLY | OFlags::NONBLOCK).ok();
        (answers, if self.ends.write.is_some() { Outcome::Delivered } else { Outcome::Void })
    }

    fn shut(&mut self, processes: &Processes) {
        if self.ends.write.is_some() {
            self.sleepers = processes.sleepers();
            self.ends.write = None;
        }
    }

    fn throw_away(&self) {
        let mut chunk = [0; 16 * 1024];
        while matches!(read(&self.ends.read, &mut chunk), Ok(1..) | Err(Errno::INTR)) {}
    }
}

impl Text {
    /// Whether all of it is in the pipe now.
    fn write(&mut self, end: &OwnedFd) -> bool {
        while let Some(rest) = self.bytes.get(self.written..).filter(|rest| !rest.is_empty()) {
            match write(end, rest) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                // With a reader of our own there is no other error; a text that cannot be written is not waited for.
                Err(_) => return true,
            }
        }
        true
    }
}

fn void(id: u64) -> Tell {
    Tell::Done { id, outcome: Outcome::Void }
}
