//! Policy compiled before any fork: what is the same for every sandbox of this host. Safe code only.

#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use landlock::ABI;
use libseccomp::error::SeccompError;
use libseccomp::{ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use repltool_protocol::rest::SandboxMode;

use super::cgroup::Host;
use super::library::Library;
use super::notify::Reported;
use super::oci::Runtime;
use super::policy::{self, Answer, Exec, When, names};
use super::reduced::Drivers;
use super::{Kind, sys};

/// Everything about sandboxes that is decided once, at start.
#[derive(Debug)]
pub struct Plan {
    pub(super) host: Host,
    pub(super) landlock: ABI,
    pub(super) system: Vec<System>,
    pub(super) library: Library,
    /// Where there are no namespaces.
    pub(super) reduced: Option<Drivers>,
    levels: Vec<Level>,
    /// The levels whose sandboxes are containers.
    containers: Vec<(SandboxMode, Runtime)>,
}

/// Why no plan could be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Linux has no Landlock, or it is not switched on (`lsm=` at boot).
    #[error("this kernel does not offer landlock")]
    NoLandlock,
    /// A filter could not be compiled: a defect of the policy.
    #[error("cannot compile the system call filter")]
    Filter(#[from] SeccompError),
    /// The directory for files of ours could not be made.
    #[error("cannot make the directory for drivers")]
    Drivers(#[source] io::Error),
    /// The compiled filter could not be read back.
    #[error("cannot export the system call filter")]
    Export(#[from] io::Error),
}

/// A level, ready for use.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) policy: &'static policy::Level,
    pub(super) filter: Vec<libc::sock_filter>,
    /// The calls that are reported.
    pub(super) reported: Arc<Reported>,
}

/// What of a host changes the calls of its levels.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// A cgroup holds memory to its limit.
    has_memory: bool,
    /// There are no namespaces.
    is_reduced: bool,
}

/// A part of the operating system that is shown inside.
#[derive(Debug)]
pub(super) enum System {
    /// A directory of the host.
    Tree(&'static str),
    /// A link, as the host has it.
    Link { name: &'static str, target: PathBuf },
}

impl Plan {
    /// Finds the cgroups of this host, removes what dead servers left in them, and compiles the levels. Some
    /// milliseconds, and up to a second for each dead server.
    ///
    /// # Errors
    /// [`PlanError`]; without Landlock there are no sandboxes.
    pub fn compile() -> Result<Self, PlanError> {
        let host = Host::discover();
        host.sweep();
        Self::compile_for(host)
    }

    /// As [`Plan::compile`], with these cgroups.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn compile_for(host: Host) -> Result<Self, PlanError> {
        Self::compile_as(host, None)
    }

    /// As [`Plan::compile`], for a host without namespaces; see [`reduced`](super::reduced). `drivers`: a directory for
    /// files of ours, which is made anew and stays until the next server comes.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn compile_reduced(drivers: &Path) -> Result<Self, PlanError> {
        let drivers = Drivers::new(drivers).map_err(PlanError::Drivers)?;
        let host = Host::discover();
        host.sweep();
        Self::compile_as(host, Some(drivers))
    }

    fn compile_as(host: Host, reduced: Option<Drivers>) -> Result<Self, PlanError> {
        let landlock = ABI::from(sys::landlock_version());
        if landlock == ABI::Unsupported {
            return Err(PlanError::NoLandlock);
        }
        let terms = Terms { has_memory: host.has_memory(), is_reduced: reduced.is_some() };
        let levels = policy::ALL.into_iter().map(|level| Level::compile(level, terms)).collect::<Result<_, _>>()?;
        Ok(Self {
            landlock,
            system: system_of_host(),
            library: Library::default(),
            reduced,
            levels,
            containers: Vec::new(),
            host,
        })
    }

    /// Has the sandboxes of a mode made by a container runtime from now on.
    pub fn contain(&mut self, mode: SandboxMode, runtime: Runtime) {
        self.containers.push((mode, runtime));
    }

    /// What makes the containers of a mode, if its sandboxes are some.
    pub(super) fn runtime(&self, mode: SandboxMode) -> Option<&Runtime> {
        self.containers.iter().find(|(contained, _)| *contained == mode).map(|(_, runtime)| runtime)
    }

    /// Whether memory of a sandbox is held to its limit as a whole. If not, it is each process by itself.
    pub fn has_memory_cgroup(&self) -> bool {
        self.host.has_memory()
    }

    /// The memory that a sandbox of a level gets of what is asked for.
    pub fn memory_bytes(&self, mode: SandboxMode, kind: Kind, asked: u64) -> u64 {
        asked.min(self.level(mode, kind).policy.max_memory_bytes)
    }

    /// Removes the server's own cgroups. For the end, when all sandboxes are released.
    pub fn shutdown(&self) {
        self.host.shutdown();
    }

    /// The level of a mode for a kind of program.
    pub(super) fn level(&self, mode: SandboxMode, kind: Kind) -> &Level {
        let wanted = policy::level(mode, kind);
        let level = self.levels.iter().find(|level| std::ptr::eq(level.policy, wanted));
        level.expect("every level of the policy is compiled")
    }
}

impl Level {
    fn compile(policy: &'static policy::Level, terms: Terms) -> Result<Self, PlanError> {
        let rules = rules(policy, terms);
        let reported = Arc::new(Reported::of(&rules, policy.system == policy::System::Host)?);
        Ok(Self { policy, filter: compile(&rules)?, reported })
    }
}

fn system_of_host() -> Vec<System> {
    let known = policy::SYSTEM.iter().map(|(name, _)| *name);
    known
        .filter_map(|name| match std::fs::read_link(name) {
            Ok(target) => Some(System::Link { name, target }),
            Err(_) => Path::new(name).is_dir().then_some(System::Tree(name)),
        })
        .collect()
}

/// One rule of a filter.
struct Rule {
    call: &'static str,
    when: Vec<When>,
    answer: Answer,
}

/// Compiles a filter: a search tree, ENOSYS for what no rule matches, death for a foreign architecture.
fn compile(rules: &[Rule]) -> Result<Vec<libc::sock_filter>, PlanError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Errno(UNKNOWN))?;
    filter.set_act_badarch(ScmpAction::KillProcess)?;
    filter.set_ctl_optimize(2)?;
    for rule in rules {
        let action = match rule.answer {
            Answer::Allow => ScmpAction::Allow,
            Answer::Refuse(errno) => ScmpAction::Errno(errno),
            Answer::Report(..) => ScmpAction::Notify,
        };
        let comparisons: Vec<ScmpArgCompare> = rule.when.iter().map(|when| compare(*when)).collect();
        filter.add_rule_conditional(action, number(rule.call)?, &comparisons)?;
    }
    export(&filter)
}

