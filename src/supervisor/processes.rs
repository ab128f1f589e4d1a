//! What the processes of a sandbox use, added up from `/proc`, for hosts whose cgroups do not count it.
//!
//! All of them stand in one tree below init, because orphans go to it. Linux gives the time of a dead process to whoever
//! waits for it, so the tree also knows of the dead. It does not know of those whose parent ignores SIGCHLD, nor of what
//! lies in a tmpfs without being mapped; the former are noticed if they were seen alive, the latter is held by the size
//! of the tmpfs.

use std::fs;
use std::path::Path;

/// What a sandbox uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// CPU time of all processes, living and dead, in nanoseconds, in steps of some milliseconds.
    pub(super) cpu_ns: u64,
    /// Anonymous and shared memory of all processes together, in bytes. What several of them map counts for each, but
    /// where that would be more than the ceiling: then it is divided.
    pub(super) memory_bytes: u64,
}

/// The account of one sandbox.
#[derive(Debug)]
pub(super) struct Account {
    init: i32,
    ceiling_bytes: u64,
    /// Times that were seen and that no process has any more.
    lost: u64,
    /// The last sum of times that processes have.
    seen: u64,
    memory_bytes: u64,
}

/// A second look finds what moved from a dying parent to init during the first one.
const LOOKS: usize = 3;
/// Times in `/proc` are in hundredths of a second, whatever Linux itself counts in.
const TICK_NS: u64 = 10_000_000;
/// More processes than any sandbox may have: a bound for a tree that changes while it is walked.
const MAX_PROCESSES: usize = 16 * 1024;

impl Account {
    /// `init`: its pid, which the caller keeps from being given to another process. `ceiling_bytes`: from where on memory
    /// is measured more closely.
    pub(super) fn new(init: i32, ceiling_bytes: u64) -> Self {
        Self { init, ceiling_bytes, lost: 0, seen: 0, memory_bytes: 0 }
    }

    /// Walks the tree: some ten microseconds for each process.
    pub(super) fn read(&mut self) -> Used {
        for _ in 0..LOOKS {
            let found = walk(self.init);
            self.memory_bytes = found.memory_bytes;
            if found.ticks >= self.seen {
                self.seen = found.ticks;
                return self.used(&found.pids);
            }
        }
        let found = walk(self.init);
        self.lost += self.seen.saturating_sub(found.ticks);
        self.seen = found.ticks;
        self.memory_bytes = found.memory_bytes;
        self.used(&found.pids)
    }

    fn used(&mut self, pids: &[i32]) -> Used {
        if self.memory_bytes > self.ceiling_bytes {
            self.memory_bytes = self.memory_bytes.min(pids.iter().map(|pid| divided_memory(*pid)).sum());
        }
        Used { cpu_ns: (self.lost + self.seen) * TICK_NS, memory_bytes: self.memory_bytes }
    }
}

#[derive(Default)]
struct Found {
    ticks: u64,
    memory_bytes: u64,
    pids: Vec<i32>,
}

/// Parents before children, so that the time of a child that dies meanwhile is not counted twice.
fn walk(init: i32) -> Found {
    let mut found = Found::default();
    let mut waiting = vec![init];
    while let Some(pid) = waiting.pop() {
        let folder = format!("/proc/{pid}");
        let folder = Path::new(&folder);
        let Some(ticks) = read(&folder.join("stat")).as_deref().and_then(parse_ticks) else { continue };
        found.ticks += ticks;
        found.memory_bytes += read(&folder.join("status")).as_deref().map_or(0, parse_memory);
        found.pids.push(pid);
        if found.pids.len() < MAX_PROCESSES {
            waiting.extend(children(folder));
        }
    }
    found
}

fn children(process: &Path) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| read(&thread.path().join("children")));
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

