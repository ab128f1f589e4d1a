//! Typing into a session: at a pseudo-terminal, as a person does, and in a pipe, as a script does.

use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::cli::{assert_output, repltool};
use crate::harness::{As, Server, Terminal, binary_as, eventually, in_time, kill, python, run};

/// A person at a terminal, in a session of this server.
struct Person {
    terminal: Terminal,
    server: Server,
    home: TempDir,
}

impl Person {
    async fn sits_down(arguments: &[&str]) -> Self {
        Self::sits_down_at(Server::start().await, TempDir::new().expect("a home"), arguments)
    }

    fn sits_down_at(server: Server, home: TempDir, arguments: &[&str]) -> Self {
        let mut command = binary_as(As::Me);
        command.arg("interactive").args(arguments).arg("--data-dir").arg(server.data());
        command.env("XDG_STATE_HOME", home.path());
        Self { terminal: Terminal::start(&command), server, home }
    }

    /// Types a line at the prompt with this number.
    async fn types(&mut self, language: &str, number: u32, line: &str) {
        self.terminal.type_after(&format!("{language} {number}> "), line).await;
    }

    async fn sees(&mut self, text: &str) -> String {
        self.terminal.until(text).await
    }

    /// Ctrl-D at a prompt, after which nothing is left.
    async fn leaves(mut self, prompt: &str) -> (Server, TempDir) {
        self.sees(prompt).await;
        self.terminal.press("\x04");
        assert_eq!(self.terminal.ended().await, Some(0), "{}", self.terminal.rest());
        assert_eq!(self.server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
        (self.server, self.home)
    }
}

#[tokio::test]
async fn code_is_typed_over_several_lines_and_its_value_is_shown() {
    let mut ada = Person::sits_down(&["--language", "python"]).await;
    ada.types("python", 1, "def double(n):").await;
    ada.terminal.type_after("... ", "    return 2 * n").await;
    ada.terminal.type_after("... ", "").await;
    ada.types("python", 2, "double(21)").await;
    ada.sees("42").await;
    ada.types("python", 3, "1 / 0").await;
    ada.sees("ZeroDivisionError: division by zero").await;
    ada.types("python", 4, "double('ab')").await;
    ada.sees("'abab'").await;
    ada.leaves("python 5> ").await;
}

#[tokio::test]
async fn output_is_live_and_questions_of_the_program_are_answered() {
    let mut ada = Person::sits_down(&[]).await;
    // The parts of a text are put together by the program, so that what is typed is not taken for what is printed.
    ada.types("python", 1, "print('fir' + 'st'); name = input('na' + 'me? '); print('hello', name)").await;
    ada.sees("first").await;
    ada.terminal.type_after("name? ", "Ada").await;
    ada.sees("hello Ada").await;
    ada.types("python", 2, "import getpass; s = getpass.getpass('sec' + 'ret? '); print('len' + 'gth', len(s))").await;
    ada.terminal.type_after("secret? ", "hunter2").await;
    let shown = ada.sees("length 7").await;
    assert!(!shown.contains("hunter2"), "{shown:?}");
    ada.leaves("python 3> ").await;
}

#[tokio::test]
async fn ctrl_c_interrupts_the_execution_and_not_the_session() {
    let mut ada = Person::sits_down(&[]).await;
    ada.types("python", 1, "kept = 'still ' + 'here'").await;
    ada.types("python", 2, r"exec('print(\'run\' + \'ning\')\nwhile True: pass')").await;
    ada.sees("running").await;
    ada.terminal.press("\x03");
    ada.sees("KeyboardInterrupt").await;
    ada.types("python", 3, "kept").await;
    ada.sees("'still here'").await;
    // At the prompt it drops the line.
    ada.sees("python 4> ").await;
    ada.terminal.press("kept = (\x03");
    ada.sees("^C").await;
    ada.types("python", 4, "kept").await;
    ada.sees("'still here'").await;
    ada.leaves("python 5> ").await;
}

#[tokio::test]
async fn a_program_that_heeds_no_interrupt_is_replaced_by_ctrl_backslash() {
    let mut ada = Person::sits_down(&[]).await;
    let stubborn =
        r"exec('while True:\n try:\n  print(\'on\' + \'ward\')\n  while True: pass\n except KeyboardInterrupt: pass')";
    ada.types("python", 1, stubborn).await;
    ada.sees("onward").await;
    ada.terminal.press("\x03");
    ada.sees("onward").await;
    // Two at once are within a second, however slow the machine is.
    ada.terminal.press("\x03");
    ada.terminal.press("\x03");
    ada.sees(r"Ctrl-\").await;
    ada.terminal.press("\x1c");
    ada.sees("variables are gone").await;
    ada.types("python", 2, "6 * 7").await;
    ada.sees("42").await;
    ada.leaves("python 3> ").await;
}

#[tokio::test]
async fn tab_completes_from_the_live_session() {
    let mut ada = Person::sits_down(&[]).await;
    ada.types("python", 1, "surprisingly_long = 6 * 7").await;
    ada.types("python", 2, "surpri\t + 1").await;
    ada.sees("43").await;
    ada.leaves("python 3> ").await;
}

#[tokio::test]
async fn bash_reads_what_is_typed() {
    let mut ada = Person::sits_down(&["--language", "bash"]).await;
    ada.types("bash", 1, "echo \"na\"\"me? \"; read -r name; echo \"hel\"\"lo $name\"").await;
    ada.sees("name? ").await;
    ada.terminal.press("Ada\r");
    ada.sees("hello Ada").await;
    ada.types("bash", 2, "for n in 1 2; do").await;
    ada.terminal.type_after("... ", "echo \"li\"\"ne $n\"; done").await;
    ada.sees("line 2").await;
    ada.leaves("bash 3> ").await;
}

#[tokio::test]
async fn the_history_is_kept_for_the_next_time_and_for_nobody_else() {
    let mut ada = Person::sits_down(&[]).await;
    ada.types("python", 1, "print('typed', 'be' + 'fore')").await;
    ada.sees("typed before").await;
    let (server, home) = ada.leaves("python 2> ").await;
    let file = home.path().join("repltool-cli/history-python");
    let kept = std::fs::read_to_string(&file).expect("a history");
    assert_eq!(kept, "print('typed', 'be' + 'fore')\n");
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));

