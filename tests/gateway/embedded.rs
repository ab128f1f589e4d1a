//! The server of one command: there where no other runs, and gone with the command, however that ends.

use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cli::{assert_output, output_of, repltool};
use crate::harness::{As, LENIENT, Terminal, binary_as, children, eventually, in_time, kill};
use crate::shutdown::Footprint;

/// A home without a server, and a folder for what is temporary.
struct Lonely {
    home: TempDir,
    temporary: TempDir,
}

impl Lonely {
    fn new() -> Self {
        let dir = || TempDir::new().expect("a directory");
        Self { home: dir(), temporary: dir() }
    }

    fn repltool(&self, arguments: &[&str]) -> Command {
        let mut command = repltool(arguments);
        command.env("XDG_STATE_HOME", self.home.path()).env("TMPDIR", self.temporary.path());
        command
    }

    async fn ask(&self, arguments: &[&str]) -> Output {
        let output = output_of(self.repltool(arguments)).await;
        self.assert_nothing_is_left();
        output
    }

    fn assert_nothing_is_left(&self) {
        for dir in [&self.home, &self.temporary] {
            let left: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

#[tokio::test]
async fn without_a_server_code_runs_all_the_same_and_nothing_is_left() {
    let alone = Lonely::new();
    assert_output(&alone.ask(&["execute", "-c", "print('hello'); 6 * 7"]).await, 0, "hello\n42\n", "");
    let bash = alone.ask(&["execute", "--language", "bash", "-c", "echo $((6 * 7)); exit 3"]).await;
    assert_output(&bash, 1, "42\n", "");
    let script = alone.ask(&["execute", "--language", "javascript", "--output", "json", "-c", "6 * 7"]).await;
    let result: serde_json::Value = serde_json::from_slice(&script.stdout).expect("one JSON value");
    assert_eq!(result["result"], 42);
    let late = alone.ask(&["execute", "--timeout", "0.3", "-c", "while True: pass"]).await;
    assert_eq!(late.status.code(), Some(124));
}

#[tokio::test]
async fn an_address_where_nobody_answers_is_no_server() {
    let alone = Lonely::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let data = TempDir::new().expect("a directory");
    std::fs::write(data.path().join("url"), format!("http://127.0.0.1:{port}")).expect("written");
    let data = data.path().to_str().expect("a path");
    assert_output(&alone.ask(&["execute", "-c", "6 * 7", "--data-dir", data]).await, 0, "42\n", "");
}

/// A command whose program has printed a line and goes on, and what its server has made.
async fn running(alone: &Lonely) -> (Child, Footprint) {
    let text = "import os\nif os.fork() == 0:\n    while True: os.getpid()\nprint('now', flush=True)\nwhile True: pass";
    let mut command = alone.repltool(&["execute", "-c", text]);
    let mut child = command.envs(LENIENT.iter().copied()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("its standard output")).lines();
    let line = in_time("a line of a program that still runs", lines.next_line()).await.expect("readable");
    assert_eq!(line.as_deref(), Some("now"));
    let server = children(child.id().expect("it runs"));
    assert_eq!(server.len(), 1, "the command has one child: {server:?}");
    let footprint = Footprint::below(server[0]);
    assert!(footprint.processes() >= 4, "a gateway, an init, an interpreter and its child");
    (child, footprint)
}

#[tokio::test]
async fn sigterm_ctrl_c_and_kill_9_of_the_command_leave_nothing() {
    for (signal, code) in [("TERM", Some(143)), ("INT", Some(130)), ("KILL", None)] {
        let alone = Lonely::new();
        let (mut child, footprint) = running(&alone).await;
        kill(child.id().expect("it runs"), signal);
        assert_eq!(in_time("the end of the command", child.wait()).await.expect("it ends").code(), code, "{signal}");
        footprint.assert_no_process_is_left().await;
        eventually("the directory is gone", || async {
            (std::fs::read_dir(alone.temporary.path()).expect("readable").count() == 0).then_some(())
        })
        .await;
        eventually("no cgroup is left", || async { (!footprint.has_cgroup()).then_some(()) }).await;
    }
}

#[tokio::test]
async fn a_person_without_a_server_types_into_one_of_their_own() {
    let alone = Lonely::new();
    let state = TempDir::new().expect("a directory");
    let mut command = binary_as(As::Me);
    command.arg("interactive").env("XDG_STATE_HOME", state.path()).env("TMPDIR", alone.temporary.path());
    let mut terminal = Terminal::start(&command);
    terminal.type_after("python 1> ", r"exec('print(\'run\' + \'ning\')\nwhile True: pass')").await;
    terminal.until("running").await;
    let footprint = Footprint::below(children(terminal.pid())[0]);
    // Ctrl-C goes to everybody at the terminal, and the server is not.
    terminal.press("\x03");
    terminal.until("KeyboardInterrupt").await;
    terminal.type_after("python 2> ", "6 * 7").await;
    terminal.until("42").await;
    terminal.until("python 3> ").await;
    terminal.press("\x04");
    assert_eq!(terminal.ended().await, Some(0));
    footprint.assert_no_process_is_left().await;
    alone.assert_nothing_is_left();
}

#[tokio::test]
async fn a_server_that_was_named_is_never_replaced() {
    let alone = Lonely::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let url = format!("http://127.0.0.1:{port}");
    let output = alone.ask(&["execute", "-c", "1", "--url", &url, "--token", "abc"]).await;
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no server answers"));
}

#[tokio::test]
async fn settings_of_sandboxes_and_interpreters_hold_without_a_server_too() {
    let alone = Lonely::new();
    let mut command = alone.repltool(&["execute", "-c", "1"]);
    let output = output_of({
        command.env("REPLTOOL_RUNTIMES__PYTHON", "/bin/true");
        command
    })
    .await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/bin/true cannot be run") && said.contains("no server runs"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    alone.assert_nothing_is_left();
}
