//! The server of one command: `interactive` and `execute` start it where no other runs.
//!
//! It is the same pair of processes with a data directory that is made for it and removed after it, a key of its own,
//! one language, and a random port on the loopback address. What ties it to the command is its standard input: at the
//! end of that it ends, at once and with all of its sandboxes.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context;
use repltool_protocol::rest::Language;
use tempfile::TempDir;

use super::Purpose;
use crate::config::{self, Auth, Config, Edge, LogLevel, Overrides, RateLimit, Store};

/// Sessions that one command may have; it makes one.
const SESSIONS: usize = 4;
/// Nobody else waits for what an unused session holds: a day is for people who forget a terminal.
const IDLE_TIMEOUT_S: u64 = 24 * 3600;

/// Serves until standard input ends.
///
/// # Errors
/// As [`super::run`].
pub fn run(language: Language, config: Option<&Path>) -> anyhow::Result<()> {
    // Away from the terminal, whose Ctrl-C is for the command. It fails for a leader of a group, which is away already.
    let _ = rustix::process::setsid();
    let leash = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).context("standard input is not there")?;
    let dir = directory().context("no directory can be made for this server")?;
    let config = settings(dir.path(), config)?;
    crate::telemetry::init(&config.log)?;
    let outcome = super::run_for(config, Purpose::Command { language, leash });
    dir.close().context("the directory of this server cannot be removed")?;
    outcome
}

/// In memory unless `TMPDIR` says otherwise: nothing in it has to outlive the command, and a dozen waits for a disk are
/// spared.
fn directory() -> std::io::Result<TempDir> {
    let mut dir = tempfile::Builder::new();
    dir.prefix("repltool-").permissions(std::fs::Permissions::from_mode(0o700));
    match std::env::var_os("TMPDIR") {
        Some(_) => dir.tempdir(),
        None => dir.tempdir_in("/dev/shm").or_else(|_| dir.tempdir()),
    }
}

/// What the machine's settings say of sandboxes and interpreters; the rest is this server's own.
fn settings(data_dir: &Path, file: Option<&Path>) -> anyhow::Result<Config> {
    let mut flags = Overrides::default();
    flags.set("--data-dir", "data_dir", data_dir.to_str());
    let mut config = config::load(file, std::env::vars_os(), flags)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.edge = Edge { listen: any_port, metrics_addr: any_port, ..Edge::default() };
    config.auth = Auth::default();
    config.store = Store::default();
    config.rate_limit = RateLimit { enabled: false, ..RateLimit::default() };
    config.sessions.max = SESSIONS;
    // It is there for one command, which waits for nothing else.
    config.pool.max = 0;
    config.sessions.idle_timeout_s = IDLE_TIMEOUT_S;
    config.log.level = LogLevel::Error;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_server_for_many_do_not_reach_one_for_a_command() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("repltool.toml");
        let text = "[edge]\nlisten = '192.0.2.1:80'\ntls_by_proxy = true\n[auth]\nkey_file = '/nonexistent'\n[sandbox]\ndisk_mb = 8\n";
        std::fs::write(&file, text).unwrap();
        let config = settings(dir.path(), Some(&file)).unwrap();
        assert_eq!((config.edge.listen.ip().is_loopback(), config.auth.key_file), (true, None));
        assert_eq!((config.sandbox.disk_mb, config.data_dir.as_path()), (8, dir.path()));
    }
}
