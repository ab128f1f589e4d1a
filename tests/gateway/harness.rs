//! Starts the real server on port 0, speaks to it as a client, and leaves nothing behind.

use std::future::Future;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use repltool::client::{Client, Received, Socket};
use repltool_protocol::event::{Event, LoggedEvent};
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, SessionId};
use repltool_protocol::rest::{ExecutionRequest, ExecutionResult, SessionConfig};
use tempfile::TempDir;

mod binary;
pub mod canary;
pub mod container;
mod events;
pub mod names;
mod processes;
pub mod signer;
pub mod site;
mod terminal;
pub mod tls;
mod usable;

pub use binary::binary_as;
use binary::{as_nobody, has_no_pool, within_reach};
pub use events::{assert_log, exception, numbered, outcome, printed, told};
use processes::is_gateway;
pub use processes::{children, descendants, kill, lives, named_process, running_with};
pub use terminal::Terminal;
pub use usable::{assert_usable, exception_name};

/// The longest that anything is waited for. Generous: it tells a hang from a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Who runs the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    /// The user of the tests.
    Me,
    /// Nobody in particular: needs tests that run as root.
    OrdinaryUser,
    /// The user of the tests, with no more open files than one session needs.
    FewFiles,
    /// Root in what is like a stock container: needs tests that run as root.
    Container,
}

/// A running server with a data directory of its own. Dropping it kills it, which takes everything with it.
pub struct Server {
    process: Child,
    pub url: String,
    pub dir: TempDir,
    user: As,
    settings: String,
    environment: Environment,
}

/// Variables of a server.
type Environment = &'static [(&'static str, &'static str)];

/// Programs of tests look around with modules that `standard` refuses.
pub const LENIENT: Environment = &[("REPLTOOL_SANDBOX__STANDARD__POLICY", "record")];

impl Server {
    /// A server with the defaults, but that it lets programs import what they like.
    pub async fn start() -> Self {
        Self::start_with(As::Me, "").await
    }

    /// A server with these lines of TOML, run by this user.
    pub async fn start_with(user: As, settings: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().expect("a directory for the server");
        if user == As::OrdinaryUser {
            std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root gives the directory away");
        }
        if user == As::Container {
            container::open_to_all(dir.path());
        }
        Self::start_in(dir, user, settings, LENIENT).await
    }

    /// A server with these lines of TOML, and else as it is shipped.
    pub async fn start_as_shipped(settings: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().expect("a directory for the server");
        Self::start_in(dir, As::Me, settings, &[]).await
    }

    /// A server with these variables, and else as it is shipped.
    pub async fn start_with_variables(variables: Environment) -> Self {
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().expect("a directory for the server");
        Self::start_in(dir, As::Me, "", variables).await
    }

    async fn start_in(dir: TempDir, user: As, settings: &str, environment: Environment) -> Self {
        let server = Self::launch(dir, user, settings, environment).await;
        server.until_ready().await;
        server
    }

