//! The working directory of a session: a tmpfs that no path leads to, held by its descriptor.
//!
//! It outlives the sandboxes that show it as `/workspace`, so files survive a killed interpreter. Closing the last
//! descriptor frees it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

use super::Identity;

/// Makes the working directory of a session, empty and owned by the program's uid, at most `bytes` large and with at
/// most `inodes` files. Both are at least 1.
///
/// # Errors
/// What Linux says, for example `EPERM` without the right to mount.
pub fn create(bytes: u64, inodes: u64, identity: Identity) -> io::Result<OwnedFd> {
    let (uid, gid) = identity.payload_owner();
    Ok(tmpfs(&Tmpfs { bytes, inodes, mode: "0700", owner: Some((uid, gid)) })?)
}

/// A tmpfs that is not attached anywhere.
pub(super) struct Tmpfs {
    /// Zero would mean no limit to Linux, and is therefore taken as one page.
    pub(super) bytes: u64,
    /// As `bytes`: zero is taken as one.
    pub(super) inodes: u64,
    pub(super) mode: &'static str,
    /// Uid and gid in the caller's user namespace; `None`: the caller's own.
    pub(super) owner: Option<(u32, u32)>,
}

/// Makes a tmpfs in which nothing can be executed, no device opened and no set-uid bit honoured.
pub(super) fn tmpfs(wanted: &Tmpfs) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", "tmpfs")?;
    fsconfig_set_string(&context, "size", wanted.bytes.max(4096).to_string())?;
    fsconfig_set_string(&context, "nr_inodes", wanted.inodes.max(1).to_string())?;
    fsconfig_set_string(&context, "mode", wanted.mode)?;
    if let Some((uid, gid)) = wanted.owner {
        fsconfig_set_string(&context, "uid", uid.to_string())?;
        fsconfig_set_string(&context, "gid", gid.to_string())?;
    }
    fsconfig_create(&context)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
