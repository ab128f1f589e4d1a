//! What a program asks its user, and what it shows besides text: in Python, JavaScript and Bash, over sockets and HTTP.

use futures::future::join;
use repltool::client::{Client, Socket};
use repltool_protocol::event::{Event, LoggedEvent, StreamName};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Display, ExecutionRequest, ExecutionResult, ProblemCode};
use serde_json::json;

use super::harness::{
    Server, assert_log, code, end_input, exception, frame, in_time, named, outcome, printed, run, run_for, send,
    session, type_in, until_asked, until_printed, until_result,
};
use super::wire::ask_as_owner;

/// A question by readline, whose answer is `answer`.
const READLINE: &str = "const readline = require('readline')\n\
    var io = readline.createInterface({input: process.stdin, output: process.stdout})\n\
    var answer = await new Promise(resolve => io.question('name? ', resolve))\n\
    io.close()\n";

fn greeting(language: &str) -> String {
    match language {
        "python" => "name = input('name? ')\nprint('hello', name)".to_owned(),
        "javascript" => format!("{READLINE}console.log('hello', answer)"),
        _ => "read -r name; echo \"hello $name\"".to_owned(),
    }
}

/// The prompt and the secrecy of the question that is the last of these events.
fn question(events: &[LoggedEvent]) -> (&str, bool) {
    match &events.last().expect("events").event {
        Event::InputRequest { prompt, password, .. } => (prompt, *password),
        other => panic!("no question: {other:?}"),
    }
}

async fn attached(server: &Server, language: &str) -> (Client, SessionId, Socket) {
    let client = server.client();
    let id = session(&client, language, json!({})).await;
    let socket = client.attach(&id, None).await.expect("a socket");
    (client, id, socket)
}

async fn with_stdin(client: &Client, session: &SessionId, stdin: &str, text: &str) -> ExecutionResult {
    let request = ExecutionRequest { stdin: Some(stdin.to_owned()), ..code(text) };
    in_time(text, client.execute(session, &request)).await.expect("the request is served")
}

#[tokio::test]
async fn a_question_is_answered_over_the_socket() {
    let server = Server::start().await;
    for language in ["python", "javascript"] {
        let (_, _, mut socket) = attached(&server, language).await;
        for (n, name) in ["Ada", "Zoë 😀"].into_iter().enumerate() {
            let id = send(&mut socket, &format!("e{n}"), &greeting(language)).await;
            let mut events = until_asked(&mut socket).await;
            assert_eq!(question(&events), ("name? ", false), "{language}");
            type_in(&mut socket, &format!("{name}\n")).await;
            events.extend(until_result(&mut socket, &id).await);
            assert!(outcome(&events).success, "{language}: {events:?}");
            assert_eq!(
                printed(&events, StreamName::Stdout),
                format!("hello {name}\n"),
                "{language}: no prompt, no echo"
            );
            assert_log(&events);
        }
    }
}

#[tokio::test]
async fn a_shell_reads_what_frames_bring() {
    let server = Server::start().await;
    let (_, _, mut socket) = attached(&server, "bash").await;
    let id = send(&mut socket, "e1", &format!("echo ready; {}; read -r -n 3 x; echo \"$x\"", greeting("bash"))).await;
    until_printed(&mut socket).await;
    // In pieces, and more than one line at once.
    type_in(&mut socket, "A").await;
    type_in(&mut socket, "da\nabc").await;
    let events = until_result(&mut socket, &id).await;
    assert_eq!(printed(&events, StreamName::Stdout), "hello Ada\nabc\n");
    assert!(events.iter().all(|it| !matches!(it.event, Event::InputRequest { .. })), "{events:?}");
    // Children read it too, up to its end.
    let id = send(&mut socket, "e2", "echo ready; sort").await;
    until_printed(&mut socket).await;
    type_in(&mut socket, "b\na\n").await;
    end_input(&mut socket).await;
    assert_eq!(printed(&until_result(&mut socket, &id).await, StreamName::Stdout), "a\nb\n");
}

#[tokio::test]
async fn a_question_is_answered_by_post() {
    let server = Server::start().await;
    let client = server.client();
    for language in ["python", "javascript"] {
        let id = session(&client, language, json!({})).await;
        let mut events = client.execute_live(&id, &code(&greeting(language))).await.expect("events");
        let mut told = Vec::new();
        while let Some(frame) = in_time("an event", events.next()).await.expect("readable") {
            let ServerFrame::Event(event) = frame else { panic!("{frame:?}") };
            if matches!(event.event, Event::InputRequest { .. }) {
                client.stdin(&id, Some("Ada\n"), false).await.expect("accepted");
            }
            told.push(event);
        }
        assert_eq!(printed(&told, StreamName::Stdout), "hello Ada\n", "{language}: {told:?}");
        let refused = client.stdin(&id, Some("x"), false).await.expect_err("nothing runs");
        assert_eq!(refused.problem().expect("a problem").code, ProblemCode::Conflict);
    }
}

