//! Why a sandbox could not be started, and the report that a child sends when a step of its own fails.

use std::io;
use std::path::PathBuf;

use super::cgroup::CgroupError;

/// Why [`super::spawn`] failed. Nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The request breaks a rule of [`super::Request`].
    #[error("invalid request: {0}")]
    Request(&'static str),
    /// The caller has several threads, so a copy of it could wait for a lock that nobody holds.
    #[error("the process has several threads")]
    Threads,
    /// A pipe, socket or other descriptor could not be made.
    #[error("cannot make the descriptors of a sandbox")]
    Descriptors(#[source] io::Error),
    /// A directory of the host that should be visible inside could not be prepared.
    #[error("cannot prepare {path} for the sandbox")]
    Tree {
        /// The path on the host.
        path: PathBuf,
        /// What Linux said.
        source: io::Error,
    },
    /// A cgroup could not be made or entered.
    #[error("cannot set limits")]
    Cgroup(#[from] CgroupError),
    /// Linux refused to create the namespaces.
    #[error("cannot create namespaces")]
    Namespaces(#[source] io::Error),
    /// The ids could not be mapped into the sandbox.
    #[error("cannot map user ids")]
    Identity(#[source] io::Error),
    /// A step inside the sandbox failed.
    #[error("cannot {step}")]
    Inside {
        /// Which one.
        step: Step,
        /// What Linux said.
        source: io::Error,
    },
    /// The working directory inside could not be made or entered.
    #[error("cannot enter the working directory")]
    Cwd(#[source] io::Error),
    /// The program could not be executed.
    #[error("cannot execute the program")]
    Exec(#[source] io::Error),
    /// The sandbox died before the program ran, without saying why.
    #[error("the sandbox died while it was set up")]
    Died,
    /// The container runtime failed, and said this.
    #[error("the container runtime failed: {0}")]
    Runtime(String),
    /// The program did not run in time.
    #[error("the sandbox was not ready in time")]
    Timeout,
}

impl SpawnError {
    pub(super) fn inside(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        match failure.step {
            Step::Cwd => Self::Cwd(source),
            Step::Exec => Self::Exec(source),
            step => Self::Inside { step, source },
        }
    }
}

macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// A step inside the sandbox. The order of the variants is the order of the steps.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Step {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Step {
            const ALL: &[Self] = &[$(Self::$name),+];
        }

        impl std::fmt::Display for Step {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$name => $text),+ })
            }
        }
    };
}

steps! {
    /// Waiting for the supervisor.
    Start => "hear from the supervisor",
    /// Moving into the cgroup.
    Cgroup => "enter its cgroup",
    /// Becoming the inner uid of init.
    InitIdentity => "become the uid of init",
    /// Tying the sandbox to the life of the supervisor.
    DeathSignal => "set the death signal",
    /// Cutting the mount namespace off.
    Propagation => "make the mounts private",
    /// The tmpfs that becomes the root.
    RootMount => "mount the root",
    /// Directories, links and small files of the root.
    RootFiles => "fill the root",
    /// Read-only directories of the host.
    Binds => "bind directories of the host",
    /// `/dev` and its devices.
    Devices => "make the devices",
    /// The private writable directories.
    Writable => "mount the writable directories",
    /// `/workspace`.
    Workdir => "mount the working directory",
    /// Making the new root the root.
    PivotRoot => "change the root",
    /// Making the root read-only.
    ReadOnlyRoot => "make the root read-only",
    /// The cgroup namespace.
    CgroupNamespace => "create the cgroup namespace",
    /// The host name.
    Hostname => "set the host name",
    /// The loopback interface.
    Loopback => "raise the loopback interface",
    /// Giving up capabilities for good.
    Capabilities => "give up capabilities",
    /// Forking the program's process.
    Fork => "fork",
    /// Standard streams of the program.
    Stdio => "arrange the standard streams",
    /// A new session, free of any terminal.
    NewSession => "start a new session",
    /// Resource limits.
    Rlimits => "set resource limits",
    /// Becoming the uid of the program.
    PayloadIdentity => "become the uid of the program",
    /// The working directory inside.
    Cwd => "enter the working directory",
    /// The Landlock rules.
    Landlock => "enforce the landlock rules",
    /// The system call filter.
    Seccomp => "load the system call filter",
    /// The program itself.
    Exec => "execute the program",
    /// A defect of ours: a panic in the child.
    Panic => "go on after a panic",
}

/// A failed step, as it travels from the child to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) errno: i32,
}

impl Failure {
    pub(super) fn encode(self) -> [u8; 5] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.step as u8, a, b, c, d]
    }

    /// Reads a report; `None` if it is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&step, errno) = bytes.split_first()?;
        let step = *Step::ALL.get(usize::from(step))?;
        Some(Self { step, errno: i32::from_ne_bytes(errno.try_into().ok()?) })
    }
}

/// Names the step in which something failed.
pub(super) trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| Failure { step, errno: error.into().raw_os_error().unwrap_or(libc::EINVAL) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_way() {
        for &step in Step::ALL {
            let failure = Failure { step, errno: libc::EPERM };
            assert_eq!(Failure::decode(&failure.encode()), Some(failure));
        }
        assert_eq!(Failure::decode(&[255, 0, 0, 0, 0]), None);
        assert_eq!(Failure::decode(&[]), None);
    }
}
