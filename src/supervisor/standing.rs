//! What the supervisor gives a gateway beside the link, and tells it of both processes from then on.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::link::Socket;
use super::{Supervisor, SupervisorError};
use crate::metrics::standing::{Page, Standing, Used};

/// How often the page is written anew.
const PERIOD: Duration = Duration::from_secs(1);

/// The page, and what is known of gateways that are gone.
#[derive(Debug)]
pub(super) struct Reporter {
    page: Page,
    gateway_starts: u64,
    due: Instant,
}

impl Reporter {
    pub(super) fn new() -> Result<Self, SupervisorError> {
        let page = Page::new().map_err(|e| SupervisorError::Io("memfd_create", e))?;
        Ok(Self { page, gateway_starts: 0, due: Instant::now() })
    }
}

impl Supervisor {
    /// The descriptors that go with the welcome of one more gateway: the listening socket, the page of what the
    /// supervisor tells, and the sockets that not every server has, with what they are.
    pub(super) fn welcome_fds(&mut self) -> Result<(Vec<OwnedFd>, Vec<Socket>), SupervisorError> {
        self.reporter.gateway_starts += 1;
        self.reporter.due = Instant::now();
        let copy = |listener: &std::net::TcpListener| {
            let copy = listener.try_clone().map_err(|e| SupervisorError::Io("dup of a listener", e))?;
            Ok::<_, SupervisorError>(OwnedFd::from(copy))
        };
        let page = self.reporter.page.reader().map_err(|e| SupervisorError::Io("open of the page", e))?;
        let mut fds = vec![copy(&self.parts.listener)?, page];
        let mut sockets = Vec::new();
        for (socket, listener) in [(Socket::Redirect, &self.parts.redirect), (Socket::Metrics, &self.parts.metrics)] {
            if let Some(listener) = listener {
                fds.push(copy(listener)?);
                sockets.push(socket);
            }
        }
        if let Some(calling) = &self.calling {
            fds.push(calling.for_gateway().map_err(|e| SupervisorError::Io("dup of a link", e))?);
            sockets.push(Socket::Calls);
        }
        Ok((fds, sockets))
    }

    /// Writes the page, if it is time to.
    pub(super) fn report(&mut self) {
        let now = Instant::now();
        if now < self.reporter.due {
            return;
        }
        self.reporter.due = now + PERIOD;
        let standing = Standing {
            gateway_starts: self.reporter.gateway_starts,
            sandboxes: self.sandboxes.len() as u64,
            pooled: self.sandboxes.pooled(),
            supervisor: used("self"),
            gateway: self.gateway.as_ref().map(|gateway| used(&gateway.pid().to_string())).unwrap_or_default(),
        };
        if let Err(error) = self.reporter.page.write(&standing) {
            tracing::warn!(error = &error as &dyn std::error::Error, "what the supervisor knows cannot be told");
        }
    }
}

/// Identifies this run of the machine: proc(5), `random/boot_id`.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|it| it.trim().to_owned()).unwrap_or_default()
}

/// What a process uses, from proc(5). What cannot be read is 0.
fn used(pid: &str) -> Used {
    let folder = PathBuf::from("/proc").join(pid);
    let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    let resident_kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    let open_files = folder.join("fd");
    // Since Linux 6.2 the size of the directory is the number of its entries.
    let counted = std::fs::metadata(&open_files).map_or(0, |folder| folder.len());
    Used {
        resident_bytes: resident_kb.and_then(|number| number.parse().ok()).map_or(0, |kb: u64| kb << 10),
        open_files: match counted {
            0 => std::fs::read_dir(&open_files).map_or(0, |entries| entries.count() as u64),
            counted => counted,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_uses_is_what_linux_counts() {
        let before = used("self");
        let more: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        let after = used("self");
        assert!(after.open_files >= before.open_files + 40, "{before:?} {after:?}");
        assert!(after.resident_bytes > 1 << 20, "{after:?}");
        assert_eq!(used("0"), Used::default(), "there is no such process");
        drop(more);
    }
}
