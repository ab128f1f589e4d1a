//! What an execution uses, read from the counters of its sandbox's cgroup: CPU time of every process in it, living and
//! dead, and the peak of their memory. Both are counters of Linux; the supervisor opens them and hands them over.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::supervisor::link::Exited;

/// The counters of one sandbox.
#[derive(Debug)]
pub(super) struct Meters {
    cpu: Option<File>,
    peak: Option<File>,
    /// CPU time when the execution began.
    begun: Duration,
    /// The last readings, once the sandbox is gone and its counters with it.
    closed: Option<(Duration, u64)>,
}

impl Meters {
    pub(super) fn new(cpu: Option<OwnedFd>, peak: Option<OwnedFd>) -> Self {
        Self { cpu: cpu.map(File::from), peak: peak.map(File::from), begun: Duration::ZERO, closed: None }
    }

    /// Counts from here. The peak starts anew at what is in use now (cgroup v1; v2 from Linux 6.12 on).
    pub(super) fn begin(&mut self) {
        self.begun = self.cpu_time().unwrap_or_default();
        if let Some(peak) = &self.peak {
            // Where it cannot be set back, the peak is that of the sandbox's life, which is the upper bound.
            let _ = peak.write_at(b"0", 0);
        }
    }

    /// Milliseconds of CPU and bytes of memory since then.
    pub(super) fn read(&self) -> (u64, u64) {
        let (cpu, peak) = self.closed.unwrap_or_else(|| {
            let peak = self.peak.as_ref().and_then(|file| read_text(file, |text| text.trim().parse().ok()));
            (self.cpu_time().unwrap_or_default(), peak.unwrap_or(0))
        });
        (u64::try_from(cpu.saturating_sub(self.begun).as_millis()).unwrap_or(u64::MAX), peak)
    }

    /// The supervisor has read them for the last time.
    pub(super) fn close(&mut self, exited: &Exited) {
        if self.cpu.is_some() {
            self.closed = Some((Duration::from_nanos(exited.cpu_ns), exited.peak_memory_bytes));
        }
    }

    fn cpu_time(&self) -> Option<Duration> {
        read_text(self.cpu.as_ref()?, parse_cpu)
    }
}

/// Of `cpuacct.usage` (v1), nanoseconds, or of `cpu.stat` (v2), whose field `usage_usec` is in microseconds.
fn parse_cpu(text: &str) -> Option<Duration> {
    if let Ok(nanoseconds) = text.trim().parse() {
        return Some(Duration::from_nanos(nanoseconds));
    }
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(usage.trim().parse().ok()?))
}

fn read_text<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0; 512];
    let got = file.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..got]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_counter_are_read() {
        assert_eq!(parse_cpu("1500000\n"), Some(Duration::from_micros(1500)));
        assert_eq!(parse_cpu("usage_usec 42\nuser_usec 40\n"), Some(Duration::from_micros(42)));
        assert_eq!(parse_cpu("nothing"), None);
    }
}
