//! The file tree of a sandbox: first the parts that the supervisor prepares, then how init puts them together.
//!
//! The supervisor clones the host's directories into detached mounts, because init, under the uid it has by then, may
//! not be able to reach them. Init attaches them below a tmpfs, which becomes the root.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::error::{At, Failure, SpawnError, Step};
use super::library::{Utilities, data_directories};
use super::plan::{Plan, System};
use super::policy;
use super::sys::mount_setattr;
use super::workdir::{Tmpfs, Workdir, tmpfs};
use super::{Limits, Request};

const QUIET: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
const INERT: MountAttrFlags = QUIET.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
/// Of the `/proc` that a program sees.
const PROC_OPTIONS: &[(&str, &str)] = &[("subset", "pid"), ("hidepid", "invisible")];

/// Detached mounts and what else a root is made of.
pub(super) struct Parts<'a> {
    trees: Vec<Tree>,
    devices: Vec<Tree>,
    links: Vec<(PathBuf, PathBuf)>,
    files: Vec<(&'a str, &'a [u8])>,
    /// Shown only at levels with files.
    workdir: OwnedFd,
    has_files: bool,
    limits: Limits,
}

/// What init knows of its root.
pub(super) struct Inside {
    /// Whether the program sees a `/proc`.
    pub(super) has_proc: bool,
    /// A complete `/proc`, attached nowhere, for init alone.
    pub(super) proc: Option<OwnedFd>,
}

struct Tree {
    mount: OwnedFd,
    target: PathBuf,
    is_dir: bool,
}

impl<'a> Parts<'a> {
    /// Clones what the sandbox shows of the host. Runs in the supervisor.
    pub(super) fn prepare(plan: &Plan, level: &policy::Level, request: &Request<'a>) -> Result<Self, SpawnError> {
        let mut links: Vec<_> =
            policy::LINKS.iter().map(|(name, target, _)| (PathBuf::from(name), PathBuf::from(target))).collect();
        links.extend(plan.system.iter().filter_map(|part| match part {
            System::Tree(_) => None,
            System::Link { name, target } => Some((PathBuf::from(name), target.clone())),
        }));
        let mut trees = system_trees(plan, level, request)?;
        if level.files {
            for (path, _) in policy::ETC_OF_HOST.iter().filter(|(path, _)| Path::new(path).exists()) {
                trees.push(clone_tree(Path::new(path), INERT | READ_ONLY)?);
            }
        }
        let mut devices = Vec::new();
        for (path, _) in policy::DEVICES {
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC | READ_ONLY;
            devices.push(clone_tree(Path::new(path), attributes)?);
        }
        let own = policy::ETC_OF_OURS.iter().filter(|_| level.files);
        let own = own.map(|(path, text, _)| (*path, text.as_bytes()));
        Ok(Self {
            trees,
            devices,
            links,
            files: own.chain(request.files.iter().copied()).collect(),
            workdir: clone_workdir(request.workdir)?,
            has_files: level.files,
            limits: request.limits,
        })
    }

    /// Builds the root and moves into it. Runs in init.
    pub(super) fn enter(&self) -> Result<Inside, Failure> {
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", private).at(Step::Propagation)?;
        // It exists everywhere, and is not needed by its path any more.
        let root = self.build("/usr")?;
        // Linux allows both only as long as the host's own `/proc` can be seen.
        let has_proc = !self.has_files || mount_proc(&root).is_ok();
        let proc = proc_mount(&[], INERT).ok();
        change_root(&root).at(Step::PivotRoot)?;
        close_to_writers(&root).at(Step::ReadOnlyRoot)?;
        Ok(Inside { has_proc, proc })
    }

    /// Builds the root at a directory, still writable and without `/proc`.
    pub(super) fn build(&self, at: &str) -> Result<OwnedFd, Failure> {
        let root = self.mount_root(at).at(Step::RootMount)?;
        self.fill(&root).at(Step::RootFiles)?;
        self.attach(&root, &self.trees).at(Step::Binds)?;
        self.mount_dev(&root).at(Step::Devices)?;
        if self.has_files {
            self.mount_writable(&root).at(Step::Writable)?;
            attach_at(self.workdir.as_fd(), &root, policy::WORKSPACE).at(Step::Workdir)?;
        }
        Ok(root)
    }

    /// Shows one more file or directory of the host.
    pub(super) fn show(&mut self, source: &Path, target: &Path) -> Result<(), SpawnError> {
        self.trees.push(Tree { target: target.to_owned(), ..clone_tree(source, QUIET | READ_ONLY)? });
        Ok(())
    }

