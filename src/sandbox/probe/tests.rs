//! The trials need a process with one thread, so each test runs itself again, alone, in a process of its own.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use super::*;

const AGAIN: &str = "REPLTOOL_TEST_PROBE";
const NOBODY: u32 = 65534;

/// Runs the test `again` below in a new process and gives the report that it printed.
fn probe_elsewhere(change: impl FnOnce(&mut Command)) -> Report {
    let name = concat!(module_path!(), "::again");
    let name = name.split_once("::").expect("a crate and a path").1;
    // By this name another user can start it too, whatever folder the build is in.
    let mut command = Command::new("/proc/self/exe");
    command.args([name, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"]).env(AGAIN, "1");
    command.current_dir("/").stdin(Stdio::null());
    change(&mut command);
    let output = command.output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no report: {text}\n{errors}"));
    serde_json::from_str(line).expect("a report")
}

#[test]
#[ignore = "the other tests run this one, in a process of its own"]
fn again() {
    if std::env::var_os(AGAIN).is_none() {
        return;
    }
    if std::env::var_os(AGAIN).is_some_and(|as_what| as_what == "container") {
        refuse_what_containers_refuse();
    }
    let descriptors = || fs::read_dir("/proc/self/fd").expect("proc").count();
    let before = (descriptors(), footprint());
    let started = tokio::time::Instant::now();
    let report = probe();
    let took = started.elapsed();
    assert_eq!(before, (descriptors(), footprint()), "something is left");
    let children = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
    assert_eq!(children.err(), Some(rustix::io::Errno::CHILD), "a child is left");
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    eprintln!("the probe took {took:?}");
    println!("\n{}", serde_json::to_string(&report).expect("serialisable"));
}

/// The part of Docker's filter that matters here.
fn refuse_what_containers_refuse() {
    use libseccomp::{ScmpAction, ScmpFilterContext, ScmpSyscall};
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow).expect("a filter");
    let mut refuse = |call: &str, error| {
        let call = ScmpSyscall::from_name(call).expect("a known call");
        filter.add_rule(ScmpAction::Errno(error), call).expect("a rule");
    };
    refuse("clone3", libc::ENOSYS);
    for call in ["unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "open_tree", "move_mount"] {
        refuse(call, libc::EPERM);
    }
    // Otherwise the loading would add no_new_privs, which no container has to have.
    filter.set_ctl_nnp(!is_root()).expect("set");
    filter.load().expect("loaded");
}

/// Mounts and our cgroup folders, as far as this process sees them.
fn footprint() -> (String, BTreeSet<String>) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("proc");
    let folder = format!("repltool-{}", std::process::id());
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|place| place.contains("cgroup"));
    let ours = places.map(|place| format!("{place}/{folder}")).filter(|place| fs::exists(place).unwrap_or(false));
    let ours = ours.collect();
    (mounts, ours)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Elsewhere these tests fail rather than pass unseen.
fn assert_root() {
    assert!(is_root(), "this test needs root");
}

fn assert_complete(report: &Report) {
    let told: Vec<&str> = report.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(told, names::ALL, "every layer once, in order");
    let silent = report.layers.iter().find(|layer| layer.detail.contains("the trial ended before"));
    assert_eq!(silent, None);
}

#[test]
fn every_wall_is_found_and_nothing_is_left() {
    assert_root();
    let report = probe_elsewhere(|_| ());
    eprintln!("{report:#?}");
    assert_complete(&report);
    assert_eq!(report.tier, Tier::A, "a host for tests has a memory cgroup that root may write");
    assert!(report.is_active(names::SESSION_UIDS));
    assert_eq!(report.missing().count(), 0);
}

#[test]
fn an_ordinary_user_gets_the_same_walls_but_one_uid_and_no_cgroups() {
    assert_root();
    let report = probe_elsewhere(|command| {
        command.uid(NOBODY).gid(NOBODY);
    });
    eprintln!("{report:#?}");
    assert_complete(&report);
    assert_eq!(report.tier, Tier::B);
    for name in [names::SESSION_UIDS, names::MEMORY_CGROUP, names::PIDS_CGROUP, names::CPU_CGROUP, names::CGROUP_KILL] {
        assert!(!report.is_active(name), "{name}");
    }
}

#[test]
fn a_stock_container_leaves_the_reduced_walls_and_says_why() {
    assert_root();
    let report = probe_elsewhere(|command| {
        command.env(AGAIN, "container");
    });
    eprintln!("{report:#?}");
    assert_complete(&report);
    // Linux before 6.12 has no scopes, without which sessions of one network namespace could talk to each other.
    let left = if report.is_active(names::LANDLOCK_SCOPES) { Tier::C } else { Tier::None };
    assert_eq!(report.tier, left);
    assert!(report.is_active(names::SESSION_UIDS) && !report.is_active(names::USER_NAMESPACE));
    assert_eq!(report.missing().next().map(|layer| layer.name.as_str()), Some(names::USER_NAMESPACE));
    assert!(report.layers[0].detail.contains("a seccomp filter is in force"), "{}", report.layers[0].detail);
}

fn report(inactive: &[&str]) -> Report {
    let found = names::ALL.iter().map(|name| layer(name, Err("no".to_owned())));
    let found = found.map(|layer| Layer { active: !inactive.contains(&layer.name.as_str()), ..layer });
    Report::of(found.collect())
}

#[test]
fn tiers_follow_from_the_layers() {
    let namespaces = &names::WALLS[..10];
    let with = |more: &[&'static str]| report(&[namespaces, more].concat()).tier;
    assert_eq!(report(&[]).tier, Tier::A);
    assert_eq!(report(&[names::PROC_MOUNT, names::SESSION_UIDS]).tier, Tier::A, "a sandbox does without these");
    assert_eq!(report(&[names::MEMORY_CGROUP]).tier, Tier::B);
    assert_eq!(with(&[]), Tier::C);
    assert_eq!(with(&[names::SESSION_UIDS]), Tier::None);
    assert_eq!(with(&[names::LANDLOCK_SCOPES]), Tier::None);
    assert_eq!(report(&[names::SECCOMP]).tier, Tier::None);
    assert_eq!(report(&names::ALL).tier, Tier::None);
}

#[test]
fn the_last_word_on_a_layer_counts_and_silence_is_a_no() {
    let found = vec![layer(names::SECCOMP, Err("first".to_owned())), layer(names::SECCOMP, Ok("second".to_owned()))];
    let report = Report::of(found);
    assert!(report.is_active(names::SECCOMP));
    assert!(!report.is_active(names::LANDLOCK));
}

#[test]
fn a_report_is_written_as_clients_read_it() {
    let report = Report { tier: Tier::None, layers: vec![layer(names::SECCOMP, Ok("yes".to_owned()))] };
    let written = serde_json::to_string(&report).expect("serialisable");
    assert_eq!(written, r#"{"tier":"none","layers":[{"name":"seccomp","active":true,"detail":"yes"}]}"#);
    assert_eq!(serde_json::from_str::<Report>(&written).expect("readable"), report);
}

#[test]
fn a_trial_that_hangs_is_killed_at_its_deadline() {
    let started = tokio::time::Instant::now();
    let trial = trial::Trial::start(|child| {
        child.wait();
    })
    .expect("started");
    let (told, signal) = trial.finish(std::time::Duration::from_millis(50));
    assert_eq!((told, signal), (Vec::new(), Some(libc::SIGKILL)));
    assert!(started.elapsed() < std::time::Duration::from_secs(1));
}