    async fn launch(dir: TempDir, user: As, settings: &str, environment: Environment) -> Self {
        let config = dir.path().join("repltool.toml");
        std::fs::write(&config, settings).expect("the configuration is written");
        let data = dir.path().join("data");
        let mut command = match user {
            As::OrdinaryUser => as_nobody(&within_reach(dir.path())),
            As::Me | As::FewFiles | As::Container => binary_as(user),
        };
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("REPLTOOL_EDGE__METRICS_ADDR", "127.0.0.1:0")
            .arg("--data-dir")
            .arg(&data)
            .arg("--config")
            .arg(&config)
            .envs(has_no_pool(settings).then_some(("REPLTOOL_POOL__MAX", "0")))
            .envs(environment.iter().copied())
            .envs(all_is_told(settings, environment))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).expect("a file for the server's log"));
        // A url left by a server that was killed must not be taken for that of this one.
        let _ = std::fs::remove_file(data.join("url"));
        let process = command.spawn().expect("the server starts");
        let mut server = Self { process, url: String::new(), dir, user, settings: settings.to_owned(), environment };
        eventually("the server says where it listens", || async {
            std::fs::read_to_string(data.join("url")).ok().filter(|url| !url.is_empty())
        })
        .await
        .clone_into(&mut server.url);
        server
    }

    /// Waits until sessions can be created.
    pub async fn until_ready(&self) {
        let client = self.client_of_nobody();
        eventually("the server is ready", || async { client.is_ready().await.unwrap_or(false).then_some(()) }).await;
    }

    /// A client with the local token, which has every scope but `admin`.
    pub fn client(&self) -> Client {
        let token = std::fs::read_to_string(self.data().join("token")).expect("the server wrote its token");
        self.client_with(&token)
    }

    /// A client for somebody.
    pub fn client_of(&self, subject: &str, scope: &str) -> Client {
        self.client_with(&self.token(subject, scope, "1h"))
    }

    /// A token, by `repltool token`.
    pub fn token(&self, subject: &str, scope: &str, ttl: &str) -> String {
        let output = binary_as(self.user)
            .args(["token", "--subject", subject, "--scope", scope, "--ttl", ttl, "--data-dir"])
            .arg(self.data())
            .output()
            .expect("`repltool token` runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let token = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        canary::plant_token(&token);
        token
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The server's own log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The supervisor's pid.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The gateway's pid, once there is one that is not `other`.
    pub async fn gateway_pid(&self, other: Option<u32>) -> u32 {
        eventually("a gateway runs", || async {
            children(self.pid()).into_iter().find(|pid| is_gateway(*pid) && Some(*pid) != other)
        })
        .await
    }

    /// Kills the gateway as a crash would and waits for the next one.
    pub async fn crash_gateway(&self) {
        let gateway = self.gateway_pid(None).await;
        kill(gateway, "KILL");
        self.gateway_pid(Some(gateway)).await;
        self.until_ready().await;
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, name: &str) {
        kill(self.pid(), name);
    }

    /// Waits for the end of the supervisor; gives its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let process = &mut self.process;
        let mut status = None;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while status.is_none() && tokio::time::Instant::now() < deadline {
            status = process.try_wait().expect("the server can be waited for");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        status.expect("the server ends").code()
    }

    /// Starts again on the same data, after the server has ended.
    pub async fn restart(mut self) -> Self {
        assert!(self.process.try_wait().expect("the server can be waited for").is_some(), "it still runs");
        canary::assert_untold(&self.log(), &self.data());
        let (user, settings, environment) = (self.user, self.settings.clone(), self.environment);
        let empty = TempDir::new().expect("a directory");
        let dir = std::mem::replace(&mut self.dir, empty);
        Self::start_in(dir, user, &settings, environment).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let gateways = children(self.pid());
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{}", self.log());
        }
        // The death signal has reached everyone by now, or does so in a moment; nothing is ever left to be killed here.
        for _ in 0..500 {
            if !gateways.iter().any(|pid| lives(*pid)) {
                break;
            }
            std::thread::yield_now();
            #[expect(clippy::disallowed_methods, reason = "a destructor cannot await")]
            std::thread::sleep(Duration::from_millis(10));
        }
        if !std::thread::panicking() {
            let left: Vec<_> = gateways.into_iter().filter(|pid| lives(*pid)).map(processes::describe).collect();
            assert!(left.is_empty(), "processes outlive the server: {}", left.join("; "));
            canary::assert_untold(&self.log(), &self.data());
        }
    }
}

/// The variable by which a server tells all that it has to tell, unless the test has a say in that.
fn all_is_told(settings: &str, environment: Environment) -> Option<(&'static str, &'static str)> {
    const LEVEL: &str = "REPLTOOL_LOG__LEVEL";
    let is_set = settings.contains("[log]") || environment.iter().any(|(name, _)| *name == LEVEL);
    (!is_set).then_some((LEVEL, "trace"))
}

/// Uid and gid of the ordinary user in tests.
pub const NOBODY: u32 = 65534;

/// Tests of what only root can set up ask this first; elsewhere they fail rather than pass unseen.
pub fn assert_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

/// Waits until `probe` gives something, or fails the test by naming what was waited for.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fails the test if the future takes longer than [`PATIENCE`].
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in time: {what}"),
    }
}

