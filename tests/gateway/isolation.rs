//! What a session sees of the others and of the server, and what the gateway keeps of the host.

use std::collections::BTreeMap;
use std::path::PathBuf;

use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use serde_json::json;

use crate::harness::{Server, assert_root, descendants, named_process, python, run, running_with, session};

async fn value(client: &Client, session: &SessionId, text: &str) -> serde_json::Value {
    let result = run(client, session, text).await;
    assert!(result.success, "{result:?}");
    serde_json::from_str(result.result.0.get()).expect("JSON")
}

#[tokio::test]
async fn sessions_see_neither_files_nor_processes_nor_sockets_of_each_other() {
    let server = Server::start().await;
    let client = server.client();
    for mode in ["standard", "relaxed"] {
        let one = python(&client, json!({"sandbox_mode": mode})).await;
        let other = python(&client, json!({"sandbox_mode": mode})).await;
        let leave = "
import os, socket
for folder in ('/workspace', '/tmp', '/dev/shm'):
    open(folder + '/of-one', 'w').write('secret')
heard = socket.socket(socket.AF_UNIX)
heard.bind('\\0repltool-of-one')
heard.listen()
os.environ['OF_ONE'] = 'secret'
os.getpid()
";
        assert!(run(&client, &one, leave).await.success);
        let look = "
import os, socket
def reach():
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect('\\0repltool-of-one')
        except OSError as error:
            return 'refused'
        return 'reached'
[
    [f for f in ('/workspace', '/tmp', '/dev/shm') if os.listdir(f)],
    [p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())],
    reach(),
    'OF_ONE' in os.environ,
    open('/proc/net/unix').read().count('of-one') if os.path.exists('/proc/net/unix') else 0,
]
";
        assert_eq!(value(&client, &other, look).await, json!([[], [], "refused", false, 0]), "{mode}");
        // The same in the one session is there, so what was not found could have been.
        let own = "[len(os.listdir('/workspace')), os.environ['OF_ONE'], heard.getsockname().decode()[1:]]";
        assert_eq!(value(&client, &one, own).await, json!([1, "secret", "repltool-of-one"]));
    }
}

#[tokio::test]
async fn neither_the_server_nor_another_session_is_reached_over_loopback() {
    let server = Server::start().await;
    let client = server.client();
    let one = python(&client, json!({"sandbox_mode": "relaxed"})).await;
    let listen = "
import socket
heard = socket.socket()
heard.bind(('127.0.0.1', 0))
heard.listen()
port = heard.getsockname()[1]
socket.create_connection(('127.0.0.1', port), 3).close()
port
";
    let of_one = value(&client, &one, listen).await;
    let of_server = server.url.rsplit(':').next().expect("a port");
    for mode in ["standard", "relaxed"] {
        let other = python(&client, json!({"sandbox_mode": mode})).await;
        let reach = format!(
            "
import socket
def reach(port):
    try:
        socket.create_connection(('127.0.0.1', port), 3)
    except OSError:
        return 'refused'
[reach({of_one}), reach({of_server})]
"
        );
        assert_eq!(value(&client, &other, &reach).await, json!(["refused", "refused"]), "{mode}");
    }
}

#[tokio::test]
async fn a_session_cannot_signal_trace_or_exhaust_the_ids_of_another() {
    let server = Server::start().await;
    let client = server.client();
    let one = python(&client, json!({})).await;
    let other = python(&client, json!({})).await;
    run(&client, &one, "x = 1").await;
    let spray = "
import os, signal
met = set()
for pid in range(2, 5000):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
            met.add(pid)
        except (ProcessLookupError, PermissionError):
            pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
sorted(met)
";
    assert_eq!(value(&client, &other, spray).await, json!([]));
    assert_eq!(value(&client, &one, "x").await, json!(1));
}

