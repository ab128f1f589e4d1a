//! What an editor asks an interpreter: completion, documentation, whether an input is finished.

use repltool::client::Socket;
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::RequestId;
use repltool_protocol::query::{CompletenessStatus, Reply};
use repltool_protocol::rest::{MAX_CODE_CHARS, ProblemCode};
use serde_json::json;

use super::harness::{Server, frame, run, session};
use super::wire::{ask, ask_as_owner, bearer, local_token, open_as};

fn name(id: &str) -> RequestId {
    id.parse().expect("an id")
}

/// Asks over a socket; events are passed over.
async fn reply(socket: &mut Socket, question: &ClientFrame) -> Reply {
    socket.send(question).await.expect("the frame is sent");
    loop {
        match frame(socket).await {
            ServerFrame::Notice(Notice::Reply { reply, .. }) => return reply,
            ServerFrame::Notice(Notice::Problem { detail, .. }) => panic!("{question:?}: {detail}"),
            _ => {}
        }
    }
}

/// Code, what could complete it, and what completes it.
const COMPLETIONS: [(&str, &str, &str, &str); 3] = [
    ("python", "zebra_crossing = [7]", "x = zebra_cr", "zebra_crossing"),
    ("javascript", "var zebraCrossing = [7]", "x = zebraCr", "zebraCrossing"),
    ("bash", "zebra_crossing=7", "echo $zebra_cr", "zebra_crossing"),
];

#[tokio::test]
async fn interpreters_complete_what_they_know() {
    let server = Server::start().await;
    for (language, define, half, whole) in COMPLETIONS {
        let client = server.client();
        let id = session(&client, language, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        assert!(run(&client, &id, define).await.success);
        let end = half.chars().count() as u64;
        let completion = client.complete(&id, half, None).await.expect("an answer");
        assert!(completion.matches.iter().any(|it| it.contains(whole)), "{language}: {completion:?}");
        assert!(completion.cursor_start < completion.cursor_end && completion.cursor_end == end, "{completion:?}");
        // A cursor counts code points, and what follows it is not asked about.
        let later = format!("{half}\n# 😀é");
        assert_eq!(client.complete(&id, &later, Some(end)).await.expect("an answer"), completion, "{language}");
        let question = ClientFrame::Complete { id: name("q1"), code: later, cursor: Some(end) };
        assert_eq!(reply(&mut socket, &question).await, Reply::Complete(completion), "{language}");
        client.restart(&id).await.expect("restarted");
        let gone = client.complete(&id, half, None).await.expect("an answer");
        assert!(!gone.matches.iter().any(|it| it.contains(whole)), "{language}: {gone:?}");
    }
}

#[tokio::test]
async fn interpreters_explain_and_judge() {
    let server = Server::start().await;
    for (language, known, unfinished, wrong) in [
        ("python", "len", "def f():", "x = = 1"),
        ("javascript", "parseInt", "function f() {", "let let = = 1"),
        ("bash", "cd", "if true; then", "fi fi )"),
    ] {
        let client = server.client();
        let id = session(&client, language, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let inspection = client.inspect(&id, known, None).await.expect("an answer");
        assert!(inspection.found && inspection.data["text/plain"].len() > 2, "{language}: {inspection:?}");
        let question = ClientFrame::Inspect { id: name("q1"), code: known.to_owned(), cursor: None };
        assert_eq!(reply(&mut socket, &question).await, Reply::Inspect(inspection), "{language}");
        let unknown = client.inspect(&id, "no_such_thing_anywhere", None).await.expect("an answer");
        assert!(!unknown.found, "{language}: {unknown:?}");
        for (text, status) in [
            (known, CompletenessStatus::Complete),
            (unfinished, CompletenessStatus::Incomplete),
            (wrong, CompletenessStatus::Invalid),
        ] {
            let judged = client.is_complete(&id, text).await.expect("an answer");
            assert_eq!(judged.status, status, "{language}: {text}: {judged:?}");
            let question = ClientFrame::IsComplete { id: name("q2"), code: text.to_owned(), cursor: None };
            assert_eq!(reply(&mut socket, &question).await, Reply::IsComplete(judged), "{language}: {text}");
        }
        assert_eq!(client.get(&id).await.expect("the session").expression_count, 0, "a question is no execution");
    }
}

#[tokio::test]
async fn wrong_questions_are_refused_by_name() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let shell = session(&client, "bash", json!({})).await;
    let long = json!({"code": "x".repeat(MAX_CODE_CHARS + 1)}).to_string();
    for route in ["complete", "inspect", "is_complete"] {
        let path = format!("/api/v1/sessions/{id}/{route}");
        for (body, field) in [
            ("{}", "code"),
            (r#"{"code":1}"#, "code"),
            (r#"{"code":"é😀","cursor":3}"#, "cursor"),
            (r#"{"code":"x","cursor":-1}"#, "cursor"),
            (r#"{"code":"x","cursor":"end"}"#, "cursor"),
            (r#"{"code":"x","id":"q1"}"#, "id"),
            (&long, "code"),
        ] {
            let problem = ask_as_owner(&server, "POST", &path, body).await.problem(ProblemCode::InvalidRequest);
            assert_eq!(problem.errors[0].field, field, "{route}");
        }
        let shell = format!("/api/v1/sessions/{shell}/{route}");
        let problem = ask_as_owner(&server, "POST", &shell, r#"{"code":"a\u0000"}"#).await;
        assert_eq!(problem.problem(ProblemCode::InvalidRequest).errors[0].field, "code", "{route}");
        let reader = bearer(&server.token("local", "session:read", "1h"));
        let headers = [("authorization", reader.as_str()), ("content-type", "application/json")];
        ask(&server, "POST", &path, &headers, br#"{"code":"x"}"#).await.problem(ProblemCode::Forbidden);
        let missing = path.replace(id.as_str(), "ABCDEFGH");
        ask_as_owner(&server, "POST", &missing, r#"{"code":"x"}"#).await.problem(ProblemCode::NotFound);
    }
    let mut socket =
        open_as(&server, &format!("/api/v1/sessions/{id}/ws"), &local_token(&server)).await.expect("a socket");
    socket.send(r#"{"type":"inspect","id":"q1","code":"x","cursor":2}"#).await;
    let problem = socket.next_of("problem").await;
    assert_eq!((&problem["id"], &problem["errors"][0]["field"]), (&json!("q1"), &json!("cursor")), "{problem}");
    // An empty input can be asked about as well.
    client.is_complete(&id, "").await.expect("an answer");
}

#[tokio::test]
async fn questions_that_wait_are_in_nobodys_way() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let mut socket =
        open_as(&server, &format!("/api/v1/sessions/{id}/ws"), &local_token(&server)).await.expect("a socket");
    socket.next_of("ready").await;
    socket.send(r#"{"type":"execute","id":"e1","code":"print('runs')\nwhile True: pass"}"#).await;
    socket.next_of("stream").await;
    for n in 0..40 {
        socket.send(format!(r#"{{"type":"complete","id":"q{n}","code":"pri"}}"#)).await;
    }
    socket.send(r#"{"type":"ping","id":"p"}"#).await;
    socket.send(r#"{"type":"interrupt"}"#).await;
    let (mut answered, mut ponged, mut ended) = (0, false, false);
    while answered < 40 || !ponged || !ended {
        let message = socket.next().await.expect("a message");
        match message["type"].as_str().expect("a type") {
            "reply" => answered += 1,
            "problem" => {
                assert_eq!(message["code"], "busy", "{message}");
                answered += 1;
            }
            "pong" => ponged = true,
            "result" => ended = true,
            _ => {}
        }
    }
    assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
}
