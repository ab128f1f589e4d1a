//! What a program needs of the host to run at all: its dynamic loader and libraries; and the basic utilities with theirs.
//! Found once for each program, at first use, by reading the files, never by running them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use goblin::elf::Elf;
use lddtree::DependencyAnalyzer;
use rustix::mount::MountAttrFlags;

use super::error::SpawnError;
use super::policy;
use super::root;
use super::sys::mount_setattr;
use super::workdir::{Tmpfs, clone_mount, executable_tmpfs};

/// Files and directories of the host: where each is shown inside, and where it is.
pub(super) type Shown = BTreeMap<PathBuf, PathBuf>;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Library {
    own: RefCell<HashMap<PathBuf, Rc<Shown>>>,
    utilities: OnceCell<Rc<Utilities>>,
}

/// The basic utilities.
#[derive(Debug)]
pub(super) enum Utilities {
    /// In a tmpfs of their own, which all sandboxes share: a root with nothing else, and its directories.
    Image { mount: OwnedFd, directories: Vec<String> },
    /// Where Linux, before 6.15, cannot clone what is attached nowhere: each file by itself.
    Files(Shown),
}

impl Library {
    /// What a program needs, with `own`, its own directories and files.
    ///
    /// # Errors
    /// [`SpawnError::Tree`] for a file that cannot be read as a program or library.
    pub(super) fn own(&self, program: &Path, own: &[PathBuf]) -> Result<Rc<Shown>, SpawnError> {
        if let Some(known) = self.own.borrow().get(program) {
            return Ok(known.clone());
        }
        let mut binaries = vec![program.to_owned()];
        own.iter().for_each(|path| add_libraries(path, &mut binaries));
        let mut shown = with_libraries(&binaries)?;
        let data = data_directories();
        let whole = || own.iter().chain(&data);
        // What lies below a directory that is shown whole needs no line of its own.
        shown.retain(|target, _| !whole().any(|path| target.starts_with(path)));
        shown.extend(whole().map(|path| (path.clone(), path.clone())));
        let shown = Rc::new(shown);
        self.own.borrow_mut().insert(program.to_owned(), shown.clone());
        Ok(shown)
    }

    /// The basic utilities that are installed.
    ///
    /// # Errors
    /// [`SpawnError::Tree`]
    pub(super) fn utilities(&self) -> Result<Rc<Utilities>, SpawnError> {
        if let Some(known) = self.utilities.get() {
            return Ok(known.clone());
        }
        let shown = Self::find_utilities()?;
        let utilities = match make_image(&shown) {
            Ok(image) => image,
            Err(rustix::io::Errno::INVAL) => Utilities::Files(shown),
            Err(source) => return Err(SpawnError::Tree { path: "/usr".into(), source: source.into() }),
        };
        Ok(self.utilities.get_or_init(|| Rc::new(utilities)).clone())
    }

    /// The basic utilities that are installed, where they are.
    ///
    /// # Errors
    /// [`SpawnError::Tree`]
    pub(super) fn utilities_in_place(&self) -> Result<Rc<Utilities>, SpawnError> {
        if let Some(known) = self.utilities.get() {
            return Ok(known.clone());
        }
        let shown = Self::find_utilities()?;
        Ok(self.utilities.get_or_init(|| Rc::new(Utilities::Files(shown))).clone())
    }

    fn find_utilities() -> Result<Shown, SpawnError> {
        let names = policy::UTILITIES.iter().flat_map(|(names, _)| names.split_whitespace());
        let places = |name| policy::PLACES.iter().map(move |place| Path::new(place).join(name));
        let mut binaries: Vec<_> = names.filter_map(|name| places(name).find(|path| path.exists())).collect();
        binaries.extend(policy::DATA.iter().map(|(path, _)| PathBuf::from(path)).filter(|path| path.exists()));
        with_libraries(&binaries)
    }
}

/// Those of the policy that exist.
pub(super) fn data_directories() -> Vec<PathBuf> {
    policy::DATA_DIRECTORIES.iter().map(|(path, _)| PathBuf::from(path)).filter(|path| path.is_dir()).collect()
}

/// Adds the libraries below a directory.
fn add_libraries(path: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => add_libraries(&entry.path(), found),
            Ok(kind) if kind.is_file() && entry.path().extension().is_some_and(|it| it == "so") => {
                found.push(entry.path());
            }
            _ => {}
        }
    }
}

/// These files, and what the dynamic loader would load for them. Scripts need nothing.
fn with_libraries(binaries: &[PathBuf]) -> Result<Shown, SpawnError> {
    let (mut shown, mut needed) = (Shown::new(), BTreeSet::new());
    let mut known = HashSet::new();
    for binary in binaries {
        add(binary, &mut shown)?;
        // To find a library, the loader's whole search is done anew, which takes a thousand times as long.
        if needs_only(binary, &known) {
            continue;
        }
        // What is no program of this machine has no libraries.
        let Ok(tree) = DependencyAnalyzer::default().analyze(binary) else { continue };
        needed.extend(tree.interpreter.into_iter().map(PathBuf::from));
        for library in tree.libraries.into_values().filter(lddtree::Library::found) {
            known.insert(library.name);
            needed.insert(library.path);
        }
    }
    needed.iter().try_for_each(|path| add(path, &mut shown))?;
    Ok(shown)
}

/// Whether all that a program or library needs is known, and it looks for it in no place of its own.
fn needs_only(binary: &Path, known: &HashSet<String>) -> bool {
    let Ok(bytes) = std::fs::read(binary) else { return false };
    match Elf::parse(&bytes) {
        Ok(elf) if elf.rpaths.is_empty() && elf.runpaths.is_empty() => {
            !known.is_empty() && elf.libraries.iter().all(|name| known.contains(*name))
        }
        _ => false,
    }
}

/// A file is shown where it is looked for, in a directory without links, and with the content that lies behind them.
fn add(path: &Path, shown: &mut Shown) -> Result<(), SpawnError> {
    let failed = |source| SpawnError::Tree { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("/")).canonicalize().map_err(failed)?;
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    shown.insert(folder.join(name), path.canonicalize().map_err(failed)?);
    Ok(())
}

/// Copies files into a tmpfs that can be shown in many sandboxes by one mount each.
fn make_image(shown: &Shown) -> rustix::io::Result<Utilities> {
    let errno = |error: io::Error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
    let sizes = shown.values().map(|source| std::fs::metadata(source).map_or(0, |it| it.len().next_multiple_of(4096)));
    let bytes = sizes.sum::<u64>() + (1 << 20);
    let inodes = 64 + 4 * shown.len() as u64;
    let image = executable_tmpfs(&Tmpfs { bytes, inodes, mode: "0755", owner: None })?;
    // Tells at once whether this Linux can clone it.
    clone_mount(&image)?;
    let mut directories = BTreeSet::new();
    for (target, source) in shown {
        let content = std::fs::read(source).map_err(errno)?;
        root::make_program(&image, target, &content).map_err(errno)?;
        directories.extend(target.iter().nth(1).and_then(|name| name.to_str()).map(str::to_owned));
    }
    for directory in data_directories() {
        root::make_dirs(&image, &directory).map_err(errno)?;
    }
    mount_setattr(std::os::fd::AsFd::as_fd(&image), MountAttrFlags::MOUNT_ATTR_RDONLY, false).map_err(errno)?;
    Ok(Utilities::Image { mount: image, directories: directories.into_iter().collect() })
}
