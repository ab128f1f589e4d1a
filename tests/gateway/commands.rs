//! Sessions that stay, as people and scripts make, use, watch and end them from the command line.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::cli::{assert_output, assert_says, output_of, repltool};
use crate::harness::{Server, in_time, kill, python, run};

/// The binary with these arguments, as a client of this server.
fn client_of(server: &Server, arguments: &[&str]) -> Command {
    let mut command = repltool(arguments);
    command.arg("--data-dir").arg(server.data());
    command
}

async fn ask(server: &Server, arguments: &[&str]) -> Output {
    output_of(client_of(server, arguments)).await
}

/// What a command prints as JSON.
async fn ask_json(server: &Server, arguments: &[&str]) -> Value {
    let output = ask(server, &[arguments, &["--output", "json"]].concat()).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""), "{arguments:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

/// Makes a session; gives its id.
async fn create(server: &Server, arguments: &[&str]) -> String {
    let output = ask(server, &[&["create"], arguments].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.strip_suffix('\n').expect("one line").to_owned()
}

#[tokio::test]
async fn a_session_is_created_used_listed_and_terminated_by_commands() {
    let server = Server::start().await;
    let id = create(&server, &["--language", "bash", "--max-cpu-time", "10", "--max-memory", "128"]).await;
    let first = ask(&server, &["execute", "--session", &id, "-c", "name=Ada; echo $name"]).await;
    assert_output(&first, 0, "Ada\n", "");
    let again = ask(&server, &["execute", "--session", &id, "-c", "echo \"still $name\"; false"]).await;
    assert_output(&again, 1, "still Ada\n", "");

    let listed = ask_json(&server, &["sessions"]).await;
    let session = &listed["sessions"][0];
    assert_eq!(
        (&listed["total"], &session["session_id"], &session["language"]),
        (&json!(1), &json!(id), &json!("bash"))
    );
    assert_eq!(session["resource_limits"]["max_cpu_time"], 10);
    assert_eq!(session["resource_limits"]["max_memory_mb"], 128);
    let table = String::from_utf8(ask(&server, &["sessions"]).await.stdout).expect("text");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].contains("LANGUAGE") && lines.len() == 2, "{table}");
    assert!(lines[1].starts_with(&id) && lines[1].contains("bash") && lines[1].contains(" 2 "), "{table}");

    assert_output(&ask(&server, &["terminate", &id]).await, 0, "", "");
    assert_eq!(ask_json(&server, &["sessions"]).await["total"], 0);
}

#[tokio::test]
async fn history_tells_code_and_outcome() {
    let server = Server::start().await;
    let id = create(&server, &["--output", "text"]).await;
    ask(&server, &["execute", "--session", &id, "-c", "x = 1\nx"]).await;
    ask(&server, &["execute", "--session", &id, "-c", "1 / 0"]).await;
    ask(&server, &["execute", "--session", &id, "--timeout", "0.3", "-c", "while True: pass"]).await;
    let told = String::from_utf8(ask(&server, &["history", &id]).await.stdout).expect("text");
    let heads: Vec<&str> = told.lines().filter(|line| line.starts_with('[')).collect();
    assert!(heads[0].starts_with("[1] ") && heads[0].contains("  ok, "), "{told}");
    assert!(heads[1].starts_with("[2] ") && heads[1].contains("  failed, "), "{told}");
    assert!(heads[2].contains("  failed: wall_time, "), "{told}");
    assert!(told.contains("\n    x = 1\n    x\n"), "{told}");

    let history = ask_json(&server, &["history", &id]).await;
    assert_eq!((&history["total"], &history["executions"][1]["code"]), (&json!(3), &json!("1 / 0")));
    assert_says(&ask(&server, &["history", "abcdefghij"]).await, &["no such session"]);
}

/// After this long something is tried once more.
const SHORTLY: Duration = Duration::from_millis(300);

/// A command that prints lines and goes on, such as `attach`.
fn lines_of(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().expect("its standard output")).lines()
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    in_time("a line", lines.next_line()).await.expect("readable").expect("not the end")
}

