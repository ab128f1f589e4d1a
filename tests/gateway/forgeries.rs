//! The driver's control socket, attacked from the code that it runs: whatever a program says there in the driver's name
//! costs it its own interpreter at worst, its client is told why, and nobody else notices.

use repltool::client::Client;
use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;

use crate::harness::{As, Server, assert_usable, exception_name, run, run_for, session};

const SETTINGS: &str = "[sandbox.standard]\npolicy = \"record\"\n";
const LANGUAGES: [&str; 3] = ["python", "javascript", "bash"];
/// What an execution is given. Where nobody tells its end, the timeout does.
const TIMEOUT_MS: u64 = 4_000;
/// What the gateway may grow by, at its peak, while one session after the other attacks it.
const GROWTH_KB: u64 = 200 * 1024;

/// A gateway under attack, with a session that looks on.
struct Scene {
    server: Server,
    client: Client,
    onlooker: SessionId,
    gateway: u32,
    peak_kb: u64,
}

impl Scene {
    async fn new() -> Self {
        let server = Server::start_with(As::Me, SETTINGS).await;
        let client = server.client();
        let onlooker = session(&client, "python", json!({})).await;
        assert!(run(&client, &onlooker, "seen = 41").await.success);
        let gateway = server.gateway_pid(None).await;
        Self { server, client, onlooker, gateway, peak_kb: status_kb(gateway, "VmHWM:") }
    }

    /// Runs code in a session of its own, and checks what holds whatever the code does.
    async fn attack(&self, name: &str, language: &str, code: &str) -> ExecutionResult {
        self.attack_for(20_000, name, language, code).await
    }

    /// The same, with this timeout.
    async fn attack_for(&self, timeout_ms: u64, name: &str, language: &str, code: &str) -> ExecutionResult {
        let id = session(&self.client, language, json!({})).await;
        let result = run_for(&self.client, &id, timeout_ms, code).await;
        let told = result.limit.is_some() || result.exit_code.is_some() || result.exception.is_some();
        assert!(told || !result.state_lost, "{name} ({language}): the reason is not told: {result:?}");
        // What the attack left behind, a thread or a job, may cost an execution more. Then it is gone.
        for _ in 0..3 {
            let next = run_for(&self.client, &id, TIMEOUT_MS, prints(language)).await;
            if next.state_lost || exception_name(&next) == "StateLost" {
                assert_usable(&self.client, &id, language).await;
                break;
            }
            assert!(next.success, "{name} ({language}): {next:?}");
        }
        self.client.delete(&id).await.expect("deleted");
        result
    }

    /// Checks that nobody else has noticed.
    async fn end(self) {
        let seen = run(&self.client, &self.onlooker, "seen + 1").await;
        assert_eq!((seen.result.0.get(), seen.state_lost, seen.execution_count), ("42", false, 2), "{seen:?}");
        assert_eq!(self.server.gateway_pid(None).await, self.gateway, "it is the same gateway");
        // Linux may tell a little less than before.
        let grown = status_kb(self.gateway, "VmHWM:").saturating_sub(self.peak_kb);
        assert!(grown < GROWTH_KB, "the gateway took {grown} KiB");
    }
}

/// A field of proc(5), `status`, that is in KiB.
fn status_kb(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let value = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    value.split_whitespace().next().and_then(|value| value.parse().ok()).expect("a number")
}

/// A message in its frame.
fn framed(message: &str) -> String {
    format!("{:08}{message}", message.len())
}

