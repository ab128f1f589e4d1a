//! What is shipped to run a server: alerts and a dashboard that ask for metrics which exist, and a unit for systemd.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::Server;
use crate::metrics::exposition::{Exposition, scrape};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).expect("the file is there")
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let of_names = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !of_names(c) && c != ':');
    words.filter(|word| word.starts_with("repl_")).collect()
}

/// Every expression of a dashboard, wherever it stands.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match (name.as_str(), inner) {
                    ("expr" | "query", Value::String(text)) => found.push(text.clone()),
                    _ => expressions(inner, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[track_caller]
fn assert_known(found: &Exposition, text: &str) {
    for name in names(text) {
        let of_histogram = ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part));
        let known = match of_histogram.and_then(|name| found.families.get(name)) {
            Some(family) => family.kind == "histogram",
            None => found.families.get(name).is_some_and(|family| family.kind != "histogram"),
        };
        assert!(known, "{name} is no metric of this server: {text}");
    }
}

#[tokio::test]
async fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let server = Server::start().await;
    let found = scrape(&server).await;
    for name in ["prometheus/alerts.yml", "prometheus/alerts_test.yml"] {
        let text = read(name);
        assert!(names(&text).len() > 2, "{name}");
        assert_known(&found, &text);
    }
    let dashboard: Value = serde_json::from_str(&read("grafana/repltool.json")).expect("the dashboard is JSON");
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    assert!(asked.len() > 30, "{asked:?}");
    asked.iter().for_each(|text| assert_known(&found, text));
    let shown = asked.join("\n");
    let missing: Vec<_> = found
        .families
        .keys()
        .filter(|name| !names(&shown).iter().any(|shown| shown.starts_with(name.as_str())))
        .collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

#[test]
fn promtool_takes_the_alert_rules_and_they_fire_when_they_should() {
    let promtool =
        |arguments: &[&str]| Command::new("promtool").args(arguments).current_dir(deploy("prometheus")).output();
    let Ok(checked) = promtool(&["check", "rules", "alerts.yml"]) else {
        return eprintln!("promtool is not installed (Debian: prometheus): the alert rules are not given to it");
    };
    let tested = promtool(&["test", "rules", "alerts_test.yml"]).expect("promtool runs");
    for output in [checked, tested] {
        let said = [&output.stdout[..], &output.stderr[..]].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(output.status.success(), "{said:?}");
    }
}

/// Directives that would keep sandboxes from being made, or from telling what was tried in them.
const IMPOSSIBLE: [&str; 12] = [
    "RestrictNamespaces=",
    "PrivateUsers=",
    "ProtectProc=",
    "ProcSubset=",
    "ProtectKernelTunables=",
    "ProtectKernelLogs=",
    "ProtectControlGroups=",
    "ProtectHostname=",
    "MemoryDenyWriteExecute=",
    "SystemCallFilter=",
    "RestrictAddressFamilies=",
    "PrivateDevices=",
];

#[test]
fn the_unit_is_one_for_systemd_and_hardens_what_it_can() {
    let unit = read("repltool.service");
    let operations = include_str!("../../docs/operations.md");
    for directive in IMPOSSIBLE {
        assert!(!unit.lines().any(|line| line.starts_with(directive)), "{directive}");
        assert!(operations.contains(&format!("`{directive}`")), "{directive} is left out without a reason");
    }
    for line in ["Delegate=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "UMask=0077"]
    {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
    // It looks for the binary, so it is given one that is there.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("repltool.service");
    std::fs::write(&path, unit.replace("/usr/local/bin/repltool", "/bin/true")).expect("written");
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        return eprintln!("systemd-analyze is not installed: the unit is not given to it");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let faults: Vec<_> = said.lines().filter(|line| line.contains("repltool.service")).collect();
    assert!(faults.is_empty(), "{faults:?}");
}