#[tokio::test]
async fn what_is_asked_for_a_password_is_hidden() {
    let server = Server::start().await;
    let (_, _, mut socket) = attached(&server, "python").await;
    let id = send(&mut socket, "e1", "import getpass\nlen(getpass.getpass('secret: '))").await;
    assert_eq!(question(&until_asked(&mut socket).await), ("secret: ", true));
    type_in(&mut socket, "hunter2\n").await;
    let events = until_result(&mut socket, &id).await;
    assert_eq!(outcome(&events).result.0.get(), "7", "{events:?}");
    assert_eq!(printed(&events, StreamName::Stdout) + &printed(&events, StreamName::Stderr), "");
}

#[tokio::test]
async fn an_end_ends_one_execution_only() {
    let server = Server::start().await;
    for (language, counts) in [
        ("python", "import sys\nprint('ready')\nprint(len(list(sys.stdin)))"),
        (
            "javascript",
            "console.log('ready')\nvar lines = require('readline').createInterface({input: process.stdin})\n\
             var n = 0\nfor await (const line of lines) n++\nconsole.log(n)",
        ),
        ("bash", "echo ready; wc -l"),
    ] {
        let (_, _, mut socket) = attached(&server, language).await;
        for round in 0..2 {
            let id = send(&mut socket, &format!("e{round}"), counts).await;
            until_printed(&mut socket).await;
            type_in(&mut socket, "one\ntwo\n").await;
            end_input(&mut socket).await;
            let events = until_result(&mut socket, &id).await;
            let lines: Vec<_> = printed(&events, StreamName::Stdout).lines().map(str::to_owned).collect();
            assert_eq!(lines.last().map(|it| it.trim()), Some("2"), "{language}: {events:?}");
        }
    }
    let (_, _, mut socket) = attached(&server, "python").await;
    let id = send(&mut socket, "end", "input('? ')").await;
    until_asked(&mut socket).await;
    end_input(&mut socket).await;
    assert_eq!(exception(outcome(&until_result(&mut socket, &id).await)), "EOFError");
}

#[tokio::test]
async fn stdin_in_the_request_is_all_there_is() {
    let server = Server::start().await;
    let client = server.client();
    let long = "é\n".repeat(200_000);
    for (language, echo) in [
        ("python", "import sys; sys.stdout.write(sys.stdin.read())"),
        ("javascript", "process.stdout.write(require('fs').readFileSync(0, 'utf8')); undefined"),
        ("bash", "cat"),
    ] {
        let id = session(&client, language, json!({})).await;
        for stdin in ["", "one line\n", "no end", &long] {
            let result = with_stdin(&client, &id, stdin, echo).await;
            assert!(result.output == stdin, "{language}: {} of {} bytes", result.output.len(), stdin.len());
            assert!(result.success, "{language}: {}", result.error);
        }
        // What is not read is not there for the next one, nor in its way.
        assert!(with_stdin(&client, &id, &long, if language == "bash" { ":" } else { "1" }).await.success);
        assert_eq!(with_stdin(&client, &id, "next", echo).await.output, "next", "{language}");
    }
    let id = session(&client, "python", json!({})).await;
    let result = with_stdin(&client, &id, "Ada\n", "print('hello', input('name? '))").await;
    assert_eq!(result.output, "name? hello Ada\n", "with its input at hand a program asks nobody");
}

#[tokio::test]
async fn whoever_waits_for_the_result_is_not_asked() {
    let server = Server::start().await;
    let client = server.client();
    for (language, text, output) in [
        ("python", "try: input('name? ')\nexcept EOFError: print('end')", "name? end\n"),
        ("javascript", "console.log(require('fs').readFileSync(0).length)", "0\n"),
        ("bash", "read -r x || echo end", "end\n"),
        ("shell", "cat; echo end", "end\n"),
    ] {
        let id = session(&client, language, json!({})).await;
        let result = run_for(&client, &id, 10_000, text).await;
        assert_eq!((result.output.as_str(), result.limit), (output, None), "{language}: {result:?}");
        // It reads no more than that when somebody else is there to answer.
        let _socket = client.attach(&id, None).await.expect("a socket");
        assert_eq!(run_for(&client, &id, 10_000, text).await.output, output, "{language}");
    }
}