/// What a call fails with that no rule matches: programs take it for an older Linux and do without.
const UNKNOWN: i32 = libc::ENOSYS;

/// Every rule of a level. No two that match the same call disagree.
fn rules(level: &policy::Level, terms: Terms) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut add = |call, when: &[When], answer| rules.push(Rule { call, when: when.to_vec(), answer });
    let shared_memory = if terms.has_memory { policy::SHARED_MEMORY } else { &[] };
    let watching = if terms.is_reduced { [].as_slice() } else { policy::WATCHING };
    for call in policy::ALLOWED.iter().chain(shared_memory).chain(watching).flat_map(policy::Group::calls) {
        add(call, &[], Answer::Allow);
    }
    for call in policy::IDLE.iter().flat_map(policy::Group::calls) {
        add(call, &[], Answer::Refuse(libc::EPERM));
    }
    for (rule, group) in policy::REFUSED {
        group.calls().for_each(|call| add(call, &[], Answer::Report(rule, libc::EPERM)));
    }
    let exec = match level.exec {
        Exec::Shown => Answer::Allow,
        Exec::Once => Answer::Report(names::EXEC, libc::EACCES),
    };
    policy::EXEC.calls().for_each(|call| add(call, &[], exec));
    let (fork, clone) = match level.forks {
        true => (Answer::Allow, policy::CLONE),
        false => (Answer::Report(names::PROCESS, libc::EACCES), policy::CLONE_THREADS),
    };
    policy::FORK.calls().for_each(|call| add(call, &[], fork));
    let unix = if terms.is_reduced { policy::UNIX_PAIRS } else { policy::UNIX };
    for rule in clone.iter().chain(policy::RULES).chain(unix) {
        add(rule.call, rule.when, rule.answer);
    }
    for (request, _) in policy::IOCTLS {
        add("ioctl", &[When::Is(1, *request as u32)], Answer::Allow);
    }
    for (option, _) in policy::PRCTLS {
        add("prctl", &[When::Is(0, option.cast_unsigned())], Answer::Allow);
    }
    for (resource, _) in policy::RESOURCES {
        add("setrlimit", &[When::Is(0, *resource)], Answer::Allow);
        add("prlimit64", &[When::Is(1, *resource)], Answer::Allow);
    }
    let families = if terms.is_reduced { [].as_slice() } else { level.families };
    add_sockets(families, &mut add);
    rules
}

