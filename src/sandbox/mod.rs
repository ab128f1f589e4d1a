//! Sandboxes: an interpreter behind every wall that Linux offers, started from a finished plan.
//!
//! What it refuses to know: sessions, languages, the gateway, and why somebody wants a sandbox. It takes a program, its
//! level and its limits, and gives back descriptors.
//!
//! ```text
//!  supervisor                                   init (pid 1, a copy of the supervisor)       payload
//!  pipes, sockets, detached binds
//!  cgroups with limits
//!  clone3: user, mount, pid, net, ipc, uts ───▶ enters its cgroup, waits
//!  uid map, oom score
//!  go ────────────────────────────────────────▶ becomes its inner uid, death signal
//!                                               tmpfs root, binds, /dev, /proc, own /etc
//!                                               pivot_root, read-only root
//!                                               cgroup namespace, hostname, loopback
//!                                               locks itself, forks ─────────────────────────▶ stdio, rlimits
//!                                               closes all but its socket                      no capabilities, its uid
//!                                               reaps, signals, stdin, files (`init`)          Landlock, seccomp, execve
//!  waits until the program runs or a step is reported as failed
//! ```
//!
//! Everything that can be decided before the fork is decided before it (`plan`, `policy`). The caller must be
//! single-threaded, so that the code between clone and exec can be ordinary code; init never returns to the caller.
//! Steps only tighten. What Linux lacks is an error, but for `/proc`, which is reported, and for the newer parts of
//! Landlock, beside which the namespaces do the same.

pub mod cgroup;
pub mod confine;
mod enter;
mod error;
mod init;
pub mod init_link;
pub mod janitor;
mod library;
pub mod notify;
pub mod oci;
mod payload;
mod place;
mod plan;
mod policy;
pub mod probe;
pub mod reduced;
mod rights;
mod root;
mod spawn;
mod sys;
pub mod workdir;
pub mod zygote;

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use repltool_protocol::rest::SandboxMode;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use serde::{Deserialize, Serialize};

pub use error::{SpawnError, Step};
pub use plan::{Plan, PlanError};
pub use spawn::{enter_outer_namespace, spawn, spawn_from};

/// One sandbox, as the caller wants it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Names the cgroups; unique among the living sandboxes of this server. `[A-Za-z0-9-]`, 1 to 64 characters.
    pub name: &'a str,
    /// The level.
    pub mode: SandboxMode,
    /// What kind of program it is.
    pub kind: Kind,
    /// Directories and files, libraries apart, that are the program's own: all that it sees of the host at a level that
    /// shows it nothing else. Absolute.
    pub own: &'a [PathBuf],
    /// Whose processes they are, seen from the host.
    pub identity: Identity,
    /// The session's working directory; it becomes `/workspace`.
    pub workdir: &'a workdir::Workdir,
    /// The program and its arguments; the first one is an absolute path.
    pub argv: &'a [CString],
    /// The whole environment, `NAME=value`.
    pub environment: &'a [CString],
    /// Where the program starts: a path below `/workspace`, relative to it, made if it is not there. Empty: `/workspace`.
    pub cwd: &'a str,
    /// Files of ours, read-only: an absolute path below `/run/` and the content.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Directories of the host, shown read-only at the same absolute path. `/usr` is always there.
    pub binds: &'a [PathBuf],
    /// How the program is interrupted.
    pub interrupt: Interrupt,
    /// What its processes may use.
    pub limits: Limits,
}

/// What kind of program is started: the levels give a shell other things than an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Runs code of its own language, and needs no other program for that.
    Interpreter,
    /// Runs programs. It has a pipe to itself: descriptor 4 reads what is written to descriptor 5.
    Shell {
        /// Whether it has the basic utilities in `standard`.
        utilities: bool,
    },
}

/// How a program is interrupted, so that it keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interrupt {
    /// SIGINT to the program alone.
    Program,
    /// SIGINT to the program's process group.
    Group,
    /// A byte on the pipe that the program has as descriptor 4, and SIGINT to the other processes of its group.
    Byte,
}

/// Files of ours for programs of one kind, as [`Request::files`] takes them.
pub type OwnFiles = Vec<(&'static str, std::borrow::Cow<'static, [u8]>)>;

/// Host ids of a sandbox's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// Two ids of its own, each used as uid and gid: needs a privileged caller. Inside they are 1000 and 0.
    Mapped {
        /// Host id of the program.
        payload: u32,
        /// Host id of init.
        init: u32,
    },
    /// The same without a user namespace: they are the same inside. Needs [`Plan::compile_reduced`].
    Plain {
        /// Id of the program.
        payload: u32,
        /// Id of init.
        init: u32,
    },
    /// The caller's own uid for everything. Inside it is 1000. Needs [`enter_outer_namespace`] first.
    Single,
}

impl Identity {
    /// Uid and gid of the program, seen from the caller's user namespace.
    pub fn payload_owner(self) -> (u32, u32) {
        match self {
            Self::Mapped { payload, .. } | Self::Plain { payload, .. } => (payload, payload),
            Self::Single => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        }
    }
}

/// What the processes of a sandbox may use. Values above the caller's own hard limits are lowered to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together, tmpfs included, in bytes; without a memory cgroup, what `memory_rlimit` says of
    /// each process.
    pub memory_bytes: u64,
    /// What is held to `memory_bytes` where there is no memory cgroup.
    pub memory_rlimit: MemoryRlimit,
    /// Processes and threads at once, without init.
    pub max_processes: u32,
    /// CPU seconds of each single process before Linux kills it. A backstop: be generous.
    pub cpu_seconds: u64,
    /// The largest file, in bytes.
    pub file_bytes: u64,
    /// Size of `/tmp` and of `/dev/shm`, in bytes each.
    pub tmp_bytes: u64,
    /// Files in `/tmp` and in `/dev/shm`, each.
    pub tmp_inodes: u64,
    /// Open descriptors of each process.
    pub open_files: u64,
}

