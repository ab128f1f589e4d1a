//! A throw-away child that does something, tells what came of it through a pipe, and has a deadline.

use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, waitid},
};
use tokio::time::Instant;

use super::{Layer, layer, sys};

/// A hundred times what the slowest trial takes, since a busy machine must not look like a weak one.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// Of a trial within a trial: it must end first, so that the outer one can still tell.
pub(super) const INNER_DEADLINE: Duration = Duration::from_secs(8);

/// The parent's side.
pub(super) struct Trial {
    /// As the parent sees it.
    pub(super) pid: i32,
    pidfd: File,
    told: PipeReader,
    go: PipeWriter,
}

/// The child's side.
pub(super) struct Child {
    tells: PipeWriter,
    go: PipeReader,
}

impl Trial {
    /// Starts `body` in a child.
    pub(super) fn start(body: impl FnOnce(&Child)) -> io::Result<Trial> {
        Trial::start_by(|ready| sys::child(ready), body)
    }

    /// Starts `body` in a child in new namespaces (`CLONE_NEW*`).
    pub(super) fn start_in(namespaces: libc::c_int, body: impl FnOnce(&Child)) -> io::Result<Trial> {
        Trial::start_by(|ready| sys::child_in(namespaces, ready), body)
    }

    fn start_by<B: FnOnce(&Child)>(
        start: impl FnOnce(&mut dyn FnMut()) -> io::Result<(i32, OwnedFd)>,
        body: B,
    ) -> io::Result<Trial> {
        let (told, tells) = io::pipe()?;
        let (go_read, go_write) = io::pipe()?;
        let child = Child { tells, go: go_read };
        let mut parents = Some((told, go_write));
        let mut body = Some(body);
        let (pid, pidfd) = start(&mut || {
            // Held in the child, these would keep it from seeing the end of its parent.
            parents = None;
            if let (Ok(()), Some(body)) = (set_parent_process_death_signal(Some(Signal::KILL)), body.take()) {
                body(&child);
            }
        })?;
        drop(child);
        let (told, go) = parents.expect("only the child takes these, and the child does not come here");
        Ok(Trial { pid, pidfd: pidfd.into(), told, go })
    }

    /// Lets a child go on that waits.
    pub(super) fn go(&mut self) {
        // A child that is gone already is noticed at the end.
        let _ = self.go.write_all(b"g");
    }

    /// Waits for what the child tells first, or for its end, at most until the deadline.
    pub(super) fn first(&mut self) -> Vec<Layer> {
        self.read(DEADLINE, |text| text.ends_with(b"\n"))
    }

    /// Waits for the end of the child, kills it at the deadline, and gives all that it told since, with the signal
    /// that ended it.
    pub(super) fn finish(mut self, deadline: Duration) -> (Vec<Layer>, Option<i32>) {
        let layers = self.read(deadline, |_| false);
        (layers, self.reap())
    }

    fn read(&mut self, deadline: Duration, enough: impl Fn(&[u8]) -> bool) -> Vec<Layer> {
        let deadline = Instant::now() + deadline;
        let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
        while !enough(&text) && readable(&self.told, deadline) {
            match self.told.read(&mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(count) => text.extend_from_slice(&chunk[..count]),
            }
        }
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Ends the child if it has not ended; then it is waited for, since a killed process ends.
    fn reap(&self) -> Option<i32> {
        if !readable(&self.pidfd, Instant::now() + Duration::from_millis(100)) {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED).ok()??;
        status.terminating_signal()
    }
}

impl Child {
    /// Tells what came of one layer. At most 4 KiB, so that a line is one piece.
    pub(super) fn tell(&self, name: &str, outcome: Result<String, String>) {
        self.pass_on(&layer(name, outcome));
    }

    pub(super) fn pass_on(&self, layer: &Layer) {
        if let Ok(mut line) = serde_json::to_vec(layer) {
            line.push(b'\n');
            // A parent that is gone needs no answer.
            let _ = (&self.tells).write_all(&line);
        }
    }

    /// Waits for [`Trial::go`]; false when the parent dropped its side instead.
    pub(super) fn wait(&self) -> bool {
        (&self.go).read_exact(&mut [0]).is_ok()
    }
}

/// Runs `body` in a child of its own and gives what it told.
pub(super) fn run(body: impl FnOnce(&Child)) -> Vec<Layer> {
    Trial::start(body).map(|trial| trial.finish(DEADLINE).0).unwrap_or_default()
}

/// Names the step in which an error happened.
pub(super) fn step<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Reaps a child that ends by itself at once.
pub(super) fn reap_quick(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    }
}

fn readable(fd: &impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|count| count > 0),
        }
    }
}
