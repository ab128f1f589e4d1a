//! What a sandbox costs: the time until a program in one has printed its first word, beside the same program without one
//! and in bubblewrap, each in turn; what a sandbox takes of memory; how many are made and ended in a second.
//!
//! ```text
//! sandbox_cost [ROUNDS] [SECONDS]     200 rounds, 20 seconds
//! ```
//!
//! Needs root, so that sandboxes are those of a server that has all it wants, and `bwrap` for the comparison.
#![allow(clippy::unwrap_used, reason = "a measurement that fails is to stop")]

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use repltool::sandbox::workdir::{Workdir, Workdirs};
use repltool::sandbox::{self, Identity, Interrupt, Kind, Limits, MemoryRlimit, Plan, Request, Sandbox};
use repltool_protocol::rest::SandboxMode;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::time::Instant;

/// Host ids that nobody has.
const IDENTITY: Identity = Identity::Mapped { payload: 390_000, init: 390_001 };
const LIMITS: Limits = Limits {
    memory_bytes: 256 << 20,
    memory_rlimit: MemoryRlimit::AddressSpace,
    max_processes: 64,
    cpu_seconds: 3600,
    file_bytes: 128 << 20,
    tmp_bytes: 64 << 20,
    tmp_inodes: 16384,
    open_files: 1024,
};
/// Programs that print a word at once.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("echo", &["/usr/bin/echo", "ready"]),
    ("Bash", &["/usr/bin/bash", "-c", "echo ready"]),
    ("Python", &["/usr/bin/python3", "-I", "-S", "-c", "print('ready')"]),
    ("Node.js", &["/usr/bin/node", "-e", "console.log('ready')"]),
];
/// What bubblewrap needs to give about the same: all namespaces, the same system, three file systems of its own.
const BWRAP: &[&str] = &[
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/workspace",
    "--chdir",
    "/workspace",
    "--hostname",
    "sandbox",
    "--",
];
/// Sandboxes that live at once while memory is measured.
const AT_ONCE: u64 = 200;

struct Maker {
    plan: Plan,
    workdir: Workdir,
    _workdirs: Workdirs,
    _dir: tempfile::TempDir,
    made: std::cell::Cell<u64>,
}

impl Maker {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut workdirs = Workdirs::new(&dir.path().join("homes")).unwrap();
        let workdir = workdirs.create(64 << 20, 16384, IDENTITY).unwrap();
        Self { plan: Plan::compile().unwrap(), workdir, _workdirs: workdirs, _dir: dir, made: 0.into() }
    }

    fn spawn(&self, program: &[&str]) -> Sandbox {
        self.made.set(self.made.get() + 1);
        let argv: Vec<_> = program.iter().map(|word| CString::new(*word).unwrap()).collect();
        let request = Request {
            name: &format!("cost-{}", self.made.get()),
            mode: SandboxMode::Standard,
            kind: Kind::Interpreter,
            own: &[],
            identity: IDENTITY,
            workdir: &self.workdir,
            argv: &argv,
            environment: &[c"PATH=/usr/bin".to_owned()],
            cwd: "",
            files: &[("/run/repltool/driver", b"")],
            binds: &[],
            interrupt: Interrupt::Program,
            limits: LIMITS,
        };
        sandbox::spawn(&self.plan, &request).unwrap()
    }
}

fn until_readable(fd: &OwnedFd) {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], None).unwrap();
}

fn end(sandbox: Sandbox) {
    sandbox.kill();
    until_readable(&sandbox.pidfd);
    let mut left = Some(sandbox);
    while let Some(sandbox) = left {
        left = sandbox.release();
    }
}

/// From the start to the first word.
fn sandboxed(maker: &Maker, program: &[&str]) -> Duration {
    let begun = Instant::now();
    let sandbox = maker.spawn(program);
    until_readable(&sandbox.stdout);
    let took = begun.elapsed();
    end(sandbox);
    took
}

fn outside(before: &[&str], program: &[&str]) -> Duration {
    let words = [before, program].concat();
    let begun = Instant::now();
    let mut child = Command::new(words[0]).args(&words[1..]).env_clear().stdout(Stdio::piped()).spawn().unwrap();
    let mut word = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    let took = begun.elapsed();
    child.wait().unwrap();
    took
}

/// Median, and the 5th and the 95th percentile, in milliseconds.
fn spread(times: &mut [Duration]) -> [f64; 3] {
    times.sort();
    [50, 5, 95].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0)
}

fn starts(maker: &Maker, rounds: usize) {
    let bwrap = [&["/usr/bin/bwrap"], BWRAP].concat();
    println!("to the first word, {rounds} rounds, ms: median (5th to 95th percentile)");
    for (name, program) in PROGRAMS {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..rounds {
            for turn in 0..3 {
                let side = (round + turn) % 3;
                times[side].push(match side {
                    0 => outside(&[], program),
                    1 => sandboxed(maker, program),
                    _ => outside(&bwrap, program),
                });
            }
        }
        let [plain, ours, theirs] = times.each_mut().map(|times| spread(times));
        let text = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2}-{high:.2})");
        let (more, theirs_more) = (ours[0] - plain[0], theirs[0] - plain[0]);
        println!("{name:8} plain {}  sandbox {}  bwrap {}", text(plain), text(ours), text(theirs));
        println!("{:8} more than plain: sandbox {more:.2}, bwrap {theirs_more:.2}: {:.2}", "", more / theirs_more);
    }
}

fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// KiB that Linux itself holds.
fn kernel_kib() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    ["Slab:", "KernelStack:", "PageTables:", "Percpu:"].iter().map(|name| number(&info, name)).sum()
}

fn memory(maker: &Maker) {
    end(maker.spawn(&["/usr/bin/sleep", "600"]));
    let before = kernel_kib();
    let living: Vec<_> = (0..AT_ONCE).map(|_| maker.spawn(&["/usr/bin/sleep", "600"])).collect();
    let kernel = kernel_kib().saturating_sub(before);
    let pss = |sandbox: &Sandbox| {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", sandbox.pid)).unwrap();
        number(&rollup, "Pss:")
    };
    let init: u64 = living.iter().map(pss).sum();
    living.into_iter().for_each(end);
    println!("memory of each of {AT_ONCE}: init {} KiB, Linux {} KiB", init / AT_ONCE, kernel / AT_ONCE);
}

fn sustained(maker: &Maker, seconds: u64) {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(seconds) {
        let round = Instant::now();
        sandboxed(maker, PROGRAMS[0].1);
        times.push(round.elapsed());
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    let [median, _, high] = spread(&mut times);
    println!("made and ended for {seconds} s: {rate:.0} a second; {median:.2} ms each, 95th percentile {high:.2}");
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap());
    let (rounds, seconds) = (words.next().unwrap_or(200), words.next().unwrap_or(20));
    let maker = Maker::new();
    starts(&maker, usize::try_from(rounds).unwrap());
    memory(&maker);
    sustained(&maker, seconds);
    maker.plan.shutdown();
}
