//! Attacks on what a session may use, from `limits.toml`: the limit holds and is named, the session is usable afterwards,
//! others answer meanwhile, and the host has in the end what it had before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{
    As, Server, assert_root, assert_usable, descendants, eventually, exception_name, python, run, run_for, session,
};

/// Screening and lists of modules are advice that would hide the walls behind it.
const SETTINGS: &str = "[sandbox]\ndisk_mb = 48\n[sandbox.standard]\npolicy = \"record\"\n";
/// How long a bystander waits at most for `1+1`. It is milliseconds on a machine with nothing else to do.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it asks.
const PULSE: Duration = Duration::from_millis(200);
/// What the server's cgroup may have more than before, in bytes: what Linux keeps of groups that are gone.
const SLACK: u64 = 16 << 20;

/// The file, as it says at its beginning.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attacks {
    prelude: BTreeMap<String, String>,
    attack: Vec<Attack>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    name: String,
    kind: String,
    ends: Vec<String>,
    plain: Option<Vec<String>>,
    #[serde(default)]
    limits: serde_json::Map<String, serde_json::Value>,
    #[serde(default = "ten_seconds")]
    timeout_ms: u64,
    bystander: Option<String>,
    python: Option<String>,
    javascript: Option<String>,
    bash: Option<String>,
}

fn ten_seconds() -> u64 {
    10_000
}

impl Attack {
    fn ends(&self, user: As) -> &[String] {
        match (user, &self.plain) {
            (As::OrdinaryUser, Some(plain)) => plain,
            _ => &self.ends,
        }
    }

    fn codes(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let codes = [("python", &self.python), ("javascript", &self.javascript), ("bash", &self.bash)];
        codes.into_iter().filter_map(|(language, code)| Some((language, code.as_ref()?)))
    }
}

/// How an execution ended, in the words of the file.
fn end(result: &ExecutionResult) -> String {
    let says = |word: &str| result.output.lines().any(|line| line.starts_with(word));
    let limit = result.limit.and_then(|limit| serde_json::to_value(limit).ok());
    match () {
        () if says("ESCAPED") => "it got through".to_owned(),
        () if limit.is_some() => limit.and_then(|it| Some(it.as_str()?.to_owned())).unwrap_or_default(),
        () if says("refused:") => "refused".to_owned(),
        () if result.success && says("fine") => "fine".to_owned(),
        () if result.state_lost => "lost".to_owned(),
        () if result.exception.is_some() => "failed".to_owned(),
        () => "nothing was refused".to_owned(),
    }
}

/// Asks again and again, until it is dropped. Gives the longest time that an answer took, by way of `longest`.
async fn stand_by(client: &Client, id: &SessionId, text: Option<&str>, longest: &std::cell::Cell<Duration>) {
    loop {
        let begun = Instant::now();
        let result = run(client, id, text.unwrap_or("print('fine')")).await;
        longest.set(longest.get().max(begun.elapsed()));
        assert!(result.success && result.output == "fine\n", "a bystander: {result:?}");
        tokio::time::sleep(PULSE).await;
    }
}

/// Makes one attack. Says what is wrong with how it ended, if anything is.
async fn fault(server: &Server, attack: &Attack, language: &str, text: &str, allowed: &[String]) -> Option<String> {
    let client = server.client();
    let other = python(&client, json!({})).await;
    let id = session(&client, language, json!({"resource_limits": attack.limits})).await;
    let longest = std::cell::Cell::new(Duration::ZERO);
    let begun = Instant::now();
    let result = tokio::select! {
        result = run_for(&client, &id, attack.timeout_ms, text) => result,
        () = stand_by(&client, &other, attack.bystander.as_deref(), &longest) => unreachable!("it has no end"),
    };
    let (took, end) = (begun.elapsed(), end(&result));
    let told = result.output.lines().find(|line| line.starts_with("refused:")).unwrap_or_default();
    println!("{} ({language}): {end} after {took:?}, {} ms of CPU time", attack.name, result.usage.cpu_time_ms);
    println!("    a bystander waited {:?} {told}", longest.get());
    assert!(longest.get() < PATIENCE, "{}: a bystander waited {:?}", attack.name, longest.get());
    // What it has left may still cost the interpreter, which whoever asks then is told.
    let next = run(&client, &id, "1").await;
    assert!(next.state_lost || next.exception.is_none() || exception_name(&next) == "StateLost", "{next:?}");
    assert_usable(&client, &id, language).await;
    assert_usable(&client, &other, "python").await;
    for id in [id, other] {
        client.delete(&id).await.expect("the session is deleted, whatever was tried in it");
    }
    let wrong = !allowed.contains(&end);
    wrong.then(|| format!("{} ({language}): {end}, not {allowed:?}: {result:?}", attack.name))
}

