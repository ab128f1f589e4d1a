//! The gateway's own cage: what a process that faces the network keeps of the host is one directory.
//!
//! Called once, at the start of the gateway process, before there is a second thread: each of these steps counts for
//! the calling thread and those that come from it.
//!
//! ```text
//!   ordinary user: user namespace of its own     root: none needed
//!   mount, ipc and network namespaces ─▶ empty root, store at /data ─▶ own uid, no groups ─▶ death signal
//!   ─▶ no capabilities, no_new_privs, no core dumps ─▶ Landlock: /data and nothing else, no TCP ─▶ seccomp (`calls`)
//! ```
//!
//! Sockets stay in the network namespace that they were made in: what comes in by the listening socket is served, and
//! nothing else is reached.

mod caller;
mod calls;

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{CWD, Gid, Uid};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, pivot_root, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, UnshareFlags, clear_ambient_capability_set, remove_capability_from_bounding_set, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{plan, rights, sys};
pub use caller::caller;

/// Left for new ones, beside those for mounts and for the user. The new network has nothing in it, and is not up.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWIPC.union(UnshareFlags::NEWNET);
/// Linux runs the host's crash handler, as root, whatever the limit, but for this very value.
const NO_CORE: u64 = 1;
/// Where the store is, once the gateway is confined.
const INSIDE: &str = "/data";

/// Why the gateway could not be confined. It does not start then.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A system call failed.
    #[error("cannot {step}")]
    Step {
        /// Which step.
        step: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Landlock refused the rules.
    #[error("landlock cannot be applied")]
    Landlock(#[from] landlock::RulesetError),
    /// Landlock could not be given the store.
    #[error("landlock cannot be given the store")]
    Path(#[from] landlock::PathFdError),
    /// The filter could not be compiled.
    #[error("the system call filter cannot be compiled")]
    Filter(#[from] libseccomp::error::SeccompError),
    /// The filter could not be read back.
    #[error("the system call filter cannot be exported")]
    Export(#[from] super::PlanError),
}

pub(super) fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> ConfineError {
    move |source| ConfineError::Step { step, source: source.into() }
}

/// Confines this process to the store and gives up all privilege. Returns the path of the store from now on.
///
/// # Errors
/// See [`ConfineError`]; the process is then in no state to go on.
pub fn gateway(store: &Path, user: Option<u32>) -> Result<PathBuf, ConfineError> {
    match user {
        Some(_) => sys::unshare(UnshareFlags::NEWNS).map_err(step("enter a mount namespace"))?,
        None => super::enter_outer_namespace().map_err(step("enter a user namespace"))?,
    }
    sys::unshare(NAMESPACES).map_err(step("enter namespaces for networks and shared memory"))?;
    enter_root(store)?;
    // Before the user changes: the right to do it goes with root.
    drop_bounding_set()?;
    if let Some(id) = user {
        set_thread_groups(&[]).map_err(step("drop groups"))?;
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_res_gid(gid, gid, gid).map_err(step("change the group"))?;
        set_thread_res_uid(uid, uid, uid).map_err(step("change the user"))?;
    }
    // The link on standard input ends with the supervisor, too: one that died before this call is not missed.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask for a death signal"))?;
    drop_capabilities()?;
    keep_memory_private()?;
    restrict_paths(Path::new(INSIDE))?;
    restrict_calls()?;
    Ok(INSIDE.into())
}

fn enter_root(store: &Path) -> Result<(), ConfineError> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(step("make mounts private"))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, store, flags).map_err(step("open the store"))?;
    let inert = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // The new root covers the store's own place; its content is held by `tree`.
    mount("tmpfs", store, "tmpfs", inert, Some(c"size=64k,nr_inodes=8,mode=0755"))
        .map_err(step("mount an empty root"))?;
    let data = store.join(INSIDE.trim_start_matches('/'));
    std::fs::create_dir(&data).map_err(step("make a place for the store"))?;
    move_mount(&tree, "", CWD, &data, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(step("mount the store"))?;
    std::env::set_current_dir(store).map_err(step("go to the empty root"))?;
    pivot_root(".", ".").map_err(step("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("leave the old root"))?;
    std::env::set_current_dir("/").map_err(step("go to the empty root"))?;
    mount_remount("/", inert | MountFlags::RDONLY, "").map_err(step("make the root read-only"))
}

pub(super) fn drop_bounding_set() -> Result<(), ConfineError> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel may not know the newest ones.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(step("drop the bounding set")(error)),
        }
    }
    Ok(())
}

pub(super) fn drop_capabilities() -> Result<(), ConfineError> {
    clear_ambient_capability_set().map_err(step("drop ambient capabilities"))?;
    rights::keep_capabilities(CapabilitySet::empty()).map_err(step("drop capabilities"))?;
    set_no_new_privs(true).map_err(step("set no_new_privs"))
}

/// Of the key that signs tokens, no copy is written, and no process of the same user reads one.
pub(super) fn keep_memory_private() -> Result<(), ConfineError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("become undumpable"))?;
    let most = Some(getrlimit(Resource::Core).maximum.map_or(NO_CORE, |present| present.min(NO_CORE)));
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).map_err(step("limit core dumps"))
}

pub(super) fn restrict_paths(store: &Path) -> Result<(), ConfineError> {
    let abi = ABI::from(sys::landlock_version());
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    let barred = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::MakeFifo;
    let rights = AccessFs::from_all(abi) & !barred;
    rules.create()?.add_rule(PathBeneath::new(PathFd::new(store)?, rights))?.restrict_self()?;
    Ok(())
}

pub(super) fn restrict_calls() -> Result<(), ConfineError> {
    let program = plan::export(&calls::filter(std::process::id())?)?;
    sys::load_filter(&program).map_err(step("load the system call filter"))
}
