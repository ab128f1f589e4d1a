//! What a program finds: its environment, its directory, its locale and clock, and nothing of the server's or another's.

use serde_json::json;

use super::harness::{Server, run, session};

/// Prints the value of a variable, or `-`.
fn show(language: &str, name: &str) -> String {
    match language {
        "python" => format!("import os\nprint(os.environ.get('{name}', '-'))"),
        "javascript" => format!("console.log(process.env.{name} ?? '-')"),
        _ => format!("echo ${{{name}--}}"),
    }
}

#[tokio::test]
async fn locale_and_time_zone_are_those_of_the_contract_in_every_language() {
    let server = Server::start().await;
    let client = server.client();
    for language in ["python", "javascript", "bash"] {
        let id = session(&client, language, json!({})).await;
        for (name, value) in [("TZ", "UTC"), ("LANG", "C.UTF-8"), ("HOME", "/workspace")] {
            let said = run(&client, &id, &show(language, name)).await;
            assert_eq!(said.output.trim(), value, "{language} {name}");
        }
        let (text, length) = match language {
            "python" => ("print('é中😀', len('é中😀'))", "é中😀 3\n"),
            "javascript" => ("console.log('é中😀', [...'é中😀'].length)", "é中😀 3\n"),
            _ => ("x=é中😀; echo \"$x ${#x}\"", "é中😀 3\n"),
        };
        assert_eq!(run(&client, &id, text).await.output, length, "{language}");
        let zone = match language {
            "python" => "import time\nprint(time.tzname[0], time.timezone)",
            "javascript" => "console.log('UTC', new Date().getTimezoneOffset())",
            _ => "date '+%Z %-z' | sed 's/+*0*$/ 0/;s/  */ /'",
        };
        assert_eq!(run(&client, &id, zone).await.output, "UTC 0\n", "{language}");
    }
}

#[tokio::test]
async fn a_sessions_own_variables_and_directory_reach_it_in_every_language_and_stay_after_a_loss() {
    let server = Server::start().await;
    let client = server.client();
    let own = json!({"environment": {"GREETING": "hé llo'\"$x"}, "working_directory": "a/b"});
    for (language, directory, exit) in [
        ("python", "import os\nprint(os.getcwd())", "import os\nos._exit(1)"),
        ("javascript", "console.log(process.cwd())", "process.reallyExit(1)"),
        ("bash", "pwd", "kill -9 $$"),
    ] {
        let id = session(&client, language, own.clone()).await;
        for _ in 0..2 {
            assert_eq!(run(&client, &id, &show(language, "GREETING")).await.output, "hé llo'\"$x\n", "{language}");
            assert_eq!(run(&client, &id, directory).await.output, "/workspace/a/b\n", "{language}");
            assert!(run(&client, &id, exit).await.state_lost, "{language}");
        }
    }
}

#[tokio::test]
async fn a_directory_of_the_session_may_be_written_in_any_way() {
    let server = Server::start().await;
    let client = server.client();
    let long = format!("{}/{}", "n".repeat(255), "é".repeat(100));
    for (written, directory) in [
        ("/workspace", "/workspace"),
        ("/workspace/", "/workspace"),
        (".", "/workspace"),
        ("a/..", "/workspace"),
        ("/workspace/a/b", "/workspace/a/b"),
        ("/workspace//a/./b/", "/workspace/a/b"),
        ("./a", "/workspace/a"),
        ("a/../b", "/workspace/b"),
        ("workspace/é", "/workspace/workspace/é"),
        (&long, &format!("/workspace/{long}")),
    ] {
        let id = session(&client, "bash", json!({"working_directory": written})).await;
        assert_eq!(run(&client, &id, "pwd").await.output, format!("{directory}\n"), "{written}");
        client.delete(&id).await.expect("the session ends");
    }
}

#[tokio::test]
async fn addresses_and_hashes_differ_from_session_to_session() {
    let server = Server::start().await;
    let client = server.client();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        let id = session(&client, "python", json!({})).await;
        let said = run(&client, &id, "print(hash('x'), id(object))").await.output;
        assert!(seen.insert(said.clone()), "{said} twice");
    }
    let mut maps = std::collections::HashSet::new();
    for language in ["javascript", "bash"] {
        for _ in 0..3 {
            let id = session(&client, language, json!({})).await;
            let text = match language {
                "javascript" => {
                    "console.log(require('fs').readFileSync('/proc/self/stat', 'utf8').split(' ').slice(25, 28).join())"
                }
                _ => "read -ra stat </proc/$$/stat; echo ${stat[25]} ${stat[27]}",
            };
            let said = run(&client, &id, text).await.output;
            assert!(maps.insert(said.clone()), "{language}: {said} twice");
        }
    }
}

#[tokio::test]
async fn nothing_of_the_servers_environment_reaches_a_program_in_any_language() {
    let server = Server::start().await;
    let client = server.client();
    let expected = ["HOME", "LANG", "PATH", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"];
    // What a shell sets by itself.
    let shells = ["PWD", "OLDPWD", "SHLVL", "_"];
    for (language, text) in [
        ("python", "import os\nfor name in os.environ: print(name)"),
        ("javascript", "for (const name in process.env) console.log(name)"),
        ("bash", "compgen -e"),
    ] {
        let id = session(&client, language, json!({})).await;
        let said = run(&client, &id, text).await;
        assert!(said.success, "{said:?}");
        let names: Vec<_> = said.output.lines().collect();
        assert!(expected.iter().all(|name| names.contains(name)), "{language}: {names:?}");
        let strange: Vec<_> = names.iter().filter(|it| !expected.contains(it) && !shells.contains(it)).collect();
        assert!(strange.is_empty(), "{language}: {strange:?}");
    }
}
