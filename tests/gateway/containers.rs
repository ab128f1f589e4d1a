//! Sandboxes that a container runtime makes keep the promises of those that the server makes itself, and leave nothing.

use std::collections::BTreeSet;
use std::process::Command;

use repltool::client::Client;
use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{ExecutionRequest, ExecutionResult};
use serde_json::json;

use crate::escape::{self, Case, Refusal, WALLS};
use crate::harness::{
    As, Server, assert_root, binary_as, children, code, descendants, eventually, in_time, lives, named_process, python,
    run, run_for, send, session, until_printed, until_result,
};

/// Attempts on `/proc`, of which a container has an empty directory where others have none.
const EMPTIED: [&str; 2] = ["/proc in strict", "settings of Linux"];
/// Runtimes that tests need.
const RUNTIMES: [&str; 2] = ["runc", "crun"];
/// Each language with: a value kept, printed and asked for; a loop that prints first; what the next execution prints.
const LANGUAGES: [(&str, &str, &str, &str); 3] = [
    ("python", "kept = 41\nprint(input())", "print('on', flush=True)\nwhile True: pass", "print(kept + 1)"),
    (
        "javascript",
        "var kept = 41; console.log(require('fs').readFileSync(0, 'utf8').trim())",
        "console.log('on'); for (;;) {}",
        "console.log(kept + 1)",
    ),
    ("bash", "kept=41; read -r line; echo \"$line\"", "echo on; while :; do :; done", "echo $((kept + 1))"),
];

fn contained(runtime: &str) -> String {
    format!("[sandbox]\nbackend = 'oci'\noci_runtime = '{runtime}'\ndisk_mb = 32\n")
}

async fn with_stdin(client: &Client, session: &SessionId, text: &str) -> ExecutionResult {
    let request = ExecutionRequest { stdin: Some("typed\n".to_owned()), ..code(text) };
    in_time(text, client.execute(session, &request)).await.expect("the request is served")
}

/// The keepers of the containers of a server.
fn keepers(server: &Server) -> Vec<u32> {
    children(server.pid()).into_iter().filter(|pid| named_process(*pid, "sandbox-keeper")).collect()
}

fn mounts(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("a process has mounts")
}

/// What runtimes leave where they usually keep notes, and cgroups of servers.
fn traces() -> BTreeSet<String> {
    let list = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let notes = ["/run/runc", "/run/crun", "/run/user/0"].into_iter().flat_map(list);
    notes.map(|entry| entry.path().display().to_string()).collect()
}

async fn until_gone(pids: &[u32]) {
    let gone = || async { (!pids.iter().any(|pid| lives(*pid))).then_some(()) };
    eventually("the processes are gone", gone).await;
}

#[tokio::test]
async fn every_language_keeps_its_state_in_a_container() {
    for runtime in RUNTIMES {
        let server = Server::start_with(As::Me, &contained(runtime)).await;
        let client = server.client();
        let told = client.capabilities().await.expect("capabilities").sandbox.modes;
        assert!(told.iter().all(|mode| mode.backend == runtime), "{told:?}");
        for (language, plant, burn, probe) in LANGUAGES {
            for mode in ["standard", "relaxed"] {
                let id = session(&client, language, json!({"sandbox_mode": mode})).await;
                assert_eq!(keepers(&server).len(), 1, "{runtime}");
                let planted = with_stdin(&client, &id, plant).await;
                assert_eq!(planted.output, "typed\n", "{runtime} {language} {mode}: {planted:?}");
                let mut socket = client.attach(&id, None).await.expect("a socket");
                let burning = send(&mut socket, "burn", burn).await;
                until_printed(&mut socket).await;
                client.interrupt(&id, None).await.expect("interrupted");
                until_result(&mut socket, &burning).await;
                assert_eq!(run(&client, &id, probe).await.output, "42\n", "{runtime} {language} {mode}");
                client.restart(&id).await.expect("restarted");
                assert_ne!(run(&client, &id, probe).await.output, "42\n", "{runtime} {language} {mode}");
                client.delete(&id).await.expect("deleted");
                eventually("its keeper is gone", || async { keepers(&server).is_empty().then_some(()) }).await;
            }
        }
    }
}

#[tokio::test]
async fn files_of_a_container_outlive_its_interpreter() {
    for runtime in RUNTIMES {
        let server = Server::start_with(As::Me, &contained(runtime)).await;
        let client = server.client();
        let id = python(&client, json!({})).await;
        client.write_file(&id, "a.txt", bytes::Bytes::from_static(b"from outside")).await.expect("written");
        assert_eq!(run(&client, &id, "print(open('a.txt').read())").await.output, "from outside\n");
        assert!(
            run(&client, &id, "open('/workspace/b.txt', 'w').write('from inside')\nopen('/tmp/c', 'w')").await.success
        );
        let lost = run(&client, &id, "import os\nos._exit(3)").await;
        assert!(lost.state_lost, "{lost:?}");
        assert_eq!(client.read_file(&id, "b.txt").await.expect("read").as_ref(), b"from inside");
        assert_eq!(run(&client, &id, "print(open('b.txt').read())").await.output, "from inside\n");
    }
}

