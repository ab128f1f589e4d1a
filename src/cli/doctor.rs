//! `repltool doctor`: what this host can give, said in words that an operator can act on.
//!
//! It finds nothing out itself, and starts no server: the probe does the one, and nobody the other.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::{Output, table};
use crate::sandbox::probe::{Layer, Report, Tier, containers, names, probe};

/// Probes the host and prints the report on standard output. The code is success in tiers A and B, in which sandboxes
/// are complete, and failure otherwise, or if the report could not be written.
///
/// Call it while the process has one thread; see [`probe`].
pub fn run(output: Output) -> ExitCode {
    let report = probe();
    let containers = containers();
    let mut out = io::stdout().lock();
    let written = match output {
        Output::Text => write_text(&report, &mut out).and_then(|()| write_containers(&containers, &mut out)),
        Output::Json => write_json(&Found { report: &report, containers: &containers }, &mut out),
    };
    match (written, report.tier) {
        (Ok(()), Tier::A | Tier::B) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

#[derive(serde::Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Runtimes for `sandbox.backend = "oci"`.
    containers: &'a [Layer],
}

fn write_containers(containers: &[Layer], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nContainer runtimes, for levels with the backend \"oci\"")?;
    for Layer { name, active, detail } in containers {
        writeln!(out, "- {name}: {}{detail}", if *active { "works, " } else { "" })?;
    }
    Ok(())
}

/// `tier` and `layers` stand at the top level; more fields may come to stand beside them.
fn write_json(report: &impl serde::Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

fn write_text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let (letter, words) = in_words(report.tier);
    writeln!(out, "Isolation: {letter}\n{words}\n")?;
    let rows: Vec<[&str; 4]> = report.layers.iter().map(row).collect();
    write!(out, "{}", table::lines(["LAYER", "ACTIVE", "WHAT IT MEANS", "FOUND"], &rows))?;
    let missing: Vec<&Layer> = report.layers.iter().filter(|layer| !layer.active).collect();
    if missing.is_empty() {
        return writeln!(out, "\nNothing is missing.");
    }
    writeln!(out, "\nMissing")?;
    // Several layers often lack for one reason, which one remedy cures.
    for group in missing.chunk_by(|one, next| about(one).remedy == about(next).remedy) {
        let titles: Vec<&str> = group.iter().map(|layer| about(layer).title).collect();
        writeln!(out, "- {}: {}", titles.join(", "), about(group[0]).remedy)?;
    }
    Ok(())
}

fn in_words(tier: Tier) -> (&'static str, &'static str) {
    match tier {
        Tier::A => ("tier A", "Every wall stands, and cgroups hold memory and processes to their limits."),
        Tier::B => (
            "tier B",
            "Every wall stands. Without a memory cgroup, an rlimit holds each process, and the server watches all of a \
             session together.",
        ),
        Tier::C => (
            "tier C",
            "No namespaces: only Landlock, seccomp and separate uids would stand between sessions. This version makes no \
             sandboxes of that, and the server does not start here.",
        ),
        Tier::None => ("none", "Too little to run untrusted code: the server does not start here."),
    }
}

fn row(layer: &Layer) -> [&str; 4] {
    let about = about(layer);
    [about.title, if layer.active { "yes" } else { "NO" }, about.meaning, &layer.detail]
}

struct About<'a> {
    title: &'a str,
    meaning: &'static str,
    /// What to do when it is missing.
    remedy: &'static str,
}

const ALLOW_NAMESPACES: &str = "allow user namespaces. Sysctls: kernel.unprivileged_userns_clone=1, \
    user.max_user_namespaces>0, kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile with `userns`). \
    In a container: a seccomp profile that lets clone3, unshare and mount through, and apparmor=unconfined; \
    not --privileged.";
const MOUNTS: &str = "needs Linux 5.13 and the right to mount inside a user namespace: FOUND names the call that was \
    refused. In a container let fsopen, fsconfig, fsmount, open_tree, move_mount, mount_setattr, mount, umount2 and \
    pivot_root through.";
const DELEGATE: &str = "give the server a cgroup of its own: as a systemd service with Delegate=yes, or by \
    `systemd-run --user --scope -p Delegate=yes`. In a container: mount /sys/fs/cgroup writable, with cgroupns=private.";

