//! Cgroups: a group with limits is made, a child moved in, its fork refused, and the kill switch thrown.

use super::{
    super::cgroup::{Group, Host, Limits},
    Layer, layer,
    names::{CGROUP_KILL, CPU_CGROUP, MEMORY_CGROUP, PIDS_CGROUP},
    sys,
    trial::{Child, DEADLINE, Trial, reap_quick, step},
};

/// One process: the child itself, so that its first fork is one too many.
const LIMITS: Limits = Limits { memory_bytes: 32 << 20, max_processes: 1 };

pub(super) fn cgroups() -> Vec<Layer> {
    let host = Host::discover();
    let found = in_a_group(&host).unwrap_or_else(|reason| {
        [MEMORY_CGROUP, PIDS_CGROUP, CPU_CGROUP, CGROUP_KILL].map(|name| layer(name, Err(reason.clone()))).into()
    });
    host.shutdown();
    found
}

fn in_a_group(host: &Host) -> Result<Vec<Layer>, String> {
    // Dropped at the end of this function, when the child is gone and the group can go too.
    let group = host.create("trial", &LIMITS).map_err(|error| explain(&error))?;
    let mut trial = step("starting a child", Trial::start(fork_once))?;
    if let Err(error) = group.attach(trial.pid) {
        trial.finish(DEADLINE);
        return Err(explain(&error));
    }
    trial.go();
    let mut found = trial.first();
    found.push(layer(MEMORY_CGROUP, memory(host, &group)));
    // The child was moved into this hierarchy too, or `attach` would have failed.
    let shares = if host.has_shares() { Ok("equal shares".to_owned()) } else { Err(not_delegated("cpu")) };
    found.push(layer(CPU_CGROUP, shares));
    let thrown = group.kill();
    let killed = trial.finish(DEADLINE).1 == Some(libc::SIGKILL);
    let kill = match (thrown, killed) {
        (true, true) => Ok("one write killed the group".to_owned()),
        (true, false) => Err("cgroup.kill was written, but the child lived".to_owned()),
        (false, _) => Err("there is no cgroup.kill here (Linux 5.14, and cgroup v2)".to_owned()),
    };
    found.push(layer(CGROUP_KILL, kill));
    Ok(found)
}

fn memory(host: &Host, group: &Group) -> Result<String, String> {
    match (host, host.has_memory(), group.usage().memory_current) {
        (Host::V1(_), true, Some(_)) => Ok("cgroup v1".to_owned()),
        (Host::V2(_), true, Some(_)) => Ok("cgroup v2".to_owned()),
        (_, true, _) => Err("the limit was accepted, but nothing is counted".to_owned()),
        (_, false, _) => Err(not_delegated("memory")),
    }
}

fn not_delegated(controller: &str) -> String {
    format!("the {controller} controller is not delegated to this cgroup")
}

fn fork_once(child: &Child) {
    if !child.wait() {
        return;
    }
    let outcome = match sys::child(|| ()) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok("a process too many was refused".to_owned()),
        Err(error) => Err(format!("fork: {error}")),
        Ok((pid, _)) => {
            reap_quick(pid);
            Err("the limit was not enforced".to_owned())
        }
    };
    child.tell(PIDS_CGROUP, outcome);
    // Until killed, or until the parent gives up.
    child.wait();
}

/// The whole chain on one line, for a reader without a log.
fn explain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
