//! What holds for every language alike: streams, state, interrupts, timeouts, restarts, crashes of the gateway.

use repltool::client::Client;
use repltool_protocol::event::{Event, Limit, StatusReason, StreamName};
use repltool_protocol::ids::{Seq, SessionId};
use serde_json::json;

use super::harness::{
    Server, event, in_time, outcome, printed, run, run_for, send, session, until_printed, until_result,
};

/// A language, and how it says what the tests need.
struct Language {
    name: &'static str,
    /// Prints `out` to standard output and `err` to standard error.
    print: &'static str,
    /// Keeps 31 in a variable.
    plant: &'static str,
    /// Prints what the variable holds, an empty line if there is none.
    probe: &'static str,
    /// Prints `go`, then never ends; ends by an interrupt.
    endless: &'static str,
    /// Prints `go`, then never ends, whatever is asked of it politely.
    stubborn: &'static str,
    /// Ends the interpreter itself, with status 7.
    exit: &'static str,
    /// Prints one line each tenth of a second, ten times.
    ticks: &'static str,
    /// Fails.
    fail: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "python",
        print: "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        plant: "kept = 31",
        probe: "print(globals().get('kept', ''))",
        endless: "print('go')\nwhile True: int()",
        stubborn: "import signal\n_ = signal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint('go')\nwhile True: int()",
        exit: "import os\nos._exit(7)",
        ticks: "import time\nfor i in range(10):\n    print('tick')\n    time.sleep(0.1)",
        fail: "1 / 0",
    },
    Language {
        name: "javascript",
        print: "console.log('out'); console.error('err'); undefined",
        plant: "const kept = 31; undefined",
        probe: "console.log(typeof kept === 'undefined' ? '' : kept); undefined",
        endless: "console.log('go'); for (;;) {}",
        stubborn: "console.log('go'); require('child_process').execSync(\"trap '' INT; sleep 600\")",
        exit: "process.reallyExit(7)",
        ticks: "for (let i = 0; i < 10; i++) { console.log('tick'); await new Promise(r => setTimeout(r, 100)) }",
        fail: "null.x",
    },
    Language {
        name: "bash",
        print: "echo out; echo err >&2",
        plant: "kept=31",
        probe: "echo $kept",
        endless: "echo go; while :; do :; done",
        stubborn: "trap '' INT; echo go; while :; do :; done",
        exit: "exec sh -c 'exit 7'",
        ticks: "for i in 1 2 3 4 5 6 7 8 9 10; do echo tick; sleep 0.1; done",
        fail: "false",
    },
];

async fn kept(client: &Client, id: &SessionId, language: &Language) -> String {
    run(client, id, language.probe).await.output.trim().to_owned()
}

#[tokio::test]
async fn streams_stay_apart_and_state_stays_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        let said = run(&client, &id, language.print).await;
        assert!(said.success, "{said:?}");
        assert_eq!((said.output.as_str(), said.error.as_str()), ("out\n", "err\n"), "{}", language.name);
        assert!(run(&client, &id, language.plant).await.success, "{}", language.name);
        let failed = run(&client, &id, language.fail).await;
        assert_eq!((failed.success, failed.state_lost), (false, false), "{failed:?}");
        assert_eq!(kept(&client, &id, language).await, "31", "{}", language.name);
    }
}

#[tokio::test]
async fn numbers_of_results_keep_every_digit() {
    let server = Server::start().await;
    let client = server.client();
    for language in ["python", "javascript"] {
        let id = session(&client, language, json!({})).await;
        let result = run(&client, &id, "[31.245270191439438, 2.493307144426866e-08, 9163.453718085519]").await.result;
        assert_eq!(result.0.get(), "[31.245270191439438,2.493307144426866e-8,9163.453718085519]", "{language}");
    }
}

#[tokio::test]
async fn shell_is_bash_and_is_shown_as_it_was_given() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "shell", json!({})).await;
    let shown = serde_json::to_value(client.get(&id).await.expect("a session")).expect("JSON");
    assert_eq!(shown["language"], "shell");
    assert_eq!(run(&client, &id, "echo ${BASH_VERSION:+bash}").await.output, "bash\n");
}

#[tokio::test]
async fn output_arrives_while_the_program_runs_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let execution = send(&mut socket, "ticks", language.ticks).await;
        let events = until_result(&mut socket, &execution).await;
        assert_eq!(printed(&events, StreamName::Stdout), "tick\n".repeat(10), "{}", language.name);
        let pieces = events.iter().filter(|it| matches!(it.event, Event::Stream { .. })).count();
        assert!(pieces >= 5, "{}: told in {pieces} pieces", language.name);
    }
}

