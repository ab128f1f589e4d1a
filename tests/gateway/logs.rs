//! The server's own log: each line of a request's work tells of the request and its session, and no line has a secret.

use repltool::client::Client;
use repltool_protocol::frame::ClientFrame;
use repltool_protocol::rest::{ExecutionRequest, OneShotRequest};
use repltool_protocol::token::BearerToken;
use serde_json::{Value, json};

use crate::harness::{
    As, Server, code, eventually, in_time, python, run, send, session, type_in, until_asked, until_result,
};
use crate::wire::{Reply, ask, ask_as_owner, bearer, local_token, open};

const SESSIONS: &str = "/api/v1/sessions";

/// Everything is written, one JSON object a line.
const ALL: &str = "[log]\nlevel = 'trace'\nformat = 'json'\n[sandbox.standard]\npolicy = 'warn'\n";

fn lines(server: &Server) -> Vec<Value> {
    let log = server.log();
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A field of the spans that a line stands in.
fn of_spans<'a>(line: &'a Value, span: &str, field: &str) -> &'a str {
    let spans = line["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    spans.iter().find(|it| it["name"] == span).and_then(|it| it[field].as_str()).unwrap_or_default()
}

/// The one line of a request with this message.
async fn line_of(server: &Server, request: &str, message: &str) -> Value {
    eventually(message, || async {
        let mut found = lines(server);
        found.retain(|line| line["message"] == message && of_spans(line, "request", "request_id") == request);
        assert!(found.len() < 2, "{found:?}");
        found.pop()
    })
    .await
}

fn request_id(reply: &Reply) -> &str {
    assert!(reply.status < 300, "{reply:?}");
    reply.header("x-request-id")
}

