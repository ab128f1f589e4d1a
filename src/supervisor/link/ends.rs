//! The descriptors of a sandbox on their way to the gateway.

use std::os::fd::OwnedFd;

use super::LinkError;
use crate::sandbox::cgroup::Counter;

/// The gateway's ends of a sandbox, in the order in which they travel.
#[derive(Debug)]
pub struct SandboxFds {
    /// Read end of standard output.
    pub stdout: OwnedFd,
    /// Read end of standard error.
    pub stderr: OwnedFd,
    /// The driver's control socket.
    pub control: OwnedFd,
    /// The socket of the sandbox's init.
    pub init: OwnedFd,
    /// An eventfd(2), non-blocking: how many calls were refused since it was last read.
    pub violations: OwnedFd,
    /// Counts CPU time, where the host does.
    pub cpu: Option<OwnedFd>,
    /// Counts the peak of memory use, where the host does.
    pub memory_peak: Option<OwnedFd>,
    /// Counts kills for memory (`oom_kill`), where the host does.
    pub oom_kills: Option<OwnedFd>,
    /// Counts processes and threads that were refused (`max`), where the host does.
    pub refused_forks: Option<OwnedFd>,
}

impl SandboxFds {
    /// Sorts what came with a message.
    ///
    /// # Errors
    /// [`LinkError::Descriptors`] if there are fewer than the message says.
    pub fn new(fds: Vec<OwnedFd>, counters: &[Counter]) -> Result<Self, LinkError> {
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or(LinkError::Descriptors);
        let (stdout, stderr, control, init, violations) = (next()?, next()?, next()?, next()?, next()?);
        let (mut cpu, mut memory_peak, mut oom_kills, mut refused_forks) = (None, None, None, None);
        for counter in counters {
            let slot = match counter {
                Counter::Cpu => &mut cpu,
                Counter::MemoryPeak => &mut memory_peak,
                Counter::OomKills => &mut oom_kills,
                Counter::RefusedForks => &mut refused_forks,
            };
            *slot = Some(next()?);
        }
        Ok(Self { stdout, stderr, control, init, violations, cpu, memory_peak, oom_kills, refused_forks })
    }
}
