//! Interpreters that wait for sessions: what a session has of its own is applied before it begins, each serves one session,
//! and whoever finds none starts one.

use std::collections::BTreeSet;

use repltool::client::Client;
use repltool_protocol::event::Limit;
use repltool_protocol::ids::SessionId;
use serde_json::json;

use super::harness::{
    As, Server, assert_usable, children, descendants, eventually, kill, lives, run, running_with, session,
};
use super::metrics::exposition::scrape;

/// Some that wait for each language, from the start on.
const TWO: &str = "[pool]\nmin = 2\nmax = 8\n[sandbox.standard]\npolicy = \"record\"\n";
const NO_ZYGOTE: &str = "zygote = false\n";
/// Each language with code that prints a variable and its directory.
const LANGUAGES: [(&str, &str); 3] = [
    ("python", "import os, posix\nprint(os.environ['A'] + '|' + os.getcwd() + '|' + posix.environ[b'A'].decode())"),
    ("javascript", "console.log(process.env.A + '|' + process.cwd() + '|' + process.env.A)"),
    ("bash", "echo \"$A|$PWD|$(printenv A)\""),
];

/// Waits until so many interpreters of a language wait.
async fn until_ready(server: &Server, language: &str, count: f64) {
    let sample = format!("repl_pool_ready{{language=\"{language}\"}}");
    eventually("interpreters wait", || async { (scrape(server).await.value(&sample) >= count).then_some(()) }).await;
}

/// Waits until the metrics tell of so many sessions that got one that waited.
async fn until_hits(server: &Server, language: &str, count: f64) {
    let sample = format!("repl_pool_hits_total{{language=\"{language}\"}}");
    eventually("hits are told", || async { (scrape(server).await.value(&sample) == count).then_some(()) }).await;
}

async fn with_and_without_zygote(settings: &str) -> [Server; 2] {
    with_and_without_zygote_as(As::Me, settings).await
}

async fn with_and_without_zygote_as(user: As, settings: &str) -> [Server; 2] {
    let without = settings.replacen("[pool]\n", &format!("[pool]\n{NO_ZYGOTE}"), 1);
    [Server::start_with(user, settings).await, Server::start_with(user, &without).await]
}

#[tokio::test]
async fn a_session_that_gets_one_has_its_own_variables_directory_and_memory() {
    for server in with_and_without_zygote(TWO).await {
        let client = server.client();
        for (language, code) in LANGUAGES {
            until_ready(&server, language, 2.0).await;
            let own = json!({"environment": {"A": "x \"y\" 'z' \\ é"}, "working_directory": "/workspace/a/b"});
            let id = session(&client, language, own).await;
            let result = run(&client, &id, code).await;
            let told = "x \"y\" 'z' \\ é";
            assert_eq!(result.output, format!("{told}|/workspace/a/b|{told}\n"), "{language} {result:?}");
            until_hits(&server, language, 1.0).await;
        }
        let id = session(&client, "python", json!({"resource_limits": {"max_memory_mb": 96}})).await;
        until_hits(&server, "python", 2.0).await;
        let result = run(&client, &id, "x = bytearray(200 << 20)").await;
        assert!(result.limit == Some(Limit::Memory) || named_memory(&result), "{result:?}");
        let id = session(&client, "python", json!({"resource_limits": {"max_memory_mb": 600}})).await;
        let result = run(&client, &id, "x = bytearray(400 << 20); len(x)").await;
        assert_eq!(result.result.0.get(), "419430400", "{result:?}");
    }
}

/// Where there is no memory cgroup, Python says it itself.
fn named_memory(result: &repltool_protocol::rest::ExecutionResult) -> bool {
    result.exception.as_ref().is_some_and(|exception| exception.name == "MemoryError")
}

#[tokio::test]
async fn what_an_interpreter_reads_when_it_starts_makes_it_start_anew() {
    let server = Server::start_with(As::Me, TWO).await;
    let client = server.client();
    until_ready(&server, "python", 2.0).await;
    let id = session(&client, "python", json!({"environment": {"TZ": "Asia/Tokyo"}})).await;
    let result = run(&client, &id, "import time; time.tzname[0]").await;
    assert_eq!(result.result.0.get(), "\"JST\"", "{result:?}");
    until_hits(&server, "python", 0.0).await;
}

/// What a program can tell of its process.
const SELF: &str = "import os\nstate = globals().get('state', 0) + 1\n\
    (state, [line for line in open('/proc/self/status') if line.startswith(('Cap', 'Uid', 'Gid', 'Groups', 'NoNew', 'Seccomp:'))], \
    sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1], os.getcwd(), os.listdir('/workspace'), os.listdir('/tmp'))";

#[tokio::test]
async fn no_session_finds_anything_of_another_one() {
    for server in with_and_without_zygote(TWO).await {
        let client = server.client();
        let mut told = BTreeSet::new();
        for _ in 0..6 {
            until_ready(&server, "python", 1.0).await;
            let id = session(&client, "python", json!({"sandbox_mode": "relaxed"})).await;
            let result = run(&client, &id, SELF).await;
            assert!(result.success, "{result:?}");
            told.insert(result.result.0.get().to_owned());
            run(&client, &id, "open('/workspace/mine', 'w').write('x'); open('/tmp/mine', 'w').write('x')").await;
            client.delete(&id).await.expect("it ends");
        }
        assert_eq!(told.len(), 1, "every session begins in the same way: {told:?}");
    }
}

