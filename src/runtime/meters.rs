//! What an execution uses, read from the counters of its sandbox's cgroup. All are counters of Linux, which the
//! supervisor opens and hands over; what they do not count, the supervisor has to tell.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::supervisor::link::{Counts, Exited, Measured};

/// What was used since something began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time of all processes, living and dead.
    pub cpu: Duration,
    /// The most memory in use at once, in bytes.
    pub peak_memory_bytes: u64,
    /// Processes that Linux killed for memory.
    pub oom_kills: u64,
    /// Processes and threads that were refused.
    pub refused_forks: u64,
}

impl Used {
    /// What the supervisor says at the end of a sandbox.
    pub(super) fn of(exited: &Exited) -> Self {
        Self {
            cpu: Duration::from_nanos(exited.cpu_ns),
            peak_memory_bytes: exited.peak_memory_bytes,
            oom_kills: exited.out_of_memory.into(),
            refused_forks: 0,
        }
    }
}

impl From<Measured> for Used {
    fn from(measured: Measured) -> Self {
        let Measured { cpu_ns, peak_memory_bytes, .. } = measured;
        Self { cpu: Duration::from_nanos(cpu_ns), peak_memory_bytes, ..Self::default() }
    }
}

/// The descriptors of the counters that the host has.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// `cpuacct.usage` or `cpu.stat`.
    pub(super) cpu: Option<OwnedFd>,
    /// `memory.max_usage_in_bytes` or `memory.peak`.
    pub(super) memory_peak: Option<OwnedFd>,
    /// `memory.oom_control` or `memory.events`.
    pub(super) oom_kills: Option<OwnedFd>,
    /// `pids.events`.
    pub(super) refused_forks: Option<OwnedFd>,
}

/// The counters of one sandbox.
#[derive(Debug)]
pub(super) struct Meters {
    cpu: Option<File>,
    peak: Option<File>,
    oom_kills: Option<File>,
    refused_forks: Option<File>,
    /// The counters when the execution began.
    begun: Counts,
    /// The counters when they were read last.
    last: Counts,
    /// What the supervisor told, of what is not counted here.
    told: Used,
}

impl Meters {
    /// `begun`: what the counters showed when something last began, perhaps before this process.
    pub(super) fn new(counters: Counters, begun: Counts) -> Self {
        let Counters { cpu, memory_peak, oom_kills, refused_forks } = counters;
        Self {
            cpu: cpu.map(File::from),
            peak: memory_peak.map(File::from),
            oom_kills: oom_kills.map(File::from),
            refused_forks: refused_forks.map(File::from),
            begun,
            last: begun,
            told: Used::default(),
        }
    }

    /// Whether usage can be read here at any time. If not, the supervisor is to be asked, and its answer given to
    /// [`Self::take`].
    pub(super) fn has_counters(&self) -> bool {
        self.cpu.is_some() && self.oom_kills.is_some()
    }

    /// Counts from here. The peak starts anew at what is in use now (cgroup v1; v2 from Linux 6.12 on). Gives the CPU time
    /// that was used since it was last counted from somewhere.
    pub(super) fn begin(&mut self) -> Duration {
        let now = self.counts();
        let cpu = self.cpu_since(now);
        self.begin_at(now);
        if let Some(peak) = &self.peak {
            // Where it cannot be set back, the peak is that of the sandbox's life, which is the upper bound.
            let _ = peak.write_at(b"0", 0);
        }
        cpu
    }

    /// Counts from where it was read last. The peak is left as it is.
    pub(super) fn begin_at_last(&mut self) {
        self.begin_at(self.last);
    }

    fn begin_at(&mut self, begun: Counts) {
        (self.told, self.begun, self.last) = (Used::default(), begun, begun);
    }

    /// What was used since then. About a microsecond for each counter.
    pub(super) fn read(&mut self) -> Used {
        let now = self.counts();
        self.last = now;
        let since = |is_counted, now: u64, begun| if is_counted { Some(now.saturating_sub(begun)) } else { None };
        let peak = self.peak.as_ref().and_then(|file| read_text(file, |text| text.trim().parse().ok()));
        let oom_kills = since(self.oom_kills.is_some(), now.oom_kills, self.begun.oom_kills);
        let refused_forks = since(self.refused_forks.is_some(), now.refused_forks, self.begun.refused_forks);
        Used {
            cpu: self.cpu_since(now),
            peak_memory_bytes: peak.unwrap_or(self.told.peak_memory_bytes),
            oom_kills: oom_kills.unwrap_or(self.told.oom_kills),
            refused_forks: refused_forks.unwrap_or(self.told.refused_forks),
        }
    }

