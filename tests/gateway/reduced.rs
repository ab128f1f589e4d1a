//! Tier C: sessions without namespaces, in what is like a stock Docker container. Needs tests that run as root.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use repltool::client::Client;
use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use serde_json::{Value, json};

use crate::escape::{self, Case, Refusal, WALLS};
use crate::harness::{
    As, Server, assert_usable, container, descendants, eventually, lives, python, run, run_for, session,
};

const ALLOWED: &str = "[sandbox]\nallow_reduced_isolation = true\ndisk_mb = 32\n";

async fn server() -> Server {
    Server::start_with(As::Container, ALLOWED).await
}

/// What is printed by Python code that must succeed.
async fn printed(client: &Client, session: &SessionId, text: &str) -> String {
    let result = run(client, session, text).await;
    assert!(result.success, "{text}: {}", result.error);
    result.output.trim_end().to_owned()
}

/// Processes of a user that live.
fn processes_of(user: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| lives(*pid) && user_of(*pid) == Some(user)).collect()
}

fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// What a server that does not start says.
fn refusal(dropped: &str, settings: &str) -> String {
    let folder = tempfile::tempdir().expect("a directory");
    container::open_to_all(folder.path());
    let config = folder.path().join("repltool.toml");
    std::fs::write(&config, settings).expect("written");
    let mut command = container::command(dropped);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    let output = command.arg("--config").arg(&config).output().expect("it runs");
    assert!(!output.status.success(), "it started");
    assert!(!folder.path().join("data/url").exists());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_the_key_a_container_is_refused_and_the_flag_named() {
    let told = refusal("", "");
    assert!(told.contains("user_namespace, mount_namespace, pid_namespace"), "{told}");
    assert!(told.contains("--security-opt seccomp="), "{told}");
    assert!(told.contains("sandbox.allow_reduced_isolation = true"), "{told}");
}

#[test]
fn without_a_user_for_each_session_no_key_helps() {
    let told = refusal("setuid", ALLOWED);
    assert!(told.contains("no complete sandbox can be made here"), "{told}");
    assert!(!told.contains("allow_reduced_isolation"), "{told}");
}

/// What doctor says as JSON, after what a test says of itself.
fn report(output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = text.get(text.find("{\n").unwrap_or(0)..).unwrap_or_default();
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn doctor_names_the_tier_and_the_flags_of_a_container() {
    let output = container::command("").arg("doctor").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "sandboxes are not complete");
    for wanted in
        ["Isolation: tier C", "sandbox.allow_reduced_isolation", "--security-opt seccomp=", "Operation not permitted"]
    {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let output = container::command("setuid").args(["doctor", "--output", "json"]).output().expect("it runs");
    let report = report(&output);
    assert_eq!(report["tier"], "none");
    let layers = report["layers"].as_array().expect("layers");
    let uids = layers.iter().find(|layer| layer["name"] == "session_uids").expect("a layer");
    assert!(uids["detail"].as_str().is_some_and(|it| it.contains("SETUID")), "{uids}");
}

#[test]
fn the_profile_for_docker_lets_every_wall_stand() {
    let output = container::command_with_profile().args(["doctor", "--output", "json"]).output().expect("it runs");
    let report = report(&output);
    assert_eq!((report["tier"].as_str(), output.status.success()), (Some("B"), true), "{report:#}");
    let layers = report["layers"].as_array().expect("layers");
    let found = layers.iter().find(|layer| layer["name"] == "user_namespace").expect("a layer");
    assert_eq!(found["active"], true);
}

#[tokio::test]
async fn every_language_runs_and_keeps_its_state() {
    let server = server().await;
    assert!(server.log().contains("REDUCED ISOLATION"), "{}", server.log());
    let client = server.client();
    assert_eq!(client.capabilities().await.expect("capabilities").sandbox.tier, "C");
    for (language, plant, probe, files, burn) in [
        (
            "python",
            "kept = 31",
            "print(kept + int(open('in/data').read()))",
            "open('out', 'w').write(open('in/data').read())",
            "while True: pass",
        ),
        (
            "javascript",
            "var kept = 31",
            "console.log(kept + Number(require('fs').readFileSync('in/data', 'utf8')))",
            "require('fs').copyFileSync('in/data', 'out')",
            "for (;;) {}",
        ),
        ("bash", "kept=31", "echo $((kept + $(cat in/data)))", "cp in/data out", "while :; do :; done"),
    ] {
        for mode in ["standard", "relaxed"] {
            let id = session(&client, language, json!({"sandbox_mode": mode})).await;
            assert!(run(&client, &id, plant).await.success, "{language} {mode}");
            client.write_file(&id, "in/data", "11").await.expect("written");
            let result = run(&client, &id, probe).await;
            assert_eq!((result.output.as_str(), result.error.as_str()), ("42\n", ""), "{language} {mode}");
            assert!(run(&client, &id, files).await.success, "{language} {mode}");
            assert_eq!(client.read_file(&id, "out").await.expect("read"), "11", "{language} {mode}");
            let timed = run_for(&client, &id, 500, burn).await;
            assert_eq!((timed.limit, timed.state_lost), (Some(Limit::WallTime), false), "{language} {mode}: {timed:?}");
            assert_eq!(run(&client, &id, probe).await.output, "42\n", "{language} {mode}: it was interrupted");
            client.restart(&id).await.expect("restarted");
            assert!(!run(&client, &id, probe).await.output.contains("42"), "{language} {mode}: it began anew");
            assert_eq!(client.read_file(&id, "out").await.expect("read"), "11", "{language} {mode}: files stay");
            client.delete(&id).await.expect("deleted");
        }
    }
}

#[tokio::test]
async fn programs_are_told_where_their_directories_are() {
    let server = server().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let told =
        printed(&client, &id, "import os, tempfile\nprint(os.environ['HOME'], os.getcwd(), tempfile.mkdtemp())").await;
    let places: Vec<PathBuf> = told.split(' ').map(PathBuf::from).collect();
    let homes = server.data().join("homes");
    assert!(places.iter().all(|place| place.starts_with(&homes)), "{told}");
    assert_eq!(places[0], places[1]);
    for place in [&places[0], &homes.join("0/tmp")] {
        let metadata = std::fs::metadata(place).expect("it is there");
        assert_eq!(metadata.mode() & 0o777, 0o700, "{}", place.display());
        assert!(metadata.uid() >= 0x7000_0000, "{}", place.display());
    }
    let input = repltool_protocol::rest::ExecutionRequest {
        stdin: Some("told\n".to_owned()),
        ..crate::harness::code("print(input())")
    };
    assert_eq!(client.execute(&id, &input).await.expect("it runs").output, "told\n");
    let refused = run(&client, &id, "import subprocess\nsubprocess.run(['/usr/bin/id'])").await;
    assert!(!refused.success, "nothing is executed in standard: {refused:?}");
}

#[tokio::test]
async fn limits_are_named_without_namespaces() {
    let server = server().await;
    let client = server.client();
    let id =
        python(&client, json!({"resource_limits": {"max_memory_mb": 128, "max_output_size": 2048, "max_cpu_time": 1}}))
            .await;
    let cpu = run_for(&client, &id, 60_000, "while True: int()").await;
    assert_eq!(cpu.limit, Some(Limit::CpuTime), "{cpu:?}");
    let output = run(&client, &id, "while True: print('x' * 100)").await;
    assert_eq!((output.limit, output.truncated), (Some(Limit::Output), true));
    let memory = run(&client, &id, "hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))").await;
    assert_eq!((memory.success, memory.limit), (false, Some(Limit::Memory)), "{memory:?}");
    assert_usable(&client, &id, "python").await;
}

#[tokio::test]
async fn sessions_neither_see_nor_touch_each_other_or_the_server() {
    let server = server().await;
    let client = server.client();
    let victim = python(&client, json!({})).await;
    let told = printed(
        &client,
        &victim,
        "import os\nopen('secret', 'w').write('x')\nprint(os.getpid(), os.getuid(), os.getcwd())",
    )
    .await;
    let [pid, user, place] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let gateway = server.gateway_pid(None).await;
    let inits: Vec<_> = descendants(server.pid()).into_iter().filter(|pid| *pid != gateway).collect();
    let data = server.data();
    for mode in ["standard", "relaxed"] {
        let attacker = python(&client, json!({"sandbox_mode": mode})).await;
        assert_ne!(printed(&client, &attacker, "import os\nprint(os.getuid())").await, user);
        let code = format!(
            r#"
import ctypes, os, shutil, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, *arguments, **more):
    try: result = what(*arguments, **more)
    except (OSError, ValueError, subprocess.SubprocessError) as error: print("refused:", repr(error))
    else: print("ESCAPED:", what, arguments, repr(result)[:80])
def call(number, *arguments):
    if libc.syscall(*map(ctypes.c_long, (number, *arguments))) == -1: raise OSError(ctypes.get_errno(), "call")
for pid in [{pid}, {supervisor}, {gateway}, *{inits:?}, os.getppid(), 1]:
    attempt(os.kill, pid, 0)
    attempt(os.kill, pid, signal.SIGKILL)
    attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))
    attempt(call, 101, 16, pid, 0, 0)
    attempt(call, 310, pid, 0, 0, 0, 0, 0)
    for part in ("environ", "cmdline", "maps", "mem", "stat", "status", "cwd/secret", "root/etc/shadow"):
        attempt(lambda: open(f"/proc/{{pid}}/{{part}}", "rb").read(10))
    attempt(os.listdir, f"/proc/{{pid}}/fd")
    # Init acts as the program does, which may make it slower.
    if pid != os.getppid():
        attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
        attempt(os.sched_setaffinity, pid, [0])
for path in ("{place}/secret", "{data}/token", "{data}/signing.key", "{data}/store/store.sqlite", "/etc/shadow", "/etc/passwd",
             "/proc/self/mem", "/proc/self/environ", "/sys/kernel/notes", "{data}/homes/0/stdin"):
    attempt(lambda: open(path, "rb").read(1))
for path in ("{place}", "{data}", "{data}/homes", "{data}/store", "/", "/proc", "/etc", "/tmp", "/dev", "/dev/shm", "/root"):
    attempt(os.listdir, path)
for path in ("{place}/new", "{data}/new", "{data}/homes/new", "{data}/drivers/new", "/tmp/new", "/dev/shm/new", "/run/new"):
    attempt(open, path, "w")
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    attempt(socket.socket, family, socket.SOCK_STREAM)
attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(os.setuid, {user})
attempt(os.setuid, 0)
attempt(os.chown, ".", {user}, {user})
attempt(os.chroot, ".")
attempt(call, 253)
attempt(lambda: open(os.path.join(os.environ["HOME"], "..", "stdin"), "wb"))
os.symlink("/etc/shadow", "link")
attempt(lambda: open("link").read())
for folder in (os.environ["HOME"], os.environ["TMPDIR"]):
    program = shutil.copyfile("/usr/bin/true", folder + "/program")
    os.chmod(program, 0o755)
    attempt(subprocess.run, [program], check=True)
os.kill(-1, 0)
print("done")
"#,
            supervisor = server.pid(),
            data = data.display(),
        );
        let result = run(&client, &attacker, &code).await;
        assert!(!result.output.contains("ESCAPED"), "{mode}: {}", result.output);
        assert!(result.output.ends_with("done\n"), "{mode}: {} {}", result.output, result.error);
        assert!(result.output.matches("refused:").count() > 100, "{}", result.output);
        let everybody = run(&client, &attacker, "os.kill(-1, signal.SIGKILL)").await;
        assert!(lives(server.pid()) && lives(gateway), "{everybody:?}");
    }
    assert_eq!(printed(&client, &victim, "print(open('secret').read(), os.getpid())").await, format!("x {pid}"));
    assert_eq!(server.gateway_pid(None).await, gateway);
}

