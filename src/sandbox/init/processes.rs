//! The processes of the sandbox, as init sees and signals them.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::event::{Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, test_kill_process, wait};

use crate::sandbox::init_link::Outcome;

/// How often `kill_rest` looks for processes that were forked meanwhile. Two suffice unless something forks on purpose.
const MAX_ROUNDS: usize = 32;
/// How often, a millisecond apart, `kill_rest` looks whether anything lives, and kills that.
const DEATH_ROUNDS: usize = 250;
/// How often, a millisecond apart, it is looked whether a sleeper that was woken has run. On a machine that is busy beyond
/// measure that takes long; whoever asked waits for two seconds.
const WAKE_ROUNDS: usize = 1500;
/// As [`WAKE_ROUNDS`], where sleepers cannot be seen.
const BLIND_ROUNDS: usize = 5;

/// How often, a millisecond apart, `end_all` looks whether anybody is left.
const END_ROUNDS: usize = 10_000;

/// What is inside, but for init and its own copies.
pub(super) struct Processes {
    /// A detached, complete `/proc`; `None`: others than the leader cannot be seen.
    pub(super) proc: Option<OwnedFd>,
    /// The program.
    pub(super) leader: Pid,
}

/// A thread that slept.
pub(super) struct Sleeper {
    /// In `/proc`.
    path: String,
    /// How often it had been given a processor. It stays 0 where Linux does not count it.
    runs: u64,
}

impl Processes {
    /// Kills everything but the program and waits, for some time at most, until it is dead: a signal is sent before it is
    /// obeyed. `spared` are our own.
    pub(super) fn kill_rest(&self, spared: &[Pid]) -> Outcome {
        for _ in 0..DEATH_ROUNDS {
            match self.stop_and_kill(spared) {
                None => return Outcome::Void,
                Some(0) => break,
                Some(_) => pause(),
            }
        }
        Outcome::Delivered
    }

    /// Stops everything before it kills anything, so that nothing can fork in answer to a sibling's death. Says how many
    /// were alive; `None` where there is no way to see them.
    fn stop_and_kill(&self, spared: &[Pid]) -> Option<usize> {
        let mut stopped = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            let living = self.others(spared)?.into_iter().filter(|pid| self.lives(*pid));
            let fresh: Vec<Pid> = living.filter(|pid| stopped.insert(pid.as_raw_nonzero())).collect();
            if fresh.is_empty() {
                break;
            }
            for pid in fresh {
                // Whoever is gone already is as good as stopped.
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        for pid in stopped.iter().filter_map(|pid| Pid::from_raw(pid.get())) {
            let _ = kill_process(pid, Signal::KILL);
        }
        Some(stopped.len())
    }

    /// Where nothing ends with init by itself: kills whatever init may signal until nobody is left to wait for, some
    /// seconds at most. Orphans are init's children, and what forks meanwhile dies of the signal that reached it before.
    pub(super) fn end_all() {
        for _ in 0..END_ROUNDS {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::Signal::SIGKILL);
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) | Err(Errno::INTR) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            pause();
        }
    }

    /// A dead child of the program stays listed until the program asks for it.
    fn lives(&self, pid: Pid) -> bool {
        self.stat(&pid.as_raw_nonzero().to_string()).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X'))
    }

    /// Sends SIGINT to the members of the program's process group but the program.
    pub(super) fn interrupt_children(&self) {
        // Nobody but the program can be in the group of its name before it: it leads a session.
        let group = self.leader.as_raw_nonzero().to_string();
        for pid in self.others(&[]).unwrap_or_default() {
            if self.stat(&pid.as_raw_nonzero().to_string()).is_some_and(|stat| stat.group == group) {
                let _ = kill_process(pid, Signal::INT);
            }
        }
    }

    /// The threads that sleep, and can be woken, at this moment.
    pub(super) fn sleepers(&self) -> Vec<Sleeper> {
        let pids = self.others(&[]).unwrap_or_default().into_iter().chain([self.leader]);
        let tasks = pids.flat_map(|pid| {
            let folder = format!("{}/task", pid.as_raw_nonzero());
            let numbers = self.numbers(&folder).unwrap_or_default();
            numbers.into_iter().map(move |number| format!("{folder}/{}", number.as_raw_nonzero()))
        });
        let asleep = tasks.filter(|path| self.stat(path).is_some_and(|stat| stat.state == b'S'));
        asleep.map(|path| Sleeper { runs: self.runs(&path), path }).collect()
    }

    /// Waits, for some time at most, until those of the sleepers that were woken have found out why.
    pub(super) fn wait_for_sleepers(&self, sleepers: &[Sleeper]) {
        if self.proc.is_none() {
            return (0..BLIND_ROUNDS).for_each(|_| pause());
        }
        let awake = |sleeper: &Sleeper| self.stat(&sleeper.path).is_some_and(|stat| matches!(stat.state, b'R' | b'D'));
        let mut left: Vec<&Sleeper> = sleepers.iter().filter(|sleeper| awake(sleeper)).collect();
        for _ in 0..WAKE_ROUNDS {
            if left.is_empty() {
                return;
            }
            // Even who runs already may need a moment to find out.
            pause();
            left.retain(|sleeper| awake(sleeper) && self.runs(&sleeper.path) <= sleeper.runs);
        }
    }

    /// Every process but init, the program and `spared`; `None` where there is no way to see them.
    fn others(&self, spared: &[Pid]) -> Option<Vec<Pid>> {
        let pids = self.numbers(".")?.into_iter().filter(|pid| *pid != getpid() && *pid != self.leader);
        // Where there is no pid namespace, others are there whom init has no right to signal.
        Some(pids.filter(|pid| !spared.contains(pid) && test_kill_process(*pid).is_ok()).collect())
    }

    fn numbers(&self, folder: &str) -> Option<Vec<Pid>> {
        // What `fsmount` gave is no more than a path.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(self.proc.as_ref()?, folder, flags, Mode::empty()).ok()?;
        let entries = Dir::new(folder).ok()?.collect::<Result<Vec<_>, _>>().ok()?;
        let names = entries.iter().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        Some(names.filter_map(Pid::from_raw).collect())
    }

    /// `None` for what is gone.
    fn stat(&self, task: &str) -> Option<Stat> {
        let text = self.read(format!("{task}/stat"))?;
        // The name, in parentheses, may hold anything; after it come state, parent and group.
        let mut fields = text.rsplit(')').next()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        Some(Stat { state, group: fields.nth(1)?.to_owned() })
    }

    /// How often a thread was given a processor.
    fn runs(&self, task: &str) -> u64 {
        let text = self.read(format!("{task}/schedstat"));
        text.and_then(|text| text.split_ascii_whitespace().nth(2)?.parse().ok()).unwrap_or(0)
    }

    fn read(&self, path: String) -> Option<String> {
        let file = openat(self.proc.as_ref()?, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 512];
        let length = rustix::io::read(file, &mut text).ok()?;
        Some(String::from_utf8_lossy(text.get(..length)?).into_owned())
    }
}

struct Stat {
    state: u8,
    group: String,
}

fn pause() {
    let time = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let _ = poll(&mut [], Some(&time));
}
