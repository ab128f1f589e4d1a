//! Pid 1 of every sandbox: reaps, passes signals on, and tells how the program ended.
//!
//! It is a copy of the supervisor that holds two descriptors of its own and never executes anything. It takes packets
//! from the gateway ([`super::init_link`]) and trusts nothing from inside: it reads no memory, file or socket of the
//! program. When the program ends, init ends, and Linux kills what else is in its pid namespace.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use super::init_link::{Ask, ExitStatus, MAX_PACKET_BYTES, Outcome, Tell, VERSION};
use super::sys;

/// Answers that wait for room in the socket. While there are as many, no question is read.
const MAX_OUTBOX: usize = 16;
/// How often `kill_rest` looks for processes that were forked meanwhile. Two suffice unless something forks on purpose.
const MAX_ROUNDS: usize = 32;
/// How often, a millisecond apart, `kill_rest` looks whether what it killed is dead.
const DEATH_ROUNDS: usize = 250;
/// How long the last packet may wait for room, in seconds. The exit code tells the same.
const LAST_WORD_S: i64 = 1;

/// Serves as pid 1 until the program ends. All signals are blocked already; `proc` is a detached, complete `/proc`.
pub(super) fn run(socket: OwnedFd, proc: Option<OwnedFd>, leader: Pid) -> ! {
    let mut init = Init { socket: Some(socket), proc, leader, outbox: VecDeque::new() };
    init.tell(&Tell::Hello { version: VERSION });
    let status = init.serve();
    init.tell(&Tell::Exit(status));
    init.last_word();
    sys::exit_now(match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
    })
}

struct Init {
    /// `None` once nobody holds the other end.
    socket: Option<OwnedFd>,
    proc: Option<OwnedFd>,
    leader: Pid,
    outbox: VecDeque<Vec<u8>>,
}

impl Init {
    fn serve(&mut self) -> ExitStatus {
        let mut mask = SigSet::empty();
        mask.add(NixSignal::SIGCHLD);
        // Without it, init could not learn of any death: better to end at once, as a crash would.
        let Ok(signals) = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC) else {
            return ExitStatus::Signal(libc::SIGKILL);
        };
        loop {
            if let Some(status) = self.reap() {
                return status;
            }
            self.flush();
            let wanted = if self.outbox.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            let wanted = if self.outbox.len() < MAX_OUTBOX { wanted } else { PollFlags::OUT };
            let mut ready = vec![PollFd::new(&signals, PollFlags::IN)];
            ready.extend(self.socket.as_ref().map(|socket| PollFd::new(socket, wanted)));
            if poll(&mut ready, None).is_err() {
                continue;
            }
            let events = ready.get(1).map_or(PollFlags::empty(), PollFd::revents);
            drop(ready);
            // What is signalled does not matter: `reap` asks.
            while matches!(signals.read_signal(), Ok(Some(_))) {}
            if events.contains(PollFlags::IN) {
                self.answer();
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                self.socket = None;
            }
        }
    }

    /// Reaps all that are dead. Returns how the program ended, if it did.
    fn reap(&self) -> Option<ExitStatus> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.leader => return Some(exit_status(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return None,
                // No child at all: the program was reaped by somebody else, which cannot be.
                Err(_) => return Some(ExitStatus::Signal(libc::SIGKILL)),
            }
        }
    }

    fn answer(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut packet = [0; MAX_PACKET_BYTES];
        let Ok((kept, length)) = recv(socket, &mut packet, RecvFlags::DONTWAIT | RecvFlags::TRUNC) else { return };
        let Some(packet) = packet.get(..kept).filter(|_| kept == length) else { return };
        let Ok(ask) = serde_json::from_slice(packet) else { return };
        let (id, outcome) = match ask {
            Ask::Interrupt { id } => (id, self.interrupt()),
            Ask::KillRest { id } => (id, self.kill_rest()),
            Ask::Stdin { id, .. } | Ask::FreshStdin { id } | Ask::File { id, .. } => (id, Outcome::Void),
        };
        self.tell(&Tell::Done { id, outcome });
    }

    /// The program's pid cannot be another's: until it is reaped here, nobody gets it.
    fn interrupt(&self) -> Outcome {
        match kill_process(self.leader, Signal::INT) {
            Ok(()) => Outcome::Delivered,
            Err(_) => Outcome::Void,
        }
    }

    /// Stops everything before it kills anything, so that nothing can fork in answer to a sibling's death.
    fn kill_rest(&self) -> Outcome {
        let mut stopped = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            let Some(others) = self.others() else { return Outcome::Void };
            let fresh: Vec<Pid> = others.into_iter().filter(|pid| stopped.insert(pid.as_raw_nonzero())).collect();
            if fresh.is_empty() {
                break;
            }
            for pid in fresh {
                // Whoever is gone already is as good as stopped.
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        for pid in stopped.into_iter().filter_map(|pid| Pid::from_raw(pid.get())) {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.wait_for_deaths();
        Outcome::Delivered
    }

    /// A signal is sent before it is obeyed: waits, for some time at most, until nobody but init and the program lives.
    fn wait_for_deaths(&self) {
        for _ in 0..DEATH_ROUNDS {
            let alive = self.others().is_some_and(|others| others.into_iter().any(|pid| self.lives(pid)));
            if !alive {
                return;
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let _ = poll(&mut [], Some(&pause));
        }
    }

    /// Whether a process has not ended. A dead child of the program stays listed until the program asks for it.
    fn lives(&self, pid: Pid) -> bool {
        let Some(proc) = &self.proc else { return false };
        let path = format!("{}/stat", pid.as_raw_nonzero());
        let Ok(file) = openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { return false };
        let mut text = [0; 512];
        let length = rustix::io::read(file, &mut text).unwrap_or(0);
        // The name, in parentheses, may hold anything; the state is the letter after it.
        let state = text[..length].rsplit(|byte| *byte == b')').next().and_then(|rest| rest.get(1));
        !matches!(state, Some(b'Z' | b'X') | None)
    }

    /// Every process but init and the program; `None` where there is no way to see them.
    fn others(&self) -> Option<Vec<Pid>> {
        // What `fsmount` gave is no more than a path.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(self.proc.as_ref()?, ".", flags, Mode::empty()).ok()?;
        let entries = Dir::new(folder).ok()?.collect::<Result<Vec<_>, _>>().ok()?;
        let pids = entries.iter().filter_map(|entry| Pid::from_raw(entry.file_name().to_str().ok()?.parse().ok()?));
        Some(pids.filter(|pid| !pid.is_init() && *pid != self.leader).collect())
    }

    fn tell(&mut self, tell: &Tell) {
        // It is a plain enum of numbers, which always has a JSON form.
        self.outbox.extend(serde_json::to_vec(tell).ok());
        self.flush();
    }

    /// Sends what there is room for.
    fn flush(&mut self) {
        while let (Some(socket), Some(packet)) = (&self.socket, self.outbox.front()) {
            match send(socket, packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => drop(self.outbox.pop_front()),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => return,
                Err(_) => self.socket = None,
            }
        }
        if self.socket.is_none() {
            self.outbox.clear();
        }
    }

    fn last_word(&mut self) {
        let patience = Timespec { tv_sec: LAST_WORD_S, tv_nsec: 0 };
        while let (Some(socket), false) = (&self.socket, self.outbox.is_empty()) {
            if !matches!(poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&patience)), Ok(1..)) {
                return;
            }
            self.flush();
        }
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, signal) => ExitStatus::Signal(signal.unwrap_or(libc::SIGKILL)),
    }
}
