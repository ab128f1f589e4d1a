//! Real sandboxes, made by this very process: as root and as an ordinary user, with cgroups and without, and with the
//! working directories of Linux before 6.15. No libtest, because a process that makes sandboxes has one thread: each test
//! runs in a process of its own, as cargo-nextest starts it; without it, this program starts itself.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod ends;
mod programs;
mod remains;
mod walls;
mod workdirs;
mod world;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use world::{Setting, World};

/// A test, and the settings that it runs in.
type Test = (&'static str, fn(&World), &'static [Setting]);

use Setting::{Root, RootAttached, RootWithoutCgroups, User, UserAttached};
const EVERYWHERE: &[Setting] = &[Root, RootWithoutCgroups, RootAttached, User, UserAttached];
/// Where the place of the working directory makes no difference.
const DETACHED: &[Setting] = &[Root, RootWithoutCgroups, User];
const ATTACHED: &[Setting] = &[RootAttached, UserAttached];
const WITH_CGROUPS: &[Setting] = &[Root];
/// What the tests of the whole server do not have.
const WITHOUT_CGROUPS: &[Setting] = &[RootWithoutCgroups];

const TESTS: &[Test] = &[
    ("useful_things_work", programs::useful_things_work, EVERYWHERE),
    ("other_programs_start", programs::other_programs_start, DETACHED),
    ("binds_are_seen_read_only", programs::binds_are_seen_read_only, DETACHED),
    ("failures_name_their_step", programs::failures_name_their_step, DETACHED),
    ("escapes_are_refused", walls::escapes_are_refused, WITHOUT_CGROUPS),
    ("init_is_small_and_powerless", walls::init_is_small_and_powerless, DETACHED),
    ("memory_is_limited_and_told", walls::memory_is_limited_and_told, WITH_CGROUPS),
    ("workdir_outlives_a_sandbox", workdirs::workdir_outlives_a_sandbox, EVERYWHERE),
    ("workdir_is_no_larger_than_told", workdirs::workdir_is_no_larger_than_told, EVERYWHERE),
    ("workdirs_are_apart_and_leave_nothing", workdirs::workdirs_are_apart_and_leave_nothing, EVERYWHERE),
    ("cwd_is_made_and_never_leaves", workdirs::cwd_is_made_and_never_leaves, EVERYWHERE),
    ("attached_workdirs_are_nobody_elses", workdirs::attached_workdirs_are_nobody_elses, ATTACHED),
    ("interrupt_reaches_the_program_alone", ends::interrupt_reaches_the_program_alone, DETACHED),
    ("kill_rest_spares_the_program", ends::kill_rest_spares_the_program, DETACHED),
    ("kill_rest_beats_a_forker", ends::kill_rest_beats_a_forker, DETACHED),
    ("the_end_is_told", ends::the_end_is_told, DETACHED),
    ("init_ends_though_nobody_reads", ends::init_ends_though_nobody_reads, DETACHED),
    ("dies_with_the_supervisor", ends::dies_with_the_supervisor, EVERYWHERE),
    ("a_server_with_many_descriptors_passes_none_on", remains::a_server_with_many_descriptors_passes_none_on, DETACHED),
    ("nothing_is_left_after_many_rounds", remains::nothing_is_left_after_many_rounds, EVERYWHERE),
];

/// As much of libtest's command line as cargo-nextest and `cargo test` speak.
#[derive(Default)]
struct Args {
    list: bool,
    ignored: bool,
    exact: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Args {
    fn read() -> Args {
        let (mut args, mut words) = (Args::default(), std::env::args().skip(1));
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => args.list = true,
                "--ignored" => args.ignored = true,
                "--exact" => args.exact = true,
                "--skip" => args.skip.extend(words.next()),
                "--format" | "--color" | "--test-threads" | "-Z" => drop(words.next()),
                flag if flag.starts_with('-') => {}
                _ => args.names.push(word),
            }
        }
        args
    }

    fn want(&self, name: &str) -> bool {
        let matches = |pattern: &String| if self.exact { name == pattern } else { name.contains(pattern.as_str()) };
        !self.ignored && (self.names.is_empty() || self.names.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

fn main() -> ExitCode {
    let args = Args::read();
    let all = TESTS.iter().flat_map(|(name, run, settings)| {
        settings.iter().map(move |setting| (format!("{}::{name}", setting.name()), *run, *setting))
    });
    let wanted: Vec<_> = all.filter(|(name, ..)| args.want(name)).collect();
    if args.list {
        wanted.iter().for_each(|(name, ..)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match wanted.as_slice() {
        [(_, run, setting)] if args.exact => {
            become_user_of(*setting);
            // A panic ends the process with 101.
            run(&World::new(*setting));
            ExitCode::SUCCESS
        }
        several => run_each(several.iter().map(|(name, ..)| name.as_str())),
    }
}

/// Starts this program again as an ordinary user where the setting says so and this is root.
fn become_user_of(setting: Setting) {
    let root = rustix::process::geteuid().is_root();
    if root == setting.is_root() {
        return;
    }
    assert!(root, "this test needs root");
    // By this name everybody may execute it, whatever folder it was built in.
    let mut again = Command::new("/proc/self/exe");
    let error = again.args(std::env::args_os().skip(1)).uid(NOBODY).gid(NOBODY).current_dir("/").exec();
    panic!("it cannot be started as an ordinary user: {error}");
}

/// The ordinary user.
const NOBODY: u32 = 65534;

fn run_each<'a>(names: impl Iterator<Item = &'a str>) -> ExitCode {
    let (mut passed, mut failed) = (0, Vec::new());
    for name in names {
        let status = Command::new("/proc/self/exe").args(["--exact", name]).status().expect("it starts");
        println!("test {name} ... {}", if status.success() { "ok" } else { "FAILED" });
        if status.success() { passed += 1 } else { failed.push(name) }
    }
    println!("\ntest result: {passed} passed; {} failed {failed:?}", failed.len());
    ExitCode::from(if failed.is_empty() { 0 } else { 101 })
}