/// Code that writes something to the control socket so many times, and goes on.
fn says(language: &str, text: &str, times: usize) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    match language {
        "python" => format!(
            "
{PYTHON}
piece = bytes.fromhex('{hex}')
data = piece * max(1, min({times}, 65536 // len(piece)))
for _ in range(max(1, {times} * len(piece) // len(data))):
    rest = data
    while rest:
        try: rest = rest[os.write(control, rest):]
        except BlockingIOError: pass
        except OSError: break
"
        ),
        "javascript" => format!(
            "
{JAVASCRIPT}
var piece = Buffer.from('{hex}', 'hex');
for (let i = 0; i < {times}; i++) {{
  let rest = piece;
  while (rest.length) {{ try {{ rest = rest.subarray(fs.writeSync(control, rest)); }} catch (e) {{ if (e.code !== 'EAGAIN') break; }} }}
}}
"
        ),
        _ => {
            let escaped: String = text.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("printf -v piece '{escaped}'; for ((i = 0; i < {times}; i++)); do printf %s \"$piece\" >&241; done 2>/dev/null")
        }
    }
}

const PYTHON: &str = "
import os, stat
def is_socket(fd):
    try: return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError: return False
sockets = [fd for fd in range(3, 1100) if is_socket(fd)]
control = sockets[0]
";
const JAVASCRIPT: &str = "
var fs = require('fs');
var isSocket = (fd) => { try { return fs.fstatSync(fd).isSocket(); } catch { return false; } };
var sockets = [...Array(64).keys()].filter(isSocket);
var control = sockets[0];
";

#[tokio::test]
async fn an_end_that_a_program_makes_up_is_its_own() {
    let scene = Scene::new().await;
    let done = r#"{"t":"done","m":18446744073709551615,"n":1,"success":true,"result":"forged","end_ns":1}"#;
    for language in LANGUAGES {
        let result = scene.attack("a forged end", language, &says(language, &framed(done), 1)).await;
        assert_eq!((result.success, result.result.0.get()), (true, "\"forged\""), "{language}: {result:?}");
    }
    // That of another execution is nobody's.
    for n in ["0", "2", "7", "18446744073709551615"] {
        let done = done.replace("\"n\":1", &format!("\"n\":{n}"));
        for language in LANGUAGES {
            let code = format!("{}\n{}", says(language, &framed(&done), 1), prints(language));
            let result = scene.attack("the end of another execution", language, &code).await;
            assert_eq!((result.output.as_str(), result.state_lost), ("on\n", false), "{language} {n}: {result:?}");
            assert_ne!(result.result.0.get(), "\"forged\"");
        }
    }
    scene.end().await;
}

fn prints(language: &str) -> &'static str {
    match language {
        "python" => "print('on')",
        "javascript" => "console.log('on')",
        _ => "echo on",
    }
}

#[tokio::test]
async fn what_is_no_message_costs_the_interpreter_and_the_client_is_told_why() {
    let scene = Scene::new().await;
    let deep = framed(&format!(r#"{{"t":"display","m":9,"n":1,"data":{{"a":{}}}}}"#, "[".repeat(100_000)));
    for (name, text, why) in [
        ("no length", "x".repeat(100), "has no length"),
        ("a signed length", "-0000001".to_owned(), "has no length"),
        ("a length beyond all bounds", "99999999".to_owned(), "is too long"),
        ("no JSON", framed("{\"t\":"), "cannot be read"),
        ("an unknown message", framed(r#"{"t":"escape","m":1}"#), "cannot be read"),
        ("a message without its fields", framed(r#"{"t":"done"}"#), "cannot be read"),
        ("an empty message", framed(""), "cannot be read"),
        ("JSON without end", deep, "cannot be read"),
        (
            "a prompt beyond its bounds",
            framed(&format!(r#"{{"t":"input_request","m":9,"n":1,"prompt":"{}"}}"#, "x".repeat(5000))),
            "size limit",
        ),
    ] {
        for language in LANGUAGES {
            if language == "bash" && text.len() > 10_000 {
                continue;
            }
            let code = format!("{}\n{}", says(language, &text, 1), waits(language));
            let result = scene.attack(name, language, &code).await;
            assert_eq!(
                (exception_name(&result), result.state_lost),
                ("StateLost", true),
                "{name} {language}: {result:?}"
            );
            let message = &result.exception.as_ref().expect("it was just looked at").message;
            assert!(message.contains(why), "{name} {language}: {message}");
        }
    }
    scene.end().await;
}

fn waits(language: &str) -> &'static str {
    match language {
        "python" => "import time; time.sleep(600)",
        "javascript" => "await new Promise((resolve) => setTimeout(resolve, 600_000))",
        _ => "while :; do read -t 1 < <(:); done",
    }
}

#[tokio::test]
async fn half_a_message_is_ended_by_the_timeout() {
    let scene = Scene::new().await;
    for (name, text) in [
        ("half a length", "0000".to_owned()),
        ("half a message", "00065536{\"t\":\"done\"".to_owned()),
        ("half a message of eight megabytes", format!("08388608{}", " ".repeat(100))),
    ] {
        for language in LANGUAGES {
            let result = scene.attack_for(TIMEOUT_MS, name, language, &says(language, &text, 1)).await;
            // The driver's own word may stand where a length is awaited.
            let ended = result.limit == Some(Limit::WallTime) || exception_name(&result) == "StateLost";
            assert!(ended && result.state_lost, "{name} {language}: {result:?}");
        }
    }
    scene.end().await;
}

#[tokio::test]
async fn floods_on_the_control_socket_end_and_take_no_memory() {
    let scene = Scene::new().await;
    let numbers = format!(r#"{{"t":"display","m":9,"n":1,"data":{{"a":[{}0]}}}}"#, "0,".repeat(4_000_000));
    let result = scene.attack("many small values", "python", &many_numbers(&numbers)).await;
    assert_eq!(exception_name(&result), "StateLost", "{result:?}");
    for (name, message) in [
        ("ends of nothing", r#"{"t":"done","m":1,"n":0,"success":true,"end_ns":1}"#),
        ("parts", r#"{"t":"part","n":1,"i":7}"#),
        ("greetings", r#"{"t":"hello","nonce":"00000000000000000000000000000000","last":0}"#),
        ("answers", r#"{"t":"reply","n":4294967297,"body":{"kind":"is_complete","status":"complete","indent":""}}"#),
        ("displays", r#"{"t":"display","m":9223372036854775807,"n":1,"data":{},"metadata":{}}"#),
        ("questions", r#"{"t":"input_request","m":9223372036854775807,"n":1,"prompt":""}"#),
        ("owners", r#"{"t":"owner","m":9,"n":0}"#),
        ("readiness", r#"{"t":"ready","m":1,"version":"1"}"#),
    ] {
        for language in LANGUAGES {
            let code = format!("{}\n{}", says(language, &framed(message), 20_000), waits(language));
            let result = scene.attack(name, language, &code).await;
            assert!(!result.success && result.state_lost, "{name} {language}: {result:?}");
        }
    }
    scene.end().await;
}

/// Without a copy of the message in the code, which may not be so long.
fn many_numbers(message: &str) -> String {
    let (head, tail) = message.split_once("0,0,").expect("its numbers");
    let tail = &tail[tail.len() - 4..];
    let numbers = message.matches("0,").count();
    format!(
        "{PYTHON}
message = rb'''{head}''' + b'0,' * {numbers} + rb'''{tail}'''
rest = b'%08d' % len(message) + message
while rest:
    try: rest = rest[os.write(control, rest[:65536]):]
    except OSError: break
import time; time.sleep(600)
"
    )
}

#[tokio::test]
async fn questions_and_displays_without_end_are_output_beyond_its_limit() {
    let scene = Scene::new().await;
    for (name, message) in [
        ("displays", r#"{{"t":"display","m":%d,"n":1,"data":{{}},"metadata":{{}}}}"#),
        ("questions", r#"{{"t":"input_request","m":%d,"n":1,"prompt":""}}"#),
    ] {
        // As a driver would: each waits until the one before is stored.
        let message = message.replace("{{", "{").replace("}}", "}");
        let code = format!(
            "{PYTHON}
import os
m = 1 << 40
while True:
    payload = b'''{message}''' % m
    m += 1
    os.write(control, b'%08d' % len(payload) + payload)
    try: os.read(control, 65536)
    except BlockingIOError: pass
"
        );
        let id = session(&scene.client, "python", json!({"resource_limits": {"max_output_size": 4096}})).await;
        let result = run_for(&scene.client, &id, 60_000, &code).await;
        assert_eq!((result.success, result.limit), (false, Some(Limit::Output)), "{name}: {result:?}");
        assert!(result.display.len() <= 4096 / 16);
        assert_usable(&scene.client, &id, "python").await;
        scene.client.delete(&id).await.expect("deleted");
    }
    scene.end().await;
}

#[tokio::test]
async fn a_control_socket_that_is_closed_replaced_drained_or_shut_costs_its_own_session_alone() {
    let scene = Scene::new().await;
    for (name, code) in [
        ("closed", "for fd in sockets: os.close(fd)"),
        ("closed with all", "os.closerange(0, 4096)"),
        ("replaced by nothing", "null = os.open('/dev/null', os.O_RDWR)\nfor fd in sockets: os.dup2(null, fd)"),
        ("replaced by a pipe", "r, w = os.pipe()\nfor fd in sockets: os.dup2(w, fd)"),
        (
            "replaced by another socket",
            "import socket\na, b = socket.socketpair()\nfor fd in sockets: os.dup2(a.fileno(), fd)",
        ),
        ("shut for writing", "import socket\nsocket.socket(fileno=os.dup(control)).shutdown(socket.SHUT_WR)"),
        ("shut for reading", "import socket\nsocket.socket(fileno=os.dup(control)).shutdown(socket.SHUT_RD)"),
        (
            "made small",
            "import socket\ns = socket.socket(fileno=os.dup(control))\ns.setsockopt(1, 7, 1)\ns.setsockopt(1, 8, 1)",
        ),
        ("given other flags", "import fcntl\nfcntl.fcntl(control, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)"),
        (
            "drained by a thread",
            "import threading\ndef drain():\n    while True:\n        try: os.read(control, 65536)\n        except BlockingIOError: pass\n        except OSError: return\nthreading.Thread(target=drain, daemon=True).start()",
        ),
        (
            "talked into by a thread",
            "import threading, time\ndef talk():\n    for _ in range(100000):\n        try: os.write(control, b'00000002{}')\n        except OSError: return\nthreading.Thread(target=talk, daemon=True).start()\nfor _ in range(100): print('x'); time.sleep(0.001)",
        ),
        (
            "sent descriptors",
            "import array, socket\ns = socket.socket(fileno=os.dup(control))\nfor _ in range(3):\n    try: s.sendmsg([b'0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1] * 200))])\n    except OSError: break",
        ),
    ] {
        scene.attack(name, "python", &format!("{PYTHON}\n{code}")).await;
    }
    for (name, code) in [
        ("closed", "for (const fd of sockets) fs.closeSync(fd)"),
        ("replaced", "for (const fd of sockets) fs.closeSync(fd); fs.openSync('/dev/null', 'r+')"),
        (
            "drained",
            "const room = Buffer.alloc(65536); setInterval(() => { try { fs.readSync(control, room) } catch {} }, 0); null",
        ),
    ] {
        scene.attack(name, "javascript", &format!("{JAVASCRIPT}\n{code}")).await;
    }
    for (name, code) in [
        ("closed", "exec 241>&-"),
        ("replaced", "exec 241<>/dev/null"),
        ("drained", "(while read -r -N 1 -u 241; do :; done) & :"),
    ] {
        scene.attack(name, "bash", code).await;
    }
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", scene.gateway)).expect("descriptors").count();
    assert!(descriptors < 60, "{descriptors} descriptors are left in the gateway");
    scene.end().await;
}

#[tokio::test]
async fn a_driver_that_is_stopped_or_killed_between_executions_is_replaced() {
    let scene = Scene::new().await;
    for (signal, language, code) in [
        ("STOP", "python", "import os, threading, time\nthreading.Timer(0.3, os.kill, (os.getpid(), 19)).start()"),
        ("KILL", "python", "import os, threading, time\nthreading.Timer(0.3, os.kill, (os.getpid(), 9)).start()"),
        ("STOP", "javascript", "setTimeout(() => process.kill(process.pid, 'SIGSTOP'), 300); null"),
        ("KILL", "javascript", "setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300); null"),
        ("STOP", "bash", "(sleep 0.3; kill -STOP $$) & :"),
        ("KILL", "bash", "(sleep 0.3; kill -KILL $$) & :"),
    ] {
        let id = session(&scene.client, language, json!({})).await;
        assert!(run(&scene.client, &id, code).await.success, "{signal} {language}");
        // It runs into the signal, or into what it has left.
        let next = run_for(&scene.client, &id, TIMEOUT_MS, waits(language)).await;
        let lost = next.state_lost || exception_name(&next) == "StateLost";
        assert!(!next.success && lost, "{signal} {language}: {next:?}");
        assert_usable(&scene.client, &id, language).await;
        scene.client.delete(&id).await.expect("deleted");
    }
    scene.end().await;
}
