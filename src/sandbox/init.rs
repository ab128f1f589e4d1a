//! Pid 1 of every sandbox: reaps, passes signals on, feeds standard input, opens files for the outside, and tells how the
//! program ended.
//!
//! It is a copy of the supervisor that holds a handful of descriptors and never executes anything. It takes packets from
//! the gateway ([`super::init_link`]) and trusts nothing from inside: it reads no memory, file or socket of the program.
//! When the program ends, init ends, and Linux kills what else is in its pid namespace.

mod files;
mod list;
mod processes;
pub(super) mod stdin;
mod work;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait};

use self::files::{Files, Worker};
use self::processes::Processes;
use self::stdin::Stdin;
use super::init_link::{Ask, ExitStatus, FileAsk, MAX_PACKET_BYTES, Outcome, Tell, VERSION};
use super::{Identity, Interrupt, sys};

/// Answers that wait for room in the socket. While there are as many, no question is read.
const MAX_OUTBOX: usize = 16;
/// How long the last packet may wait for room, in seconds. The exit code tells the same.
const LAST_WORD_S: i64 = 1;

/// All that init keeps.
pub(super) struct Held {
    /// To the gateway; non-blocking.
    pub(super) socket: OwnedFd,
    /// The working directory; a path only.
    pub(super) workdir: OwnedFd,
    /// Of the program's standard input.
    pub(super) stdin: stdin::Ends,
    /// A detached, complete `/proc`, where there can be one.
    pub(super) proc: Option<OwnedFd>,
    /// The write end of the program's interrupt pipe, if it has one; non-blocking.
    pub(super) bell: Option<OwnedFd>,
}

impl Held {
    /// Every descriptor in it.
    pub(super) fn descriptors(&mut self) -> Vec<&mut OwnedFd> {
        let Self { socket, workdir, stdin, proc, bell } = self;
        let sometimes = [stdin.write.as_mut(), proc.as_mut(), bell.as_mut()];
        [socket, workdir, &mut stdin.read].into_iter().chain(sometimes.into_iter().flatten()).collect()
    }
}

/// Serves as pid 1 until the program ends. All signals are blocked already.
pub(super) fn run(held: Held, leader: Pid, identity: Identity, interrupt: Interrupt) -> ! {
    let mut init = Init {
        socket: Some(held.socket),
        outbox: VecDeque::new(),
        processes: Processes { proc: held.proc, leader },
        interrupt,
        bell: held.bell,
        stdin: Some(Stdin::new(held.stdin)),
        files: Files::new(held.workdir, identity),
    };
    init.tell(&Tell::Hello { version: VERSION });
    let status = init.serve(identity);
    init.files.end();
    if matches!(identity, Identity::Plain { .. }) {
        Processes::end_all();
    }
    // Who asked for the end needs no word of it.
    if let Some(status) = status {
        init.tell(&Tell::Exit(status));
        init.last_word();
    }
    sys::exit_now(match status.unwrap_or(ExitStatus::Signal(libc::SIGKILL)) {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
    })
}

struct Init {
    /// `None` once nobody holds the other end.
    socket: Option<OwnedFd>,
    outbox: VecDeque<Vec<u8>>,
    processes: Processes,
    interrupt: Interrupt,
    bell: Option<OwnedFd>,
    /// `None` in a copy that does something with files.
    stdin: Option<Stdin>,
    files: Files,
}