/// Leaves a tree of processes that ignore what can be ignored, in sessions and groups of their own.
const LEAVE: &str = "
import os, signal, time
for number in set(range(1, 32)) - {signal.SIGCHLD}:
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork() == 0: os._exit(0)
                os.wait()
        os._exit(0)
os.makedirs('a/' * 50)
os.chmod('a', 0)
print(os.getuid())
";

#[tokio::test]
async fn what_is_deleted_is_gone_with_all_its_processes() {
    let server = server().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let user: u32 = printed(&client, &id, LEAVE).await.parse().expect("a number");
    let all_live = || async { (processes_of(user).len() >= 4).then_some(()) };
    eventually("an interpreter and three that it left", all_live).await;
    client.delete(&id).await.expect("deleted");
    eventually("its processes are gone", || async { processes_of(user).is_empty().then_some(()) }).await;
    let homes = server.data().join("homes");
    let is_empty = || std::fs::read_dir(&homes).is_ok_and(|mut it| it.next().is_none());
    eventually("its directories are gone", || async { is_empty().then_some(()) }).await;
    let gateway = server.gateway_pid(None).await;
    eventually("its init is gone", || async { (descendants(server.pid()) == [gateway]).then_some(()) }).await;
}

#[tokio::test]
async fn kill_9_of_the_supervisor_ends_every_process_and_the_next_one_removes_the_rest() {
    let mut server = server().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let user: u32 = printed(&client, &id, LEAVE).await.parse().expect("a number");
    server.signal("KILL");
    server.ended().await;
    eventually("its processes are gone", || async { processes_of(user).is_empty().then_some(()) }).await;
    let server = server.restart().await;
    assert_eq!(std::fs::read_dir(server.data().join("homes")).expect("it is there").count(), 0);
    assert_usable(&server.client(), &id, "python").await;
}

