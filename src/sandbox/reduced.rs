//! Sandboxes where Linux gives no namespaces, as in a stock container: a user for each session, Landlock, a filter of
//! calls, resource limits, and nothing else.
//!
//! The program runs among the files and processes of the host. Landlock lets it open what its level shows, at its real
//! place, and signal nobody but itself. What has no namespace has to be refused as a call: every socket but pairs, and
//! watching files. Init is no pid 1: it adopts the orphans of the session, and kills by user ([`kill_all_of`]).
//!
//! ```text
//!   data directory, others may enter it, and not list it
//!   ├── drivers/<hash>/repltool/…   ours, read-only for all sessions
//!   └── homes/<number>/
//!       ├── workspace/              the session's user alone
//!       ├── tmp/                    the session's user alone
//!       └── stdin                   a FIFO; Landlock lets the program read it
//! ```
//!
//! What is lost against a sandbox with namespaces is told in docs/security.md.

mod gateway;
mod homes;
mod kill;

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Request;
use super::error::SpawnError;
use super::library::Utilities;
use super::plan::Plan;
use super::policy::{self, Access};

pub use gateway::confine_gateway;
pub(super) use homes::{Home, Homes};
pub(super) use kill::kill_all_of;

/// Where a sandbox stands, decided before the fork.
pub(super) struct Ground {
    /// What Landlock lets it do.
    pub(super) paths: Vec<(PathBuf, Access)>,
    /// The program and its arguments, with the files of ours at their real places.
    pub(super) argv: Vec<CString>,
    pub(super) workspace: PathBuf,
    /// The same; no more than a path.
    pub(super) workdir: OwnedFd,
    pub(super) stdin: PathBuf,
}

impl Ground {
    /// What a level shows. Runs in the supervisor.
    pub(super) fn prepare(
        plan: &Plan,
        drivers: &Drivers,
        level: &policy::Level,
        request: &Request<'_>,
    ) -> Result<Self, SpawnError> {
        let home = request.workdir.home().ok_or(SpawnError::Request("the working directory is a mount"))?;
        let ours = drivers.place(request.files).map_err(|source| tree(&drivers.base, source))?;
        let mut paths = system(plan, level, request)?;
        paths.extend(policy::DEVICES.iter().map(|(path, _)| (PathBuf::from(path), Access::Device)));
        paths.extend(policy::ETC_WHERE_REFUSED.iter().map(|(path, _)| (PathBuf::from(path), Access::Read)));
        paths.extend([(ours.clone(), Access::Read), (home.stdin(), Access::Read)]);
        if level.files {
            paths.extend(policy::ETC_OF_HOST.iter().map(|(path, _)| (PathBuf::from(path), Access::Read)));
            paths.extend([(home.workspace(), Access::Write), (home.tmp(), Access::Write)]);
        }
        let workdir = request.workdir.root().try_clone().map_err(SpawnError::Descriptors)?;
        let argv = request.argv.iter().map(|argument| at_its_place(argument, request.files, &ours)).collect();
        Ok(Self { paths, argv, workspace: home.workspace(), workdir, stdin: home.stdin() })
    }
}

/// The parts of the operating system that a level shows.
fn system(plan: &Plan, level: &policy::Level, request: &Request<'_>) -> Result<Vec<(PathBuf, Access)>, SpawnError> {
    let program = request.argv.first().ok_or(SpawnError::Request("there is no program"))?;
    let program = Path::new(OsStr::from_bytes(program.as_bytes()));
    let mut shown: Vec<PathBuf> = match level.system {
        policy::System::Host => {
            let system = policy::SYSTEM.iter().map(|(path, _)| PathBuf::from(path));
            system.chain(request.binds.iter().cloned()).collect()
        }
        policy::System::Own | policy::System::Utilities => {
            plan.library.own(program, request.own)?.values().cloned().collect()
        }
    };
    if level.system == policy::System::Utilities
        && let Utilities::Files(files) = &*plan.library.utilities_in_place()?
    {
        shown.extend(files.values().cloned());
    }
    Ok(shown.into_iter().map(|path| (path, Access::Run)).collect())
}

/// An argument that names one of our files.
fn at_its_place(argument: &CString, files: &[(&str, &[u8])], ours: &Path) -> CString {
    let named = files.iter().find(|(path, _)| path.as_bytes() == argument.as_bytes());
    let path = named.map(|(path, _)| ours.join(below_run(path)));
    path.and_then(|path| CString::new(path.into_os_string().as_bytes()).ok()).unwrap_or_else(|| argument.clone())
}

fn below_run(path: &str) -> &str {
    path.strip_prefix("/run/").unwrap_or(path)
}

fn tree(path: &Path, source: io::Error) -> SpawnError {
    SpawnError::Tree { path: path.to_owned(), source }
}

/// Files of ours that programs read: written once for all sessions.
#[derive(Debug)]
pub(super) struct Drivers {
    base: PathBuf,
    written: RefCell<HashSet<u64>>,
}

impl Drivers {
    /// In this directory, from which what an earlier server left is removed.
    pub(super) fn new(base: &Path) -> io::Result<Self> {
        match std::fs::remove_dir_all(base) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        make_dir(base, 0o755)?;
        Ok(Self { base: base.canonicalize()?, written: RefCell::default() })
    }

    /// The directory that stands for `/run`, with these files.
    fn place(&self, files: &[(&str, &[u8])]) -> io::Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let hash = hasher.finish();
        let folder = self.base.join(format!("{hash:016x}"));
        if self.written.borrow().contains(&hash) {
            return Ok(folder);
        }
        make_dir(&folder, 0o755)?;
        for (path, bytes) in files {
            write_below(&folder, Path::new(below_run(path)), bytes)?;
        }
        self.written.borrow_mut().insert(hash);
        Ok(folder)
    }
}

fn write_below(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().try_for_each(|it| make_dir(&folder.join(it), 0o755))?;
    let target = folder.join(path);
    std::fs::write(&target, bytes)?;
    std::fs::set_permissions(&target, Permissions::from_mode(0o444))
}

/// Makes a directory, if it is not there, with this mode, whatever the mask says.
fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_written_once_and_found_by_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = Drivers::new(&folder.path().join("drivers")).unwrap();
        let files: &[(&str, &[u8])] = &[("/run/repltool/a/driver", b"one"), ("/run/repltool/part", b"two")];
        let place = drivers.place(files).unwrap();
        assert_eq!(std::fs::read(place.join("repltool/a/driver")).unwrap(), b"one");
        assert_eq!(drivers.place(files).unwrap(), place);
        assert_ne!(
            drivers.place(&[("/run/repltool/part", b"three")]).unwrap(),
            place,
            "what is different is elsewhere"
        );
        let found = at_its_place(&CString::from(c"/run/repltool/part"), files, &place);
        assert_eq!(std::fs::read(Path::new(found.to_str().unwrap())).unwrap(), b"two");
        assert_eq!(at_its_place(&CString::from(c"-I"), files, &place).as_c_str(), c"-I");
        Drivers::new(&folder.path().join("drivers")).unwrap();
        assert!(!place.exists(), "a new server begins anew");
    }
}