/// Which memory of a process Linux holds to a limit where there is no memory cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryRlimit {
    /// All that it maps.
    AddressSpace,
    /// Its own private memory: for programs that map much more than they use. Shared memory is not counted.
    Data,
}

/// A running sandbox. Dropping it kills everything in it and waits for the end.
#[derive(Debug)]
pub struct Sandbox {
    /// Init, as the caller sees it.
    pub pid: i32,
    /// Init; readable once it ended, and with it everything inside.
    pub pidfd: OwnedFd,
    /// Read end of the program's standard output; non-blocking.
    pub stdout: OwnedFd,
    /// Read end of the program's standard error; non-blocking.
    pub stderr: OwnedFd,
    /// The caller's end of the stream socket that the program has as descriptor 3; non-blocking.
    pub control: OwnedFd,
    /// The caller's end of init's packet socket ([`init_link`]); non-blocking.
    pub init: OwnedFd,
    /// Where Linux asks about calls that are reported ([`notify`]), for who answers to take: without an answer the caller
    /// waits. `None` before the program runs, and once it was taken.
    pub listener: Option<notify::Listener>,
    /// Whether `/proc` could be mounted inside.
    pub has_proc: bool,
    group: Option<cgroup::Group>,
    /// Whose processes are those of the program, where they do not end with init by themselves.
    user: Option<u32>,
    exit: Option<Exit>,
}

/// How init ended. It ends as the program did, if nobody killed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exited by itself with this code; 128 + n if signal n ended the program.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Sandbox {
    /// Kills every process inside. Returns at once; [`Sandbox::pidfd`] tells the end.
    pub fn kill(&self) {
        if self.user.is_some() {
            return self.ask_to_end();
        }
        if let Some(group) = &self.group {
            group.kill();
        }
        if self.exit.is_none() {
            // The only failure is that init is gone already, which is what was wanted.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
    }

    /// Kills every process inside and waits, some milliseconds, until they are gone.
    pub fn end(&mut self) {
        self.kill();
        if self.exit.is_none() {
            self.exit = self.wait(WaitIdOptions::EXITED);
            self.end_rest();
        }
    }

    /// What its processes used so far; zero and `None` where this host has no cgroup that could tell.
    pub fn usage(&self) -> cgroup::Usage {
        let nothing = cgroup::Usage {
            cpu: Duration::ZERO,
            memory_current: None,
            memory_peak: None,
            oom_kills: None,
            refused_forks: None,
        };
        self.group.as_ref().map_or(nothing, cgroup::Group::usage)
    }

    /// From now on it may use so much memory, where there is a memory cgroup.
    ///
    /// # Errors
    /// [`cgroup::CgroupError::Limit`]
    pub fn set_memory(&self, bytes: u64) -> Result<(), cgroup::CgroupError> {
        self.group.as_ref().map_or(Ok(()), |group| group.set_memory(bytes))
    }

    /// From now on it has its share of the processors.
    ///
    /// # Errors
    /// As [`Sandbox::set_memory`].
    pub fn share_processors(&self) -> Result<(), cgroup::CgroupError> {
        self.group.as_ref().map_or(Ok(()), cgroup::Group::share_processors)
    }

    /// Until then, it gets only what others leave of the processors.
    ///
    /// # Errors
    /// As [`Sandbox::set_memory`].
    pub fn yield_processors(&self) -> Result<(), cgroup::CgroupError> {
        self.group.as_ref().map_or(Ok(()), cgroup::Group::yield_processors)
    }

    /// Its cgroup, where this host has some.
    pub fn group(&self) -> Option<&cgroup::Group> {
        self.group.as_ref()
    }

    /// See [`cgroup::Group::open_meters`].
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open_meters(&self) -> std::io::Result<Vec<(cgroup::Counter, std::fs::File)>> {
        self.group.as_ref().map_or(Ok(Vec::new()), cgroup::Group::open_meters)
    }

    /// Takes notice of the end of init. `None` while it lives. May be called again.
    pub fn reap(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            self.exit = self.wait(WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if self.exit.is_some() {
                self.end_rest();
            }
        }
        self.exit
    }

    /// Gives back what Linux keeps of a sandbox that ended. Returns the sandbox if it is too early: try again a little later.
    #[must_use = "a sandbox that comes back must be released again"]
    pub fn release(mut self) -> Option<Self> {
        let gone = self.reap().is_some() && self.group.as_mut().is_none_or(cgroup::Group::remove);
        if gone { None } else { Some(self) }
    }

    /// Init kills all, and ends.
    fn ask_to_end(&self) {
        if self.exit.is_none() {
            // As in `kill`.
            let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
        }
    }

    /// What an init that was killed may have left behind.
    fn end_rest(&self) {
        if let Some(user) = self.user {
            if let Some(group) = &self.group {
                group.kill();
            }
            reduced::kill_all_of(user);
        }
    }

    fn wait(&self, options: WaitIdOptions) -> Option<Exit> {
        let status = loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
                Err(rustix::io::Errno::INTR) => {}
                // Somebody else reaped it: the end is certain, the manner is lost.
                Err(_) => return Some(Exit::Signal(libc::SIGKILL)),
                Ok(status) => break status?,
            }
        };
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(libc::SIGKILL)),
        })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            self.exit = self.wait(WaitIdOptions::EXITED);
            self.end_rest();
        }
        // The group removes its folders when it is dropped, right after this.
    }
}
