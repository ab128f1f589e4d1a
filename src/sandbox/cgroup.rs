//! One cgroup per sandbox: a ceiling for memory and processes, a fair share of the processors, an account of what was
//! used, and a switch that kills everything inside at once.
//!
//! ```text
//! the server's own cgroup
//! ├─ repltool-<pid>-server the server itself, on v1, for its share of the processors
//! └─ repltool-<pid>       one per server; swept by the next server when that pid is dead
//!    ├─ _server           the server itself, only where cgroup v2 forbids processes beside enabled controllers
//!    └─ <name>            one per sandbox, never used twice: after a kill new arrivals could be killed at birth
//! ```
//!
//! All sandboxes weigh the same, however many processes they have, and together as much as an ordinary process on each
//! processor. The server outweighs them, and always gets its turn. A share is no ceiling: what others leave is anybody's.
//!
//! v1 keeps such a tree in each of its hierarchies, v2 has a single one. Where no tree is writable there is no group at
//! all, and the caller has rlimits alone, which hold for each process by itself. The module knows neither sessions nor
//! why a group is killed.

mod changes;
mod discover;
mod entrance;
mod error;
mod meter;
mod sweep;
mod v1;
mod v2;

use std::{
    cell::Cell,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use meter::{CpuMeter, Meter, Meters};
use serde::{Deserialize, Serialize};

pub use entrance::Entrance;
pub use error::CgroupError;
pub use v1::V1;
pub use v2::V2;

/// The ceilings of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory and swap together, in bytes. Pages of a private tmpfs and of memfds count too.
    pub memory_bytes: u64,
    /// Processes and threads together.
    pub max_processes: u32,
}

/// What v1 and v2 do each in its own way.
trait Layout {
    fn has_memory(&self) -> bool;
    fn has_processes(&self) -> bool;
    fn has_shares(&self) -> bool;
    fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError>;
    fn sweep(&self);
    fn shutdown(&self);
    fn is_gone(&self) -> bool;
}

/// What this host offers to this process; found once at start.
#[derive(Debug)]
pub enum Host {
    /// The old hierarchies, one for each controller, perhaps with the new one beside them for the kill switch.
    V1(V1),
    /// The single new hierarchy.
    V2(V2),
    /// No cgroup is writable.
    None,
}

impl Host {
    /// Finds the server's own cgroup and makes the folder `repltool-<pid>` in it, which is the only honest test of
    /// being allowed to. On v2 the server may have to move itself into a leaf for that. One process holds at most one
    /// `Host` at a time.
    pub fn discover() -> Host {
        // An unreadable file is like an empty one: nothing is found, and the answer is `None`.
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = discover::own_folders(&cgroups, &mounts);
        match own.unified {
            Some(base) if own.memory.is_none() => V2::open(&base, std::process::id()).map_or(Host::None, Host::V2),
            _ => V1::open(&own, std::process::id()).map_or(Host::None, Host::V1),
        }
    }

    /// Removes what dead servers left behind, and kills what still runs in it. Blocks for the death of those
    /// processes, at most about a second for each dead server. Call it at start, before the first `create`:
    /// groups in the folder of this very pid are taken for those of a dead namesake.
    pub fn sweep(&self) {
        if let Some(layout) = self.layout() {
            layout.sweep();
        }
    }

    /// Makes the group of one sandbox, with its limits, still empty. `name` is 1 to 64 characters of `[A-Za-z0-9-]`,
    /// unique for the life of the server.
    ///
    /// # Errors
    /// Any [`CgroupError`] but `Attach`; nothing is left behind then.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError> {
        let valid = (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !valid {
            return Err(CgroupError::Name(name.to_owned()));
        }
        self.layout().ok_or(CgroupError::Unavailable)?.create(name, limits)
    }

    /// Tells whether groups hold memory to its limit; if not, rlimits have to, for each process by itself.
    pub fn has_memory(&self) -> bool {
        self.layout().is_some_and(Layout::has_memory)
    }

    /// Tells whether groups hold the number of processes to its limit, and count what they refuse.
    pub fn has_processes(&self) -> bool {
        self.layout().is_some_and(Layout::has_processes)
    }