    /// Attaches one more mount.
    pub(super) fn attach_also(&mut self, mount: OwnedFd, target: &Path) {
        self.trees.push(Tree { mount, target: target.to_owned(), is_dir: true });
    }

    /// The root of the working directory; a path only.
    pub(super) fn workdir(&self) -> BorrowedFd<'_> {
        self.workdir.as_fd()
    }

    /// The tmpfs has to be attached before anything can be attached to it.
    fn mount_root(&self, at: &str) -> io::Result<OwnedFd> {
        let contents: usize = self.files.iter().map(|(_, bytes)| bytes.len() + 4096).sum();
        let inodes = 128 + 16 * (self.files.len() + self.trees.len());
        let root =
            tmpfs(&Tmpfs { bytes: (1 << 20) + contents as u64, inodes: inodes as u64, mode: "0755", owner: None })?;
        move_mount(&root, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(root)
    }

    fn fill(&self, root: &OwnedFd) -> io::Result<()> {
        let with_files = ["/etc", "/proc", "/tmp", policy::WORKSPACE];
        for directory in ["/usr", "/run", "/dev"].into_iter().chain(with_files.into_iter().filter(|_| self.has_files)) {
            make_dirs(root, Path::new(directory))?;
        }
        for (path, bytes) in &self.files {
            make_file(root, Path::new(path), bytes)?;
        }
        for (name, target) in self.links.iter().filter(|(name, _)| !name.starts_with("/dev")) {
            if name.starts_with("/etc") && !self.has_files {
                continue;
            }
            symlinkat(target, root, below(name))?;
        }
        make_stdin(root)
    }

    fn attach(&self, root: &OwnedFd, trees: &[Tree]) -> io::Result<()> {
        for tree in trees {
            if tree.is_dir {
                make_dirs(root, &tree.target)?;
            } else {
                make_file(root, &tree.target, b"")?;
            }
            attach_at(tree.mount.as_fd(), root, &tree.target)?;
        }
        Ok(())
    }

    fn mount_dev(&self, root: &OwnedFd) -> io::Result<()> {
        let dev = tmpfs(&Tmpfs { bytes: 64 << 10, inodes: 32, mode: "0755", owner: None })?;
        attach_at(dev.as_fd(), root, "/dev")?;
        self.attach(root, &self.devices)?;
        for (name, target) in self.links.iter().filter(|(name, _)| name.starts_with("/dev")) {
            symlinkat(target, root, below(name))?;
        }
        make_dirs(root, Path::new("/dev/shm"))?;
        mount_setattr(dev.as_fd(), INERT | READ_ONLY, false)
    }

    fn mount_writable(&self, root: &OwnedFd) -> io::Result<()> {
        for target in ["/dev/shm", "/tmp"] {
            let (bytes, inodes) = (self.limits.tmp_bytes, self.limits.tmp_inodes);
            let mount = tmpfs(&Tmpfs { bytes, inodes, mode: "1777", owner: None })?;
            attach_at(mount.as_fd(), root, target)?;
        }
        Ok(())
    }
}

/// The trees of the host that a level shows.
fn system_trees(plan: &Plan, level: &policy::Level, request: &Request<'_>) -> Result<Vec<Tree>, SpawnError> {
    let shown_at = QUIET | READ_ONLY;
    let program = request.argv.first().ok_or(SpawnError::Request("there is no program"))?;
    let program = Path::new(OsStr::from_bytes(program.as_bytes()));
    let mut shown = match level.system {
        policy::System::Host => {
            let trees = plan.system.iter().filter_map(|part| match part {
                System::Tree(path) => Some(Path::new(path)),
                System::Link { .. } => None,
            });
            let binds = request.binds.iter().map(PathBuf::as_path);
            return trees.chain(binds).map(|path| clone_tree(path, shown_at)).collect();
        }
        policy::System::Own | policy::System::Utilities => (*plan.library.own(program, request.own)?).clone(),
    };
    let mut trees = Vec::new();
    if level.system == policy::System::Utilities {
        match &*plan.library.utilities()? {
            Utilities::Files(files) => shown.extend(files.clone()),
            Utilities::Image { mount, directories } => {
                // The shell itself is among them, with its libraries; what is not is shown beside them.
                trees.extend(directories.iter().map(|name| image_tree(mount, name)).collect::<Result<Vec<_>, _>>()?);
                let data = data_directories();
                shown.retain(|target, _| {
                    data.contains(target)
                        || !directories.iter().any(|name| target.starts_with(Path::new("/").join(name)))
                });
            }
        }
    }
    for (target, source) in &shown {
        trees.push(Tree { target: target.clone(), ..clone_tree(source, shown_at)? });
    }
    Ok(trees)
}