#[tokio::test]
async fn a_stop_leaves_nothing_but_the_data() {
    let mut server = server().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let user: u32 = printed(&client, &id, LEAVE).await.parse().expect("a number");
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    assert_eq!(processes_of(user), Vec::<u32>::new());
    assert!(!server.data().join("homes").exists());
}

#[tokio::test]
async fn sessions_outlive_a_crash_of_the_gateway_without_namespaces() {
    let server = server().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    printed(&client, &id, "kept = 42").await;
    server.crash_gateway().await;
    assert_eq!(printed(&server.client(), &id, "print(kept)").await, "42");
}

/// Attempts that find what only namespaces hide: that there are directories, processes and the peer of a socket, and the
/// interpreter's own file.
const ELSEWHERE: [&str; 4] = [
    "home directories of the host",
    "files in strict",
    "all processes that there are",
    "the peer of the control socket",
];

#[tokio::test]
async fn attempts_to_escape_are_refused_without_namespaces() {
    let server =
        Server::start_with(As::Container, &escape::SETTINGS.replacen('\n', "\nallow_reduced_isolation = true\n", 1))
            .await;
    let wanted = |case: &Case<'_>| !ELSEWHERE.contains(&case.title());
    let count = escape::assert_refused(&server.client(), WALLS, Refusal::Somehow, wanted).await;
    assert!(count >= 300, "{count} attempts");
}
