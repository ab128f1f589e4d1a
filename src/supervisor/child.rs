//! This program, started once more as another of its processes, whose standard input is a link to the supervisor.

use std::io::{self, IsTerminal as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::process::{Child, Command};

/// The two ends of a link, which keeps packets apart.
///
/// # Errors
/// Those of socketpair(2).
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Starts the process of this name. Dropped, it is killed and reaped.
///
/// # Errors
/// Those of starting a process.
pub(super) fn start(name: &str, link: OwnedFd) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg(name)
        .arg0("repltool")
        .env_clear()
        .stdin(Stdio::from(link))
        .stdout(Stdio::null())
        .stderr(log())
        .kill_on_drop(true)
        .spawn()
}

/// Standard error as the gateway gets it. A terminal is opened anew, to write only: what is typed there is not for it.
fn log() -> Stdio {
    let stderr = io::stderr();
    let terminal = stderr.is_terminal().then(|| std::fs::File::options().write(true).open("/proc/self/fd/2"));
    match terminal {
        Some(Ok(terminal)) => terminal.into(),
        Some(Err(_)) | None => Stdio::inherit(),
    }
}
