//! Displays, questions and input around a crash of the gateway: each comes once, at its place.

use repltool_protocol::event::{Event, StreamName};
use repltool_protocol::ids::Seq;
use serde_json::json;

use super::harness::{
    Server, code, end_input, eventually, in_time, outcome, printed, python, run, send, session, type_in, until_asked,
    until_printed, until_result,
};

#[tokio::test]
async fn displays_around_crashes_come_once_and_in_their_place() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        (
            "python",
            "import time\nfor i in range(150):\n    print(i)\n    display({'text/plain': str(i)}, raw=True)\n    time.sleep(0.01)",
        ),
        (
            "javascript",
            "for (let i = 0; i < 150; i++) { console.log(i); display({'text/plain': String(i)}); await new Promise(r => setTimeout(r, 10)) }",
        ),
    ] {
        let id = session(&client, language, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let execution = send(&mut socket, "shows", text).await;
        until_printed(&mut socket).await;
        for _ in 0..2 {
            server.crash_gateway().await;
        }
        let mut socket = client.attach(&id, Some(Seq(0))).await.expect("a socket");
        let events = in_time("the result", until_result(&mut socket, &execution)).await;
        assert!(outcome(&events).success, "{language}: {:?}", outcome(&events));
        let mut told = String::new();
        for event in &events {
            match &event.event {
                Event::Stream { data, .. } => told += data,
                Event::Display { data, .. } => told += &format!("[{}]", data["text/plain"].as_str().expect("text")),
                _ => {}
            }
        }
        let expected: String = (0..150).map(|i| format!("{i}\n[{i}]")).collect();
        assert_eq!(told, expected, "{language}");
    }
}

#[tokio::test]
async fn a_program_that_waits_for_input_gets_it_by_the_next_gateway() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text) in [
        ("python", "print('hello', input('who? '))"),
        (
            "javascript",
            "const rl = require('readline/promises').createInterface({input: process.stdin}); console.log('hello', await rl.question('who? '))",
        ),
    ] {
        let id = session(&client, language, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let execution = send(&mut socket, "asks", text).await;
        until_asked(&mut socket).await;
        server.crash_gateway().await;
        let mut socket = client.attach(&id, Some(Seq(0))).await.expect("a socket");
        let asked = until_asked(&mut socket).await;
        assert_eq!(asked.iter().filter(|it| matches!(it.event, Event::InputRequest { .. })).count(), 1, "{language}");
        type_in(&mut socket, "Ada\n").await;
        let events = in_time("the result", until_result(&mut socket, &execution)).await;
        assert_eq!(printed(&events, StreamName::Stdout), "hello Ada\n", "{language}");
    }
}

#[tokio::test]
async fn bash_that_reads_gets_it_by_the_next_gateway() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "bash", json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "reads", "echo go; cat | tr a-z A-Z").await;
    until_printed(&mut socket).await;
    // What was accepted; what is still on its way in a socket dies with its gateway.
    client.stdin(&id, Some("before "), false).await.expect("taken");
    server.crash_gateway().await;
    let mut socket = client.attach(&id, Some(Seq(0))).await.expect("a socket");
    eventually("it is taken", || async { client.stdin(&id, Some("after"), false).await.is_ok().then_some(()) }).await;
    end_input(&mut socket).await;
    let events = in_time("the result", until_result(&mut socket, &execution)).await;
    assert_eq!(printed(&events, StreamName::Stdout), "go\nBEFORE AFTER");
}

#[tokio::test]
async fn files_and_questions_work_with_the_next_gateway() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "kept_variable = 1\n_ = open('kept', 'w').write('here')").await;
    server.crash_gateway().await;
    assert_eq!(in_time("a file", client.read_file(&id, "kept")).await.expect("read"), &b"here"[..]);
    let completion = in_time("an answer", client.complete(&id, "kept_v", None)).await.expect("an answer");
    assert_eq!(completion.matches, ["kept_variable"]);
    assert!(client.execute(&id, &code("kept_variable")).await.expect("served").success);
}

#[tokio::test]
async fn an_interpreter_that_does_not_answer_the_next_gateway_is_given_up() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let stop = "import os, threading\nthreading.Timer(0.2, os.kill, (os.getpid(), 19)).start()";
    assert!(run(&client, &id, stop).await.success);
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    server.crash_gateway().await;
    let waited = run(&client, &id, "1").await;
    assert_eq!(waited.exception.map(|it| it.name).as_deref(), Some("StateLost"));
    let next = run(&client, &id, "6 * 7").await;
    assert_eq!((next.result.0.get(), next.state_lost), ("42", true));
}
