//! A program that does what a test tells it, line by line, and what its init is asked meanwhile.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::time::Duration;

use repltool::sandbox::init_link::{Ask, FileAsk, Outcome, Tell};
use repltool::sandbox::{Interrupt, Sandbox};
use rustix::io::IoSliceMut;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use tokio::time::Instant;

use crate::remains::children;
use crate::world::{Run, World, kill, line, python, wait};

/// Each line of descriptor 3 is run; what it prints, or the name of its exception, is one line.
const PROGRAM: &str = r"
import os, sys, time, errno, signal, socket, subprocess, threading
def say(*words): os.write(1, (' '.join(str(w) for w in words) + '\n').encode())
def attempt(f):
    try: f(); return 'done'
    except OSError as e: return errno.errorcode[e.errno]
lines = os.fdopen(os.dup(3), 'r')
while True:
    try: exec(lines.readline(), globals())
    except BaseException as e: say(type(e).__name__, e)
";

/// A sandbox with such a program, which ends with it.
pub struct Driven(Option<Sandbox>);

/// What was answered to an ask about files.
#[derive(Debug)]
pub struct Answer {
    pub errno: i32,
    pub existed: bool,
    pub fd: Option<OwnedFd>,
}

impl Deref for Driven {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        self.0.as_ref().unwrap()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.take().into_iter().for_each(kill);
        }
    }
}

impl Driven {
    pub fn start(world: &World) -> Driven {
        Driven::with(world, &Run::default())
    }

    pub fn interrupted_by(world: &World, interrupt: Interrupt) -> Driven {
        Driven::with(world, &Run { interrupt, ..Run::default() })
    }

    pub fn with(world: &World, run: &Run<'_>) -> Driven {
        let driven = Driven(Some(world.spawn(&Run { program: &python(PROGRAM), ..*run }).unwrap()));
        assert!(matches!(driven.hear().0, Tell::Hello { .. }));
        driven
    }

    /// Has the program run a line of Python.
    pub fn run(&self, code: &str) {
        let line = format!("{code}\n");
        assert_eq!(send(&self.control, line.as_bytes(), SendFlags::empty()).unwrap(), line.len());
    }

    /// Has the program run a line and returns what it says.
    pub fn get(&self, code: &str) -> String {
        self.run(code);
        line(&self.stdout)
    }

    /// Whether the program says nothing for some time.
    pub fn is_silent(&self) -> bool {
        !wait(&self.stdout, 60)
    }

    /// Waits until so many threads inside wait in a read of descriptor 0.
    pub fn wait_for_readers(&self, wanted: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while readers_below(self.pid) != wanted {
            assert!(Instant::now() < deadline, "there are {} readers", readers_below(self.pid));
            wait(&self.pidfd, 2);
        }
    }

    pub fn ask(&self, ask: &Ask) {
        send(&self.init, &serde_json::to_vec(ask).unwrap(), SendFlags::empty()).unwrap();
    }

    /// The next packet of init.
    pub fn hear(&self) -> (Tell, Option<OwnedFd>) {
        assert!(wait(&self.init, 40_000), "init says nothing");
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(&self.init, parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let mut fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let fd = fds.next();
        assert!(fds.next().is_none());
        (serde_json::from_slice(&buffer[..received.bytes]).unwrap(), fd)
    }

    pub fn is_unanswered(&self) -> bool {
        !wait(&self.init, 60)
    }

    /// Hears the answer to an ask that is about no file.
    pub fn outcome(&self, id: u64) -> Outcome {
        match self.hear().0 {
            Tell::Done { id: of, outcome } if of == id => outcome,
            other => panic!("{other:?} is no answer to {id}"),
        }
    }

    pub fn give(&self, id: u64, text: &str, end: bool) {
        self.ask(&Ask::Stdin { id, text: text.to_owned(), end });
    }

    /// Gives a text for which there is room.
    pub fn feed(&self, text: &str, end: bool) {
        self.give(1, text, end);
        assert_eq!(self.outcome(1), Outcome::Delivered);
    }

    pub fn begin_stdin_anew(&self) {
        self.ask(&Ask::FreshStdin { id: 2 });
        assert_eq!(self.outcome(2), Outcome::Delivered);
    }

    pub fn interrupt(&self) {
        self.ask(&Ask::Interrupt { id: 3 });
        assert_eq!(self.outcome(3), Outcome::Delivered);
    }

    /// Asks about files, while nothing else is asked.
    pub fn file(&self, what: FileAsk) -> Answer {
        self.ask(&Ask::File { id: 4, what });
        self.answer(4)
    }

    pub fn answer(&self, id: u64) -> Answer {
        match self.hear() {
            (Tell::File { id: of, errno, existed }, fd) if of == id => Answer { errno, existed, fd },
            (other, _) => panic!("{other:?} is no answer to {id}"),
        }
    }
}

fn readers_below(pid: i32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let calls = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("syscall")).ok());
    // Number and arguments; the first argument of a call that may wait is a descriptor or an address.
    let own = calls.filter(|call| call.split(' ').nth(1) == Some("0x0")).count();
    own + children(pid).into_iter().map(readers_below).sum::<usize>()
}