#[tokio::test]
async fn a_line_of_a_request_tells_its_id_and_its_session() {
    let server = Server::start_with(As::Me, ALL).await;
    let created = ask_as_owner(&server, "POST", SESSIONS, r#"{"language": "python"}"#).await;
    let id = created.json()["session_id"].as_str().expect("an id").to_owned();
    let line = line_of(&server, request_id(&created), "created").await;
    assert_eq!(line["session"], id.as_str());

    let code = "import os\ntry: os.execv('/bin/true', ['true'])\nexcept OSError: pass";
    let body = json!({"code": code, "execution_id": "e1"}).to_string();
    let executed = ask_as_owner(&server, "POST", &format!("{SESSIONS}/{id}/execute"), &body).await;
    let request = request_id(&executed);
    let answered = line_of(&server, request, "answered").await;
    assert_eq!(of_spans(&answered, "request", "session"), id);
    assert_eq!((&answered["route"], &answered["status"]), (&json!("/api/v1/sessions/{id}/execute"), &json!(200)));
    let ended = line_of(&server, request, "an execution has ended").await;
    assert_eq!((of_spans(&ended, "execution", "session"), of_spans(&ended, "execution", "execution")), (&*id, "e1"));
    assert_eq!(ended["outcome"], "success");
    let broken = lines(&server);
    let broken: Vec<_> = broken.iter().filter(|line| line["target"] == "repltool::violation").collect();
    let exec = broken.iter().find(|line| line["rule"] == "exec").expect("what Linux refused");
    assert_eq!(of_spans(exec, "request", "request_id"), request, "{exec}");

    let refused = ask(&server, "GET", &format!("{SESSIONS}/{id}"), &[("authorization", "Bearer x")], b"").await;
    let line = line_of(&server, refused.header("x-request-id"), "authentication failed").await;
    assert_eq!((of_spans(&line, "request", "session"), &line["level"]), (&*id, &json!("WARN")));
    assert_eq!(of_spans(&line, "request", "peer"), "127.0.0.1");
}

#[tokio::test]
async fn lines_of_a_session_outlive_the_request_that_created_it() {
    let server = Server::start_with(As::Me, ALL).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    run(&client, &id, "import os; os._exit(1)").await;
    let line = eventually("the loss is told", || async {
        lines(&server).into_iter().find(|line| line["message"] == "interpreter lost")
    })
    .await;
    // It is lost in an execution, and so in the request of that one.
    assert_eq!(of_spans(&line, "execution", "session"), id.as_str());
    client.delete(&id).await.expect("deleted");
}

/// What is planted: no line may hold it.
const CANARY: &str = "canary";

/// Does what there is to do in a language, with a canary in everything that a client chooses.
async fn do_everything(server: &Server, token: &str, language: &str, program: &str) {
    let client = Client::new(&server.url, Some(token)).expect("a client");
    let client = &client;
    let environment = json!({"environment": {"NAME": "canary-environment"}, "working_directory": "canary-folder"});
    let id = session(client, language, environment).await;
    client.write_file(&id, "canary-file", b"canary-content".to_vec()).await.expect("written");
    client.read_file(&id, "canary-file").await.expect("read");
    assert!(client.read_file(&id, "canary-none").await.is_err());
    client.files(&id, "", None).await.expect("listed");
    client.remove_file(&id, "canary-file").await.expect("removed");
    let with_input = ExecutionRequest { stdin: Some("canary-input\n".to_owned()), ..code(program) };
    in_time("an execution", client.execute(&id, &with_input)).await.expect("executed");
    in_time("a completion", client.complete(&id, "canary_c", Some(8))).await.expect("completed");
    in_time("documentation", client.inspect(&id, "canary_i", Some(8))).await.expect("inspected");
    in_time("a judgement", client.is_complete(&id, "canary_j(")).await.expect("judged");
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", program).await;
    socket.send(&ClientFrame::Interrupt { id: None }).await.expect("sent");
    until_result(&mut socket, &execution).await;
    socket.send_text("{\"type\":\"canary-type\"}").await.expect("sent");
    client.restart(&id).await.expect("restarted");
    let owner = bearer(token);
    let headers = [("authorization", owner.as_str()), ("content-type", "application/json")];
    for body in ["{\"canary-field\": 1}", "{\"code\": \"1\", \"timeout_ms\": \"canary-value\"}", "canary-json"] {
        let reply = ask(server, "POST", &format!("{SESSIONS}/{id}/execute"), &headers, body.as_bytes()).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    ask(server, "GET", &format!("{SESSIONS}/{id}/history?canary-query=canary"), &headers, b"").await;
    client.history(&id, 10, 0).await.expect("history");
    client.delete(&id).await.expect("deleted");
}

#[tokio::test]
async fn no_line_of_either_process_has_a_secret_at_any_level() {
    let server = Server::start_with(As::Me, ALL).await;
    let token = server.token("ada", "tool:execute", "1h");
    let client = Client::new(&server.url, Some(&token)).expect("a client");
    let raise =
        "print('canary-output')\nimport sys\nprint('canary-error', file=sys.stderr)\nraise ValueError('canary-x')";
    do_everything(&server, &token, "python", raise).await;
    let throw = "console.log('canary-output'); console.error('canary-error'); throw new Error('canary-x')";
    do_everything(&server, &token, "javascript", throw).await;
    do_everything(&server, &token, "bash", "echo canary-output; echo canary-error >&2; canary-command").await;

    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let asks = send(&mut socket, "e2", "input('canary-prompt') + 'canary'").await;
    until_asked(&mut socket).await;
    type_in(&mut socket, "canary-typed\n").await;
    until_result(&mut socket, &asks).await;
    let fresh = server.token("ada", "tool:execute", "2h");
    socket.send(&ClientFrame::Auth { id: None, token: BearerToken(fresh.clone()) }).await.expect("sent");
    let one_shot: OneShotRequest =
        serde_json::from_value(json!({"language": "python", "code": "'canary-once'"})).expect("a request");
    client.one_shot(&one_shot).await.expect("executed");
    let stolen = token.replace('.', ".x");
    ask(&server, "GET", SESSIONS, &[("authorization", &bearer(&stolen))], b"").await;
    let page = [("sec-websocket-protocol", &*format!("repltool.v1, bearer.{token}"))];
    drop(open(&server, &format!("{SESSIONS}/{id}/ws"), &page).await.expect("a socket"));
    server.crash_gateway().await;
    run(&client, &id, "'canary-again'").await;

    let log = server.log();
    let key = std::fs::read_to_string(server.data().join("signing.key")).expect("the key");
    let local = local_token(&server);
    let signature = |token: &str| token.rsplit('.').next().expect("a signature").to_owned();
    let signatures = [&token, &fresh, &stolen, &local].map(|token| signature(token));
    let secrets: Vec<&str> = signatures.iter().map(String::as_str).chain([CANARY, key.trim()]).collect();
    let told: Vec<_> = log.lines().filter(|line| secrets.iter().any(|secret| line.contains(secret))).collect();
    assert!(told.is_empty(), "{told:#?}");
    let lines = lines(&server);
    let levels = ["TRACE", "DEBUG", "INFO", "WARN"];
    assert!(lines.len() > 100 && levels.iter().all(|level| lines.iter().any(|line| line["level"] == *level)));
}