    fn cpu_since(&self, now: Counts) -> Duration {
        match &self.cpu {
            Some(_) => Duration::from_nanos(now.cpu_ns.saturating_sub(self.begun.cpu_ns)),
            None => self.told.cpu,
        }
    }

    /// What the counters show; what one of them does not tell is what it told last.
    fn counts(&self) -> Counts {
        Counts {
            cpu_ns: self.cpu.as_ref().and_then(|file| read_text(file, parse_cpu_ns)).unwrap_or(self.last.cpu_ns),
            oom_kills: field(&self.oom_kills, "oom_kill ").unwrap_or(self.last.oom_kills),
            refused_forks: field(&self.refused_forks, "max ").unwrap_or(self.last.refused_forks),
        }
    }

    /// Keeps what the supervisor says for what is not counted here.
    pub(super) fn take(&mut self, told: Used) {
        self.told = told;
    }
}

/// Of `cpuacct.usage` (v1), nanoseconds, or of `cpu.stat` (v2), whose field `usage_usec` is in microseconds.
fn parse_cpu_ns(text: &str) -> Option<u64> {
    match text.trim().parse() {
        Ok(nanoseconds) => Some(nanoseconds),
        Err(_) => Some(parse_field(text, "usage_usec ")?.saturating_mul(1000)),
    }
}

/// The number after `name`, which ends with a space.
fn field(file: &Option<File>, name: &str) -> Option<u64> {
    read_text(file.as_ref()?, |text| parse_field(text, name))
}

fn parse_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn read_text<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0; 512];
    let got = file.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..got]).ok()?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_kinds_of_counter_are_read() {
        assert_eq!(parse_cpu_ns("1500000\n"), Some(1_500_000));
        assert_eq!(parse_cpu_ns("usage_usec 42\nuser_usec 40\n"), Some(42_000));
        assert_eq!(parse_cpu_ns("nothing"), None);
    }

    #[test]
    fn only_what_came_after_the_beginning_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        let open = |name: &str| {
            let file = File::options().read(true).write(true).open(folder.path().join(name));
            Some(OwnedFd::from(file.expect("opened")))
        };
        write("cpu", "usage_usec 1000\n");
        write("peak", "9000\n");
        write("oom", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
        write("forks", "max 3\n");
        let counters = Counters {
            cpu: open("cpu"),
            memory_peak: open("peak"),
            oom_kills: open("oom"),
            refused_forks: open("forks"),
        };
        let earlier = Counts { cpu_ns: 400_000, oom_kills: 0, refused_forks: 3 };
        let mut meters = Meters::new(counters, earlier);
        assert!(meters.has_counters());
        let cpu = Duration::from_micros(600);
        let used = Used { cpu, peak_memory_bytes: 9000, oom_kills: 1, refused_forks: 0 };
        assert_eq!(meters.read(), used, "what began before this process counts from its beginning");
        meters.begin();
        assert_eq!(meters.read(), Used { peak_memory_bytes: 0, ..Used::default() }, "the peak was set back");
        write("cpu", "usage_usec 1003\n");
        assert_eq!(meters.begin(), Duration::from_micros(3), "that was used before it begins");
        write("cpu", "usage_usec 1010\n");
        write("forks", "max 5\n");
        let used = meters.read();
        assert_eq!((used.cpu, used.oom_kills, used.refused_forks), (Duration::from_micros(7), 0, 2));
        meters.take(Used { cpu: Duration::MAX, ..Used::default() });
        assert_eq!(meters.read(), used, "the host's own counters are believed");
        write("cpu", "usage_usec 1013\n");
        meters.begin_at_last();
        assert_eq!((meters.read().cpu, meters.read().refused_forks), (Duration::from_micros(3), 0));
    }

    #[test]
    fn without_counters_the_supervisor_is_believed_until_something_begins() {
        let mut meters = Meters::new(Counters::default(), Counts::default());
        assert!(!meters.has_counters());
        let measured = Measured { sandbox: Default::default(), cpu_ns: 1_500, peak_memory_bytes: 7 };
        meters.take(measured.into());
        assert_eq!((meters.read().cpu, meters.read().peak_memory_bytes), (Duration::from_nanos(1_500), 7));
        meters.begin();
        assert_eq!(meters.read(), Used::default());
    }
}
