//! The gateway's cage without namespaces: it keeps the host's tree, of which Landlock lets it have the store.

use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::sandbox::confine::{self, ConfineError, step};

/// As [`confine::gateway`], where there are no namespaces. Returns the path of the store from now on.
///
/// # Errors
/// See [`ConfineError`]; the process is then in no state to go on.
pub fn confine_gateway(store: &Path, user: u32) -> Result<PathBuf, ConfineError> {
    // Before the user changes: the right to do it goes with root.
    confine::drop_bounding_set()?;
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[]).map_err(step("drop groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(step("change the group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(step("change the user"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask for a death signal"))?;
    std::env::set_current_dir("/").map_err(step("go to the root"))?;
    confine::drop_capabilities()?;
    confine::keep_memory_private()?;
    confine::restrict_paths(store)?;
    confine::restrict_calls()?;
    Ok(store.to_owned())
}