#[tokio::test]
async fn limits_are_named_in_a_container() {
    for runtime in RUNTIMES {
        let server = Server::start_with(As::Me, &contained(runtime)).await;
        let client = server.client();
        let limits = json!({"resource_limits": {"max_cpu_time": 1, "max_memory_mb": 64, "max_output_size": 2048}});
        let id = python(&client, limits).await;
        run(&client, &id, "kept = 42").await;
        let slept = run_for(&client, &id, 300, "import time\ntime.sleep(600)").await;
        assert_eq!((slept.limit, slept.state_lost), (Some(Limit::WallTime), false), "{runtime}: {slept:?}");
        let burnt = run_for(&client, &id, 60_000, "while True: pass").await;
        assert_eq!((burnt.limit, burnt.state_lost), (Some(Limit::CpuTime), false), "{runtime}: {burnt:?}");
        let flooded = run(&client, &id, "while True: print('x' * 100)").await;
        assert_eq!((flooded.limit, flooded.state_lost), (Some(Limit::Output), false), "{runtime}");
        assert_eq!(run(&client, &id, "kept").await.result.0.get(), "42");
        let hog = run(&client, &id, "hog = []\nwhile True: hog.append(bytearray(1 << 20))").await;
        assert_eq!((hog.success, hog.limit), (false, Some(Limit::Memory)), "{runtime}: {hog:?}");
        assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
    }
}

#[tokio::test]
async fn refused_calls_are_told_from_a_container() {
    let server = Server::start_with(As::Me, &contained("crun")).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let tried = "import socket\ntry: socket.socket(socket.AF_INET)\nexcept OSError as error: print(error.errno)";
    let result = run(&client, &id, tried).await;
    assert_eq!(result.output, "13\n", "{result:?}");
    let violation = result.violation.expect("it is told");
    assert_eq!(violation.rule, "network", "{violation:?}");
}

#[tokio::test]
async fn a_container_has_the_walls_of_a_sandbox_and_few_descriptors() {
    for runtime in RUNTIMES {
        let settings = format!("{}standard.backend = 'native'\n", contained(runtime));
        let server = Server::start_with(As::Me, &settings).await;
        let client = server.client();
        let native = python(&client, json!({"sandbox_mode": "standard"})).await;
        let contained = python(&client, json!({"sandbox_mode": "relaxed"})).await;
        assert_eq!(keepers(&server).len(), 1, "one of the two is a container");
        let look = "
import os
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())
names = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'Uid', 'Gid']
[
    [status[name] for name in names],
    sorted(os.listdir('/proc/self/fd')),
    open('/proc/self/uid_map').read().split(),
    sorted(os.listdir('/dev')), sorted(os.listdir('/proc/1')) if os.path.exists('/proc/1') else None,
    open('/proc/self/cgroup').read(), os.uname().nodename, [k for k in os.environ if 'LD_' in k],
    [line.split()[1] for line in open('/proc/self/mounts') if line.split()[1] in ('/', '/dev', '/tmp', '/workspace')
     and not {'nosuid', 'nodev', 'noexec'} <= set(line.split()[3].split(','))],
]";
        let inside = run(&client, &contained, look).await;
        let (inside, outside) = (inside.result.0, run(&client, &native, look).await.result.0);
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let (mut inside, mut outside) = (parse(inside.get()), parse(outside.get()));
        // Each has users of its own.
        let uids = [inside[2].take(), outside[2].take()].map(|map| map.as_array().map(Vec::len));
        assert_eq!((uids, &inside), ([Some(6); 2], &outside), "{runtime}");
    }
}

#[tokio::test]
async fn escapes_from_a_container_are_refused() {
    for runtime in RUNTIMES {
        let oci = format!("\nbackend = 'oci'\noci_runtime = '{runtime}'\n");
        let server = Server::start_with(As::Me, &escape::SETTINGS.replacen('\n', &oci, 1)).await;
        let client = server.client();
        let (emptied, others) =
            (|case: &Case<'_>| EMPTIED.contains(&case.title()), |case: &Case<'_>| !EMPTIED.contains(&case.title()));
        let count = escape::assert_refused(&client, WALLS, Refusal::AsTold, others).await;
        assert!(count >= 400, "{count} attempts");
        assert!(escape::assert_refused(&client, WALLS, Refusal::Somehow, emptied).await > 0);
    }
}