#[tokio::test]
async fn interrupt_and_timeout_keep_the_state_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        run(&client, &id, language.plant).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let execution = send(&mut socket, "endless", language.endless).await;
        until_printed(&mut socket).await;
        client.interrupt(&id, Some(&execution)).await.expect("interrupted");
        let events = until_result(&mut socket, &execution).await;
        let ended = outcome(&events);
        assert_eq!((ended.success, ended.limit, ended.state_lost), (false, None, false), "{ended:?}");
        assert!(ended.exception.is_some(), "{ended:?}");
        let timed_out = run_for(&client, &id, 400, language.endless).await;
        assert_eq!((timed_out.limit, timed_out.state_lost), (Some(Limit::WallTime), false), "{timed_out:?}");
        assert_eq!(timed_out.output, "go\n");
        assert_eq!(kept(&client, &id, language).await, "31", "{}", language.name);
    }
}

#[tokio::test]
async fn what_does_not_heed_an_interrupt_loses_its_state_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({"sandbox_mode": "relaxed"})).await;
        run(&client, &id, language.plant).await;
        let killed = run_for(&client, &id, 400, language.stubborn).await;
        assert_eq!((killed.limit, killed.state_lost), (Some(Limit::WallTime), true), "{}: {killed:?}", language.name);
        assert_eq!(killed.output, "go\n");
        assert_eq!(kept(&client, &id, language).await, "", "{}", language.name);
    }
}

#[tokio::test]
async fn an_interpreter_that_ends_is_told_and_replaced_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        run(&client, &id, language.plant).await;
        let ended = run(&client, &id, language.exit).await;
        assert_eq!((ended.success, ended.exit_code, ended.state_lost), (false, Some(7), true), "{ended:?}");
        assert_eq!(kept(&client, &id, language).await, "", "{}", language.name);
    }
}

#[tokio::test]
async fn restart_gives_a_fresh_interpreter_and_keeps_files_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        run(&client, &id, language.plant).await;
        let write = match language.name {
            "python" => "_ = open('note', 'w').write('here')",
            "javascript" => "require('fs').writeFileSync('note', 'here')",
            _ => "printf here >note",
        };
        assert!(run(&client, &id, write).await.success);
        let mut socket = client.attach(&id, None).await.expect("a socket");
        client.restart(&id).await.expect("restarted");
        loop {
            if let Event::Status { reason: Some(StatusReason::Restarted), .. } = event(&mut socket).await.event {
                break;
            }
        }
        assert_eq!(kept(&client, &id, language).await, "", "{}", language.name);
        let read = match language.name {
            "python" => "print(open('note').read())",
            "javascript" => "console.log(require('fs').readFileSync('note', 'utf8'))",
            _ => "cat note; echo",
        };
        assert_eq!(run(&client, &id, read).await.output, "here\n", "{}", language.name);
    }
}

#[tokio::test]
async fn a_crash_of_the_gateway_costs_no_state_in_any_language() {
    let server = Server::start().await;
    let client = server.client();
    let mut sessions = Vec::new();
    for language in &LANGUAGES {
        let id = session(&client, language.name, json!({})).await;
        run(&client, &id, language.plant).await;
        let mut socket = client.attach(&id, None).await.expect("a socket");
        let execution = send(&mut socket, "ticks", language.ticks).await;
        until_printed(&mut socket).await;
        sessions.push((language, id, execution));
    }
    server.crash_gateway().await;
    for (language, id, execution) in sessions {
        let mut socket = client.attach(&id, Some(Seq(0))).await.expect("a socket");
        let events = in_time("the result", until_result(&mut socket, &execution)).await;
        let ended = outcome(&events);
        assert!(ended.success && !ended.state_lost, "{}: {ended:?}", language.name);
        assert_eq!(printed(&events, StreamName::Stdout), "tick\n".repeat(10), "{}", language.name);
        assert_eq!(kept(&client, &id, language).await, "31", "{}", language.name);
    }
}

#[tokio::test]
async fn a_timer_of_an_earlier_execution_prints_for_nobody() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&client, "javascript", json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    run(&client, &id, "setTimeout(() => console.log('late'), 400); undefined").await;
    let text = "console.log('own'); await new Promise(r => setTimeout(r, 800)); console.log('own again')";
    let execution = send(&mut socket, "second", text).await;
    let events = until_result(&mut socket, &execution).await;
    let said: Vec<_> = events
        .iter()
        .filter_map(|it| match &it.event {
            Event::Stream { id, data, .. } => Some((id.as_ref().map(ToString::to_string), data.as_str())),
            _ => None,
        })
        .collect();
    let second = || Some("second".to_owned());
    assert_eq!(said, [(second(), "own\n"), (None, "late\n"), (second(), "own again\n")]);
}

#[tokio::test]
async fn code_of_a_megabyte_runs_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for (language, filler, tail) in [
        ("python", "# é\n", "print('end')"),
        ("javascript", "// é\n", "console.log('end')"),
        ("bash", "# é\n", "echo end"),
    ] {
        let id = session(&client, language, json!({})).await;
        let text = filler.repeat(200_000) + tail;
        assert_eq!(run(&client, &id, &text).await.output, "end\n", "{language}");
    }
}
