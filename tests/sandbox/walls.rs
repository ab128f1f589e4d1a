//! What a program cannot do, and what its init cannot.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use repltool::sandbox::{Exit, Identity};
use repltool_protocol::rest::SandboxMode;

use crate::world::{LIMITS, World, end, kill, packet, release};

/// The attempts of `tests/gateway/escape/`, of which those in Python are made here without a server.
/// Limits are left out: there is nobody here who watches them.
const FILES: [&str; 4] = [
    include_str!("../gateway/escape/files.toml"),
    include_str!("../gateway/escape/processes.toml"),
    include_str!("../gateway/escape/network.toml"),
    include_str!("../gateway/escape/syscalls.toml"),
];

#[derive(serde::Deserialize)]
struct File {
    attempt: Vec<Attempt>,
}

#[derive(serde::Deserialize)]
struct Attempt {
    name: String,
    levels: Option<Vec<String>>,
    python: Option<String>,
}

pub fn escapes_are_refused(world: &World) {
    let files = FILES.map(|file| toml::from_str::<File>(file).unwrap());
    // Something of the host to escape to; another test may have bound the name already.
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name("repltool-escape").unwrap());
    let (mut made, mut failed) = (0, Vec::new());
    for attempt in files.iter().flat_map(|file| &file.attempt) {
        let Some(code) = &attempt.python else { continue };
        for (name, mode) in [("standard", SandboxMode::Standard), ("relaxed", SandboxMode::Relaxed)] {
            if attempt.levels.as_ref().is_some_and(|levels| !levels.iter().any(|level| level == name)) {
                continue;
            }
            made += 1;
            let prelude = include_str!("../gateway/escape/prelude.py");
            let (text, exit) = world.python(mode, &format!("{prelude}\n{code}"));
            // Killed is refused, too; and what comes after a refusal may miss what an earlier attempt has changed.
            let refused = text.contains("refused:") || matches!(exit, Exit::Code(137 | 159));
            if !refused || text.contains("ESCAPED") {
                failed.push(format!("{} ({name}): {exit:?}\n{text}", attempt.name));
            }
        }
    }
    println!("{made} attempts");
    assert!(made > 80 && failed.is_empty(), "{}", failed.join("\n"));
}

pub fn memory_is_limited_and_told(world: &World) {
    let code = "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('ESCAPED')";
    let mut sandbox = world.start(code);
    end(&mut sandbox);
    let usage = sandbox.usage();
    assert!(usage.oom_kills.unwrap() >= 1, "{usage:?}");
    // Linux has no peak on cgroup v2 before 5.19.
    assert!(usage.memory_peak.is_none_or(|peak| peak <= LIMITS.memory_bytes), "{usage:?}");
    assert!(usage.cpu > Duration::ZERO);
    assert!(!sandbox.open_meters().unwrap().is_empty());
    release(sandbox);
}

pub fn init_is_small_and_powerless(world: &World) {
    let sandbox = world.start("import time; time.sleep(600)");
    packet(&sandbox.init);
    // Init becomes undumpable; root still sees it.
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid)).unwrap();
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    println!("init: uid {}, rss {}", field("Uid:"), field("VmRSS:"));
    // To kill, and to become the program's uid.
    let kept = if world.identity == Identity::Single { "0000000000000000" } else { "00000000000000e0" };
    assert_eq!((field("CapPrm:").as_str(), field("CapEff:").as_str()), (kept, kept));
    assert_eq!((field("CapBnd:").as_str(), field("NoNewPrivs:").as_str()), ("0000000000000000", "1"));
    if world.setting.is_root() {
        let list = std::fs::read_dir(format!("/proc/{}/fd", sandbox.pid)).unwrap();
        let fds: Vec<_> = list.flatten().map(|e| std::fs::read_link(e.path()).unwrap_or_default()).collect();
        // The three standard ones, its socket, the working directory, both ends of standard input, its `/proc`, and the
        // one by which it hears of signals.
        assert_eq!(fds.len(), 9, "{fds:?}");
    }
    kill(sandbox);
}
