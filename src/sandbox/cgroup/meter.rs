//! The counters of a group: how they are read here, and how they are opened for somebody else.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use super::Counter;

/// What is counted of a group. What the host does not count is `None`.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) cpu: Option<CpuMeter>,
    pub(super) memory_current: Option<Meter>,
    pub(super) memory_peak: Option<Meter>,
    pub(super) oom: Option<Meter>,
    pub(super) refused_forks: Option<Meter>,
}

#[derive(Debug)]
pub(super) enum CpuMeter {
    /// v1 `cpuacct.usage`: one number of nanoseconds.
    Account(Meter),
    /// v2 `cpu.stat`: its field `usage_usec`, in microseconds.
    Stat(Meter),
}

/// A file with numbers, kept open from the first reading on: opening costs twenty times as much as reading.
#[derive(Debug)]
pub(super) struct Meter {
    path: PathBuf,
    file: OnceLock<File>,
}

impl Meters {
    /// As [`Group::open_meters`](super::Group::open_meters) says.
    pub(super) fn open(&self) -> io::Result<Vec<(Counter, File)>> {
        let cpu = self.cpu.as_ref().map(|(CpuMeter::Account(meter) | CpuMeter::Stat(meter))| meter);
        let counters = [
            (Counter::Cpu, cpu),
            (Counter::MemoryPeak, self.memory_peak.as_ref()),
            (Counter::OomKills, self.oom.as_ref()),
            (Counter::RefusedForks, self.refused_forks.as_ref()),
        ];
        let mut files = Vec::new();
        for (counter, meter) in counters {
            match meter.map(|meter| open(counter, &meter.path)) {
                Some(Ok(file)) => files.push((counter, file)),
                Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Some(Err(_)) | None => {}
            }
        }
        Ok(files)
    }
}

impl CpuMeter {
    pub(super) fn read(&self) -> Option<Duration> {
        match self {
            CpuMeter::Account(meter) => meter.number().map(Duration::from_nanos),
            CpuMeter::Stat(meter) => meter.field("usage_usec").map(Duration::from_micros),
        }
    }
}

impl Meter {
    pub(super) fn new(path: PathBuf) -> Meter {
        Meter { path, file: OnceLock::new() }
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.read(|text| text.trim().parse().ok())
    }

    pub(super) fn field(&self, key: &str) -> Option<u64> {
        self.read(|text| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok()))
    }

    /// Reads the beginning, in which all that is asked for stands.
    fn read(&self, parse: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = File::open(&self.path).ok()?;
                self.file.get_or_init(|| opened)
            }
        };
        let mut buffer = [0; 512];
        let count = file.read_at(&mut buffer, 0).ok()?;
        parse(std::str::from_utf8(&buffer[..count]).ok()?)
    }
}

/// The peak can be set back by whoever may write to it.
fn open(counter: Counter, path: &Path) -> io::Result<File> {
    let writable = File::options().read(true).write(counter == Counter::MemoryPeak).open(path);
    writable.or_else(|_| File::open(path))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("memory.events");
        fs::write(&file, "oom_kill_disable 0\noom 7\noom_kill 3\n").expect("written");
        let meter = Meter::new(file);
        assert_eq!(meter.field("oom_kill"), Some(3));
        assert_eq!(meter.field("missing"), None);
    }

    #[test]
    fn counters_that_are_missing_are_left_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| Meter::new(folder.path().join(name));
        let meters = Meters {
            cpu: Some(CpuMeter::Stat(place("cpu.stat"))),
            memory_current: None,
            memory_peak: Some(place("memory.peak")),
            oom: None,
            refused_forks: Some(place("pids.events")),
        };
        let opened = || meters.open().expect("opened").into_iter().map(|(counter, _)| counter).collect::<Vec<_>>();
        assert_eq!(opened(), []);
        fs::write(folder.path().join("cpu.stat"), "usage_usec 1\n").expect("written");
        fs::write(folder.path().join("pids.events"), "max 1\n").expect("written");
        assert_eq!(opened(), [Counter::Cpu, Counter::RefusedForks]);
        let peak = folder.path().join("memory.peak");
        fs::write(&peak, "7\n").expect("written");
        // Root may write it all the same; everybody else reads.
        fs::set_permissions(&peak, fs::Permissions::from_mode(0o444)).expect("set");
        assert_eq!(opened(), [Counter::Cpu, Counter::MemoryPeak, Counter::RefusedForks]);
    }
}