/// Cases C-046 and its like: what the server's own environment and files hold is not to be had from inside.
#[tokio::test]
async fn the_environment_is_made_from_nothing_and_holds_no_secret_of_the_server() {
    let canary = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(canary).is_some());
    let server = Server::start().await;
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", server.pid())).expect("the server's own");
    assert!(environment.contains(canary), "the server was started with it");
    let gateway = server.gateway_pid(None).await;
    assert_eq!(std::fs::read(format!("/proc/{gateway}/environ")).expect("the gateway's"), b"");

    let client = server.client();
    for mode in ["standard", "relaxed"] {
        let settings = json!({"sandbox_mode": mode, "environment": {"GREETING": "hello", "WITH": "a = b\n€"}});
        let session = python(&client, settings).await;
        let told = value(&client, &session, "import os\ndict(os.environ)").await;
        let told: BTreeMap<String, String> = serde_json::from_value(told).expect("names and values");
        assert_eq!(told.get("GREETING").map(String::as_str), Some("hello"));
        assert_eq!(told.get("WITH").map(String::as_str), Some("a = b\n€"));
        let ours = [
            "GREETING",
            "WITH",
            "HOME",
            "PATH",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "TMPDIR",
            "TZ",
            "USER",
            "LOGNAME",
            "TERM",
            "PWD",
            "SHELL",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
        ];
        let strange: Vec<_> = told.keys().filter(|name| !ours.contains(&name.as_str())).collect();
        assert!(strange.is_empty(), "{strange:?}");
        assert_no_secret(&client, &session, &server).await;
    }
}

/// Has a session read all that it can of processes and settings, and look for what only the server should know.
async fn assert_no_secret(client: &Client, session: &SessionId, server: &Server) {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("readable").trim().to_owned();
    let token = read(server.data().join("token"));
    let folder = server.dir.path().display().to_string();
    // That it finds the name of its own driver shows that it looks.
    let words = serde_json::to_string(&["driver.py", "CARGO_", "NEXTEST", &token, &folder]).expect("JSON");
    let look = format!(
        "
import glob
found = []
for places in ('/proc/*/environ', '/proc/*/cmdline', '/proc/*/mountinfo', '/run/**', '/etc/**'):
    for path in glob.glob(places, recursive=True):
        if not os.path.isfile(path): continue
        try:
            found.append(open(path, errors='replace').read(100_000))
        except OSError:
            pass
[word for word in {words} if any(word in text for text in found)]
"
    );
    assert_eq!(value(client, session, &look).await, json!(["driver.py"]));
    let host = value(client, session, "import os\nos.uname().nodename").await;
    assert_ne!(host, json!(read("/proc/sys/kernel/hostname".into())));
}

#[tokio::test]
async fn the_working_directory_is_made_and_is_where_programs_start() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({"working_directory": "deep/er"})).await;
    assert_eq!(value(&client, &session, "import os\nos.getcwd()").await, json!("/workspace/deep/er"));
    let plain = python(&client, json!({})).await;
    assert_eq!(value(&client, &plain, "import os\nos.getcwd()").await, json!("/workspace"));
}

#[tokio::test]
async fn directories_that_lead_out_and_variables_that_load_code_are_refused() {
    let server = Server::start().await;
    let client = server.client();
    let directories = ["/etc", "..", "a/../../b", "a/\0b"].map(|it| ("working_directory", json!(it)));
    let names = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "PATH",
        "IFS",
    ];
    let variables = names.map(|it| ("environment", json!({ it: "/tmp" })));
    for (field, wrong) in directories.into_iter().chain(variables) {
        let body = json!({"language": "python", field: wrong}).to_string();
        let answer = client.raw(http::Method::POST, "/api/v1/sessions", Some(body.into())).await.expect("an answer");
        assert_eq!(answer.status(), 400, "{field} = {wrong}");
        let problem: serde_json::Value = serde_json::from_slice(answer.body()).expect("a problem document");
        assert_eq!(problem["code"], "invalid_request");
        let named = problem["errors"][0]["field"].as_str().unwrap_or_default();
        assert!(named.starts_with(field), "{problem}");
    }
    assert_eq!(client.list(10, 0).await.expect("a list").total, 0);
}

/// Fields of proc(5), `status`, by name.
fn status_of(pid: u32) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[track_caller]
fn assert_caged(pid: u32, what: &str) {
    let status = status_of(pid);
    for held in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(status[held].bytes().all(|digit| digit == b'0'), "{what}: {held} {}", status[held]);
    }
    assert_eq!((status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()), ("1", "2"), "{what}");
    assert!(status["Uid"].split_whitespace().all(|uid| uid != "0"), "{what}: {}", status["Uid"]);
    assert!(status["Gid"].split_whitespace().all(|gid| gid != "0"), "{what}: {}", status["Gid"]);
    assert_eq!(status["Groups"], "", "{what}");
}

