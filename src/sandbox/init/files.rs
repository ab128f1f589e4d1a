//! The copies of init that do something with files: how many there are, how long, and what is answered for those that
//! died before they could.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::time::{ClockId, clock_gettime};

use super::work::{self, Desk};
use crate::sandbox::Identity;
use crate::sandbox::init_link::{FileAsk, Tell};

/// For one more, the oldest is killed: the program may be able to stop them.
const MAX_WORKERS: usize = 8;
/// How long a copy may live, in seconds. A list takes as long as its reader.
const DEADLINE_S: i64 = 30;
/// How long a copy may take for its first steps, in milliseconds, before others go on without it.
const ARRIVAL_MS: i64 = 100;

pub(super) struct Files {
    workdir: OwnedFd,
    identity: Identity,
    /// The oldest first.
    workers: VecDeque<Worker>,
}

pub(super) struct Worker {
    pid: Pid,
    id: u64,
    deadline_s: i64,
    /// Read end of a pipe; its end of file says that the copy has let go of what it must not hold.
    arrived: OwnedFd,
}

impl Files {
    pub(super) fn new(workdir: OwnedFd, identity: Identity) -> Self {
        Self { workdir, identity, workers: VecDeque::new() }
    }

    /// The copies that live.
    pub(super) fn workers(&self) -> Vec<Pid> {
        self.workers.iter().map(|worker| worker.pid).collect()
    }

    /// Sees to it that one more may be started. Returns the answers for those that died, or had to go, without one.
    pub(super) fn make_room(&mut self) -> Vec<Tell> {
        let mut answers = Vec::new();
        if self.workers.len() >= MAX_WORKERS {
            let dead = self.workers().into_iter().filter_map(|pid| waitpid(Some(pid), WaitOptions::NOHANG).ok()?);
            answers.extend(dead.filter_map(|(pid, status)| self.ended(pid, status.exit_status())));
        }
        if self.workers.len() >= MAX_WORKERS
            && let Some(oldest) = self.workers.pop_front()
        {
            oldest.kill();
            answers.push(interrupted(oldest.id));
        }
        answers
    }

    pub(super) fn started(&mut self, worker: Worker) {
        self.workers.push_back(worker);
    }

    /// Waits, for some time at most, until every copy has let go of standard input.
    pub(super) fn wait_for_arrivals(&self) {
        let patience = Timespec { tv_sec: 0, tv_nsec: ARRIVAL_MS * 1_000_000 };
        for worker in &self.workers {
            let _ = poll(&mut [PollFd::new(&worker.arrived, PollFlags::IN)], Some(&patience));
        }
    }

    /// Takes notice of a death. Returns the answer that the dead one cannot have given.
    pub(super) fn ended(&mut self, pid: Pid, code: Option<i32>) -> Option<Tell> {
        let at = self.workers.iter().position(|worker| worker.pid == pid)?;
        let worker = self.workers.remove(at)?;
        (code != Some(work::ANSWERED)).then_some(interrupted(worker.id))
    }

    /// Seconds until somebody is late; `None` while nobody can be.
    pub(super) fn patience_s(&self) -> Option<i64> {
        self.workers.front().map(|oldest| (oldest.deadline_s - now_s()).max(1))
    }

    /// `ended` is told of their deaths.
    pub(super) fn kill_the_late(&self) {
        let now_s = now_s();
        for late in self.workers.iter().take_while(|worker| worker.deadline_s <= now_s) {
            let _ = kill_process(late.pid, Signal::KILL);
        }
    }

    /// Ends all of them, so that none speaks after init's last packet.
    pub(super) fn end(&mut self) {
        self.workers.drain(..).for_each(|worker| worker.kill());
    }

    /// In a copy: does what is asked, as the program would, and answers. Returns the exit code.
    pub(super) fn work(&self, socket: &OwnedFd, id: u64, what: &FileAsk) -> i32 {
        work::run(&Desk { socket, workdir: &self.workdir, id }, self.identity, what)
    }
}

impl Worker {
    pub(super) fn new(id: u64, pid: Pid, arrived: OwnedFd) -> Self {
        Self { pid, id, deadline_s: now_s() + DEADLINE_S, arrived }
    }

    fn kill(&self) {
        // It is no other's pid until it is reaped right here.
        let _ = kill_process(self.pid, Signal::KILL);
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

fn interrupted(id: u64) -> Tell {
    Tell::File { id, errno: libc::EINTR, existed: false }
}

fn now_s() -> i64 {
    clock_gettime(ClockId::Monotonic).tv_sec
}
