//! `repltool doctor`: what this host can give, said in words that an operator can act on.
//!
//! It finds nothing out itself, and starts no server: the probe does the one, and nobody the other.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::{Output, table};
use crate::sandbox::probe::{Layer, Report, Tier, containers, names, probe, remedy};

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
    for group in missing.chunk_by(|one, next| remedy(&one.name) == remedy(&next.name)) {
        let titles: Vec<&str> = group.iter().map(|layer| about(&layer.name).0).collect();
        writeln!(out, "- {}: {}", titles.join(", "), remedy(&group[0].name))?;
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
            "No namespaces: only Landlock, seccomp and separate uids stand between sessions. The server does not start here \
             unless it is told to by sandbox.allow_reduced_isolation = true.",
        ),
        Tier::None => ("none", "Too little to run untrusted code: the server does not start here."),
    }
}

fn row(layer: &Layer) -> [&str; 4] {
    let (title, meaning) = about(&layer.name);
    [title, if layer.active { "yes" } else { "NO" }, meaning, &layer.detail]
}

/// Its title, and what it means.
fn about(name: &str) -> (&str, &'static str) {
    match name {
        names::USER_NAMESPACE => ("user namespace", "root inside is nobody outside"),
        names::MOUNT_NAMESPACE => ("mount namespace", "a file tree of its own"),
        names::PID_NAMESPACE => ("pid namespace", "other processes cannot be seen or signalled"),
        names::NETWORK_NAMESPACE => ("network namespace", "no network"),
        names::IPC_NAMESPACE => ("ipc namespace", "no shared memory or queues with others"),
        names::UTS_NAMESPACE => ("uts namespace", "the host's name is hidden"),
        names::CGROUP_NAMESPACE => ("cgroup namespace", "the host's cgroup paths are hidden"),
        names::PIVOT_ROOT => ("root of its own", "the host's files cannot be reached"),
        names::SMALL_ROOT => ("single files", "a level can show some programs and no others"),
        names::WORKING_DIRECTORY => ("working directory", "files outlive a killed interpreter"),
        names::PROC_MOUNT => ("private /proc", "programs that read /proc work"),
        names::SESSION_UIDS => ("uids per session", "sessions are strangers to each other for Linux, too"),
        names::LANDLOCK => ("Landlock", "files are refused a second time"),
        names::LANDLOCK_SCOPES => ("Landlock scopes", "signals and abstract sockets stay inside"),
        names::SECCOMP => ("seccomp", "dangerous system calls are refused"),
        names::SECCOMP_LISTENER => ("seccomp listener", "what was refused is known"),
        names::EXEC_ONCE => ("one execution", "nothing but the interpreter can be executed"),
        names::MEMORY_CGROUP => ("memory cgroup", "memory is limited for a whole sandbox"),
        names::PIDS_CGROUP => ("pids cgroup", "processes are limited for a whole sandbox"),
        names::CPU_CGROUP => ("cpu cgroup", "no sandbox takes more than its share of the processors"),
        names::CGROUP_KILL => ("cgroup kill switch", "one write kills a whole sandbox"),
        unknown => (unknown, ""),
    }
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
        let remedy = remedy(names::MEMORY_CGROUP);
        assert!(text.contains(&format!("- memory cgroup, pids cgroup: {remedy}")), "{text}");
        assert_eq!(text.matches(&remedy).count(), 1);
        assert!(text.starts_with("Isolation: tier B\n"));
    }

    #[test]
    fn every_layer_of_a_report_has_words_of_its_own() {
        for name in names::ALL {
            assert!(!about(name).1.is_empty(), "{name}");
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
