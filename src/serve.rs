//! `repltool serve`: from the command line to a running supervisor.

mod backends;
pub mod embedded;
mod encryption;
mod metrics;
mod outside;
mod sources;
mod users;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use repltool_protocol::rest::{Language, SandboxMode};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{self, Config, Runtimes};
use crate::keys::{self, KeyFile};
use crate::runtime::{Interpreter, bash, javascript, modules, python};
use crate::sandbox::probe::{Layer, Report, Tier, probe, remedy};
use crate::supervisor::link::{FDS_PER_SESSION, StoreRoot};
use crate::supervisor::{self, FDS_BESIDE, MemoryArgument, Parts, Program, Reread};
use crate::{edge, sandbox};
use users::Users;

/// How long the token of the ready link is good.
const LOCAL_TOKEN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Who holds it.
const LOCAL_SUBJECT: &str = "local";
/// What it allows: everything but to see what others do.
const LOCAL_SCOPE: &str = "tool:execute session:read sandbox:relaxed metrics:read audit:read";

/// Serves until it is told to stop. With `reread`, the settings are read again when it is told to.
///
/// # Errors
/// Whatever keeps the server from starting, with what to do about it.
pub fn run(config: Config, reread: Option<Reread>) -> anyhow::Result<()> {
    run_for(config, Purpose::Everybody(reread))
}

/// Whom a server is for.
enum Purpose {
    /// Whoever comes; settings can change.
    Everybody(Option<Reread>),
    /// One command, which holds the other end of the leash.
    Command { language: Language, leash: OwnedFd },
}