    /// Tells whether every group gets an equal share of the processors.
    pub fn has_shares(&self) -> bool {
        self.layout().is_some_and(Layout::has_shares)
    }

    /// Removes the server's own folder and undoes what `discover` changed, as far as no sandbox is left in it.
    /// Best effort: what stays is swept by the next server.
    pub fn shutdown(&self) {
        if let Some(layout) = self.layout() {
            layout.shutdown();
        }
    }

    /// Whether nothing is left of the server's own folder.
    pub fn is_gone(&self) -> bool {
        self.layout().is_none_or(Layout::is_gone)
    }

    fn layout(&self) -> Option<&dyn Layout> {
        match self {
            Host::V1(layout) => Some(layout),
            Host::V2(layout) => Some(layout),
            Host::None => None,
        }
    }
}

/// What a group has used since it was made; `None` where the host does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all processes, living and dead. Zero if the host does not count it.
    pub cpu: Duration,
    /// Bytes in use now.
    pub memory_current: Option<u64>,
    /// The most bytes that were ever in use at once.
    pub memory_peak: Option<u64>,
    /// Processes killed because the memory limit was reached.
    pub oom_kills: Option<u64>,
    /// Processes and threads that were refused because there were as many as allowed.
    pub refused_forks: Option<u64>,
}

/// A counter that can be handed to somebody else: a file to be read from its beginning, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counter {
    /// CPU time: `cpuacct.usage`, one number of nanoseconds, or `cpu.stat`, whose field `usage_usec` is in microseconds.
    Cpu,
    /// The peak of memory, one number of bytes; it starts anew when something is written to it. Linux has it on v2 from
    /// 5.19, and lets it be written from 6.12 on.
    MemoryPeak,
    /// The field `oom_kill` of `memory.oom_control` or `memory.events`.
    OomKills,
    /// The field `max` of `pids.events`.
    RefusedForks,
}

/// The cgroup of one sandbox. Dropping it removes what is empty by then; call `remove` until it says true.
#[derive(Debug)]
pub struct Group {
    folders: Vec<PathBuf>,
    /// The one of them that is of v2.
    unified: Option<PathBuf>,
    /// Where those are listed that take no part in the group's share of the processors.
    favoured: Option<PathBuf>,
    /// The files of its memory limit, the one of memory alone first.
    memory: Vec<PathBuf>,
    memory_bytes: Cell<u64>,
    /// The file of its share of the processors, the least that it takes, and the usual one.
    share: Option<(PathBuf, usize, usize)>,
    meters: Meters,
}

impl Group {
    fn new(limits: &Limits) -> Group {
        let memory_bytes = Cell::new(limits.memory_bytes);
        let (folders, memory, meters) = (Vec::new(), Vec::new(), Meters::default());
        Group { folders, unified: None, favoured: None, memory, memory_bytes, share: None, meters }
    }

    /// Makes one more folder that belongs to the group; `Drop` removes it if a later step fails.
    fn add(&mut self, folder: PathBuf) -> Result<(), CgroupError> {
        fs::create_dir(&folder).map_err(|source| CgroupError::Create { path: folder.clone(), source })?;
        self.folders.push(folder);
        Ok(())
    }

