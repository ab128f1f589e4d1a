//! The cage of the process that calls outside: it has the host's network, to connect to named ports, and no file.
//!
//! ```text
//!   own uid, no groups ─▶ death signal ─▶ no capabilities, no_new_privs, no core dumps ─▶ no files of its own, 64 descriptors
//!   ─▶ Landlock: no path, TCP to these ports only ─▶ seccomp (`calls/caller.rs`)
//! ```
//!
//! Called once, at its start, before there is a second thread.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{Gid, Uid};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::{ConfineError, calls, drop_bounding_set, drop_capabilities, keep_memory_private, plan, step, sys};

/// Descriptors, its connections among them.
const MAX_FILES: u64 = 64;
/// Where names are asked for.
const DNS: u16 = 53;

/// Confines this process and gives up all privilege. `ports` are those that it may connect to by TCP, beside that of
/// names; Linux before 6.7 does not know that rule.
///
/// # Errors
/// See [`ConfineError`]; the process is then in no state to go on.
pub fn caller(user: Option<u32>, ports: &[u16]) -> Result<(), ConfineError> {
    if let Some(id) = user {
        // Before the user changes: the right to do it goes with root.
        drop_bounding_set()?;
        set_thread_groups(&[]).map_err(step("drop groups"))?;
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_res_gid(gid, gid, gid).map_err(step("change the group"))?;
        set_thread_res_uid(uid, uid, uid).map_err(step("change the user"))?;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask for a death signal"))?;
    std::env::set_current_dir("/").map_err(step("go to the root"))?;
    drop_capabilities()?;
    keep_memory_private()?;
    let most = Rlimit { current: Some(MAX_FILES), maximum: Some(MAX_FILES) };
    setrlimit(Resource::Nofile, most).map_err(step("limit descriptors"))?;
    restrict_reach(ports)?;
    let program = plan::export(&calls::caller::filter(std::process::id())?)?;
    sys::load_filter(&program).map_err(step("load the system call filter"))
}

fn restrict_reach(ports: &[u16]) -> Result<(), ConfineError> {
    let abi = ABI::from(sys::landlock_version());
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
    if abi < ABI::V4 {
        rules.create()?.restrict_self()?;
        return Ok(());
    }
    rules = rules.handle_access(AccessNet::from_all(abi))?;
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    let ports = ports.iter().copied().chain([DNS]).map(|port| NetPort::new(port, AccessNet::ConnectTcp));
    ports.fold(rules.create(), |created, port| created?.add_rule(port))?.restrict_self()?;
    Ok(())
}
