//! Real sandboxes, made by this very process: as root and as an ordinary user, with cgroups and without, and with the
//! working directories of Linux before 6.15. No libtest, because a process that makes sandboxes has one thread: each test
//! runs in a process of its own, as cargo-nextest starts it; without it, this program starts itself.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod cycles;
mod driven;
mod ends;
mod files;
mod hostile_files;
mod interrupts;
mod kills;
mod levels;
#[path = "../plain/mod.rs"]
mod plain;
mod programs;
mod reduced;
mod remains;
mod stdin;
mod walls;
mod workdirs;
mod world;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use world::{Setting, World};

/// A test, and the settings that it runs in.
type Test = (&'static str, fn(&World), &'static [Setting]);

use Setting::{Reduced, Root, RootAttached, RootWithoutCgroups, User, UserAttached};
const EVERYWHERE: &[Setting] = &[Root, RootWithoutCgroups, RootAttached, User, UserAttached];
/// Where the place of the working directory makes no difference.
const DETACHED: &[Setting] = &[Root, RootWithoutCgroups, User];
const ATTACHED: &[Setting] = &[RootAttached, UserAttached];
const WITH_CGROUPS: &[Setting] = &[Root];
/// What the tests of the whole server do not have.
const WITHOUT_CGROUPS: &[Setting] = &[RootWithoutCgroups];

const WITHOUT_NAMESPACES: &[Setting] = &[Reduced];
/// What does not depend on where files are.
const ANYWHERE: &[Setting] = &[Root, RootWithoutCgroups, User, Reduced];