impl Init {
    /// Returns how the program ended; `None` if init is to end it.
    fn serve(&mut self, identity: Identity) -> Option<ExitStatus> {
        let mut mask = SigSet::empty();
        mask.add(NixSignal::SIGCHLD);
        if matches!(identity, Identity::Plain { .. }) {
            mask.add(NixSignal::SIGTERM);
        }
        // Without it, init could not learn of any death: better to end at once, as a crash would.
        let Ok(signals) = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC) else {
            return Some(ExitStatus::Signal(libc::SIGKILL));
        };
        loop {
            if let Some(status) = self.reap() {
                return Some(status);
            }
            self.files.kill_the_late();
            self.feed();
            self.flush();
            let Some(events) = self.wait_for_events(&signals) else { continue };
            // Who died does not matter: `reap` asks.
            while let Ok(Some(signal)) = signals.read_signal() {
                if signal.ssi_signo == libc::SIGTERM.cast_unsigned() {
                    return None;
                }
            }
            if events.contains(PollFlags::IN) {
                self.answer();
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                self.socket = None;
            }
        }
    }

    /// Returns what there is on the socket; `None` for a failed wait.
    fn wait_for_events(&self, signals: &SignalFd) -> Option<PollFlags> {
        let wanted = if self.outbox.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let wanted = if self.outbox.len() < MAX_OUTBOX { wanted } else { PollFlags::OUT };
        let mut ready = vec![PollFd::new(signals, PollFlags::IN)];
        ready.extend(self.socket.as_ref().map(|socket| PollFd::new(socket, wanted)));
        let pipe = self.stdin.as_ref().and_then(Stdin::wants_room);
        ready.extend(pipe.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        let timeout = self.files.patience_s().map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
        poll(&mut ready, timeout.as_ref()).ok()?;
        let socket = self.socket.as_ref().and_then(|_| ready.get(1));
        Some(socket.map_or(PollFlags::empty(), PollFd::revents))
    }

    /// Reaps all that are dead. Returns how the program ended, if it did.
    fn reap(&mut self) -> Option<ExitStatus> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.processes.leader => return Some(exit_status(status)),
                Ok(Some((pid, status))) => {
                    let answer = self.files.ended(pid, status.exit_status());
                    answer.into_iter().for_each(|answer| self.tell(&answer));
                }
                Err(Errno::INTR) => {}
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
        match ask {
            Ask::Interrupt { id } => self.done(id, self.interrupt()),
            Ask::KillRest { id } => self.done(id, self.processes.kill_rest(&self.files.workers())),
            Ask::Stdin { id, text, end } => {
                let refused = self.stdin.as_mut().and_then(|stdin| stdin.give(id, text, end));
                refused.into_iter().for_each(|answer| self.tell(&answer));
            }
            Ask::FreshStdin { id } => self.begin_stdin_anew(id),
            Ask::File { id, what } => self.start_work(id, &what),
        }
    }

    /// The program's pid cannot be another's: until it is reaped here, nobody gets it.
    fn interrupt(&self) -> Outcome {
        let leader = self.processes.leader;
        let delivered = match self.interrupt {
            Interrupt::Program => kill_process(leader, Signal::INT).is_ok(),
            Interrupt::Group => kill_process_group(leader, Signal::INT).is_ok(),
            Interrupt::Byte => {
                self.processes.interrupt_children();
                self.ring()
            }
        };
        if delivered { Outcome::Delivered } else { Outcome::Void }
    }

    /// A pipe that is full of bytes will interrupt the program as well as one more could.
    fn ring(&self) -> bool {
        self.bell.as_ref().is_some_and(|bell| matches!(write(bell, b"!"), Ok(_) | Err(Errno::AGAIN)))
    }

    fn feed(&mut self) {
        let answers = self.stdin.as_mut().map(|stdin| stdin.write(&self.processes));
        answers.into_iter().flatten().for_each(|answer| self.tell(&answer));
    }

    fn begin_stdin_anew(&mut self, id: u64) {
        let Some(stdin) = &mut self.stdin else { return };
        let (answers, outcome) = stdin.begin_anew(&self.processes, &self.files);
        answers.iter().for_each(|answer| self.tell(answer));
        self.done(id, outcome);
    }

    fn start_work(&mut self, id: u64, what: &FileAsk) {
        let given_up = self.files.make_room();
        given_up.iter().for_each(|answer| self.tell(answer));
        let started = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).and_then(|(arrived, arriving)| {
            let pid = sys::fork(|| self.work(id, what, arriving))?;
            Ok(Worker::new(id, pid, arrived))
        });
        match started {
            Ok(worker) => self.files.started(worker),
            Err(_) => self.tell(&Tell::File { id, errno: libc::EAGAIN, existed: false }),
        }
    }

    /// In a copy of init.
    fn work(&mut self, id: u64, what: &FileAsk, arriving: OwnedFd) -> i32 {
        // First of all: while anybody holds a write end, the program waits for an end of file.
        self.stdin = None;
        drop(arriving);
        self.bell = None;
        self.processes.proc = None;
        match &self.socket {
            Some(socket) => self.files.work(socket, id, what),
            None => 1,
        }
    }

    fn done(&mut self, id: u64, outcome: Outcome) {
        self.tell(&Tell::Done { id, outcome });
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