    /// Moves a process, with all its threads but without its children, into the group.
    ///
    /// # Errors
    /// `Attach`; the process may then sit in some hierarchies and not in others, so kill it.
    pub fn attach(&self, pid: i32) -> Result<(), CgroupError> {
        let attach_error = |path: &Path, source| CgroupError::Attach { pid, path: path.to_owned(), source };
        if pid <= 0 {
            // Zero would move the writer itself.
            return Err(attach_error(Path::new(""), io::ErrorKind::InvalidInput.into()));
        }
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), pid.to_string()).map_err(|source| attach_error(folder, source))?;
        }
        Ok(())
    }

    /// Opens the ways in for a process that is to be born.
    ///
    /// # Errors
    /// [`CgroupError::Enter`]
    pub fn entrance(&self) -> Result<Entrance, CgroupError> {
        Entrance::open(self)
    }

    /// Kills every process in the group at once. True if the switch was thrown; false if the host has none, and the
    /// caller has to kill pid 1 of the sandbox instead. Death follows within milliseconds, not before the return.
    pub fn kill(&self) -> bool {
        self.unified.as_ref().is_some_and(|folder| fs::write(folder.join("cgroup.kill"), "1").is_ok())
    }

    /// CPU time of all processes, living and dead; `None` if the host does not count it.
    pub fn cpu_time(&self) -> Option<Duration> {
        self.meters.cpu.as_ref().and_then(CpuMeter::read)
    }

    /// As [`Usage::memory_peak`].
    pub fn memory_peak(&self) -> Option<u64> {
        self.meters.memory_peak.as_ref().and_then(Meter::number)
    }

    /// As [`Usage::oom_kills`].
    pub fn oom_kills(&self) -> Option<u64> {
        self.meters.oom.as_ref().and_then(|meter| meter.field("oom_kill"))
    }

    /// As [`Usage::refused_forks`].
    pub fn refused_forks(&self) -> Option<u64> {
        self.meters.refused_forks.as_ref().and_then(|meter| meter.field("max"))
    }

    /// Reads the account. The first reading opens up to five files, which stay open with the group; later ones cost a few
    /// microseconds.
    pub fn usage(&self) -> Usage {
        Usage {
            cpu: self.cpu_time().unwrap_or_default(),
            memory_current: self.meters.memory_current.as_ref().and_then(Meter::number),
            memory_peak: self.memory_peak(),
            oom_kills: self.oom_kills(),
            refused_forks: self.refused_forks(),
        }
    }

    /// Opens the counters that this host has for somebody else to read, in the order of [`Counter`].
    ///
    /// # Errors
    /// Those of open(2), but for files that do not exist: these counters are left out.
    pub fn open_meters(&self) -> io::Result<Vec<(Counter, File)>> {
        self.meters.open()
    }

    /// Removes the group's folders. True once all are gone; false while a process still dies in one: call it again.
    pub fn remove(&mut self) -> bool {
        self.folders.retain(|folder| !is_gone(folder));
        self.folders.is_empty()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The name of a server's folder, and the way back.
fn server_folder(pid: u32) -> String {
    format!("{SERVER_PREFIX}{pid}")
}

/// Where a server itself sits on v1, and the way back.
fn server_side(pid: u32) -> String {
    server_folder(pid) + SERVER_SIDE
}

fn server_of_side(folder: &str) -> Option<u32> {
    server_of(folder.strip_suffix(SERVER_SIDE)?)
}

fn server_of(folder: &str) -> Option<u32> {
    folder.strip_prefix(SERVER_PREFIX)?.parse().ok()
}

const SERVER_PREFIX: &str = "repltool-";
const SERVER_SIDE: &str = "-server";
/// The leaf that the server itself sits in; no sandbox can have this name, because of the underscore.
const SERVER_LEAF: &str = "_server";

/// Processors that the server's processes may run on.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn is_gone(folder: &Path) -> bool {
    fs::remove_dir(folder).map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Removes a server's folder with the empty groups in it, as far as they are empty.
fn remove_server(folder: &Path) -> bool {
    for group in sub_folders(folder) {
        is_gone(&group);
    }
    is_gone(folder)
}

fn sub_folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect()
}

fn set(file: PathBuf, value: impl ToString) -> Result<(), CgroupError> {
    fs::write(&file, value.to_string()).map_err(|source| CgroupError::Limit { path: file, source })
}

/// Sets a limit that some kernels are built without, such as those for swap.
fn set_if_present(file: PathBuf, value: impl ToString) -> Result<(), CgroupError> {
    match set(file.clone(), value) {
        Err(_) if !file.exists() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        let limits = Limits { memory_bytes: 1 << 20, max_processes: 1 };
        for name in ["", ".", "..", "a/b", "_server", "a b", &"x".repeat(65)] {
            assert!(matches!(Host::None.create(name, &limits), Err(CgroupError::Name(_))), "{name:?}");
        }
        assert!(matches!(Host::None.create("ok-1", &limits), Err(CgroupError::Unavailable)));
    }

    #[test]
    fn only_a_servers_own_folders_are_recognised() {
        assert_eq!(server_of(&server_folder(17)), Some(17));
        assert_eq!(server_of("repltool-17x"), None);
        assert_eq!(server_of("other-17"), None);
    }
}
