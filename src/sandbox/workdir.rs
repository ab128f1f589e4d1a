//! The working directories of sessions: each a tmpfs that no path of the host leads to, held by its descriptor.
//!
//! It outlives the sandboxes that show it as `/workspace`, so files survive a killed interpreter. A sandbox shows a clone
//! of the mount. Linux 6.15 and newer clone one that is attached nowhere; older ones clone what is attached in the mount
//! namespace of the caller. There the server takes a namespace of its own, covers a directory of its own with an empty
//! tmpfs, and attaches the working directories in that. Either way the host sees nothing of it, and all of it ends with
//! the server.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree, unmount,
};
use rustix::thread::UnshareFlags;

use super::reduced::{Home, Homes};
use super::{Identity, sys};

/// Where the working directories of a server are attached.
#[derive(Debug)]
pub struct Workdirs {
    /// The tmpfs with a directory for each; `None`: they are attached nowhere.
    base: Option<Arc<Base>>,
    /// Where there are no mounts.
    homes: Option<Homes>,
    next: u64,
}

/// The working directory of one session. Dropping it lets it go; Linux frees its memory when the last sandbox that shows
/// it is gone, too.
#[derive(Debug)]
pub struct Workdir {
    mount: OwnedFd,
    place: Option<Place>,
    home: Option<Home>,
}

/// A directory that a working directory is attached to.
#[derive(Debug)]
struct Place {
    base: Arc<Base>,
    name: String,
}

/// What the working directories are attached below. It goes with the last of them.
#[derive(Debug)]
struct Base(OwnedFd);

impl Workdirs {
    /// Finds out by doing it whether a mount that is attached nowhere can be cloned. If not, goes on as
    /// [`Workdirs::attached`]. With one thread, and after [`enter_outer_namespace`](super::enter_outer_namespace) where
    /// that is needed.
    ///
    /// # Errors
    /// What Linux says, for example `EPERM` without the right to mount.
    pub fn new(place: &Path) -> io::Result<Self> {
        match Self::detached()? {
            Some(workdirs) => Ok(workdirs),
            None => Self::attached(place),
        }
    }