/// What the host has of the server's sessions.
#[derive(Debug, Clone, Copy)]
struct Held {
    processes: usize,
    /// Bytes of programs, of files in memory, and of Linux itself for them.
    memory: u64,
}

impl Held {
    fn by(server: &Server) -> Self {
        Self { processes: descendants(server.pid()).len(), memory: memory_of(server) }
    }

    fn is_within(self, before: Self) -> bool {
        self.processes <= before.processes && self.memory <= before.memory + SLACK
    }
}

/// Bytes that are charged to a server's sandboxes, and to what is left of them; 0 where nobody counts them.
pub fn memory_of(server: &Server) -> u64 {
    let folder = folder(Path::new("/sys/fs/cgroup"), &format!("repltool-{}", server.pid()), 4);
    folder.map_or(0, |it| memory(&it))
}

/// The server's folder where memory is counted.
fn folder(below: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let folders = std::fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    let counts = |path: &PathBuf| path.ends_with(name) && path.join("memory.stat").exists();
    let here = folders.iter().find(|path| counts(path)).cloned();
    here.or_else(|| folders.iter().filter(|_| depth > 0).find_map(|path| self::folder(path, name, depth - 1)))
}

/// All that is charged but the pages of files on disks, which Linux takes back when it needs them.
fn memory(folder: &Path) -> u64 {
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let of = |name: &str| -> u64 {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let kernel = std::fs::read_to_string(folder.join("memory.kmem.usage_in_bytes")).unwrap_or_default();
    let kernel: u64 = kernel.trim().parse().unwrap_or_else(|_| of("kernel"));
    let first = ["total_rss", "total_shmem"].map(of).iter().sum::<u64>();
    kernel + if first > 0 { first } else { of("anon") + of("shmem") }
}

/// Makes every attack of a kind, one after the other.
async fn assert_bounded(user: As, kind: &str) {
    let attacks: Attacks = toml::from_str(include_str!("limits.toml")).expect("a readable list of attacks");
    let server = Server::start_with(user, SETTINGS).await;
    // What the first session leaves is no trace of an attack.
    let client = server.client();
    let first = python(&client, json!({})).await;
    client.delete(&first).await.expect("deleted");
    let gone = || async { (descendants(server.pid()).len() <= 2).then(|| Held::by(&server)) };
    let before = eventually("the first session is gone", gone).await;
    let (mut faults, mut count) = (Vec::new(), 0);
    for attack in attacks.attack.iter().filter(|attack| attack.kind == kind) {
        let ends = attack.ends(user);
        for (language, code) in attack.codes().filter(|_| !ends.is_empty()) {
            let text = format!("{}\n{code}", attacks.prelude[language]);
            faults.extend(fault(&server, attack, language, &text, ends).await);
            let same = || async { Held::by(&server).is_within(before).then_some(()) };
            eventually("the host has what it had before", same).await;
            count += 1;
        }
    }
    assert!(faults.is_empty() && count > 0, "{count} attacks\n{}", faults.join("\n\n"));
}

#[tokio::test]
async fn cpu_time_cannot_be_had_by_hiding_who_uses_it() {
    assert_bounded(As::Me, "cpu").await;
}

#[tokio::test]
async fn cpu_time_cannot_be_had_by_hiding_who_uses_it_without_cgroups() {
    assert_root();
    assert_bounded(As::OrdinaryUser, "cpu").await;
}

#[tokio::test]
async fn memory_cannot_be_had_by_hiding_where_it_is() {
    assert_bounded(As::Me, "memory").await;
}

#[tokio::test]
async fn memory_cannot_be_had_by_hiding_where_it_is_without_cgroups() {
    assert_root();
    assert_bounded(As::OrdinaryUser, "memory").await;
}

#[tokio::test]
async fn floods_of_processes_end_at_their_limit() {
    assert_bounded(As::Me, "processes").await;
}

#[tokio::test]
async fn floods_of_processes_end_at_their_limit_without_cgroups() {
    assert_root();
    assert_bounded(As::OrdinaryUser, "processes").await;
}

#[tokio::test]
async fn floods_of_kernel_objects_are_refused() {
    assert_bounded(As::Me, "objects").await;
}

#[tokio::test]
async fn floods_of_kernel_objects_are_refused_without_cgroups() {
    assert_root();
    assert_bounded(As::OrdinaryUser, "objects").await;
}

#[tokio::test]
async fn output_cannot_be_had_by_many_writers() {
    assert_bounded(As::Me, "output").await;
}

#[tokio::test]
async fn output_cannot_be_had_by_many_writers_without_cgroups() {
    assert_root();
    assert_bounded(As::OrdinaryUser, "output").await;
}
