//! Sessions come and go, of every language and in every condition: a moment after its deletion nothing is left of one,
//! and after hundreds the server has no more descriptors and memory than after some.

use std::path::Path;
use std::time::Duration;

use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Server, children, code, descendants, eventually, in_time, run, session};

/// Creations and deletions, unless `REPLTOOL_TEST_CYCLES` says otherwise.
const CYCLES: usize = 120;
/// So many sessions live at once.
const AT_ONCE: usize = 8;
/// How long what is left of deleted sessions may be there, in the middle of all batches. The slowest may take longer: a
/// machine that runs other tests is slower, a leak stays for ever.
const MIDDLE: Duration = Duration::from_secs(1);
/// How much memory each process may gain after the first batches: less than 1000 sessions that leak 8 KiB each.
const GROWTH_KB: u64 = 8 * 1024;

/// What a session is in the middle of when it is deleted.
const CONDITIONS: [(&str, &str, Use); 9] = [
    ("python", "open('f', 'w').write('x' * 100_000); x = 1", Use::Ran),
    ("javascript", "require('fs').writeFileSync('f', 'x'.repeat(100000)); 6 * 7", Use::Ran),
    ("bash", "sleep 600 & sleep 601 & echo text > f; mkdir -p a/b; echo $!", Use::Ran),
    ("python", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n    os._exit(0)", Use::Ran),
    ("python", "while True: pass", Use::Busy),
    ("javascript", "console.log('on'); await new Promise((done) => setTimeout(done, 600000))", Use::Busy),
    ("bash", "while :; do sleep 600 & wait; done", Use::Busy),
    ("bash", "", Use::New),
    ("javascript", "", Use::New),
];

#[derive(Clone, Copy, PartialEq)]
enum Use {
    New,
    Ran,
    Busy,
}

/// What a server holds besides itself and its gateway.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    processes: usize,
    descriptors: [usize; 2],
    mounts: [usize; 2],
    cgroups: usize,
    logs: usize,
    rows: u32,
}

impl Held {
    pub fn by(server: &Server, gateway: u32) -> Self {
        let pids = [server.pid(), gateway];
        Self {
            processes: descendants(server.pid()).len(),
            descriptors: pids.map(|pid| entries(&format!("/proc/{pid}/fd"))),
            mounts: pids.map(|pid| lines(&format!("/proc/{pid}/mountinfo"))),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), &format!("repltool-{}", server.pid()), 4),
            logs: entries(&server.data().join("store/sessions").to_string_lossy()),
            rows: rows(server),
        }
    }
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn lines(file: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// The groups in the folders of this name, in whatever hierarchy they lie.
pub fn cgroups(folder: &Path, name: &str, depth: usize) -> usize {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    let count = |path: &Path| {
        let inner = std::fs::read_dir(path).into_iter().flatten().flatten();
        inner.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir())).count()
    };
    let counts = folders.map(|entry| match entry.file_name() == name {
        true => count(&entry.path()),
        false if depth > 0 => cgroups(&entry.path(), name, depth - 1),
        false => 0,
    });
    counts.sum()
}

/// Rows of sessions and executions in the store.
fn rows(server: &Server) -> u32 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = server.data().join("store/store.sqlite");
    let db = rusqlite::Connection::open_with_flags(store, flags).expect("the store");
    let query = "SELECT (SELECT count(*) FROM session) + (SELECT count(*) FROM execution)";
    db.query_row(query, [], |row| row.get(0)).expect("a count")
}

/// Memory of a process that is nobody else's, in KiB.
fn memory_kb(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the process lives");
    let of = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
    };
    of("Private_Dirty:") + of("Private_Clean:")
}

/// A session in one of the conditions.
async fn used(client: &Client, n: usize) -> SessionId {
    let (language, text, condition) = CONDITIONS[n % CONDITIONS.len()];
    let limits = json!({"resource_limits": {"max_output_size": 10_485_760}});
    let id = session(client, language, limits).await;
    match condition {
        Use::New => {}
        Use::Ran => {
            let result = run(client, &id, text).await;
            assert!(result.success, "{text}: {result:?}");
        }
        Use::Busy => {
            // One runs, one waits.
            for _ in 0..2 {
                let mut events = client.execute_live(&id, &code(text)).await.expect("accepted");
                in_time("an event", events.next()).await.expect("readable").expect("an event");
            }
        }
    }
    id
}

#[tokio::test]
async fn nothing_is_left_of_sessions_and_the_server_does_not_grow() {
    let cycles = std::env::var("REPLTOOL_TEST_CYCLES").map_or(CYCLES, |it| it.parse().expect("a number"));
    let server = Server::start().await;
    let gateway = server.gateway_pid(None).await;
    let pids = [server.pid(), gateway];
    let before = Held::by(&server, gateway);
    let servants = children(server.pid());
    let mut quiet = None;
    let mut warm = None;
    let mut waits = Vec::new();
    let batches = cycles.div_ceil(AT_ONCE);
    for batch in 0..batches {
        // Its connections are the server's descriptors too, and end with it.
        let client = server.client();
        let sessions: Vec<_> = (0..AT_ONCE).map(|n| used(&client, batch * AT_ONCE + n)).collect();
        let sessions = futures::future::join_all(sessions).await;
        let (held, folders) = (Held::by(&server, gateway), sessions.len());
        assert!(held.logs == folders && held.processes > 2 * folders && held.rows as usize >= folders, "{held:?}");
        // The server closes connections that were idle for long, maybe at the moment of their next use: new ones delete.
        drop(client);
        let client = server.client();
        let deleted = futures::future::join_all(sessions.iter().map(|id| client.delete(id))).await;
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
        let since = Instant::now();
        drop(client);
        // The first batch opens what stays, such as files of the store.
        let quiet = match &quiet {
            None => quiet.insert(settled(&server, gateway, &before).await),
            Some(quiet) => quiet,
        };
        let same = || async { (Held::by(&server, gateway) == *quiet).then_some(()) };
        eventually("nothing is left", same).await;
        waits.push(since.elapsed());
        if batch == batches / 4 {
            warm = Some(pids.map(memory_kb));
        }
    }
    waits.sort();
    let warm = warm.expect("there was a first quarter");
    let grown = [0, 1].map(|n| memory_kb(pids[n]).saturating_sub(warm[n]));
    println!("{cycles} sessions; gone after {:?}, at most {:?}", waits[waits.len() / 2], waits.last());
    println!("memory {warm:?} KiB after a quarter, grown by {grown:?}; held {quiet:?}");
    assert!(waits[waits.len() / 2] <= MIDDLE, "{waits:?}");
    assert!(grown.iter().all(|kb| *kb <= GROWTH_KB), "{grown:?} KiB on {warm:?}");
    assert_eq!(children(server.pid()), servants, "the gateway is the same, and nobody came");
}

/// What the server holds once nothing is left of its first sessions: no more than before, but for descriptors.
async fn settled(server: &Server, gateway: u32, before: &Held) -> Held {
    let mut last = None;
    let without = |held: &Held| (held.processes, held.mounts, held.cgroups, held.logs, held.rows);
    eventually("nothing is left of the first sessions", || {
        let held = Held::by(server, gateway);
        // Twice the same, since descriptors are closed a moment after the rest is gone.
        let settled = without(&held) == without(before) && last.as_ref() == Some(&held);
        let found = settled.then(|| Held::by(server, gateway));
        last = Some(held);
        async { found }
    })
    .await
}
