//! A container runtime of this host: where it is, what it is told beside the common commands, and what our init needs to
//! run in its containers.

use std::cell::OnceCell;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lddtree::DependencyAnalyzer;

use crate::sandbox::error::SpawnError;
use crate::sandbox::root::Parts;

/// Init, inside, with the libraries that it is started with: a level may show none of them.
const INIT: &str = "/run/repltool/init";
const LIBRARIES: &str = "/run/repltool/lib";
/// This program, on the host.
const SELF: &str = "/proc/self/exe";

/// A program that makes containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    path: PathBuf,
    libraries: OnceCell<Vec<PathBuf>>,
}

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// It is not installed.
    #[error("{name} is not in PATH; install it (Debian: apt-get install {package}), or give its absolute path")]
    NotFound {
        /// What was looked for.
        name: String,
        /// The package that most likely has it.
        package: String,
    },
    /// The path leads to nothing that can be executed.
    #[error("{} is no program that can be executed", .0.display())]
    NotExecutable(PathBuf),
}

impl Runtime {
    /// Finds a runtime by its absolute path or, in the directories of `path`, by its name.
    ///
    /// # Errors
    /// [`RuntimeError`]
    pub fn find(name: &str, path: &OsStr) -> Result<Self, RuntimeError> {
        let found = |candidate: &PathBuf| {
            let metadata = candidate.metadata();
            metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        };
        if name.starts_with('/') {
            let path = PathBuf::from(name);
            return if found(&path) { Ok(Self::at(path)) } else { Err(RuntimeError::NotExecutable(path)) };
        }
        let mut candidates = std::env::split_paths(path).filter(|it| it.is_absolute()).map(|it| it.join(name));
        candidates.find(found).map(Self::at).ok_or_else(|| RuntimeError::NotFound {
            name: name.to_owned(),
            package: name.trim_end_matches("-runtime").to_owned(),
        })
    }

    fn at(path: PathBuf) -> Self {
        Self { path, libraries: OnceCell::new() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is told before every command: to leave cgroups alone, which are ours.
    pub(super) fn flags(&self) -> &'static [&'static CStr] {
        let name = self.path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        match name {
            _ if name.starts_with(b"crun") => &[c"--cgroup-manager=disabled"],
            _ if name.starts_with(b"runc") => &[c"--rootless=true"],
            _ if name.starts_with(b"runsc") => &[c"--ignore-cgroups", c"--network=none"],
            _ => &[],
        }
    }

    /// Adds our init to a root. Returns how it is started there.
    pub(super) fn show_init(&self, parts: &mut Parts<'_>) -> Result<Vec<String>, SpawnError> {
        // By its path, since the link leads into the mount namespace in which it was started; and by the link if the path
        // leads to it no more, because a newer version was put there.
        let path = std::fs::read_link(SELF).unwrap_or_else(|_| SELF.into());
        parts.show(&path, Path::new(INIT)).or_else(|_| parts.show(Path::new(SELF), Path::new(INIT)))?;
        let mut arguments = Vec::new();
        for path in self.libraries()? {
            let inside = Path::new(LIBRARIES).join(path.file_name().unwrap_or_default());
            parts.show(path, &inside)?;
            // The first one is the loader.
            if arguments.is_empty() {
                arguments = vec![inside.to_string_lossy().into_owned(), "--library-path".into(), LIBRARIES.into()];
            }
        }
        arguments.extend([INIT.to_owned(), super::inside::COMMAND.to_owned()]);
        Ok(arguments)
    }

    /// The dynamic loader of this program and the libraries that it loads; none for one that needs none. By the link in
    /// `/proc`: the path that it leads to may be closed to this user. Found once, which takes a while.
    pub(in crate::sandbox) fn libraries(&self) -> Result<&[PathBuf], SpawnError> {
        if self.libraries.get().is_none() {
            let failed = |error| SpawnError::Tree { path: SELF.into(), source: io::Error::other(error) };
            let tree = DependencyAnalyzer::default().analyze(SELF).map_err(|error| failed(error.to_string()))?;
            let loader: Vec<_> = tree.interpreter.iter().map(PathBuf::from).collect();
            let name = loader.first().and_then(|path| path.file_name()).map(OsStr::to_os_string);
            let found = tree.libraries.into_values().filter(lddtree::Library::found).map(|it| it.path);
            let others = found.filter(|path| path.file_name() != name.as_deref());
            let _ = self.libraries.set(loader.into_iter().chain(others).collect());
        }
        Ok(self.libraries.get().map_or(&[], Vec::as_slice))
    }

    pub(super) fn c_path(&self) -> CString {
        CString::new(self.path.as_os_str().as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_found_by_name_or_path() {
        let path = OsStr::new("relative:/nowhere:/usr/bin:/bin");
        let found = Runtime::find("sh", path).expect("there is a shell");
        assert!(found.path().is_absolute());
        assert_eq!(Runtime::find("/bin/sh", OsStr::new("")).expect("by path").path(), Path::new("/bin/sh"));
        let told = Runtime::find("kata-runtime", OsStr::new("/nowhere")).expect_err("not there").to_string();
        assert!(told.contains("kata-runtime is not in PATH") && told.contains("apt-get install kata"), "{told}");
        assert!(matches!(Runtime::find("/etc/passwd", path), Err(RuntimeError::NotExecutable(_))));
    }
}