fn run_for(config: Config, purpose: Purpose) -> anyhow::Result<()> {
    let (only, leash, reread) = match purpose {
        Purpose::Everybody(reread) => (None, None, reread),
        Purpose::Command { language, leash } => (Some(language), Some(leash), None),
    };
    let isolation = probe();
    check_isolation(&isolation, &config)?;
    keys::prepare_data_dir(&config.data_dir)?;
    let _lock = lock(&config.data_dir)?;
    let programs = programs(&config, only)?;
    let containers = backends::containers(&config.sandbox)?;
    raise_open_files(&config)?;
    let users = users(isolation.tier)?;
    let base_uid = users.as_ref().map(|users| users.base);
    if base_uid.is_none() {
        sandbox::enter_outer_namespace().context("the server's own user namespace cannot be made")?;
    }
    let store = prepare_store(&config.data_dir, base_uid)?;
    // A server of one command is heard of by nobody.
    let order = if leash.is_none() { outside::order(&config, base_uid)? } else { None };
    let listener = TcpListener::bind(config.edge.listen)
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", config.edge.listen))?;
    let redirect = config.edge.redirect_listen.map(encryption::redirect).transpose()?;
    // A server of one command is watched by nobody.
    let metrics = leash.is_none().then(|| metrics::listen(&config)).transpose()?;
    announce(&config, &listener)?;
    let sources = sources::of(&config);
    let parts = Parts {
        programs,
        containers,
        isolation,
        config,
        listener,
        redirect,
        metrics,
        sources,
        reread,
        order,
        store,
        base_uid,
        leash,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let data_dir = parts.config.data_dir.clone();
    let outcome = runtime.block_on(supervisor::run(parts));
    let _ = std::fs::remove_file(data_dir.join("url"));
    metrics::forget(&data_dir);
    Ok(outcome?)
}

/// Anything less than complete sandboxes is none, unless the operator says otherwise: the reason is told now and not to the
/// client of the first session.
fn check_isolation(report: &Report, config: &Config) -> anyhow::Result<()> {
    let missing: Vec<&Layer> = report.missing().collect();
    let Some(first) = missing.first() else {
        tracing::info!(tier = ?report.tier, "every wall of a sandbox stands here");
        return Ok(());
    };
    let names = missing.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>().join(", ");
    let why = format!("missing: {names} ({}: {}). To have it, {}", first.name, first.detail, remedy(&first.name));
    match (report.tier, config.sandbox.allow_reduced_isolation) {
        (Tier::C, true) => {
            tracing::warn!(
                tier = "C",
                missing = names,
                "REDUCED ISOLATION, as sandbox.allow_reduced_isolation says: no namespaces stand between sessions and this \
                 machine, only a user for each session, landlock and seccomp; programs can see that other files and \
                 processes exist, and no size holds their directories; docs/security.md says what else is lost"
            );
            Ok(())
        }
        (Tier::C, false) => bail!(
            "no complete sandbox can be made here, and the server does not start without; {why} With sandbox.\
             allow_reduced_isolation = true it starts with what there is, a user for each session, landlock and seccomp; \
             `repltool doctor` tells of each wall"
        ),
        _ => bail!(
            "no complete sandbox can be made here, and the server does not start without; {why} Run `repltool doctor` to \
             see the rest"
        ),
    }
}

/// The interpreters of this host, or the one for a language. One that is configured must work; one that is not found is
/// not offered.
fn programs(config: &Config, only: Option<Language>) -> anyhow::Result<Vec<Program>> {
    let Runtimes { python, javascript, bash } = &config.runtimes;
    type Find<'a> = Box<dyn Fn() -> anyhow::Result<Interpreter> + 'a>;
    let known: [(Language, bool, Find<'_>); 3] = [
        (Language::Python, python.is_some(), Box::new(|| Ok(python::find(python.as_deref())?))),
        (Language::Javascript, javascript.is_some(), Box::new(|| Ok(javascript::find(javascript.as_deref())?))),
        (Language::Bash, bash.is_some(), Box::new(|| Ok(bash::find(bash.as_deref())?))),
    ];
    let only = only.map(|only| if only == Language::Shell { Language::Bash } else { only });
    let offered = known.into_iter().filter(|(language, ..)| only.is_none_or(|only| only == *language));
    let mut programs = Vec::new();
    for (language, configured, find) in offered {
        match find() {
            Ok(interpreter) => programs.push(program(language, interpreter, config)),
            Err(error) if configured => return Err(error),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "a language is not offered"),
        }
    }
    if programs.is_empty() {
        bail!(
            "no interpreter was found; install python3, nodejs or bash, or set runtimes.python, .javascript or .bash"
        );
    }
    Ok(programs)
}

fn program(language: Language, interpreter: Interpreter, config: &Config) -> Program {
    let memory_rlimit = match language {
        Language::Javascript => sandbox::MemoryRlimit::Data,
        _ => sandbox::MemoryRlimit::AddressSpace,
    };
    let memory_argument: Option<MemoryArgument> = match language {
        Language::Javascript => Some(javascript::heap_argument),
        _ => None,
    };
    let (interrupt, files) = match language {
        Language::Python => (sandbox::Interrupt::Program, python::FILES),
        Language::Javascript => (sandbox::Interrupt::Byte, javascript::FILES),
        Language::Bash | Language::Shell => (sandbox::Interrupt::Group, bash::FILES),
    };
    let zygote_argv = (language == Language::Python).then(|| python::zygote_argv(&interpreter, &config.pool.preload));
    let Interpreter { argv, binds, own, version, .. } = interpreter;
    let files = files_by_level(language, files, &config.sandbox);
    Program { language, version, argv, zygote_argv, interrupt, memory_argument, memory_rlimit, files, binds, own }
}

/// The driver, and what it has to say about imports at each level.
fn files_by_level(
    language: Language,
    driver: &[(&'static str, &'static [u8])],
    levels: &config::Sandbox,
) -> HashMap<SandboxMode, sandbox::OwnFiles> {
    let driver: Vec<_> = driver.iter().map(|(path, content)| (*path, Cow::Borrowed(*content))).collect();
    let all = [SandboxMode::Strict, SandboxMode::Standard, SandboxMode::Relaxed];
    let of = |mode| {
        let (python, javascript) = levels.modules(mode);
        let entries = if language == Language::Python { python } else { javascript };
        let policy = modules::told_to_driver(language, mode, levels.policy(mode).name(), entries);
        let policy = policy.map(|policy| (modules::FILE, Cow::Owned(policy)));
        (mode, driver.iter().cloned().chain(policy).collect())
    };
    all.map(of).into()
}

/// One data directory has one server.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            bail!("another server uses {}; stop it or choose another --data-dir", data_dir.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Raises the limit on descriptors to its ceiling and checks that the configured sessions fit below it.
fn raise_open_files(config: &Config) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("the limit on open files cannot be raised")?;
    let wanted = u64::try_from(config.sessions.max).unwrap_or(u64::MAX).saturating_mul(FDS_PER_SESSION) + FDS_BESIDE;
    let given = limit.maximum.unwrap_or(u64::MAX);
    if given < wanted {
        bail!(
            "sessions.max = {} needs {wanted} open files and the hard limit is {given}; raise it (ulimit -Hn) or lower sessions.max",
            config.sessions.max
        );
    }
    Ok(())
}

