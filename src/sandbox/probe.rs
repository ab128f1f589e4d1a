//! Which walls this host really gives, each found by putting it up in a throw-away child.
//!
//! A version number or a file in `/proc` would be quicker to ask and wrong too often: containers mask, filters refuse,
//! and security modules let a call succeed that then gives nothing. The module only reports; whether a server may start
//! with what was found is decided elsewhere.

mod containers;
mod groups;
mod hints;
mod locks;
mod remedies;
mod sys;
mod trial;
mod walls;

pub use containers::{container, containers};
pub use remedies::remedy;
use serde::{Deserialize, Serialize};

/// The names of the layers, in the order of a report.
pub mod names {
    /// A user namespace: no privilege inside is one outside.
    pub const USER_NAMESPACE: &str = "user_namespace";
    /// A file tree of its own.
    pub const MOUNT_NAMESPACE: &str = "mount_namespace";
    /// Processes outside cannot be seen or signalled.
    pub const PID_NAMESPACE: &str = "pid_namespace";
    /// No network.
    pub const NETWORK_NAMESPACE: &str = "network_namespace";
    /// System V and POSIX queues, semaphores and shared memory of its own.
    pub const IPC_NAMESPACE: &str = "ipc_namespace";
    /// A host name of its own.
    pub const UTS_NAMESPACE: &str = "uts_namespace";
    /// The host's cgroup paths are hidden.
    pub const CGROUP_NAMESPACE: &str = "cgroup_namespace";
    /// The old root is left for good.
    pub const PIVOT_ROOT: &str = "pivot_root";
    /// A single file of the host is shown, and nothing beside it.
    pub const SMALL_ROOT: &str = "small_root";
    /// A tmpfs made outside is shown inside.
    pub const WORKING_DIRECTORY: &str = "working_directory";
    /// A `/proc` that shows the sandbox's own processes.
    pub const PROC_MOUNT: &str = "proc_mount";
    /// Uids that no other session has.
    pub const SESSION_UIDS: &str = "session_uids";
    /// Landlock refuses to open files.
    pub const LANDLOCK: &str = "landlock";
    /// Landlock (ABI 6) keeps signals and abstract sockets inside.
    pub const LANDLOCK_SCOPES: &str = "landlock_scopes";
    /// A filter for system calls.
    pub const SECCOMP: &str = "seccomp";
    /// A filter that asks, and whose answer counts.
    pub const SECCOMP_LISTENER: &str = "seccomp_listener";
    /// A program can be executed once, and nothing after it.
    pub const EXEC_ONCE: &str = "exec_once";
    /// Memory is limited for all processes together.
    pub const MEMORY_CGROUP: &str = "memory_cgroup";
    /// So is the number of processes.
    pub const PIDS_CGROUP: &str = "pids_cgroup";
    /// Every sandbox gets an equal share of the processors.
    pub const CPU_CGROUP: &str = "cpu_cgroup";
    /// One switch kills everything at once.
    pub const CGROUP_KILL: &str = "cgroup_kill";

    /// All of them.
    pub const ALL: [&str; 21] = [
        USER_NAMESPACE,
        MOUNT_NAMESPACE,
        PID_NAMESPACE,
        NETWORK_NAMESPACE,
        IPC_NAMESPACE,
        UTS_NAMESPACE,
        CGROUP_NAMESPACE,
        PIVOT_ROOT,
        SMALL_ROOT,
        WORKING_DIRECTORY,
        PROC_MOUNT,
        SESSION_UIDS,
        LANDLOCK,
        LANDLOCK_SCOPES,
        SECCOMP,
        SECCOMP_LISTENER,
        EXEC_ONCE,
        MEMORY_CGROUP,
        PIDS_CGROUP,
        CPU_CGROUP,
        CGROUP_KILL,
    ];

    /// Without any of these a sandbox cannot be put together as it is meant.
    pub(super) const WALLS: [&str; 14] = [
        USER_NAMESPACE,
        MOUNT_NAMESPACE,
        PID_NAMESPACE,
        NETWORK_NAMESPACE,
        IPC_NAMESPACE,
        UTS_NAMESPACE,
        CGROUP_NAMESPACE,
        PIVOT_ROOT,
        SMALL_ROOT,
        WORKING_DIRECTORY,
        LANDLOCK,
        SECCOMP,
        SECCOMP_LISTENER,
        EXEC_ONCE,
    ];

    /// What has to stand where there are no namespaces.
    pub(super) const REDUCED: [&str; 6] =
        [LANDLOCK, LANDLOCK_SCOPES, SECCOMP, SECCOMP_LISTENER, EXEC_ONCE, SESSION_UIDS];
}

/// How much isolation the host gives, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// All namespaces, Landlock, seccomp, and a memory cgroup.
    A,
    /// As A, but without a memory cgroup: an rlimit holds each process, and the supervisor watches all together.
    B,
    /// No namespaces, but Landlock with scopes, seccomp and a uid for each session: only if the operator says so.
    C,
    /// Less than that: nothing may run.
    #[serde(rename = "none")]
    None,
}

/// One wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// One of [`names`].
    pub name: String,
    /// Whether it stood.
    pub active: bool,
    /// What was found, or why it did not stand.
    pub detail: String,
}

/// All walls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The sum of it.
    pub tier: Tier,
    /// Every layer of [`names`], in that order.
    pub layers: Vec<Layer>,
}

impl Report {
    /// Tells whether the layer of this name stood.
    pub fn is_active(&self, name: &str) -> bool {
        self.layers.iter().any(|layer| layer.name == name && layer.active)
    }

    /// The layers without which no sandbox is made, and that did not stand.
    pub fn missing(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| !layer.active && names::WALLS.contains(&layer.name.as_str()))
    }

    fn of(found: Vec<Layer>) -> Report {
        let layers = names::ALL.iter().map(|name| settle(name, &found)).collect();
        let mut report = Report { tier: Tier::None, layers };
        let all = |wanted: &[&str]| wanted.iter().all(|name| report.is_active(name));
        report.tier = match () {
            () if all(&names::WALLS) && report.is_active(names::MEMORY_CGROUP) => Tier::A,
            () if all(&names::WALLS) => Tier::B,
            () if all(&names::REDUCED) => Tier::C,
            () => Tier::None,
        };
        report
    }
}

/// The last word on a layer is what counts; silence means that a trial died before it.
fn settle(name: &str, found: &[Layer]) -> Layer {
    let last = found.iter().rev().find(|layer| layer.name == name);
    last.cloned().unwrap_or_else(|| layer(name, Err("the trial ended before it came to this".to_owned())))
}

fn layer(name: &str, outcome: Result<String, String>) -> Layer {
    let active = outcome.is_ok();
    let detail = outcome.unwrap_or_else(|reason| reason);
    Layer { name: name.to_owned(), active, detail }
}

/// Puts up every wall once and tells which ones stood. Takes some 20 ms, in the worst case a few seconds, since no
/// trial may take longer than its deadline; nothing is left behind.
///
/// The process must have one thread, and must not hold a [`Host`](super::cgroup::Host) yet: the trial makes one and
/// shuts it down again.
pub fn probe() -> Report {
    let mut found = walls::namespaces();
    found.extend(locks::landlock());
    found.extend(locks::seccomp());
    found.extend(groups::cgroups());
    Report::of(found)
}

#[cfg(test)]
mod tests;
