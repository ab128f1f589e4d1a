//! The binary under test, and who runs it.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{As, NOBODY, container};

/// The binary under test, run as somebody.
pub fn binary_as(user: As) -> Command {
    let binary = env!("CARGO_BIN_EXE_repltool");
    let mut command = match user {
        As::Me => Command::new(binary),
        As::FewFiles => {
            let mut command = Command::new("prlimit");
            command.args(["--nofile=280:280", "--", binary]);
            command
        }
        // The build directory may be closed to others, so the binary is opened before the user changes.
        As::OrdinaryUser => as_nobody(Path::new(&opened(binary))),
        As::Container => container::command(""),
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REPLTOOL_")) {
        command.env_remove(name);
    }
    command
}

/// A program, run as an ordinary user.
pub(super) fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    command
}

/// The binary in this directory, where it is found by its path, as container runtimes need it.
pub(super) fn within_reach(directory: &Path) -> PathBuf {
    let (binary, here) = (env!("CARGO_BIN_EXE_repltool"), directory.join("repltool"));
    if !here.exists() && std::fs::hard_link(binary, &here).is_err() {
        std::fs::copy(binary, &here).expect("the binary is copied");
    }
    here
}

/// A path by which everybody below this process may execute it.
fn opened(binary: &str) -> String {
    static BINARY: std::sync::OnceLock<std::fs::File> = std::sync::OnceLock::new();
    let file = BINARY.get_or_init(|| {
        let file = std::fs::File::open(binary).expect("the binary is there");
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("children get the descriptor too");
        file
    });
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Whether a server with these settings is to have no interpreters that wait. They would be counted with those of a test's
/// own sessions, so a test has some where it asks for them, and all have some where REPLTOOL_TEST_POOL is set.
pub fn has_no_pool(settings: &str) -> bool {
    !settings.contains("[pool]") && std::env::var_os("REPLTOOL_TEST_POOL").is_none()
}