#[tokio::test]
async fn a_fork_has_the_rights_of_an_interpreter_that_was_executed() {
    for user in [As::Me, As::OrdinaryUser] {
        let [with, without] = with_and_without_zygote_as(user, TWO).await;
        let mut told = Vec::new();
        for server in [&with, &without] {
            until_ready(server, "python", 2.0).await;
            let client = server.client();
            for mode in ["standard", "relaxed"] {
                let id = session(&client, "python", json!({"sandbox_mode": mode})).await;
                told.push(run(&client, &id, SELF).await.result.0.get().to_owned());
            }
        }
        assert_eq!(told[..2], told[2..], "{user:?}");
        assert!(told[0].contains("CapEff:\\\\t0000000000000000"), "{}", told[0]);
        let zygotes = running_with("zygote");
        assert!(children(with.pid()).iter().any(|pid| zygotes.contains(pid)), "{user:?}: {}", with.log());
        assert!(!children(without.pid()).iter().any(|pid| zygotes.contains(pid)));
    }
}

#[tokio::test]
async fn a_burst_beyond_the_pool_is_served_whole() {
    for server in with_and_without_zygote(TWO).await {
        let client = server.client();
        until_ready(&server, "python", 2.0).await;
        let sessions = (0..20).map(|number| begin(&client, number));
        let outputs = futures::future::join_all(sessions).await;
        assert_eq!(outputs, (0..20).map(|number| format!("{number}\n")).collect::<Vec<_>>());
    }
}

async fn begin(client: &Client, number: usize) -> String {
    let language = ["python", "javascript", "bash"][number % 3];
    let id = session(client, language, json!({})).await;
    let code = if language == "javascript" { format!("console.log({number})") } else { format!("print({number})") };
    let code = if language == "bash" { format!("echo {number}") } else { code };
    run(client, &id, &code).await.output
}

/// The interpreters of a language below a server, by pid.
fn interpreters(server: &Server, driver: &str) -> BTreeSet<u32> {
    let own = descendants(server.pid());
    running_with(driver).into_iter().filter(|pid| own.contains(pid)).collect()
}

#[tokio::test]
async fn the_pool_outlives_a_gateway_and_replaces_what_it_loses() {
    let server = Server::start_with(As::Me, "[pool]\nmin = 1\nmax = 1\n").await;
    until_ready(&server, "bash", 1.0).await;
    let before = interpreters(&server, "driver.bash");
    assert_eq!(before.len(), 1, "{before:?}");
    server.crash_gateway().await;
    assert_eq!(interpreters(&server, "driver.bash"), before, "it still waits");
    before.iter().for_each(|pid| kill(*pid, "KILL"));
    let fresh = eventually("another one waits", || async {
        let now = interpreters(&server, "driver.bash");
        (now.len() == 1 && now.is_disjoint(&before)).then_some(now)
    })
    .await;
    until_ready(&server, "bash", 1.0).await;
    let id: SessionId = session(&server.client(), "bash", json!({})).await;
    assert_usable(&server.client(), &id, "bash").await;
    assert!(fresh.iter().all(|pid| lives(*pid)), "it was handed out");
}

#[tokio::test]
async fn a_zygote_that_is_lost_costs_no_session() {
    let server = Server::start_with(As::Me, TWO).await;
    let client = server.client();
    until_ready(&server, "python", 2.0).await;
    let id = session(&client, "python", json!({})).await;
    run(&client, &id, "x = 5").await;
    let zygotes = running_with("zygote");
    let zygote = children(server.pid()).into_iter().find(|pid| zygotes.contains(pid)).expect("there is one");
    kill(zygote, "KILL");
    assert_eq!(run(&client, &id, "x").await.result.0.get(), "5", "its forks live on");
    for number in 0..5 {
        let id = session(&client, "python", json!({})).await;
        assert_eq!(run(&client, &id, &number.to_string()).await.result.0.get(), number.to_string());
    }
}

#[tokio::test]
async fn nothing_waits_where_nothing_is_to() {
    let server = Server::start_with(As::Me, "[pool]\nmax = 0\n").await;
    let client = server.client();
    let id = session(&client, "bash", json!({})).await;
    assert_usable(&client, &id, "bash").await;
    assert_eq!(interpreters(&server, "driver.bash").len(), 1, "that of the session");
}

#[tokio::test]
async fn packages_that_are_preloaded_are_there_before_they_are_imported() {
    let settings =
        format!("{TWO}\n").replacen("[pool]\n", "[pool]\npreload = [\"fractions\", \"no_such_package\"]\n", 1);
    let server = Server::start_with(As::Me, &settings).await;
    until_ready(&server, "python", 1.0).await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let result = run(&client, &id, "import sys; 'fractions' in sys.modules").await;
    assert_eq!(result.result.0.get(), "true", "{result:?}");
    until_hits(&server, "python", 1.0).await;
}