/// Root gives the gateway and each session users of their own, from a range that this user namespace must have.
fn users(tier: Tier) -> anyhow::Result<Option<Users>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").context("cannot read /proc/self/uid_map")?;
    if tier == Tier::C {
        return users::own(&map).map(Some);
    }
    users::common(&map)
        .map(Some)
        .context("root here has no range of user ids to give to sessions; run as an ordinary user instead")
}

/// The store belongs to the gateway's user and lies in a directory that only root may enter.
fn prepare_store(data_dir: &Path, base_uid: Option<u32>) -> anyhow::Result<StoreRoot> {
    let path = data_dir.join("store");
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("cannot close {} to others", path.display()))?;
    if let Some(user) = base_uid {
        own(&path, user).with_context(|| format!("cannot give {} to the gateway's user", path.display()))?;
    }
    Ok(StoreRoot { path, user: base_uid })
}

/// Gives a tree to a user; nothing to do, and so nothing walked, if it is theirs already.
fn own(path: &Path, user: u32) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.symlink_metadata()?;
    if metadata.uid() == user {
        return Ok(());
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            own(&entry?.path(), user)?;
        }
    }
    if metadata.is_symlink() {
        return Ok(());
    }
    chown(path, Some(user), Some(user))
}

/// Writes the local token and the address for the command line, and prints the link for a browser. The token is in the
/// fragment, which a browser sends to nobody. A server that only checks tokens has none.
fn announce(config: &Config, listener: &TcpListener) -> anyhow::Result<()> {
    let address = listener.local_addr().context("the listener has no address")?;
    let url = encryption::url(config, reachable(address))?;
    let token = local_token(config)?;
    match &token {
        Some(token) => write_private(&config.data_dir.join("token"), token)?,
        // One that is left would be of another key.
        None => drop(std::fs::remove_file(config.data_dir.join("token"))),
    }
    write_private(&config.data_dir.join("url"), &url)?;
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason not to serve.
    let _ = match token {
        Some(token) => writeln!(out, "{url}/#token={token}"),
        None => writeln!(out, "{url}/"),
    };
    let _ = out.flush();
    Ok(())
}

/// A token for this machine, if the server has the key that signs.
fn local_token(config: &Config) -> anyhow::Result<Option<String>> {
    if config.auth.jwks_url.is_some() {
        return Ok(None);
    }
    let KeyFile::Secret(key) = sources::key_file(config)? else { return Ok(None) };
    let grant = edge::auth::Grant {
        subject: LOCAL_SUBJECT,
        scope: LOCAL_SCOPE,
        issuer: config.auth.issuer.as_deref(),
        audience: config.auth.audience.as_deref(),
    };
    Ok(Some(edge::auth::sign(&key, &grant, LOCAL_TOKEN_TTL)?))
}

/// The address by which this machine reaches the server: one that means all of them is not the name of a host.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

/// Writes a file of this user's alone, in one step: nobody reads a part of it.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_this_machine_is_one_that_a_client_can_use() {
        for (bound, told) in [
            ("0.0.0.0:8000", "127.0.0.1:8000"),
            ("[::]:8000", "[::1]:8000"),
            ("127.0.0.2:1", "127.0.0.2:1"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            assert_eq!(reachable(bound.parse().unwrap()).to_string(), told);
        }
    }

    #[test]
    fn a_host_without_walls_is_refused_by_name() {
        let layer = |name: &str, active, detail: &str| Layer { name: name.into(), active, detail: detail.into() };
        let whole = [layer("seccomp", true, "yes"), layer("memory_cgroup", false, "not delegated")];
        let mut config = Config::with_data_dir("/nowhere");
        check_isolation(&Report { tier: Tier::B, layers: whole.into() }, &config).expect("the walls stand");
        let layers = [layer("user_namespace", false, "clone3: EPERM"), layer("seccomp", true, "yes")];
        let layers = layers.into_iter().chain([layer("pid_namespace", false, "needs the first")]).collect();
        let mut report = Report { tier: Tier::C, layers };
        let told = check_isolation(&report, &config).unwrap_err().to_string();
        assert!(told.contains("missing: user_namespace, pid_namespace (user_namespace: clone3: EPERM)"), "{told}");
        assert!(told.contains("`repltool doctor`"), "{told}");
        assert!(told.contains("sandbox.allow_reduced_isolation = true"), "{told}");
        config.sandbox.allow_reduced_isolation = true;
        check_isolation(&report, &config).expect("the operator says so");
        report.tier = Tier::None;
        let told = check_isolation(&report, &config).unwrap_err().to_string();
        assert!(!told.contains("allow_reduced_isolation"), "less than that is never enough: {told}");
    }
}
