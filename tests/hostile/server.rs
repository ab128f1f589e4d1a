//! The supervisor for real, with a session that must outlive whatever its gateways do.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use repltool::client::Client;
use repltool::config::Config;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{ExecutionRequest, SandboxMode, SessionConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::turned::{Report, SCENE, Scene};

/// Who runs the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Root,
    /// Nobody in particular.
    User,
}

impl Setting {
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
        }
    }

    /// The user as whom a command is to run; none: the user of the tests.
    pub fn user(self) -> Option<u32> {
        let root = rustix::process::geteuid().is_root();
        assert!(root || self == Self::User, "this test needs root");
        (root && self == Self::User).then_some(NOBODY)
    }
}

/// The ordinary user.
const NOBODY: u32 = 65534;
/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sessions that the server may have.
pub const MAX_SESSIONS: usize = 3;

/// What this program does as the supervisor: what `repltool serve` does, in the directory that it is started in.
pub fn supervise() -> ExitCode {
    let mut config = Config::with_data_dir(std::env::current_dir().unwrap().join("data"));
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    (config.edge.listen, config.edge.metrics_addr) = (any_port, any_port);
    config.sessions.max = MAX_SESSIONS;
    // What is counted here is what a gateway asks for.
    config.pool.max = 0;
    config.sandbox.levels = vec![SandboxMode::Strict, SandboxMode::Standard];
    repltool::telemetry::init(&config.log).unwrap();
    match repltool::serve::run(config, None) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A running server. Dropping it kills it, which takes everything with it.
pub struct Server {
    process: Child,
    pub dir: TempDir,
    session: Option<SessionId>,
}

impl Server {
    /// With a session in which `x` is 41.
    pub async fn start(setting: Setting) -> Self {
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().unwrap();
        // By this name everybody may execute it, whatever folder it was built in.
        let mut command = Command::new("/proc/self/exe");
        if let Some(user) = setting.user() {
            std::os::unix::fs::chown(dir.path(), Some(user), Some(user)).unwrap();
            command.uid(user).gid(user);
        }
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let command = command.arg("supervise").current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(log).spawn().unwrap();
        let mut server = Self { process, dir, session: None };
        eventually("the server listens", async || server.url().map(drop)).await;
        let client = server.ready().await;
        let config: SessionConfig = serde_json::from_value(json!({"language": "python"})).unwrap();
        let session = client.create(&config).await.unwrap().session_id;
        server.session = Some(session);
        assert_eq!(server.value("x = 41; x").await, json!(41));
        server
    }

    fn url(&self) -> Option<String> {
        std::fs::read_to_string(self.data().join("url")).ok().filter(|url| !url.is_empty())
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn store(&self) -> PathBuf {
        self.data().join("store")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A client, once a gateway serves that answers for itself.
    async fn ready(&self) -> Client {
        let token = std::fs::read_to_string(self.data().join("token")).unwrap();
        let url = self.url().unwrap();
        eventually("a gateway serves", async || {
            let client = Client::new(&url, Some(&token)).unwrap();
            client.is_ready().await.unwrap_or(false).then_some(client)
        })
        .await
    }

    /// What an expression is in the session.
    pub async fn value(&self, code: &str) -> Value {
        let client = self.ready().await;
        let request: ExecutionRequest = serde_json::from_value(json!({"code": code})).unwrap();
        let result = client.execute(self.session.as_ref().unwrap(), &request).await.unwrap();
        assert!(result.success && !result.state_lost, "{result:?}");
        serde_json::to_value(&result.result).unwrap()
    }

    /// Kills the gateway, so that the next one is turned, and waits for what that reports and for its end.
    pub async fn play(&self, mut scene: Scene) -> Report {
        let report = self.store().join("report");
        let _ = std::fs::remove_file(&report);
        scene.session = self.session.as_ref().map(ToString::to_string).unwrap();
        let new = self.dir.path().join("new");
        std::fs::write(&new, serde_json::to_vec(&scene).unwrap()).unwrap();
        std::fs::rename(&new, self.dir.path().join(SCENE)).unwrap();
        let before = eventually("a gateway runs", async || self.gateway()).await;
        signal(before, "KILL");
        let text = eventually("the turned gateway reports", async || std::fs::read_to_string(&report).ok()).await;
        let (turned, report): (u32, Report) = serde_json::from_str(&text).unwrap();
        eventually("the turned gateway is replaced", async || self.gateway().filter(|pid| *pid != turned)).await;
        report
    }

    /// Asserts that the supervisor is the one it was, that a gateway serves, and that the session has its state.
    pub async fn assert_well(&self) {
        assert_eq!(self.value("x").await, json!(41));
        let client = self.ready().await;
        let config: SessionConfig = serde_json::from_value(json!({"language": "bash"})).unwrap();
        let other = client.create(&config).await.unwrap().session_id;
        let request: ExecutionRequest = serde_json::from_value(json!({"code": "echo $((1 + 1))"})).unwrap();
        assert_eq!(client.execute(&other, &request).await.unwrap().output, "2\n");
        client.delete(&other).await.unwrap();
        assert!(std::fs::exists(format!("/proc/{}", self.pid())).unwrap());
    }

    fn gateway(&self) -> Option<u32> {
        children(self.pid()).into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line == b"repltool\0gateway\0"
        })
    }

    /// Open descriptors of the supervisor.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Memory of the supervisor, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{}", self.log());
        }
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name} {pid}");
}

/// Asks until there is an answer.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs a test.
pub fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
