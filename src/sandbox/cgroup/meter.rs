//! The counters of a group: how they are read here, and how they are opened for somebody else.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

/// What is counted of a group. What the host does not count is `None`.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) cpu: Option<CpuMeter>,
    pub(super) memory_current: Option<Meter>,
    pub(super) memory_peak: Option<Meter>,
    pub(super) oom: Option<Meter>,
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
    /// Opens the counters of CPU time and of the memory peak, as [`Group::open_meters`](super::Group::open_meters) says.
    pub(super) fn open(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        if let Some(CpuMeter::Account(meter) | CpuMeter::Stat(meter)) = &self.cpu {
            files.push(File::open(&meter.path)?);
            if let Some(peak) = &self.memory_peak {
                files.extend(open_peak(&peak.path)?);
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

fn open_peak(path: &Path) -> io::Result<Option<File>> {
    let writable = File::options().read(true).write(true).open(path);
    match writable.or_else(|_| File::open(path)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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
    fn a_peak_that_is_missing_is_left_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| Meter::new(folder.path().join(name));
        let meters = Meters {
            cpu: Some(CpuMeter::Stat(place("cpu.stat"))),
            memory_peak: Some(place("memory.peak")),
            ..Meters::default()
        };
        assert!(meters.open().is_err(), "the account is always there");
        fs::write(folder.path().join("cpu.stat"), "usage_usec 1\n").expect("written");
        assert_eq!(meters.open().expect("opened").len(), 1);
        let peak = folder.path().join("memory.peak");
        fs::write(&peak, "7\n").expect("written");
        // Root may write it all the same; everybody else reads.
        fs::set_permissions(&peak, fs::Permissions::from_mode(0o444)).expect("set");
        assert_eq!(meters.open().expect("opened").len(), 2);
    }
}
