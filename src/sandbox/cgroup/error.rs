//! Why there is no cgroup, or not the one that was asked for.

use std::io;
use std::path::PathBuf;

/// Why a sandbox got no cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// Nothing is writable here: run without, or start the server where cgroups are delegated to it.
    #[error("no cgroup is writable for this server")]
    Unavailable,
    /// The name is not 1 to 64 characters of `[A-Za-z0-9-]`; a fault of the caller.
    #[error("{0:?} cannot name a cgroup")]
    Name(String),
    /// The folder could not be made; also when the name was used before.
    #[error("cgroup {} could not be made", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// What Linux said.
        source: io::Error,
    },
    /// A limit was not accepted.
    #[error("cgroup limit {} could not be set", path.display())]
    Limit {
        /// The file of the limit.
        path: PathBuf,
        /// What Linux said.
        source: io::Error,
    },
    /// A way in could not be opened.
    #[error("{} could not be opened to enter the cgroup", path.display())]
    Enter {
        /// The file or folder.
        path: PathBuf,
        /// What Linux said.
        source: io::Error,
    },
    /// The process could not be moved in; most often because it is gone already.
    #[error("process {pid} could not be moved into cgroup {}", path.display())]
    Attach {
        /// The process.
        pid: i32,
        /// The folder.
        path: PathBuf,
        /// What Linux said.
        source: io::Error,
    },
}