const TESTS: &[Test] = &[
    (
        "strict_has_nothing_but_itself_at_its_place",
        reduced::strict_has_nothing_but_itself_at_its_place,
        WITHOUT_NAMESPACES,
    ),
    ("shells_have_their_programs_and_no_others", reduced::shells_have_their_programs_and_no_others, WITHOUT_NAMESPACES),
    ("all_processes_of_a_user_end", reduced::all_processes_of_a_user_end, WITHOUT_NAMESPACES),
    ("ids_must_fit_the_host", reduced::ids_must_fit_the_host, WITHOUT_NAMESPACES),
    ("useful_things_work", programs::useful_things_work, EVERYWHERE),
    ("other_programs_start", programs::other_programs_start, DETACHED),
    ("no_two_sandboxes_are_alike", programs::no_two_sandboxes_are_alike, DETACHED),
    ("binds_are_seen_read_only", programs::binds_are_seen_read_only, DETACHED),
    ("failures_name_their_step", programs::failures_name_their_step, DETACHED),
    ("strict_python_has_nothing_but_itself", levels::strict_python_has_nothing_but_itself, EVERYWHERE),
    ("strict_bash_forks_and_executes_nothing", levels::strict_bash_forks_and_executes_nothing, EVERYWHERE),
    ("strict_node_runs", levels::strict_node_runs, DETACHED),
    ("standard_python_executes_nothing", levels::standard_python_executes_nothing, EVERYWHERE),
    ("standard_bash_has_the_basic_utilities", levels::standard_bash_has_the_basic_utilities, EVERYWHERE),
    ("standard_bash_may_have_builtins_alone", levels::standard_bash_may_have_builtins_alone, DETACHED),
    ("refused_calls_are_told_by_rule_and_name", levels::refused_calls_are_told_by_rule_and_name, DETACHED),
    ("without_an_answerer_calls_are_refused", levels::without_an_answerer_calls_are_refused, DETACHED),
    ("escapes_are_refused", walls::escapes_are_refused, WITHOUT_CGROUPS),
    ("init_is_small_and_powerless", walls::init_is_small_and_powerless, DETACHED),
    ("memory_is_limited_and_told", walls::memory_is_limited_and_told, WITH_CGROUPS),
    ("workdir_outlives_a_sandbox", workdirs::workdir_outlives_a_sandbox, EVERYWHERE),
    ("workdir_is_no_larger_than_told", workdirs::workdir_is_no_larger_than_told, EVERYWHERE),
    ("workdirs_are_apart_and_leave_nothing", workdirs::workdirs_are_apart_and_leave_nothing, EVERYWHERE),
    ("cwd_is_made_and_never_leaves", workdirs::cwd_is_made_and_never_leaves, EVERYWHERE),
    ("attached_workdirs_are_nobody_elses", workdirs::attached_workdirs_are_nobody_elses, ATTACHED),
    ("interrupt_reaches_the_program_alone", ends::interrupt_reaches_the_program_alone, ANYWHERE),
    ("files_are_read", files::files_are_read, EVERYWHERE),
    ("files_are_written", files::files_are_written, EVERYWHERE),
    ("files_are_removed", files::files_are_removed, DETACHED),
    ("files_are_listed", files::files_are_listed, EVERYWHERE),
    ("a_long_list_is_cut", files::a_long_list_is_cut, DETACHED),
    ("paths_are_checked", files::paths_are_checked, DETACHED),
    ("a_full_disk_is_told", files::a_full_disk_is_told, DETACHED),
    ("files_cost_little", files::files_cost_little, ANYWHERE),
    ("no_link_is_followed", hostile_files::no_link_is_followed, DETACHED),
    ("nothing_but_files_is_opened", hostile_files::nothing_but_files_is_opened, DETACHED),
    ("what_is_closed_stays_closed", hostile_files::what_is_closed_stays_closed, DETACHED),
    ("strange_names_are_shown", hostile_files::strange_names_are_shown, DETACHED),
    ("a_tree_that_changes_hangs_nobody", hostile_files::a_tree_that_changes_hangs_nobody, DETACHED),
    ("a_leased_file_hangs_nobody", hostile_files::a_leased_file_hangs_nobody, DETACHED),
    ("a_forker_hangs_nobody", hostile_files::a_forker_hangs_nobody, DETACHED),
    ("a_killer_hangs_nobody", hostile_files::a_killer_hangs_nobody, DETACHED),
    ("a_copy_that_is_killed_is_answered_for", hostile_files::a_copy_that_is_killed_is_answered_for, DETACHED),
    ("lists_that_nobody_reads_go_in_the_end", hostile_files::lists_that_nobody_reads_go_in_the_end, DETACHED),
    ("text_is_read_in_order_and_ends", stdin::text_is_read_in_order_and_ends, ANYWHERE),
    ("each_execution_has_its_own", stdin::each_execution_has_its_own, ANYWHERE),
    ("nobody_but_init_writes_it", stdin::nobody_but_init_writes_it, DETACHED),
    ("a_text_that_nobody_reads_delays_nothing", stdin::a_text_that_nobody_reads_delays_nothing, ANYWHERE),
    ("what_was_not_read_is_thrown_away", stdin::what_was_not_read_is_thrown_away, ANYWHERE),
    ("a_reader_from_before_gets_the_end_of_file", stdin::a_reader_from_before_gets_the_end_of_file, DETACHED),
    ("a_program_may_close_it", stdin::a_program_may_close_it, DETACHED),
    ("init_serves_without_proc", interrupts::init_serves_without_proc, DETACHED),
    ("an_interrupt_reaches_the_group", interrupts::an_interrupt_reaches_the_group, ANYWHERE),
    ("an_interrupt_is_a_byte", interrupts::an_interrupt_is_a_byte, DETACHED),
    ("many_interrupts_are_one", interrupts::many_interrupts_are_one, ANYWHERE),
    ("kill_rest_spares_the_program", ends::kill_rest_spares_the_program, DETACHED),
    ("kill_rest_beats_a_forker", ends::kill_rest_beats_a_forker, DETACHED),
    ("the_end_is_told", ends::the_end_is_told, ANYWHERE),
    ("init_ends_though_nobody_reads", ends::init_ends_though_nobody_reads, DETACHED),
    ("dies_with_the_supervisor", ends::dies_with_the_supervisor, EVERYWHERE),
    ("a_server_with_many_descriptors_passes_none_on", remains::a_server_with_many_descriptors_passes_none_on, DETACHED),
    ("nothing_outlives_a_kill", kills::nothing_outlives_a_kill, DETACHED),
    ("frozen_and_moved_processes_die_too", kills::frozen_and_moved_processes_die_too, WITH_CGROUPS),
    ("sandboxes_ended_at_any_moment_leave_nothing", cycles::sandboxes_ended_at_any_moment_leave_nothing, DETACHED),
    (
        "supervisors_killed_at_any_moment_leave_nothing",
        cycles::supervisors_killed_at_any_moment_leave_nothing,
        DETACHED,
    ),
    ("nothing_is_left_after_many_rounds", remains::nothing_is_left_after_many_rounds, EVERYWHERE),
];

fn main() -> ExitCode {
    let all = TESTS.iter().flat_map(|(name, run, settings)| {
        settings.iter().map(move |setting| (format!("{}::{name}", setting.name()), (*run, *setting)))
    });
    plain::main(all, |(run, setting)| {
        become_user_of(*setting);
        run(&World::new(*setting));
    })
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