fn about(layer: &Layer) -> About<'_> {
    let (title, meaning, remedy) = match layer.name.as_str() {
        names::USER_NAMESPACE => ("user namespace", "root inside is nobody outside", ALLOW_NAMESPACES),
        names::MOUNT_NAMESPACE => ("mount namespace", "a file tree of its own", ALLOW_NAMESPACES),
        names::PID_NAMESPACE => ("pid namespace", "other processes cannot be seen or signalled", ALLOW_NAMESPACES),
        names::NETWORK_NAMESPACE => ("network namespace", "no network", ALLOW_NAMESPACES),
        names::IPC_NAMESPACE => ("ipc namespace", "no shared memory or queues with others", ALLOW_NAMESPACES),
        names::UTS_NAMESPACE => ("uts namespace", "the host's name is hidden", ALLOW_NAMESPACES),
        names::CGROUP_NAMESPACE => ("cgroup namespace", "the host's cgroup paths are hidden", ALLOW_NAMESPACES),
        names::PIVOT_ROOT => ("root of its own", "the host's files cannot be reached", MOUNTS),
        names::WORKING_DIRECTORY => ("working directory", "files outlive a killed interpreter", MOUNTS),
        names::PROC_MOUNT => (
            "private /proc",
            "programs that read /proc work",
            "sandboxes run without /proc, which few programs notice. In a container: systempaths=unconfined.",
        ),
        names::SESSION_UIDS => (
            "uids per session",
            "sessions are strangers to each other for Linux, too",
            "start the server as root (it drops what it does not need), or accept that all sessions share one uid; \
             the namespaces still keep them apart.",
        ),
        names::LANDLOCK => (
            "Landlock",
            "files are refused a second time",
            "needs Linux 5.13 or newer with `landlock` among the security modules (lsm= on the kernel's command line).",
        ),
        names::LANDLOCK_SCOPES => (
            "Landlock scopes",
            "signals and abstract sockets stay inside",
            "needs Linux 6.12. The namespaces do the same alone.",
        ),
        names::SECCOMP => (
            "seccomp",
            "dangerous system calls are refused",
            "needs a kernel with CONFIG_SECCOMP_FILTER; in a container let the call seccomp through.",
        ),
        names::MEMORY_CGROUP => ("memory cgroup", "memory is limited for a whole sandbox", DELEGATE),
        names::PIDS_CGROUP => ("pids cgroup", "processes are limited for a whole sandbox", DELEGATE),
        names::CGROUP_KILL => (
            "cgroup kill switch",
            "one write kills a whole sandbox",
            "needs Linux 5.14 and a writable cgroup v2. Without it a sandbox's first process is killed, and Linux kills \
             the rest with it.",
        ),
        unknown => (unknown, "", "see what was found."),
    };
    About { title, meaning, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tier: Tier, layers: &[(&str, bool)]) -> Report {
        let layer = |(name, active): &(&str, bool)| Layer {
            name: (*name).to_owned(),
            active: *active,
            detail: format!("detail of {name}"),
        };
        Report { tier, layers: layers.iter().map(layer).collect() }
    }

    fn text(report: &Report) -> String {
        let mut out = Vec::new();
        write_text(report, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_are_aligned_and_every_layer_is_named() {
        let text = text(&report(Tier::A, &[(names::SECCOMP, true), (names::CGROUP_NAMESPACE, true)]));
        let table: Vec<&str> = text.lines().skip(3).take(3).collect();
        let column = |line: &str, word: &str| line.find(word).unwrap_or_else(|| panic!("{word} in {line}"));
        assert_eq!(column(table[1], "yes"), column(table[0], "ACTIVE"));
        assert_eq!(column(table[2], "yes"), column(table[0], "ACTIVE"));
        assert_eq!(column(table[1], "detail of seccomp"), column(table[2], "detail of cgroup_namespace"));
        assert!(text.ends_with("Nothing is missing.\n"), "{text}");
    }

    #[test]
    fn what_is_missing_comes_with_its_remedy_once() {
        let layers = [(names::SECCOMP, true), (names::MEMORY_CGROUP, false), (names::PIDS_CGROUP, false)];
        let text = text(&report(Tier::B, &layers));
        assert!(text.contains("- memory cgroup, pids cgroup: give the server a cgroup of its own"), "{text}");
        assert_eq!(text.matches("Delegate=yes, or").count(), 1);
        assert!(text.starts_with("Isolation: tier B\n"));
    }

    #[test]
    fn every_layer_of_a_report_has_words_of_its_own() {
        for name in names::ALL {
            let layer = Layer { name: name.to_owned(), active: false, detail: String::new() };
            assert!(!about(&layer).meaning.is_empty(), "{name}");
        }
    }

    #[test]
    fn json_has_tier_and_layers() {
        let mut out = Vec::new();
        write_json(&report(Tier::None, &[(names::SECCOMP, false)]), &mut out).expect("memory takes everything");
        let value: serde_json::Value = serde_json::from_slice(&out).expect("json");
        assert_eq!(value["tier"], "none");
        assert_eq!(value["layers"][0]["name"], "seccomp");
        assert_eq!(value["layers"][0]["active"], false);
    }
}
