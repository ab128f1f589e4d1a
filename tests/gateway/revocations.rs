//! Tokens that are taken back before they expire: by their id, by their subject, by the time when they were issued.

use std::path::PathBuf;

use repltool::client::{Client, Events, Received};
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::harness::signer::{Signer, jwks};
use super::harness::{As, PATIENCE, Server, binary_as, code, eventually, in_time, named, python, run};
use super::keys::{KeyFile, claims, status};
use super::wire::open_as;

/// A list of revocations, and the settings that name it.
struct List {
    folder: TempDir,
}

impl List {
    fn new(text: &str) -> Self {
        let list = Self { folder: tempfile::tempdir().expect("a folder") };
        list.write(text);
        list
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("revoked")
    }

    fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).expect("the list is written");
        std::fs::rename(&new, self.path()).expect("the list is replaced");
    }

    fn settings(&self) -> String {
        format!(
            "[auth]\nrevocations_file = '{}'\n[rate_limit]\nfailed_logins_per_minute = 100000\n",
            self.path().display()
        )
    }
}

fn token(server: &Server, more: Value) -> String {
    let secret = repltool::keys::load(&server.data(), None).expect("the server's key");
    Signer::secret(&secret).token(None, &claims(more))
}

async fn become_(server: &Server, token: &str, wanted: u16) {
    eventually("the list is in force", || async { (status(server, token).await == wanted).then_some(()) }).await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_and_closes_what_it_opened() {
    let list = List::new("# nobody yet\n");
    let server = Server::start_with(As::Me, &list.settings()).await;
    let (first, second) = (token(&server, json!({"jti": "one"})), token(&server, json!({"jti": "two"})));
    let client = |token: &str| Client::new(&server.url, Some(token)).expect("a client");
    let (lost, kept) = (client(&first), client(&second));
    let id = python(&kept, json!({})).await;
    let path = format!("/api/v1/sessions/{id}/ws");
    let mut gone = open_as(&server, &path, &first).await.expect("a socket");
    let mut stays = open_as(&server, &path, &second).await.expect("a socket");
    let mut follow = lost.events(&id, Events { follow: true, ..Events::default() }).await.expect("events");
    let waits = named("e1", "import time\nprint('runs')\ntime.sleep(600)");
    let mut stream = lost.execute_live(&id, &waits).await.expect("a stream");

    let begin = tokio::time::Instant::now();
    list.write("jti:one\n");
    assert_eq!(gone.close_code().await, Some(4401));
    assert!(begin.elapsed() < PATIENCE / 4, "it was told, and waited for nothing else");
    while in_time("the end of the stream", follow.next()).await.expect("readable").is_some() {}
    while in_time("the end of the stream", stream.next()).await.expect("readable").is_some() {}
    assert_eq!(status(&server, &first).await, 401);
    let refused = lost.get(&id).await.expect_err("refused");
    assert_eq!(refused.problem().expect("a problem").code, ProblemCode::Unauthorized);

    // The other token of the same subject goes on, and a socket does not take the revoked one.
    stays.next_of("ready").await;
    stays.send(json!({"type": "auth", "token": first, "id": "a"}).to_string()).await;
    assert_eq!(stays.next_of("problem").await["code"], "unauthorized");
    kept.interrupt(&id, None).await.expect("accepted");
    assert!(run(&kept, &id, "6 * 7").await.success);

    list.write("");
    become_(&server, &first, 200).await;
}

#[tokio::test]
async fn a_subject_is_revoked_as_a_whole_or_up_to_a_time() {
    let list = List::new("sub:eve\nsub:ada before 2026-01-01T00:00:00Z\n");
    let server = Server::start_with(As::Me, &list.settings()).await;
    let at = |time: &str| time.parse::<jiff::Timestamp>().expect("a time").as_second();
    let tokens = [
        ("eve", json!({"sub": "eve", "iat": at("2030-01-01T00:00:00Z")}), 401),
        ("before", json!({"iat": at("2025-12-31T23:59:59Z")}), 401),
        ("since", json!({"iat": at("2026-01-01T00:00:00Z")}), 200),
        ("without a time", json!({}), 401),
        ("an admin of that name", json!({"sub": "eve", "scope": "admin tool:execute"}), 401),
        ("another name", json!({"sub": "Eve"}), 200),
    ];
    for (what, more, wanted) in tokens {
        assert_eq!(status(&server, &token(&server, more)).await, wanted, "{what}");
    }
    let wrong = token(&server, json!({"jti": 7}));
    assert_eq!(status(&server, &wrong).await, 401, "an id that is none could not be revoked");
}

#[tokio::test]
async fn a_bad_list_is_not_taken_and_the_last_good_one_outlives_the_gateway() {
    let list = List::new("sub:eve\n");
    let server = Server::start_with(As::Me, &list.settings()).await;
    let (eve, ada) = (token(&server, json!({"sub": "eve"})), token(&server, json!({})));
    for (bad, told) in [("nobody\n", "line 1"), ("sub:ada\nsub:x before noon\n", "line 2")] {
        list.write(bad);
        eventually("the log says so", || async { server.log().contains(told).then_some(()) }).await;
        assert_eq!([status(&server, &eve).await, status(&server, &ada).await], [401, 200]);
    }
    std::fs::remove_file(list.path()).expect("the list is removed");
    eventually("the log says so", || async { server.log().contains("revoked cannot be read").then_some(()) }).await;
    server.crash_gateway().await;
    assert_eq!([status(&server, &eve).await, status(&server, &ada).await], [401, 200]);
    let many: String = (0..100_000).map(|n| format!("jti:{n:036}\n")).collect();
    list.write(&many);
    become_(&server, &eve, 200).await;
    let last = token(&server, json!({"jti": format!("{:036}", 99_999)}));
    assert_eq!([status(&server, &last).await, status(&server, &ada).await], [401, 200]);
}

#[tokio::test]
async fn a_server_without_its_list_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, told) in [(None, "cannot be read"), (Some("nonsense"), "line 1 of the list of revocations")] {
        if let Some(text) = text {
            std::fs::write(folder.path().join("revoked"), text).expect("the list is written");
        }
        std::fs::write(folder.path().join("c.toml"), "auth.revocations_file = 'revoked'\n").expect("settings");
        for command in [&["serve"][..], &["config", "check"]] {
            let arguments = ["--config", "c.toml", "--data-dir", "data", "--listen", "127.0.0.1:0"];
            let mut run = binary_as(As::Me);
            let output = run.args(command).args(arguments).current_dir(folder.path()).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(told), "{command:?}: {said}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_taken_away_closes_what_its_tokens_opened() {
    let (old, new) = (Signer::new(jsonwebtoken::Algorithm::ES256), Signer::new(jsonwebtoken::Algorithm::ES256));
    let file = KeyFile::new(&jwks([old.jwk("old"), new.jwk("new")]));
    let server = Server::start_with(As::Me, &file.settings()).await;
    let tokens = [old.token(Some("old"), &claims(json!({}))), new.token(Some("new"), &claims(json!({})))];
    let client = Client::new(&server.url, Some(&tokens[1])).expect("a client");
    let id = python(&client, json!({})).await;
    let mut gone = open_as(&server, &format!("/api/v1/sessions/{id}/ws"), &tokens[0]).await.expect("a socket");
    let mut stays = client.attach(&id, None).await.expect("a socket");
    file.write(&jwks([new.jwk("new")]));
    assert_eq!(gone.close_code().await, Some(4401));
    let result = in_time("a result", client.execute(&id, &code("print('on')"))).await.expect("served");
    assert!(result.success);
    loop {
        match in_time("output", stays.receive()).await.expect("readable") {
            Received::Frame(frame) if format!("{frame:?}").contains("on\\n") => break,
            Received::Frame(_) => {}
            Received::Closed(closed) => panic!("{closed:?}"),
        }
    }
}
