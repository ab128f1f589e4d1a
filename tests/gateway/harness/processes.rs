//! Processes of this machine, as `/proc` has them.

use std::process::Command;

/// The children of a process.
pub fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Whether there is more left of a process than its entry, which stays until somebody has waited for it.
pub fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// State and parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Every process below this one.
pub fn descendants(root: u32) -> Vec<u32> {
    let direct = children(root);
    let below: Vec<u32> = direct.iter().flat_map(|pid| descendants(*pid)).collect();
    direct.into_iter().chain(below).collect()
}

/// Processes of the host, whoever's, with this text in their command line.
pub fn running_with(text: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && cmdline(*pid).contains(text)).collect()
}

fn cmdline(pid: u32) -> String {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .map(|it| String::from_utf8_lossy(&it).into_owned())
        .unwrap_or_default()
}

pub fn is_gateway(pid: u32) -> bool {
    cmdline(pid).split('\0').nth(1) == Some("gateway")
}

/// Sends a signal, by kill(1).
pub fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "kill -s {signal} {pid}");
}

/// Whether a process goes by this name.
pub fn named_process(pid: u32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

/// What a process is and what it waits for.
pub fn describe(pid: u32) -> String {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let text = |name: &str| String::from_utf8_lossy(&read(name)).replace('\0', " ").trim().to_owned();
    format!("{pid} {} ({}), waits in {}", text("comm"), text("cmdline"), text("wchan"))
}