/// A Python session with the defaults, or with what is given as JSON.
pub async fn python(client: &Client, more: serde_json::Value) -> SessionId {
    session(client, "python", more).await
}

/// A session in a language, with the defaults or with what is given as JSON.
pub async fn session(client: &Client, language: &str, more: serde_json::Value) -> SessionId {
    let mut config = serde_json::json!({ "language": language });
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    let config: SessionConfig = serde_json::from_value(config).expect("a configuration");
    in_time("a session", client.create(&config)).await.expect("the session is created").session_id
}

/// A request with a timeout of 20 s.
pub fn code(code: &str) -> ExecutionRequest {
    canary::plant(code);
    ExecutionRequest {
        session_id: None,
        code: code.to_owned(),
        timeout_ms: Some(20_000),
        execution_id: None,
        stdin: None,
    }
}

/// [`code`] under a name.
pub fn named(id: &str, text: &str) -> ExecutionRequest {
    ExecutionRequest { execution_id: Some(id.parse().expect("an id")), ..code(text) }
}

/// Runs code to its end.
pub async fn run(client: &Client, session: &SessionId, text: &str) -> ExecutionResult {
    in_time(text, client.execute(session, &code(text))).await.expect("the request is served")
}

/// Runs code to its end, with a timeout.
pub async fn run_for(client: &Client, session: &SessionId, timeout_ms: u64, text: &str) -> ExecutionResult {
    let request = ExecutionRequest { timeout_ms: Some(timeout_ms), ..code(text) };
    in_time(text, client.execute(session, &request)).await.expect("the request is served")
}

/// An execution over a socket: its id, to be found in the events.
pub async fn send(socket: &mut Socket, id: &str, text: &str) -> ExecutionId {
    canary::plant(text);
    let id: ExecutionId = id.parse().expect("an id");
    let frame = ClientFrame::Execute { id: id.clone(), code: text.to_owned(), timeout_ms: Some(30_000), stdin: None };
    socket.send(&frame).await.expect("the frame is sent");
    id
}

/// The next frame; the end of the socket fails the test.
pub async fn frame(socket: &mut Socket) -> ServerFrame {
    match in_time("a frame", socket.receive()).await.expect("a readable frame") {
        Received::Frame(frame) => frame,
        Received::Closed(closed) => panic!("closed: {closed:?}"),
    }
}

/// The next event of the log; notices but `ready` fail the test.
pub async fn event(socket: &mut Socket) -> LoggedEvent {
    loop {
        match frame(socket).await {
            ServerFrame::Event(event) => return event,
            ServerFrame::Notice(Notice::Ready { .. }) => {}
            ServerFrame::Notice(notice) => panic!("unexpected: {notice:?}"),
        }
    }
}

/// The events up to and with the result of an execution.
pub async fn until_result(socket: &mut Socket, id: &ExecutionId) -> Vec<LoggedEvent> {
    let mut events = Vec::new();
    loop {
        let next = event(socket).await;
        let last = matches!(&next.event, Event::Result(outcome) if outcome.id == *id);
        events.push(next);
        if last {
            return events;
        }
    }
}

/// The events up to and with the next question of a program.
pub async fn until_asked(socket: &mut Socket) -> Vec<LoggedEvent> {
    let mut events = Vec::new();
    loop {
        let next = event(socket).await;
        let last = matches!(next.event, Event::InputRequest { .. });
        events.push(next);
        if last {
            return events;
        }
    }
}

/// Gives the program that runs something to read.
pub async fn type_in(socket: &mut Socket, data: &str) {
    canary::plant(data);
    let frame = ClientFrame::Stdin { data: Some(data.to_owned()), eof: false };
    socket.send(&frame).await.expect("the frame is sent");
}

/// Ends the standard input of the program that runs.
pub async fn end_input(socket: &mut Socket) {
    socket.send(&ClientFrame::Stdin { data: None, eof: true }).await.expect("the frame is sent");
}

/// Passes over events until something is printed, which shows that the execution runs.
pub async fn until_printed(socket: &mut Socket) {
    while !matches!(event(socket).await.event, Event::Stream { .. }) {}
}