#[tokio::test]
async fn the_gateway_holds_no_privilege_and_sees_nothing_but_its_store() {
    assert_root();
    let server = Server::start().await;
    let gateway = server.gateway_pid(None).await;
    // Its threads came after it had given up everything, and are under the same rules.
    for thread in std::fs::read_dir(format!("/proc/{gateway}/task")).expect("threads").flatten() {
        let thread = thread.file_name().to_string_lossy().parse().expect("a number");
        assert_caged(thread, "the gateway");
    }
    let root = PathBuf::from(format!("/proc/{gateway}/root"));
    let names: Vec<_> = std::fs::read_dir(&root).expect("its root").flatten().map(|it| it.file_name()).collect();
    assert_eq!(names, ["data"]);
    let store: std::collections::BTreeSet<_> =
        std::fs::read_dir(root.join("data")).expect("its store").flatten().map(|it| it.file_name()).collect();
    let known = std::fs::read_dir(server.data().join("store")).expect("the store").flatten().map(|it| it.file_name());
    assert_eq!(store, known.collect());
    for hidden in ["etc/passwd", "data/token", "data/signing.key", "proc", "dev/null"] {
        assert!(!root.join(hidden).exists(), "{hidden}");
    }
    // What it inherited is its link, its log, the page that the supervisor writes, and what it opened itself.
    let files = std::fs::read_dir(format!("/proc/{gateway}/fd")).expect("descriptors").flatten();
    let files: Vec<_> = files.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
    let inside = |path: &std::path::Path| {
        let path = path.to_string_lossy();
        let own = ["/data", "socket:", "anon_inode:", "pipe:", "/dev/null", "/memfd:standing "]
            .iter()
            .any(|it| path.starts_with(it));
        own || path.ends_with("/log")
    };
    assert!(files.iter().all(|path| inside(path)), "{files:?}");
}

#[tokio::test]
async fn programs_run_without_privilege_as_a_user_of_their_session() {
    assert_root();
    let server = Server::start().await;
    let client = server.client();
    let mut users = std::collections::BTreeSet::new();
    for mode in ["standard", "relaxed"] {
        let session = python(&client, json!({"sandbox_mode": mode})).await;
        assert_eq!(value(&client, &session, "import os\n[os.getuid(), os.getgid()]").await, json!([1000, 1000]));
    }
    let programs: Vec<u32> = crate::harness::descendants(server.pid())
        .into_iter()
        .filter(|pid| running_with("driver.py").contains(pid))
        .collect();
    assert_eq!(programs.len(), 2);
    for pid in programs {
        assert_caged(pid, "a program");
        users.insert(status_of(pid)["Uid"].clone());
    }
    users.insert(status_of(server.gateway_pid(None).await)["Uid"].clone());
    assert_eq!(users.len(), 3, "each session and the gateway has a user of its own: {users:?}");
}

/// At every level and in every language, as Linux has it: nothing here is asked of the program.
#[tokio::test]
async fn every_program_has_a_user_and_namespaces_of_its_own() {
    assert_root();
    let server = Server::start().await;
    let client = server.client();
    for level in ["strict", "standard", "relaxed"] {
        for language in ["python", "javascript", "bash"] {
            session(&client, language, json!({"sandbox_mode": level})).await;
        }
    }
    let gateway = server.gateway_pid(None).await;
    let below = descendants(server.pid()).into_iter();
    let programs: Vec<u32> = below
        .filter(|pid| *pid != gateway && !["sandbox-init", "janitor"].iter().any(|name| named_process(*pid, name)))
        .collect();
    assert_eq!(programs.len(), 9, "one process for each");
    let mut own = std::collections::HashSet::new();
    for pid in programs {
        assert_caged(pid, "a program");
        assert!(own.insert(PathBuf::from(&status_of(pid)["Uid"])), "{pid} shares its user");
        for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let link = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/{name}")).expect("a namespace");
            let inside = link(&pid.to_string());
            assert_ne!(inside, link("self"), "{pid} is in a namespace of the host");
            assert!(own.insert(inside), "{pid} shares its {name} namespace");
        }
    }
}