/// A directory of the image of utilities.
fn image_tree(image: &OwnedFd, name: &str) -> Result<Tree, SpawnError> {
    let target = Path::new("/").join(name);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(image, name, flags)
        .map_err(|error| SpawnError::Tree { path: target.clone(), source: error.into() })?;
    Ok(Tree { mount, target, is_dir: true })
}

/// Mounts made in another user namespace are cloned whole or not at all, hence always recursively.
fn clone_tree(path: &Path, attributes: MountAttrFlags) -> Result<Tree, SpawnError> {
    let tree = |source: io::Error| SpawnError::Tree { path: path.to_owned(), source };
    let is_dir = path.is_dir();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mount = open_tree(CWD, path, flags).map_err(|error| tree(error.into()))?;
    mount_setattr(mount.as_fd(), attributes, true).map_err(tree)?;
    Ok(Tree { mount, target: path.to_owned(), is_dir })
}

fn clone_workdir(workdir: &Workdir) -> Result<OwnedFd, SpawnError> {
    let failed = |source: io::Error| SpawnError::Tree { path: policy::WORKSPACE.into(), source };
    let mount = workdir.share().map_err(failed)?;
    mount_setattr(mount.as_fd(), INERT, false).map_err(failed)?;
    Ok(mount)
}

fn mount_proc(root: &OwnedFd) -> io::Result<()> {
    let mount = proc_mount(PROC_OPTIONS, INERT | READ_ONLY)?;
    attach_at(mount.as_fd(), root, "/proc")
}

/// Where a container runtime has mounted a whole `/proc`: gives the program its own in its place, or none.
pub(super) fn exchange_proc(has_files: bool) -> io::Result<Inside> {
    let proc = proc_mount(&[], INERT)?;
    let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // Linux allows it only as long as a whole one can be seen.
    let own = has_files.then(|| proc_mount(PROC_OPTIONS, INERT | READ_ONLY)).transpose()?;
    unmount("/proc", UnmountFlags::DETACH)?;
    if let Some(own) = own {
        attach_at(own.as_fd(), &root, "/proc")?;
    }
    Ok(Inside { has_proc: true, proc: Some(proc) })
}

/// Covers `/proc` with that of the caller's own pid namespace.
pub(super) fn cover_proc() -> io::Result<()> {
    let mount = proc_mount(&[], INERT)?;
    Ok(move_mount(&mount, "", CWD, "/proc", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Makes a root read-only, but for what is mounted below it.
pub(super) fn close_to_writers(root: &OwnedFd) -> io::Result<()> {
    mount_setattr(root.as_fd(), INERT | READ_ONLY, false)
}

/// A mount of this pid namespace's `/proc`, attached nowhere. Fails where parts of the host's `/proc` are hidden.
fn proc_mount(options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// The old root ends up mounted on top of the new one, from where it is taken away with all that is below it.
fn change_root(root: &OwnedFd) -> io::Result<()> {
    fchdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

fn attach_at(mount: BorrowedFd<'_>, root: &OwnedFd, target: impl AsRef<Path>) -> io::Result<()> {
    let target = below(target.as_ref());
    Ok(move_mount(mount, "", root, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

pub(super) fn make_dirs(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut made = PathBuf::new();
    for part in below(path).components().filter(|part| matches!(part, Component::Normal(_))) {
        made.push(part);
        match mkdirat(root, &made, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A program of the host, copied.
pub(super) fn make_program(root: &OwnedFd, path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_file_with(root, path, bytes, 0o555)
}

fn make_file(root: &OwnedFd, path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_file_with(root, path, bytes, 0o444)
}

fn make_file_with(root: &OwnedFd, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    make_dirs(root, path.parent().unwrap_or(Path::new("/")))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(root, below(path), flags, Mode::from_raw_mode(0o644))?);
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// It belongs to init.
fn make_stdin(root: &OwnedFd) -> io::Result<()> {
    let path = Path::new(policy::STDIN);
    make_dirs(root, path.parent().unwrap_or(Path::new("/")))?;
    Ok(mknodat(root, below(path), FileType::Fifo, Mode::from_raw_mode(0o644), 0)?)
}

/// An absolute path, made relative to the root's descriptor.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