#[tokio::test]
async fn attach_shows_what_happens_from_now_on_or_from_any_event() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let id = session.as_str();
    run(&client, &session, "print('before')").await;

    let mut whole = client_of(&server, &["attach", id, "--from-start", "--output", "json"]).spawn().expect("it starts");
    let mut whole_lines = lines_of(&mut whole);
    let first: Value = serde_json::from_str(&line(&mut whole_lines).await).expect("an event");
    assert_eq!((&first["type"], &first["seq"]), (&json!("queued"), &json!(1)));
    let mut later = client_of(&server, &["attach", id]).spawn().expect("it starts");
    let mut later_lines = lines_of(&mut later);
    // Nothing tells from outside when it is attached: what it shows first is what is printed from then on.
    let shown = in_time("output of an attached session", async {
        loop {
            run(&client, &session, "print('after'); 6 * 7").await;
            // One that is attached in the middle of an execution shows the rest of that.
            match tokio::time::timeout(SHORTLY, later_lines.next_line()).await {
                Ok(line) if matches!(&line, Ok(Some(rest)) if rest == "42") => {}
                Ok(line) => return line.expect("readable").expect("not the end"),
                Err(_) => {}
            }
        }
    })
    .await;
    assert_eq!(shown, "after", "and not what was before");
    assert_eq!(line(&mut later_lines).await, "42");
    loop {
        let event: Value = serde_json::from_str(&line(&mut whole_lines).await).expect("an event");
        if event["data"] == "before\n" {
            break;
        }
    }

    kill(later.id().expect("it runs"), "INT");
    assert_eq!(in_time("its end", later.wait()).await.expect("it ends").code(), Some(130));
    assert_eq!(run(&client, &session, "'still there'").await.result_text.as_deref(), Some("'still there'"));
    client.delete(&session).await.expect("it is terminated");
    assert_eq!(in_time("its end", whole.wait()).await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn attach_comes_back_after_a_crash_of_the_gateway_and_misses_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    let mut child = client_of(&server, &["attach", session.as_str(), "--from-start"]).spawn().expect("it starts");
    let mut lines = lines_of(&mut child);
    run(&client, &session, "print('one')").await;
    assert_eq!(line(&mut lines).await, "one");
    server.crash_gateway().await;
    run(&server.client(), &session, "print('two')").await;
    assert_eq!(line(&mut lines).await, "two");
    server.client().delete(&session).await.expect("it is terminated");
    let ended = in_time("its end", child.wait_with_output()).await.expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("broke off") && said.contains("connected again"), "{said}");
    assert_eq!(ended.status.code(), Some(0), "{said}");
}

#[tokio::test]
async fn interrupt_ends_what_runs_and_restart_gives_a_fresh_interpreter() {
    let server = Server::start().await;
    let id = create(&server, &[]).await;
    let text = "x = 1\nprint('now')\nwhile True: pass";
    let mut child = client_of(&server, &["execute", "--session", &id, "-c", text]).spawn().expect("it starts");
    assert_eq!(line(&mut lines_of(&mut child)).await, "now");
    assert_output(&ask(&server, &["interrupt", &id]).await, 0, "", "");
    assert_eq!(in_time("its end", child.wait()).await.expect("it ends").code(), Some(1));
    assert_output(&ask(&server, &["execute", "--session", &id, "-c", "x"]).await, 0, "1\n", "");

    let fresh = ask_json(&server, &["restart", &id]).await;
    assert_eq!(fresh["session_id"], json!(id));
    assert_eq!(ask(&server, &["execute", "--session", &id, "-c", "x"]).await.status.code(), Some(1));
    let idle = ask_json(&server, &["interrupt", &id, "--execution", "unknown"]).await;
    assert_eq!(idle["session_id"], json!(id), "nothing to interrupt is no fault");
}

#[tokio::test]
async fn ctrl_c_on_an_execution_in_a_lasting_session_interrupts_it_and_leaves_the_session() {
    let server = Server::start().await;
    let id = create(&server, &[]).await;
    let text = "kept = 'yes'\nprint('now')\nwhile True: pass";
    let mut child = client_of(&server, &["execute", "--session", &id, "-c", text]).spawn().expect("it starts");
    assert_eq!(line(&mut lines_of(&mut child)).await, "now");
    kill(child.id().expect("it runs"), "INT");
    assert_eq!(in_time("its end", child.wait()).await.expect("it ends").code(), Some(130));
    assert_output(&ask(&server, &["execute", "--session", &id, "-c", "kept"]).await, 0, "'yes'\n", "");
}

#[tokio::test]
async fn terminate_takes_many_and_names_those_that_are_not_there() {
    let server = Server::start().await;
    let (one, two) = (create(&server, &[]).await, create(&server, &["--language", "javascript"]).await);
    let output = ask(&server, &["terminate", &one, "abcdefghij", &two, "--output", "json"]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("abcdefghij") && !said.contains(&one), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(answer, json!({ "terminated": [one, two] }));
    assert_eq!(ask_json(&server, &["sessions"]).await["total"], 0);
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_fault_and_leaves_no_session() {
    let server = Server::start().await;
    let text = "for n in range(10 ** 9): print(n)";
    let mut command = client_of(&server, &["execute", "--max-output", "10485760", "-c", text]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    assert_eq!(line(&mut lines_of(&mut child)).await, "0");
    let ended = in_time("its end", child.wait_with_output()).await.expect("it ends");
    assert_output(&ended, 141, "", "");
    assert_eq!(server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
}

#[tokio::test]
async fn wrong_usage_has_an_exit_code_of_its_own() {
    for wrong in [
        &["attach"][..],
        &["attach", "no-id"],
        &["terminate"],
        &["sessions", "--output", "xml"],
        &["execute", "--session", "abcdefgh", "--language", "bash", "-c", "1"],
        &["execute", "a.py", "-c", "1"],
        &["interactive", "--language", "perl"],
    ] {
        assert_eq!(output_of(repltool(wrong)).await.status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_script_is_named_with_or_without_a_flag() {
    let server = Server::start().await;
    let file = server.dir.path().join("script.js");
    std::fs::write(&file, "console.log([1, 2].map(n => n * 2))\n").expect("the file is written");
    let file = file.to_str().expect("a path");
    for arguments in [&["execute", file][..], &["execute", "--file", file]] {
        let output = ask(&server, &[arguments, &["--language", "javascript"]].concat()).await;
        assert_output(&output, 0, "[ 2, 4 ]\n", "");
    }
}
