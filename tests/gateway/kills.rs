//! The end of a session is complete: whatever ran in it, a moment after its deletion or after the death of the supervisor
//! nothing is left of it.

use std::collections::BTreeSet;
use std::time::Duration;

use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use serde_json::json;
use tokio::time::Instant;

use crate::attacks::memory_of;
use crate::churn::{Held, cgroups};
use crate::harness::{
    As, Server, assert_root, assert_usable, descendants, eventually, lives, python, send, session, until_printed,
};

/// Advice on code would refuse it before it could be hard to end.
const SETTINGS: &str = "[sandbox.standard]\npolicy = \"record\"\n";
/// What is hard to end, by language. Each prints something when it is in place, and runs on.
const FAMILIES: [(&str, &str); 3] = [
    ("python", include_str!("../sandbox/family.py")),
    (
        "javascript",
        "const { Worker } = require('worker_threads');\nconst fs = require('fs');\nfs.writeFileSync('/tmp/hoard', Buffer.alloc(4 << 20, 1));\n\
         for (let i = 0; i < 3; i++) new Worker('for (;;) {}', { eval: true });\nprocess.on('SIGTERM', () => {});\n\
         await new Promise((done) => setTimeout(done, 200));\nconsole.log('all'); for (;;) {}",
    ),
    (
        "bash",
        "trap '' TERM HUP QUIT; head -c 4000000 /dev/urandom > /dev/shm/hoard\n(trap '' INT; while :; do :; done) >&- 2>&- &\n\
         (sleep 600 & sleep 600 & kill -STOP $BASHPID) &\n( (sleep 600) & )\necho all; while :; do sleep 1; done",
    ),
];
/// Within which time everything is gone, in the middle of all rounds. It is some tens of milliseconds; the rest is for a
/// machine with much else to do.
const MIDDLE: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
/// What Linux keeps of groups that are gone, in bytes.
const SLACK: u64 = 2 << 20;

/// Sessions with all of the families.
async fn families(client: &Client) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for (language, text) in FAMILIES {
        let id = session(client, language, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        send(&mut socket, "family", text).await;
        until_printed(&mut socket).await;
        sessions.push(id);
    }
    sessions
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts of the host")
}

async fn assert_deletion_is_complete(user: As) {
    let server = Server::start_with(user, SETTINGS).await;
    let gateway = server.gateway_pid(None).await;
    let mut times = Vec::new();
    let mut quiet = None;
    for round in 0..=ROUNDS {
        let client = server.client();
        let sessions = families(&client).await;
        let family = descendants(server.pid());
        assert!(family.len() > 20, "{} processes", family.len());
        drop(client);
        let client = server.client();
        let deleted = futures::future::join_all(sessions.iter().map(|id| client.delete(id))).await;
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
        let since = Instant::now();
        drop(client);
        // The first round opens what stays open.
        let (held, memory) = match &quiet {
            None => {
                let settled = || async { (descendants(server.pid()).len() <= 2).then_some(()) };
                eventually("nothing is left of the first round", settled).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                quiet.insert((Held::by(&server, gateway), memory_of(&server)))
            }
            Some(_) => quiet.as_mut().expect("it is there"),
        };
        let same =
            || async { (Held::by(&server, gateway) == *held && memory_of(&server) < *memory + SLACK).then_some(()) };
        eventually("processes, mounts, groups, descriptors and memory are as before", same).await;
        if round > 0 {
            times.push(since.elapsed());
        }
    }
    times.sort();
    println!("deletion to gone: median {:?}, at most {:?}", times[ROUNDS / 2], times[ROUNDS - 1]);
    assert!(times[ROUNDS / 2] < MIDDLE, "{times:?}");
}

#[tokio::test]
async fn nothing_of_a_session_is_left_a_moment_after_its_deletion() {
    assert_deletion_is_complete(As::Me).await;
}

#[tokio::test]
async fn nothing_of_a_session_is_left_a_moment_after_its_deletion_without_cgroups() {
    assert_root();
    assert_deletion_is_complete(As::OrdinaryUser).await;
}

async fn assert_death_is_complete(user: As) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let before = mounts();
        let mut server = Server::start_with(user, SETTINGS).await;
        families(&server.client()).await;
        let family = descendants(server.pid());
        assert!(family.len() > 20, "{} processes", family.len());
        let name = format!("repltool-{}", server.pid());
        let groups = || cgroups("/sys/fs/cgroup".as_ref(), &name, 4);
        assert!(user == As::OrdinaryUser || groups() >= 3);
        server.signal("KILL");
        let since = Instant::now();
        server.ended().await;
        // Their entries stay until the first process of the host has waited for them, whenever it does so.
        let gone = || async { (!family.iter().any(|pid| lives(*pid)) && groups() == 0).then_some(()) };
        eventually("every process and every group is gone", gone).await;
        times.push(since.elapsed());
        let same = || async { (mounts() == before).then_some(()) };
        // Other tests mount and unmount nothing outside of namespaces of their own.
        eventually("the host has the mounts that it had", same).await;
    }
    times.sort();
    println!("death to gone: median {:?}, at most {:?}", times[ROUNDS / 2], times[ROUNDS - 1]);
    assert!(times[ROUNDS / 2] < MIDDLE, "{times:?}");
}

#[tokio::test]
async fn nothing_of_a_session_is_left_a_moment_after_the_supervisor_is_killed() {
    assert_death_is_complete(As::Me).await;
}

#[tokio::test]
async fn nothing_of_a_session_is_left_a_moment_after_the_supervisor_is_killed_without_cgroups() {
    assert_root();
    assert_death_is_complete(As::OrdinaryUser).await;
}

/// Uids and pid namespaces of the processes below a server that run in sandboxes.
fn owners(server: &Server, gateway: u32) -> BTreeSet<(String, String)> {
    let of = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.to_owned();
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
        Some((uid, namespace.display().to_string()))
    };
    let own = std::fs::read_link("/proc/self/ns/pid").expect("our own").display().to_string();
    let below = descendants(server.pid()).into_iter().filter(|pid| *pid != gateway);
    below.filter_map(|pid| of(&pid)).filter(|(_, namespace)| *namespace != own).collect()
}

#[tokio::test]
async fn a_uid_is_given_again_only_when_nothing_of_its_last_owner_is_left() {
    assert_root();
    let server = Server::start_with(As::Me, SETTINGS).await;
    let gateway = server.gateway_pid(None).await;
    let client = server.client();
    let mut seen = BTreeSet::new();
    for round in 0..20 {
        let id = python(&client, json!({})).await;
        let owners = owners(&server, gateway);
        let uids: BTreeSet<_> = owners.iter().map(|(uid, _)| uid).collect();
        assert_eq!(uids.len(), owners.len(), "round {round}: one uid in two sandboxes: {owners:?}");
        seen.extend(owners.iter().map(|(uid, _)| uid.clone()));
        if round % 5 == 0 {
            assert_usable(&client, &id, "python").await;
        }
        let mut socket = client.attach(&id, None).await.expect("a socket");
        send(&mut socket, "family", FAMILIES[0].1).await;
        until_printed(&mut socket).await;
        client.delete(&id).await.expect("deleted");
    }
    println!("{} uids for 20 sessions", seen.len());
    assert!(seen.len() < 40, "they are given again, or the test shows nothing");
}
