//! The last steps before the program: limits, identity, Landlock, filter, exec. In this order, each only tightens, and
//! nothing is left that could undo one. Runs in a copy of init.

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use nix::sys::signal::SigSet;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

use super::enter::{self, Ends, Entry};
use super::error::{At, Failure, Step};
use super::policy::{self, Access, Network};
use super::spawn::note;
use super::{Identity, MemoryRlimit, rights, sys};

/// Becomes the program.
pub(super) fn run(entry: &Entry<'_>, ends: &Ends) -> Result<Infallible, Failure> {
    let request = entry.request;
    enter::arrange_stdio(entry.wires, ends).at(Step::Stdio)?;
    rustix::process::setsid().at(Step::NewSession)?;
    limits(entry).into_iter().try_for_each(Limit::set).at(Step::Rlimits)?;
    rights::take_identity(request.identity, rights::PAYLOAD_ID).at(Step::PayloadIdentity)?;
    rights::keep_capabilities(CapabilitySet::empty()).at(Step::Capabilities)?;
    // From here on, files are made and found with the program's own rights: the workspace may hold links of its making.
    enter_workspace(entry).at(Step::Cwd)?;
    restrict_paths(entry).map_err(|error| cause(&*error)).at(Step::Landlock)?;
    let program = entry.place.argv.first().ok_or(Failure { step: Step::Exec, errno: libc::EINVAL })?;
    sys::default_signals();
    SigSet::empty().thread_set_mask().at(Step::Exec)?;
    let listener = sys::load_filter_with_listener(entry.filter).at(Step::Seccomp)?;
    hand_over(entry, &listener).at(Step::Seccomp)?;
    drop(listener);
    open_files(entry).set().at(Step::Rlimits)?;
    nix::unistd::execve(program, entry.place.argv, request.environment).at(Step::Exec)
}

/// Gives the supervisor the descriptor on which Linux asks about this process from now on.
fn hand_over(entry: &Entry<'_>, listener: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [listener.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(&entry.wires.sync, &[IoSlice::new(&[note::EXEC])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A limit of setrlimit(2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) resource: Resource,
    pub(super) soft: u64,
    pub(super) hard: u64,
}

impl Limit {
    fn new(resource: Resource, soft: u64, hard: u64) -> Self {
        Self { resource, soft, hard }
    }

    /// Only ever lowers: raising a hard limit needs a right that even root may lack.
    fn set(self) -> io::Result<()> {
        let present = getrlimit(self.resource).maximum.unwrap_or(u64::MAX);
        let hard = self.hard.min(present);
        Ok(setrlimit(self.resource, Rlimit { current: Some(self.soft.min(hard)), maximum: Some(hard) })?)
    }
}

/// The limits of a program, but for that on open files.
pub(super) fn limits(entry: &Entry<'_>) -> Vec<Limit> {
    const STACK: u64 = 8 << 20;
    // Linux runs the host's crash handler, as root, whatever the limit, but for this very value.
    const NO_CORE: u64 = 1;
    let limits = &entry.limits;
    let same = |resource, most| Limit::new(resource, most, most);
    let memory = match limits.memory_rlimit {
        MemoryRlimit::AddressSpace => Resource::As,
        MemoryRlimit::Data => Resource::Data,
    };
    let memory = (!entry.memory_is_counted).then(|| same(memory, limits.memory_bytes));
    let others = [
        same(Resource::Nproc, process_rlimit(entry)),
        same(Resource::Core, NO_CORE),
        same(Resource::Fsize, limits.file_bytes),
        same(Resource::Cpu, limits.cpu_seconds),
        Limit::new(Resource::Stack, STACK, 8 * STACK),
        same(Resource::Memlock, 64 << 10),
        same(Resource::Msgqueue, 0),
        same(Resource::Sigpending, 1024),
        same(Resource::Rtprio, 0),
        same(Resource::Nice, 0),
    ];
    memory.into_iter().chain(others).collect()
}

/// Set last of all: descriptors on their way in sockets count for all processes of a uid, and could hold up the listener's.
pub(super) fn open_files(entry: &Entry<'_>) -> Limit {
    Limit::new(Resource::Nofile, entry.limits.open_files, entry.limits.open_files)
}

/// Linux counts what a cgroup refuses and not what this limit does, so where there is a cgroup it is to strike first.
fn process_rlimit(entry: &Entry<'_>) -> u64 {
    // For processes of the program's uid that it did not start: init, where it has the same, and its helpers.
    const BESIDE: u64 = 64;
    let processes = u64::from(entry.limits.max_processes);
    if entry.processes_are_counted {
        return processes + BESIDE;
    }
    processes + u64::from(entry.request.identity == Identity::Single)
}

fn enter_workspace(entry: &Entry<'_>) -> io::Result<()> {
    let (cwd, workspace) = (entry.request.cwd, entry.place.workspace);
    if !entry.policy.files {
        return std::env::set_current_dir("/");
    }
    if !cwd.is_empty() {
        let path = workspace.join(cwd);
        std::fs::create_dir_all(&path)?;
        return std::env::set_current_dir(path);
    }
    // An earlier program of the session may have closed the directory to itself; that must not end the session.
    std::env::set_current_dir(workspace).or_else(|_| std::env::set_current_dir("/"))
}

fn restrict_paths(entry: &Entry<'_>) -> Result<(), Box<dyn Error>> {
    let status = ruleset(entry)?.restrict_self()?;
    // Guaranteed by the hard requirement; asserted, because everything hangs on it.
    assert_eq!(status.ruleset, RulesetStatus::FullyEnforced);
    Ok(())
}

/// The rules of Landlock for somebody else to enforce on itself.
///
/// # Errors
/// What Linux says.
pub(super) fn rules(entry: &Entry<'_>) -> io::Result<OwnedFd> {
    let rules: Option<OwnedFd> = ruleset(entry).map_err(|error| cause(&*error))?.into();
    rules.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Everything that this kernel's Landlock can refuse is refused, but for the paths of the policy.
fn ruleset(entry: &Entry<'_>) -> Result<RulesetCreated, Box<dyn Error>> {
    let abi = entry.landlock;
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 && entry.place.network == Network::None {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    let mut rules = rules.create()?;
    for (path, access) in paths(entry).into_iter().filter(|(path, _)| path.exists()) {
        let fit = if path.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, rights(access, abi) & fit))?;
    }
    Ok(rules)
}

/// The paths of the policy, as they are inside.
fn paths<'a>(entry: &'a Entry<'_>) -> Vec<(&'a Path, Access)> {
    if let Some(paths) = entry.place.paths {
        return paths.iter().map(|(path, access)| (path.as_path(), *access)).collect();
    }
    let binds = entry.request.binds.iter().map(|path| (path.as_path(), Access::Run));
    let with_files = policy::PATHS_WITH_FILES.iter().filter(|_| entry.policy.files);
    let paths = policy::PATHS.iter().chain(with_files).map(|(path, access, _)| (Path::new(*path), *access));
    paths.chain(binds).collect()
}

/// What Linux said at the bottom of an error.
fn cause(error: &(dyn Error + 'static)) -> io::Error {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    let errno = chain.filter_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error()).last();
    io::Error::from_raw_os_error(errno.unwrap_or(libc::EINVAL))
}

fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let wanted = match access {
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => read,
        Access::Run => read | AccessFs::Execute,
        Access::Device => read | AccessFs::WriteFile | AccessFs::Truncate,
        Access::Write => {
            let barred = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
            AccessFs::from_all(abi) & !barred
        }
    };
    wanted & AccessFs::from_all(abi)
}