    /// As [`Workdirs::new`] before Linux 6.15, whatever this one can: takes the caller into a mount namespace of its own
    /// and covers `place`, which is made if it is not there and closed to others.
    ///
    /// # Errors
    /// What Linux says.
    pub fn attached(place: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(place)?;
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o700))?;
        Self::over(place)
    }

    /// `None` where this Linux cannot clone what is attached nowhere.
    pub(super) fn detached() -> io::Result<Option<Self>> {
        let trial = tmpfs(&Tmpfs { bytes: 0, inodes: 0, mode: "0700", owner: None })?;
        match clone_mount(&trial) {
            Ok(_) => Ok(Some(Self { base: None, homes: None, next: 0 })),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// [`Workdirs::attached`], with a directory that is there and stays as it is.
    pub(super) fn over(place: &Path) -> io::Result<Self> {
        sys::unshare(UnshareFlags::NEWNS)?;
        // Nothing mounted here reaches the host, and what the host unmounts does not stay mounted because of us.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
        // A directory takes one inode and no page, so the limit is only there to be one.
        let base = tmpfs(&Tmpfs { bytes: 64 << 10, inodes: 1 << 20, mode: "0700", owner: None })?;
        move_mount(&base, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(Self { base: Some(Arc::new(Base(base))), homes: None, next: 0 })
    }

    /// Plain directories below `data_dir`, for [`Plan::compile_reduced`](super::Plan::compile_reduced): nothing but the
    /// limit on each file keeps them from growing. What a server that was killed left there is removed.
    ///
    /// # Errors
    /// What Linux says, and where other users cannot enter `data_dir`.
    pub fn plain(data_dir: &Path) -> io::Result<Self> {
        Ok(Self { base: None, homes: Some(Homes::new(data_dir)?), next: 0 })
    }

    /// Whether they are plain directories.
    pub fn are_plain(&self) -> bool {
        self.homes.is_some()
    }

    /// Takes notice of removals that are done; now and then.
    pub fn tidy(&self) {
        self.homes.iter().for_each(Homes::tidy);
    }

    /// Whether they are attached somewhere, because this Linux cannot do without, or was not asked to.
    pub fn is_attached(&self) -> bool {
        self.base.is_some()
    }

    /// Makes the working directory of a session, empty and owned by the program's uid, at most `bytes` large and with at
    /// most `inodes` files. Both are at least 1.
    ///
    /// # Errors
    /// What Linux says, for example `ENOSPC` when there are too many mounts.
    pub fn create(&mut self, bytes: u64, inodes: u64, identity: Identity) -> io::Result<Workdir> {
        if let Some(homes) = &mut self.homes {
            let (home, mount) = homes.create(identity)?;
            return Ok(Workdir { mount, place: None, home: Some(home) });
        }
        let mount = tmpfs(&Tmpfs { bytes, inodes, mode: "0700", owner: Some(identity.payload_owner()) })?;
        let Some(base) = &self.base else { return Ok(Workdir { mount, place: None, home: None }) };
        let name = self.next.to_string();
        self.next += 1;
        mkdirat(&base.0, &name, Mode::RWXU)?;
        let moved = move_mount(&mount, "", &base.0, &name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        if let Err(error) = moved {
            let _ = unlinkat(&base.0, &name, AtFlags::REMOVEDIR);
            return Err(error.into());
        }
        Ok(Workdir { mount, place: Some(Place { base: base.clone(), name }), home: None })
    }
}

impl Workdir {
    /// One that somebody else keeps, by its root.
    pub(super) fn of_root(mount: OwnedFd) -> Self {
        Self { mount, place: None, home: None }
    }

    /// Another mount of the same files, attached nowhere, for a sandbox to move in.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        Ok(clone_mount(&self.mount)?)
    }

    /// Whether it is attached somewhere; see [`Workdirs::is_attached`].
    pub(super) fn is_attached(&self) -> bool {
        self.place.is_some()
    }

    /// Makes a directory in it with those above it, all of the program's, before any program ran here.
    ///
    /// # Errors
    /// What Linux says, for example `ENOSPC`.
    pub fn make_directories(&self, path: &str, identity: Identity) -> io::Result<()> {
        let (uid, gid) = identity.payload_owner();
        let owner = (Some(rustix::fs::Uid::from_raw(uid)), Some(rustix::fs::Gid::from_raw(gid)));
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for made in ends.map(|end| &path[..end]).filter(|made| !made.is_empty()) {
            match mkdirat(&self.mount, made, Mode::from_raw_mode(0o755)) {
                Ok(()) => rustix::fs::chownat(&self.mount, made, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Where a path of the sandbox is: as it is said, but where `/workspace` and `/tmp` are plain directories.
    pub fn locate(&self, path: &str) -> String {
        self.home.as_ref().map_or_else(|| path.to_owned(), |home| home.locate(path))
    }

    /// Where it is, if it is a plain directory.
    pub(super) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// Its root. It is no more than a path: good for `openat`, not for reading.
    pub(super) fn root(&self) -> &OwnedFd {
        &self.mount
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        let Some(Place { base, name }) = &self.place else { return };
        let gone = detach(&self.mount).and_then(|()| unlinkat(&base.0, name, AtFlags::REMOVEDIR));
        if let Err(error) = gone {
            tracing::warn!(%error, "a working directory stays attached until the server ends");
        }
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if let Err(error) = detach(&self.0) {
            tracing::debug!(%error, "the place of working directories stays covered until the server ends");
        }
    }
}

/// By the descriptor of its root: the path may lead elsewhere by now.
fn detach(mount: &OwnedFd) -> rustix::io::Result<()> {
    unmount(format!("/proc/self/fd/{}", mount.as_raw_fd()), UnmountFlags::DETACH)
}

pub(super) fn clone_mount(mount: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(mount.as_fd(), "", flags)
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
    mount_tmpfs(wanted, MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// As [`tmpfs`], for programs of the host.
pub(super) fn executable_tmpfs(wanted: &Tmpfs) -> rustix::io::Result<OwnedFd> {
    mount_tmpfs(wanted, MountAttrFlags::empty())
}

fn mount_tmpfs(wanted: &Tmpfs, attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
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
    let quiet = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes | quiet)
}