fn read(path: &Path) -> Option<String> {
    // The name of a process may be any bytes.
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// Of `stat`: own times, and those of children that were waited for.
fn parse_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything. After it come the fields from the third on.
    let (_, fields) = stat.rsplit_once(')')?;
    let times: Vec<u64> = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

/// Of `status`: private and shared memory, but not the pages of files. A process that is dead has none.
fn parse_memory(status: &str) -> u64 {
    let kilobytes = |name: &str| -> u64 {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
    };
    (kilobytes("RssAnon:") + kilobytes("RssShmem:")) * 1024
}

/// Each page by the share that this process has in it: up to some milliseconds for a large process. All that
/// [`parse_memory`] counts where Linux does not tell.
fn divided_memory(pid: i32) -> u64 {
    let folder = format!("/proc/{pid}");
    let folder = Path::new(&folder);
    match read(&folder.join("smaps_rollup")).as_deref().and_then(parse_rollup) {
        Some(bytes) => bytes,
        None => read(&folder.join("status")).as_deref().map_or(0, parse_memory),
    }
}

fn parse_rollup(rollup: &str) -> Option<u64> {
    let kilobytes = |name: &str| -> Option<u64> {
        let value = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().trim_end_matches("kB").trim().parse().ok()
    };
    Some((kilobytes("Pss_Anon:")? + kilobytes("Pss_Shmem:")?) * 1024)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    /// A program that stands for init: it adopts the orphans below it, and does a step at each line that it gets.
    struct Family {
        child: Child,
        input: ChildStdin,
        output: BufReader<ChildStdout>,
    }

    const BEGIN: &str = "import ctypes, mmap, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1)
def burn(seconds):
    while time.process_time() < seconds: pass
def step():
    print('done', flush=True)
    if not sys.stdin.readline(): os._exit(0)
def fork(work):
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return pid
step()
";

    impl Family {
        fn new(steps: &str) -> Self {
            let mut child = Command::new("/usr/bin/python3")
                .args(["-I", "-S", "-c", &format!("{BEGIN}{steps}\nstep()")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .process_group(0)
                .spawn()
                .expect("python3 starts");
            let input = child.stdin.take().expect("piped");
            let mut family = Self { input, output: BufReader::new(child.stdout.take().expect("piped")), child };
            family.wait();
            family
        }

        fn account(&self, ceiling_bytes: u64) -> Account {
            Account::new(self.child.id().try_into().expect("a pid"), ceiling_bytes)
        }

        fn wait(&mut self) {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("read");
            assert_eq!(line, "done\n");
        }

        fn step(&mut self) {
            self.input.write_all(b"\n").expect("written");
            self.wait();
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            let group = self.child.id().try_into().ok().and_then(Pid::from_raw).expect("a pid");
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }

    fn assert_about(used: u64, seconds: f64) {
        let used = used as f64 / 1e9;
        assert!((seconds - 0.05..seconds + 0.25).contains(&used), "{used} instead of {seconds}");
    }

    #[test]
    fn grandchildren_count_while_they_live_and_after_it() {
        // A grandchild burns and lives, another one burns and dies as an orphan.
        let mut family = Family::new(
            "here, tell = os.pipe()
def lives():
    burn(0.2)
    os.write(tell, b'.')
    time.sleep(600)
last = fork(lambda: fork(lives))
os.waitpid(last, 0)
os.read(here, 1)
step()
os.waitpid(fork(lambda: fork(lambda: burn(0.3))), 0)
os.wait()",
        );
        let mut account = family.account(u64::MAX);
        let before = account.read().cpu_ns;
        family.step();
        assert_about(account.read().cpu_ns - before, 0.2);
        family.step();
        assert_about(account.read().cpu_ns - before, 0.5);
    }

    #[test]
    fn times_that_nobody_inherits_are_not_forgotten() {
        let mut family = Family::new(
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)
here, tell = os.pipe()
def work():
    burn(0.3)
    os.write(tell, b'.')
    time.sleep(600)
pid = fork(work)
os.read(here, 1)
step()
os.kill(pid, 9)
try: os.waitpid(pid, 0)
except ChildProcessError: pass",
        );
        let mut account = family.account(u64::MAX);
        let before = account.read().cpu_ns;
        family.step();
        let seen = account.read().cpu_ns;
        assert_about(seen - before, 0.3);
        family.step();
        assert!(account.read().cpu_ns >= seen);
    }

    #[test]
    fn memory_is_that_of_all_and_shared_pages_are_not_counted_twice() {
        let mut family = Family::new(
            "x = bytearray(b'x') * (64 << 20)
step()
for _ in range(3): fork(lambda: time.sleep(600))
step()
y = mmap.mmap(-1, 32 << 20)
y.write(b'y' * (32 << 20))",
        );
        let mib = |bytes: u64| bytes >> 20;
        let before = mib(family.account(u64::MAX).read().memory_bytes);
        family.step();
        let own = mib(family.account(u64::MAX).read().memory_bytes) - before;
        assert!((60..80).contains(&own), "{own} MiB");
        family.step();
        let summed = mib(family.account(u64::MAX).read().memory_bytes) - before;
        assert!(summed > 200, "each of the four has it: {summed} MiB");
        let divided = mib(family.account(128 << 20).read().memory_bytes) - before;
        assert!((60..90).contains(&divided), "{divided} MiB");
        family.step();
        let shared = mib(family.account(128 << 20).read().memory_bytes) - before - divided;
        assert!((24..48).contains(&shared), "shared memory counts: {shared} MiB");
    }

    #[test]
    fn who_is_gone_uses_nothing() {
        let mut account = Account::new(i32::MAX, 0);
        assert_eq!(account.read(), Used::default());
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        let stat = "7 (a) R (b) 1 2) S 1 1 1 0 -1 0 10 11 12 13 5 6 7 8 20 0 1 0";
        assert_eq!(parse_ticks(stat), Some(26));
        assert_eq!(parse_ticks("7 (x"), None);
        assert_eq!(parse_memory("Name:\tx\nRssAnon:\t    12 kB\nRssFile:\t 5 kB\nRssShmem:\t 3 kB\n"), 15 * 1024);
        assert_eq!(parse_memory("Name:\tdead\n"), 0);
    }
}
