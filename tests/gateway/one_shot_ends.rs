//! The ends of an execution in a session of its own: nothing of it is left, whatever happens.

use std::time::Duration;

use repltool_protocol::event::Limit;
use serde_json::json;

use super::harness::{As, Server, eventually, in_time, python, run};
use super::lifecycle::traces;
use super::one_shot::{EXECUTE, Holds, database, endless, names, one_shot, running};
use super::talk::{Talk, request};

#[tokio::test]
async fn whatever_ends_a_one_shot_leaves_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let before = Holds::now(&server);
    let child = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)\nopen('f', 'w').write('x')";
    for (code, more, limit) in [
        ("1 / 0", json!({}), None),
        ("import os; os._exit(3)", json!({}), None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", json!({}), None),
        (child, json!({}), None),
        ("while True: pass", json!({"timeout_ms": 300}), Some(Limit::WallTime)),
        ("while True: print('x' * 99)", json!({"resource_limits": {"max_output_size": 1024}}), Some(Limit::Output)),
        ("x = b'.' * (200 << 20)", json!({"resource_limits": {"max_memory_mb": 64}}), Some(Limit::Memory)),
    ] {
        let result = in_time(code, client.one_shot(&one_shot("python", code, more))).await.expect("a result");
        assert_eq!((result.success, result.limit), (code == child, limit), "{result:?}");
        assert_eq!(names(&server), before.names, "{code}");
    }
    before.again(&server).await;
}

#[tokio::test]
async fn a_one_shot_ends_with_its_client() {
    let server = Server::start().await;
    let client = server.client();
    let before = Holds::now(&server);
    let stream = running(&client).await;
    assert!(!names(&server).is_empty());
    drop(stream);
    before.again(&server).await;

    let body = serde_json::to_string(&endless()).expect("JSON");
    let mut talk = Talk::connect(&server).await;
    talk.send(request(&server, "POST", EXECUTE, &body)).await;
    eventually("it runs", || async { (Holds::now(&server).processes > before.processes).then_some(()) }).await;
    drop(talk);
    before.again(&server).await;

    // At any moment: while it is asked for, while its interpreter boots, when it has just begun.
    for wait_ms in [0, 1, 2, 5, 10, 20, 30, 40, 60, 80] {
        let mut talk = Talk::connect(&server).await;
        talk.send(request(&server, "POST", EXECUTE, &body)).await;
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), talk.head()).await;
        drop(talk);
    }
    // The last of them may not have been read yet; an answer to a later one says that they have.
    in_time("a result", client.one_shot(&one_shot("python", "1", json!({})))).await.expect("a result");
    before.again(&server).await;
}

#[tokio::test]
async fn a_one_shot_ends_with_its_gateway() {
    let server = Server::start().await;
    let client = server.client();
    let kept = python(&client, json!({})).await;
    let before = Holds::now(&server);
    let streams = [running(&client).await, running(&client).await];
    server.crash_gateway().await;
    // When the next one is ready, they are gone.
    assert_eq!(names(&server), before.names);
    before.again(&server).await;
    drop(streams);
    assert_eq!(client.list(10, 0).await.expect("a list").sessions[0].session_id, kept);
    assert_eq!(run(&client, &kept, "6 * 7").await.result.0.get(), "42");
}

#[tokio::test]
async fn a_one_shot_ends_with_the_server() {
    let mut server = Server::start_with(As::Me, "[edge]\ndrain_s = 1\n").await;
    let before = Holds::now(&server);
    let stream = running(&server.client()).await;
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0), "{}", server.log());
    assert_eq!(names(&server), before.names);
    drop(stream);
}

#[tokio::test]
async fn a_one_shot_that_ends_within_the_drain_is_answered() {
    let mut server = Server::start().await;
    let client = server.client();
    let asked = one_shot("python", "import time\ntime.sleep(1)\n6 * 7", json!({}));
    let before = Holds::now(&server);
    let stopping = async {
        eventually("it runs", || async { (!names(&server).is_empty()).then_some(()) }).await;
        server.signal("TERM");
    };
    let (result, ()) = futures::future::join(client.one_shot(&asked), stopping).await;
    assert_eq!(result.expect("a result").result.0.get(), "42");
    assert_eq!(server.ended().await, Some(0));
    assert_eq!(names(&server), before.names);
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_no_one_shot() {
    let server = Server::start_with(As::Me, "[sessions]\nidle_timeout_s = 1\n").await;
    let before = Holds::now(&server);
    let body = json!({
        "language": "python", "code": "for n in range(9 << 10): print('x' * 1023)",
        "resource_limits": {"max_output_size": 10 << 20},
    });
    let mut talk = Talk::connect(&server).await;
    let accept = "\r\naccept: application/x-ndjson\r\ncontent-type:";
    let asked = request(&server, "POST", EXECUTE, &body.to_string()).replacen("\r\ncontent-type:", accept, 1);
    talk.send(asked).await;
    assert_eq!(talk.head().await.0, 200);
    before.again(&server).await;
    // What comes late is no whole answer.
    let rest = talk.until_closed().await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", rest.len());
}

#[tokio::test]
async fn what_was_to_be_deleted_is_deleted_by_the_next_start() {
    let mut server = Server::start().await;
    let client = server.client();
    let (half, kept) = (python(&client, json!({})).await, python(&client, json!({})).await);
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    // As a gateway leaves it that dies while it deletes.
    std::fs::remove_dir_all(server.data().join("store/sessions").join(half.as_str())).expect("its log goes");
    let changed = database(&server).execute("UPDATE session SET ended_at = 0 WHERE id = ?1", [half.as_str()]);
    assert_eq!(changed.expect("a statement"), 1);
    let server = server.restart().await;
    assert_eq!(traces(&server, &half), Vec::<String>::new());
    assert_eq!(server.client().list(10, 0).await.expect("a list").sessions[0].session_id, kept);
}