#[tokio::test]
async fn nothing_is_left_of_containers_whoever_ends_them() {
    assert_root();
    let before = traces();
    for runtime in RUNTIMES {
        for signal in ["TERM", "KILL"] {
            let mut server = Server::start_with(As::Me, &contained(runtime)).await;
            let client = server.client();
            let mounted = mounts(server.pid());
            let fork = "import os, time\nfor _ in range(3):\n    if os.fork() == 0: os.setsid(), time.sleep(600)";
            let kept = python(&client, json!({"sandbox_mode": "relaxed"})).await;
            run(&client, &kept, fork).await;
            let deleted = python(&client, json!({"sandbox_mode": "relaxed"})).await;
            run(&client, &deleted, fork).await;
            let all: BTreeSet<u32> = descendants(server.pid()).into_iter().collect();
            client.delete(&deleted).await.expect("deleted");
            eventually("one keeper is left", || async { (keepers(&server).len() == 1).then_some(()) }).await;
            let left: BTreeSet<u32> = descendants(server.pid()).into_iter().collect();
            assert!(all.difference(&left).filter(|pid| lives(**pid)).count() == 0, "{runtime}: killed to the last");
            assert_eq!(mounts(server.pid()), mounted, "{runtime}: the server has no mount of it");
            let stored = std::fs::read_dir(server.data()).expect("its directory").count();
            let groups = server.pid();
            server.signal(signal);
            server.ended().await;
            until_gone(&left.into_iter().collect::<Vec<_>>()).await;
            assert!(std::fs::read_dir(server.data()).expect("its directory").count() <= stored, "no bundle is left");
            let folder = format!("repltool-{groups}");
            let found = || async {
                let found =
                    Command::new("find").args(["/sys/fs/cgroup", "-name", &folder]).output().expect("find runs");
                found.stdout.is_empty().then_some(())
            };
            eventually("its cgroups are gone", found).await;
        }
    }
    assert_eq!(traces(), before, "no notes of a runtime");
}

#[tokio::test]
async fn an_ordinary_users_containers_work() {
    assert_root();
    for runtime in RUNTIMES {
        let server = Server::start_with(As::OrdinaryUser, &contained(runtime)).await;
        let client = server.client();
        let id = python(&client, json!({})).await;
        let result = run(&client, &id, "x = 41\nprint('out')\nx + 1").await;
        assert_eq!((result.result.0.get(), result.output.as_str()), ("42", "out\n"), "{runtime}: {result:?}");
    }
}

#[tokio::test]
async fn a_strict_container_holds_the_program_alone() {
    for runtime in RUNTIMES {
        let server =
            Server::start_with(As::Me, &format!("[sandbox]\noci_runtime = '{runtime}'\nstrict.backend = 'oci'\n"))
                .await;
        let client = server.client();
        for (language, _, _, _) in LANGUAGES {
            let id = session(&client, language, json!({"sandbox_mode": "strict"})).await;
            assert_eq!(keepers(&server).len(), 1, "{runtime} {language}");
            let (text, wanted) = match language {
                "python" => ("x = 41\nprint(x + 1)", "42\n"),
                "javascript" => ("var x = 41; console.log(x + 1)", "42\n"),
                _ => ("x=41; echo $((x + 1))", "42\n"),
            };
            let result = run(&client, &id, text).await;
            assert_eq!(result.output, wanted, "{runtime} {language}: {result:?}");
            client.delete(&id).await.expect("deleted");
            eventually("its keeper is gone", || async { keepers(&server).is_empty().then_some(()) }).await;
        }
    }
}

/// What a server says that does not start with this runtime.
async fn refusal(runtime: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("repltool.toml");
    std::fs::write(&config, contained(runtime)).expect("the configuration is written");
    let mut command = binary_as(As::Me);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path().join("data"));
    command.arg("--config").arg(&config);
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = in_time("a server that does not start", output).await.expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_runtime_that_is_missing_or_does_not_work_keeps_the_server_from_starting() {
    let told = refusal("/bin/false").await;
    assert!(
        told.contains("sandbox.strict.backend") && told.contains("the container runtime failed: /bin/false"),
        "{told}"
    );
    let told = refusal("no-such-runtime").await;
    assert!(told.contains("no-such-runtime is not in PATH; install it"), "{told}");
    if Command::new("runsc").arg("--version").output().is_ok() {
        eprintln!("runsc is installed: it makes no container for us, and that is told");
        let told = refusal("runsc").await;
        return assert!(told.contains("the container runtime failed"), "{told}");
    }
    eprintln!("runsc is not installed: only the refusal is tested");
    let told = refusal("runsc").await;
    assert!(told.contains("runsc is not in PATH") && told.contains("apt-get install runsc"), "{told}");
}

#[tokio::test]
async fn doctor_tells_which_runtimes_make_containers_here() {
    let output = binary_as(As::Me).args(["doctor", "--output", "json"]).output().expect("doctor runs");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = told["containers"].as_array().expect("a list");
    for runtime in RUNTIMES {
        let one = found.iter().find(|it| it["name"] == runtime).expect("it is tried");
        assert_eq!(one["active"], true, "{one}");
        assert!(one["detail"].as_str().is_some_and(|it| it.starts_with("made a container in")), "{one}");
    }
}
