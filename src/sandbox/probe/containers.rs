//! Container runtimes: each makes a container, in which a shell runs to its end.

use std::ffi::OsString;
use std::os::fd::AsFd as _;

use repltool_protocol::rest::SandboxMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::Instant;

use super::super::cgroup::Host;
use super::super::oci::Runtime;
use super::super::{Exit, Identity, Interrupt, Kind, Limits, MemoryRlimit, Plan, Request, spawn};
use super::trial::{Child, run, step};
use super::{Layer, layer, walls};

/// Runtimes that are looked for when nobody names one.
const KNOWN: [&str; 3] = ["runc", "crun", "runsc"];
/// Ends a shell at once.
const SHELL: [&std::ffi::CStr; 3] = [c"/bin/sh", c"-c", c"exit 7"];
const LIMITS: Limits = Limits {
    memory_bytes: 1 << 30,
    memory_rlimit: MemoryRlimit::Data,
    max_processes: 16,
    cpu_seconds: 10,
    file_bytes: 1 << 20,
    tmp_bytes: 1 << 20,
    tmp_inodes: 16,
    open_files: 64,
};
/// How long the shell may run, in seconds.
const PATIENCE_S: i64 = 5;

/// Tries the runtimes that are known and installed.
pub fn containers() -> Vec<Layer> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let tried = |name| match Runtime::find(name, &path) {
        Ok(runtime) => Layer { name: String::from(name), ..container(&runtime) },
        Err(error) => layer(name, Err(error.to_string())),
    };
    KNOWN.into_iter().map(tried).collect()
}

/// Has a runtime make a container. The layer has its path for a name. The process must have one thread.
pub fn container(runtime: &Runtime) -> Layer {
    let name = runtime.path().to_string_lossy();
    // Here and not in the child, so that nobody has to look again.
    if let Err(error) = runtime.libraries() {
        return layer(&name, Err(explain(&error)));
    }
    let found = run(|child: &Child| child.tell(&name, outside(runtime)));
    found.into_iter().next_back().unwrap_or_else(|| layer(&name, Err("the trial did not end in time".to_owned())))
}

fn outside(runtime: &Runtime) -> Result<String, String> {
    let identity = walls::identity();
    if identity == Identity::Single {
        walls::enter_outer()?;
    }
    let mut plan = step("making a plan", Plan::compile_for(Host::None))?;
    plan.contain(SandboxMode::Relaxed, runtime.clone());
    let workdir = step("a working directory", walls::workdirs()?.create(1 << 20, 16, identity))?;
    let argv = SHELL.map(ToOwned::to_owned);
    let begun = Instant::now();
    let request = Request {
        name: "trial",
        mode: SandboxMode::Relaxed,
        kind: Kind::Shell { utilities: true },
        own: &[],
        identity,
        workdir: &workdir,
        argv: &argv,
        environment: &[],
        cwd: "",
        files: &[],
        binds: &[],
        interrupt: Interrupt::Group,
        limits: LIMITS,
    };
    let mut sandbox = spawn(&plan, &request).map_err(|error| explain(&error))?;
    let took = begun.elapsed().as_millis();
    drop(sandbox.listener.take());
    let timeout = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)], Some(&timeout));
    match sandbox.reap() {
        Some(Exit::Code(7)) => Ok(format!("made a container in {took} ms")),
        other => Err(format!("a shell in a container did not end as it should: {other:?}")),
    }
}

/// The whole chain on one line, for a reader without a log.
fn explain(error: &dyn std::error::Error) -> String {
    let chain: Vec<_> = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect();
    chain.join(": ")
}
