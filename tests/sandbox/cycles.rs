//! Sandboxes come and go by the thousand, each ended at a random moment, and so does what makes them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use repltool::sandbox::janitor::Janitor;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::remains::{cgroups, children, fds, mounts};
use crate::world::{Run, World, end, pause, release, wait};

/// Sandboxes that are made and ended, unless `REPLTOOL_TEST_CYCLES` says otherwise.
const CYCLES: usize = 200;
/// For so many sandboxes, one supervisor is killed.
const FOR_A_SUPERVISOR: usize = 10;
/// How long what is left of something killed may be there. Generous: it tells a leak from a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// What runs: from one process to many, quiet and busy.
const PROGRAMS: [&[&str]; 5] = [
    &["/usr/bin/sleep", "600"],
    &["/usr/bin/bash", "-c", "sleep 600 & sleep 600 & wait"],
    &["/usr/bin/bash", "-c", "(setsid bash -c 'while :; do :; done' &) ; trap '' TERM INT HUP; while :; do :; done"],
    &["/usr/bin/bash", "-c", "for i in {1..20}; do (while :; do (exit 1); done) & done; wait"],
    &["/usr/bin/bash", "-c", "head -c 1000000 /dev/urandom > /tmp/a; cp /tmp/a /dev/shm/b; exec sleep 600"],
];

fn cycles() -> usize {
    std::env::var("REPLTOOL_TEST_CYCLES").map_or(CYCLES, |it| it.parse().expect("a number"))
}

/// Marsaglia's xorshift: chance that can be repeated.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = u64::from(now.subsec_nanos()) << 20 | u64::from(std::process::id());
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("it is less than the limit")
    }
}

pub fn sandboxes_ended_at_any_moment_leave_nothing(world: &World) {
    // The first start opens what stays open.
    drop(world.spawn(&Run { program: PROGRAMS[0], ..Run::default() }).unwrap());
    let own = std::process::id().cast_signed();
    let held = || (fds(), children(own), mounts(), cgroups());
    let (before, cycles, mut chance, mut times) = (held(), cycles(), Chance::new(), Vec::new());
    let begun = Instant::now();
    for cycle in 0..cycles {
        let program = PROGRAMS[chance.below(PROGRAMS.len())];
        let mut sandbox = world.spawn(&Run { program, ..Run::default() }).unwrap();
        wait(&sandbox.pidfd, chance.below(12) as i64);
        let killed = Instant::now();
        match chance.below(3) {
            0 => drop(sandbox),
            how => {
                if how == 1 {
                    sandbox.kill();
                } else {
                    kill_process(Pid::from_raw(sandbox.pid).unwrap(), Signal::KILL).unwrap();
                }
                end(&mut sandbox);
                release(sandbox);
            }
        }
        times.push(killed.elapsed());
        if cycle % 100 == 99 || cycle + 1 == cycles {
            assert_eq!(held(), before, "after {cycle} cycles");
        }
    }
    times.sort();
    let (middle, most) = (times[cycles / 2], times[cycles - 1]);
    println!("{cycles} cycles in {:?}; kill to gone: median {middle:?}, at most {most:?}", begun.elapsed());
}

/// Set for the copies of this test that play supervisor.
const PLAYS: &str = "REPLTOOL_TEST_SUPERVISOR";

/// Makes sandboxes until it is killed.
fn play(world: &World, mark: &str) -> ! {
    let _janitor = Janitor::start(&world.plan).unwrap();
    let family = format!("sleep {mark} & sleep {mark} & wait");
    let mut living = std::collections::VecDeque::new();
    println!("up");
    for round in 0.. {
        let program: &[&str] =
            if round % 2 == 0 { &["/usr/bin/sleep", mark] } else { &["/usr/bin/bash", "-c", &family] };
        living.push_back(world.spawn(&Run { program, ..Run::default() }).unwrap());
        if living.len() > 2 {
            living.pop_front();
        }
    }
    unreachable!("it counts for ever");
}

/// Every process with this text in its command line.
fn marked(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.map(|it| String::from_utf8_lossy(&it).into_owned()).filter(|it| it.contains(mark)).collect()
}

/// The folders of a server with this pid.
fn folders_of(pid: u32) -> usize {
    fn count(path: &Path, name: &str) -> usize {
        let folders = std::fs::read_dir(path).into_iter().flatten().flatten().filter(|it| it.path().is_dir());
        let is_its = |found: &str| found == name || found.strip_suffix("-server") == Some(name);
        folders.map(|it| usize::from(it.file_name().to_str().is_some_and(is_its)) + count(&it.path(), name)).sum()
    }
    count("/sys/fs/cgroup".as_ref(), &format!("repltool-{pid}"))
}

pub fn supervisors_killed_at_any_moment_leave_nothing(world: &World) {
    const MARK: &str = "--mark=";
    let given = std::env::args().find_map(|it| it.strip_prefix(MARK).map(str::to_owned));
    if let (Some(_), Some(mark)) = (std::env::var_os(PLAYS), given) {
        play(world, &mark);
    }
    let own = std::process::id().cast_signed();
    let held = || (fds(), children(own), mounts(), cgroups());
    let (before, mut chance, mut times) = (held(), Chance::new(), Vec::new());
    let supervisors = cycles().div_ceil(FOR_A_SUPERVISOR);
    for round in 0..supervisors {
        // A number of seconds for `sleep` that nobody else has.
        let mark = format!("600.{own:08}{round:06}");
        let mut again = Command::new("/proc/self/exe");
        again.args(std::env::args_os().skip(1)).arg(format!("{MARK}{mark}")).env(PLAYS, "1");
        // Killed, it cannot remove what it made.
        let mut supervisor = again.env("TMPDIR", world.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(supervisor.stdout.take().unwrap()).lines();
        assert!(told.any(|line| line.unwrap() == "up"), "it makes sandboxes");
        pause(chance.below(40) as i64);
        let killed = Instant::now();
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        while !marked(&mark).is_empty() || folders_of(supervisor.id()) > 0 {
            assert!(killed.elapsed() < PATIENCE, "{:?}, {} folders", marked(&mark), folders_of(supervisor.id()));
            std::thread::yield_now();
        }
        times.push(killed.elapsed());
        drop(told);
        assert_eq!(held(), before);
    }
    times.sort();
    println!(
        "{supervisors} supervisors; kill to gone: median {:?}, at most {:?}",
        times[supervisors / 2],
        times.last()
    );
}
