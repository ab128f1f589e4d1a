//! Who a process of a sandbox is, and what it may: its ids and its capabilities.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, Gid, Uid, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::Identity;

/// Uid and gid of the program, inside.
pub(super) const PAYLOAD_ID: u32 = 1000;
/// Uid and gid of init, inside, where there are two.
pub(super) const INIT_ID: u32 = 0;

/// Becomes one of the two inner ids, with no supplementary groups; nothing to do where there is one id only.
pub(super) fn take_identity(identity: Identity, id: u32) -> io::Result<()> {
    if let Identity::Plain { payload, init } = identity {
        return take_plain_identity(payload, (id == INIT_ID).then_some(init));
    }
    if identity == Identity::Single {
        return Ok(());
    }
    become_ids(id)
}

/// Has one id for everything, with no supplementary groups.
pub(super) fn become_ids(id: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

/// Becomes the program, or init, which acts as the program would: it may signal the program's processes and touch its files
/// without any capability, and they may not signal init, because its real and saved ids are its own.
fn take_plain_identity(payload: u32, init: Option<u32>) -> io::Result<()> {
    let own = init.unwrap_or(payload);
    if init.is_some() {
        set_thread_groups(&[])?;
    }
    set_thread_res_gid(Gid::from_raw(own), Gid::from_raw(payload), Gid::from_raw(own))?;
    Ok(set_thread_res_uid(Uid::from_raw(own), Uid::from_raw(payload), Uid::from_raw(own))?)
}

/// Closes every way in which this process or one that comes from it could get a capability that it gives up later.
pub(super) fn lock_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        remove_known(capability)?;
    }
    clear_ambient_capability_set()?;
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(locked)?;
    set_no_new_privs(true)?;
    // Undumpable, a process is nobody's to trace or to look into; exec undoes it for the program.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// A kernel older than the name of a capability says EINVAL.
fn remove_known(capability: CapabilitySet) -> io::Result<()> {
    match remove_capability_from_bounding_set(capability) {
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Keeps these capabilities and no others; they cannot come back.
pub(super) fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}