    let mut again = Person::sits_down_at(server, home, &[]);
    again.types("python", 1, "\x1b[A").await;
    again.sees("typed before").await;
    again.leaves("python 2> ").await;
}

#[tokio::test]
async fn commands_of_the_prompt_help_restart_and_end() {
    let mut ada = Person::sits_down(&[]).await;
    ada.types("python", 1, "%help").await;
    ada.sees("%restart ").await;
    ada.types("python", 1, "x = 1").await;
    ada.types("python", 2, "%restart").await;
    ada.sees("variables are gone").await;
    ada.terminal.press("x\r");
    ada.sees("NameError").await;
    ada.types("python", 3, "%quit").await;
    assert_eq!(ada.terminal.ended().await, Some(0));
    assert_eq!(ada.server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
}

#[tokio::test]
async fn a_lost_connection_comes_back_with_variables_and_output() {
    let mut ada = Person::sits_down(&[]).await;
    ada.types("python", 1, "kept = 'still ' + 'here'; print('be' + 'gun'); a = input(); print('go' + 't', a)").await;
    ada.sees("begun").await;
    ada.server.crash_gateway().await;
    ada.sees("broke off").await;
    ada.sees("connected again").await;
    ada.terminal.press("word\r");
    ada.sees("got word").await;
    ada.sees("python 2> ").await;
    ada.server.crash_gateway().await;
    ada.sees("connected again").await;
    ada.terminal.press("kept\r");
    ada.sees("'still here'").await;
    ada.leaves("python 3> ").await;
}

#[tokio::test]
async fn a_session_that_is_ended_by_others_ends_the_command() {
    let mut ada = Person::sits_down(&[]).await;
    ada.sees("python 1> ").await;
    let client = ada.server.client();
    let session = client.list(10, 0).await.expect("a list").sessions.remove(0).session_id;
    client.delete(&session).await.expect("it is terminated");
    ada.sees("the session was terminated").await;
    assert_eq!(ada.terminal.ended().await, Some(1));
}

#[tokio::test]
async fn sigterm_at_the_prompt_leaves_no_session() {
    let mut ada = Person::sits_down(&[]).await;
    ada.sees("python 1> ").await;
    kill(ada.terminal.pid(), "TERM");
    assert_eq!(ada.terminal.ended().await, Some(143));
    assert_eq!(ada.server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
}

#[tokio::test]
async fn attached_to_a_session_of_others_one_sees_their_output_and_leaves_it_behind() {
    let server = Server::start().await;
    let client = server.client();
    let session = python(&client, json!({})).await;
    run(&client, &session, "shared = 6 * 7").await;
    let mut command = binary_as(As::Me);
    command.args(["attach", session.as_str(), "--interactive", "--data-dir"]).arg(server.data());
    let home = TempDir::new().expect("a home");
    command.env("XDG_STATE_HOME", home.path());
    let mut terminal = Terminal::start(&command);
    terminal.type_after("python 2> ", "shared + 1").await;
    terminal.until("43").await;
    terminal.until("python 3> ").await;
    run(&client, &session, "print('from another')").await;
    terminal.until("from another").await;
    terminal.press("\x04");
    assert_eq!(terminal.ended().await, Some(0));
    assert_eq!(run(&client, &session, "shared").await.result_text.as_deref(), Some("42"));
}

#[tokio::test]
async fn a_terminal_without_an_editor_still_has_a_prompt() {
    let server = Server::start().await;
    let mut command = binary_as(As::Me);
    command.arg("interactive").arg("--data-dir").arg(server.data()).env("TERM", "dumb");
    let mut terminal = Terminal::start(&command);
    terminal.type_after("python 1> ", "a = input('mo' + 're? ')").await;
    terminal.type_after("more? ", "word").await;
    terminal.until("python 2> ").await;
    terminal.press("dropped = (\x03");
    terminal.type_after("python 2> ", "a + '!'").await;
    terminal.until("'word!'").await;
    terminal.until("python 3> ").await;
    terminal.press("\x04");
    assert_eq!(terminal.ended().await, Some(0));
}

/// `repltool interactive` that reads this text from a pipe.
async fn piped(server: &Server, arguments: &[&str], text: &str) -> Output {
    let mut command = repltool(&["interactive"]);
    command.args(arguments).arg("--data-dir").arg(server.data());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its standard input");
    stdin.write_all(text.as_bytes()).await.expect("the text is written");
    drop(stdin);
    let output = in_time("the end of the command", child.wait_with_output()).await.expect("it runs");
    assert_eq!(server.client().list(10, 0).await.expect("a list").total, 0, "no session is left");
    output
}

#[tokio::test]
async fn in_a_pipe_complete_inputs_run_one_after_the_other() {
    let server = Server::start().await;
    let text = "def double(n):\n    return 2 * n\n\ndouble(21)\nif False:\n    1\nelse:\n    print('else')\n\n\
                name = input('name? ')\nAda\nprint('hello', name)\n[1,\n2]";
    assert_output(&piped(&server, &[], text).await, 0, "42\nelse\nname? hello Ada\n[1, 2]\n", "");
    let text = "x=1\nwhile [ $x -le 2 ]; do\n  echo $x\n  x=$((x + 1))\ndone\nread -r line; echo \"read: $line\"\n";
    assert_output(&piped(&server, &["--language", "bash"], text).await, 0, "1\n2\nread: \n", "");
    let text = "function f() {\n  return {a: 1}\n}\nf()\n";
    assert_output(&piped(&server, &["--language", "javascript"], text).await, 0, "{ a: 1 }\n", "");
}

#[tokio::test]
async fn in_a_pipe_the_last_execution_makes_the_exit_code() {
    let server = Server::start().await;
    let failed = piped(&server, &[], "1 / 0\n").await;
    assert_eq!((failed.status.code(), failed.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&failed.stderr).ends_with("ZeroDivisionError: division by zero\n"));
    let recovered = piped(&server, &[], "1 / 0\nprint('on')\n").await;
    assert_eq!((recovered.status.code(), recovered.stdout.as_slice()), (Some(0), &b"on\n"[..]));
    let late = piped(&server, &["--timeout", "0.3"], "while True: pass\n").await;
    assert_eq!(late.status.code(), Some(124));
    assert_output(&piped(&server, &[], "").await, 0, "", "");
}

#[tokio::test]
async fn in_a_pipe_ctrl_c_ends_the_command_and_leaves_no_session() {
    let server = Server::start().await;
    let mut command = repltool(&["interactive", "--data-dir"]);
    let mut child = command.arg(server.data()).stdin(Stdio::piped()).spawn().expect("it starts");
    let _open = child.stdin.take().expect("its standard input");
    let client = server.client();
    eventually("a session", || async { (client.list(10, 0).await.ok()?.total == 1).then_some(()) }).await;
    kill(child.id().expect("it runs"), "INT");
    assert_eq!(in_time("its end", child.wait()).await.expect("it ends").code(), Some(130));
    assert_eq!(client.list(10, 0).await.expect("a list").total, 0, "no session is left");
}