fn add_sockets(families: &[(i32, policy::Why)], add: &mut impl FnMut(&'static str, &[When], Answer)) {
    let socket_level = When::Is(1, libc::SOL_SOCKET.cast_unsigned());
    for option in policy::SOCKET_OPTIONS {
        add("setsockopt", &[socket_level, When::Is(2, option.cast_unsigned())], Answer::Allow);
    }
    for (family, _) in families {
        add("socket", &[When::Is(0, family.cast_unsigned())], Answer::Allow);
    }
    let is_allowed = |family| families.iter().any(|(allowed, _)| *allowed == family);
    for family in policy::REFUSED_FAMILIES.iter().filter(|family| !is_allowed(**family)) {
        let answer = Answer::Report(names::NETWORK, libc::EACCES);
        add("socket", &[When::Is(0, family.cast_unsigned())], answer);
    }
    add("socket", &[When::Is(0, policy::QUIET_FAMILY.cast_unsigned())], Answer::Refuse(libc::EACCES));
    if !families.is_empty() {
        for (socket_level, _) in policy::SOCKET_LEVELS {
            add("setsockopt", &[When::Is(1, socket_level.cast_unsigned())], Answer::Allow);
        }
    }
}

impl Reported {
    fn of(rules: &[Rule], spares_missing: bool) -> Result<Self, SeccompError> {
        let mut reported = Self::new(spares_missing);
        for rule in rules {
            if let Answer::Report(name, errno) = rule.answer {
                reported.add(number(rule.call)?.as_raw_syscall(), rule.call, &rule.when, name, errno);
            }
        }
        Ok(reported)
    }
}

fn number(call: &str) -> Result<ScmpSyscall, SeccompError> {
    match policy::NEWER.iter().find(|(name, _)| *name == call) {
        Some((_, number)) => Ok(ScmpSyscall::from_raw_syscall(*number)),
        None => ScmpSyscall::from_name(call),
    }
}

fn compare(when: When) -> ScmpArgCompare {
    let (argument, operator, value) = match when {
        When::Is(argument, value) => (argument, ScmpCompareOp::MaskedEqual(u64::from(u32::MAX)), u64::from(value)),
        When::Bits(argument, mask, value) => (argument, ScmpCompareOp::MaskedEqual(mask), value),
        When::Null(argument) => (argument, ScmpCompareOp::Equal, 0),
        When::NotNull(argument) => (argument, ScmpCompareOp::NotEqual, 0),
    };
    ScmpArgCompare::new(argument, operator, value)
}

/// Reads the compiled filter back, by way of a file in memory: libseccomp 2.5 writes to descriptors only.
pub(super) fn export(filter: &ScmpFilterContext) -> Result<Vec<libc::sock_filter>, PlanError> {
    let memory = rustix::fs::memfd_create("filter", rustix::fs::MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut file = std::fs::File::from(memory);
    filter.export_bpf(&file)?;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(8).map(instruction).collect())
}

fn instruction(bytes: &[u8]) -> libc::sock_filter {
    let [c0, c1, jt, jf, k0, k1, k2, k3] = bytes.first_chunk().copied().expect("chunks_exact gives eight bytes");
    libc::sock_filter { code: u16::from_ne_bytes([c0, c1]), jt, jf, k: u32::from_ne_bytes([k0, k1, k2, k3]) }
}
