//! The files of the audit log: whole after every death, and whatever is done to them is found.

use std::path::{Path, PathBuf};

use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};

use super::audit::{assert_whole, audit, of_kind, records, sha256, stop, text};
use super::harness::{Server, assert_root, code, eventually, in_time, kill, python, run};
use super::wire::ask_as_owner;

pub fn file(server: &Server) -> PathBuf {
    server.data().join("store/audit/00000001.jsonl")
}

/// The first bad record.
fn fault(server: &Server) -> (u64, String) {
    let output = audit(server, &["verify", "--output", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let fault = &verdict["fault"];
    (fault["record"].as_u64().expect("a number"), fault["problem"].as_str().expect("words").to_owned())
}

#[tokio::test]
async fn the_log_is_whole_after_kill_9_of_the_gateway_and_of_the_supervisor() {
    let mut server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    for round in 0..3 {
        run(&client, &id, &format!("x = {round}")).await;
        server.crash_gateway().await;
        assert_whole(&server);
    }
    kill(server.pid(), "KILL");
    server.ended().await;
    assert_whole(&server);
    let mut server = server.restart().await;
    stop(&mut server).await;
    assert_whole(&server);
    let recovered = records(&server, &["--kind", "session_recovered", "--session", id.as_str()]);
    let reasons: Vec<_> = recovered.iter().map(|it| it["reason"].as_str().expect("a reason")).collect();
    assert_eq!(reasons, ["adopted", "adopted", "adopted", "empty"]);
}

/// What somebody does to the lines of the log, and the record that is wrong then.
type Harm = (&'static str, fn(&mut Vec<String>), u64);

const HARMS: &[Harm] = &[
    ("edited", |lines| lines[4] = lines[4].replacen("\"kind\":\"", "\"kind\":\"x", 1), 5),
    (
        "edited at the end",
        |lines| {
            let last = lines.last_mut().expect("a line");
            *last = last.replacen("\"time\":\"2", "\"time\":\"3", 1);
        },
        0,
    ),
    ("removed", |lines| drop(lines.remove(4)), 5),
    ("swapped", |lines| lines.swap(3, 4), 4),
    ("cut off", |lines| lines.truncate(4), 5),
    ("repeated", |lines| lines.insert(5, lines[4].clone()), 6),
];

#[tokio::test]
async fn tampering_of_every_kind_is_named_by_the_first_bad_record() {
    let mut server = Server::start().await;
    python(&server.client(), json!({})).await;
    stop(&mut server).await;
    assert_whole(&server);
    let whole = std::fs::read_to_string(file(&server)).expect("the log");
    let count = whole.lines().count() as u64;
    for (name, harm, record) in HARMS {
        let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
        harm(&mut lines);
        std::fs::write(file(&server), lines.join("\n") + "\n").expect("written");
        let (found, problem) = fault(&server);
        assert_eq!(found, if *record == 0 { count } else { *record }, "{name}: {problem}");
    }
    std::fs::write(file(&server), &whole).expect("written");
    assert_whole(&server);
    let aside = server.data().join("kept");
    for name in ["audit.head", "audit.pub"] {
        std::fs::copy(server.data().join(name), &aside).expect("copied");
        std::fs::write(server.data().join(name), "0".repeat(64)).expect("written");
        assert_eq!(audit(&server, &["verify"]).status.code(), Some(1), "{name}");
        std::fs::copy(&aside, server.data().join(name)).expect("copied back");
    }
    assert_whole(&server);
}

/// A small file system for the log alone; it goes with this.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path) -> Self {
        std::fs::create_dir_all(place).expect("a folder");
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k,mode=0777", "none"])
            .arg(place)
            .status();
        assert!(mount.is_ok_and(|it| it.success()), "root can mount");
        Self(place.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_new_work_until_there_is_room_and_what_runs_goes_on() {
    assert_root();
    let mut server = Server::start().await;
    stop(&mut server).await;
    let place = server.data().join("store/audit");
    std::fs::remove_dir_all(&place).expect("the folder is made anew");
    for name in ["audit.head", "audit.key", "audit.pub"] {
        std::fs::remove_file(server.data().join(name)).expect("it is there");
    }
    let disk = SmallDisk::mount(&place);
    let mut server = server.restart().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let waits = "import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)\n42";
    let asked = code(waits);
    let running = client.execute(&id, &asked);
    let refused = async {
        let filler = place.join("filler");
        let mut file = std::fs::File::create(&filler).expect("a file");
        while std::io::Write::write_all(&mut file, &[1; 256]).is_ok() {}
        // Whatever is recorded now has no room, sooner or later.
        let path = "/api/v1/sessions";
        let reply = eventually("new work is refused", || async {
            let reply = ask_as_owner(&server, "POST", path, r#"{"language":"bash"}"#).await;
            (reply.status != 201).then_some(reply)
        })
        .await;
        reply.problem(ProblemCode::StorageFull);
        let execute = ask_as_owner(&server, "POST", &format!("{path}/{id}/execute"), r#"{"code":"1"}"#).await;
        execute.problem(ProblemCode::StorageFull);
        assert_eq!(ask_as_owner(&server, "PUT", &format!("{path}/{id}/files/go"), "x").await.status, 201);
        std::fs::remove_file(filler).expect("removed");
    };
    let (result, ()) = tokio::join!(in_time("what runs", running), refused);
    assert_eq!(result.expect("it ends").result_text.as_deref(), Some("42"));
    eventually("new work is taken again", || async {
        let reply = ask_as_owner(&server, "POST", "/api/v1/execute", r#"{"language":"python","code":"1"}"#).await;
        (reply.status == 200).then_some(())
    })
    .await;
    assert!(server.log().contains("the audit log cannot be written"), "it is told once");
    assert_eq!(server.log().matches("the audit log cannot be written").count(), 1);
    stop(&mut server).await;
    assert_whole(&server);
    let hash = sha256(waits);
    assert_eq!(records(&server, &["--code-sha256", &hash]).len(), 1, "no record was lost");
    assert_eq!(of_kind(&server, "gap").len(), 0);
    // Before the folder that it is mounted on goes.
    drop(disk);
}