#[tokio::test]
async fn input_that_nothing_reads_is_refused() {
    let server = Server::start().await;
    let (client, id, mut socket) = attached(&server, "python").await;
    let path = format!("/api/v1/sessions/{id}/stdin");
    for body in [r#"{"data":"x"}"#, r#"{"eof":true}"#, r#"{"data":"x","eof":true}"#] {
        ask_as_owner(&server, "POST", &path, body).await.problem(ProblemCode::Conflict);
    }
    for (body, field) in [
        ("{}", "data"),
        (r#"{"eof":false}"#, "data"),
        (r#"{"data":1}"#, "data"),
        (r#"{"data":"x","id":"e1"}"#, "id"),
        (r#"{"eof":null}"#, "eof"),
    ] {
        let problem = ask_as_owner(&server, "POST", &path, body).await.problem(ProblemCode::InvalidRequest);
        assert_eq!(problem.errors[0].field, field, "{body}");
    }
    type_in(&mut socket, "x").await;
    loop {
        match frame(&mut socket).await {
            ServerFrame::Notice(Notice::Problem { id: None, code: ProblemCode::Conflict, .. }) => break,
            ServerFrame::Notice(Notice::Ready { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    // What runs takes it, whether it reads or not; what it leaves is gone with it.
    let waits = send(&mut socket, "e1", "print('runs')\nimport time; time.sleep(600)").await;
    until_printed(&mut socket).await;
    let reply = ask_as_owner(&server, "POST", &path, r#"{"data":"left over\n"}"#).await;
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    client.interrupt(&id, Some(&waits)).await.expect("accepted");
    until_result(&mut socket, &waits).await;
    let fresh = send(&mut socket, "e2", "input()").await;
    until_asked(&mut socket).await;
    type_in(&mut socket, "fresh\n").await;
    assert_eq!(outcome(&until_result(&mut socket, &fresh).await).result.0.get(), "\"fresh\"");
}

#[tokio::test]
async fn a_program_that_waits_can_be_interrupted_and_replaced() {
    let server = Server::start().await;
    for language in ["python", "javascript"] {
        let (client, id, mut socket) = attached(&server, language).await;
        let waits = send(&mut socket, "e1", &greeting(language)).await;
        until_asked(&mut socket).await;
        client.interrupt(&id, None).await.expect("accepted");
        let events = until_result(&mut socket, &waits).await;
        assert!(!outcome(&events).success && !outcome(&events).state_lost, "{language}: {events:?}");
        let waits = send(&mut socket, "e2", &greeting(language)).await;
        until_asked(&mut socket).await;
        let (restarted, events) = join(client.restart(&id), until_result(&mut socket, &waits)).await;
        restarted.expect("restarted");
        assert_eq!(exception(outcome(&events)), "StateLost", "{language}");
        let again = send(&mut socket, "e3", &greeting(language)).await;
        until_asked(&mut socket).await;
        type_in(&mut socket, "Ada\n").await;
        let events = until_result(&mut socket, &again).await;
        assert_eq!(printed(&events, StreamName::Stdout), "hello Ada\n", "{language}");
    }
}

#[tokio::test]
async fn displays_stand_in_their_place() {
    let server = Server::start().await;
    for (language, text) in [
        (
            "python",
            "for n in range(3):\n    print('before', n)\n    display({'text/html': f'<b>{n}</b>'}, raw=True)\nprint('end')",
        ),
        (
            "javascript",
            "for (let n = 0; n < 3; n++) { console.log('before', n); display({'text/html': `<b>${n}</b>`}) }\nconsole.log('end')",
        ),
    ] {
        let (client, session, mut socket) = attached(&server, language).await;
        let id = send(&mut socket, "e1", text).await;
        let events = until_result(&mut socket, &id).await;
        assert_log(&events);
        let mut told = String::new();
        let mut displays = Vec::new();
        for logged in &events {
            match &logged.event {
                Event::Stream { data, .. } => told += data,
                Event::Display { id: shown, data, metadata } => {
                    assert_eq!(shown.as_ref(), Some(&id));
                    told += &format!("[{}]\n", data["text/html"].as_str().expect("text"));
                    displays.push(Display { data: data.clone(), metadata: metadata.clone() });
                }
                _ => {}
            }
        }
        let expected: String = (0..3).map(|n| format!("before {n}\n[<b>{n}</b>]\n")).collect();
        assert_eq!(told, expected + "end\n", "{language}");
        // Whoever waits for the result gets them in it.
        let result = in_time("a result", client.execute(&session, &named("e1", text))).await.expect("a result");
        assert_eq!((result.display.len(), &result.display), (3, &displays), "{language}");
        assert_eq!(result.output, "before 0\nbefore 1\nbefore 2\nend\n");
    }
    let client = server.client();
    let bash = session(&client, "bash", json!({})).await;
    assert_eq!(run(&client, &bash, "echo text").await.display, []);
}

#[tokio::test]
async fn figures_and_tables_are_shown_and_leave_no_files() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "python", json!({})).await;
    let plot = "import matplotlib.pyplot as plt\nplt.title('é')\nplt.plot([1, 4, 9])\nplt.show()\nprint('shown')";
    let request = ExecutionRequest { timeout_ms: Some(60_000), ..code(plot) };
    let result = client.execute(&id, &request).await.expect("served");
    assert!(result.success, "{result:?}");
    assert_eq!((result.output.as_str(), result.error.as_str()), ("shown\n", ""));
    let png = result.display[0].data["image/png"].as_str().expect("base64");
    assert!(png.starts_with("iVBORw0KGgo") && result.display.len() == 1, "{png:.40}");
    let table = run(&client, &id, "import pandas\npandas.DataFrame({'a': [1, 2]})").await;
    let html = table.display[0].data["text/html"].as_str().expect("HTML");
    assert!(html.contains("<table") && table.result_text.is_some(), "{html}");
    assert!(client.files(&id, "", None).await.expect("a list").files.is_empty(), "caches lie elsewhere");
}
