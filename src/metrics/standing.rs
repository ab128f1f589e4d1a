//! What the supervisor tells of both processes, on a page in memory that it writes and the gateway reads. Neither waits
//! for the other, and a gateway that was taken over cannot make the supervisor do anything by it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};

use super::labels::LANGUAGES;

/// Numbers on the page, each in so many digits, with a space or a line break after it.
const NUMBERS: usize = 7 + LANGUAGES.len() * POOLED;
const POOLED: usize = 5;
const DIGITS: usize = 20;
const PAGE_BYTES: usize = NUMBERS * (DIGITS + 1);

/// What the supervisor tells. What it cannot find out is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Gateways that were started.
    pub gateway_starts: u64,
    /// Sandboxes that are held for sessions.
    pub sandboxes: u64,
    /// The supervisor itself.
    pub supervisor: Used,
    /// The gateway that runs.
    pub gateway: Used,
    /// Interpreters that wait for sessions, in the order of [`LANGUAGES`].
    pub pooled: [Pooled; LANGUAGES.len()],
}

/// The interpreters of one language that wait for sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pooled {
    /// Those that are ready now.
    pub ready: u64,
    /// Sessions that got one.
    pub hits: u64,
    /// Sessions for which there was none.
    pub misses: u64,
    /// Those that were made.
    pub refills: u64,
    /// What that took, from the sandbox to the end of the boot, in microseconds, added up.
    pub refill_us: u64,
}

/// What a process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
    /// Descriptors that are open.
    pub open_files: u64,
}

/// The page, as the supervisor has it.
#[derive(Debug)]
pub struct Page(File);

impl Page {
    /// A page with nothing on it.
    ///
    /// # Errors
    /// Those of memfd_create(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self(memfd_create("standing", MemfdFlags::CLOEXEC)?.into()))
    }

    /// A descriptor that the page can be read by, and not written.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn reader(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd());
        Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Writes the page anew.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub fn write(&self, standing: &Standing) -> io::Result<()> {
        let Standing { gateway_starts, sandboxes, supervisor, gateway, pooled } = *standing;
        let mut told = vec![
            gateway_starts,
            sandboxes,
            supervisor.resident_bytes,
            supervisor.open_files,
            gateway.resident_bytes,
            gateway.open_files,
        ];
        for Pooled { ready, hits, misses, refills, refill_us } in pooled {
            told.extend([ready, hits, misses, refills, refill_us]);
        }
        let check = sum(&told);
        let all = told.into_iter().chain([check]);
        let text: String = all.map(|number| format!("{number:DIGITS$}\n")).collect();
        self.0.write_all_at(text.as_bytes(), 0)
    }
}

/// Reads a page; nothing if none was written yet, or if it is being written at this moment.
pub fn read(page: &File) -> Option<Standing> {
    let mut bytes = [0; PAGE_BYTES];
    page.read_exact_at(&mut bytes, 0).ok()?;
    let numbers: Vec<u64> =
        std::str::from_utf8(&bytes).ok()?.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let (told, [checked]) = numbers.split_last_chunk()?;
    let ([gateway_starts, sandboxes, resident, files, gateway_resident, gateway_files], rest) =
        told.split_first_chunk()?;
    let (shelves, []) = rest.as_chunks::<POOLED>() else { return None };
    let pooled = shelves.iter().map(|&[ready, hits, misses, refills, refill_us]| Pooled {
        ready,
        hits,
        misses,
        refills,
        refill_us,
    });
    let used = |resident_bytes, open_files| Used { resident_bytes, open_files };
    let pooled = <[Pooled; LANGUAGES.len()]>::try_from(pooled.collect::<Vec<_>>()).ok()?;
    (sum(told) == *checked).then(|| Standing {
        gateway_starts: *gateway_starts,
        sandboxes: *sandboxes,
        supervisor: used(*resident, *files),
        gateway: used(*gateway_resident, *gateway_files),
        pooled,
    })
}

/// Tells a page that is whole from one that is half of an older one.
fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(1, |sum: u64, number| sum.wrapping_mul(31).wrapping_add(*number))
}
