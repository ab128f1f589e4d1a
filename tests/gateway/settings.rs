//! Settings from file, environment and flags, as the binary reads, checks and shows them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::{As, Server, binary_as, in_time, python, run};

/// A folder with a file of settings.
struct Folder {
    dir: TempDir,
    file: PathBuf,
}

impl Folder {
    fn new(settings: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().expect("a folder");
        let file = dir.path().join("repltool.toml");
        std::fs::write(&file, settings).expect("the file is written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("its mode is set");
        Self { dir, file }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The binary with these arguments and variables, this file, and this folder as home.
    async fn repltool(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::from(binary_as(As::Me));
        command.args(arguments).arg("--config").arg(&self.file).envs(variables.iter().copied());
        command.env("HOME", self.dir.path()).env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).kill_on_drop(true);
        in_time("the end of the command", command.output()).await.expect("it runs")
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

fn objects(output: &Output) -> Value {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Every key that has a flag: the flag with its argument, another value for the variable, a third for the file.
const FLAGS: [(&str, &str, &str, Option<&str>, &str); 6] = [
    ("edge.listen", "--listen", "127.0.0.1:1", Some("127.0.0.1:2"), "\"127.0.0.1:3\""),
    ("data_dir", "--data-dir", "/one", Some("/two"), "\"/three\""),
    ("edge.metrics_addr", "--metrics-addr", "127.0.0.1:1", Some("127.0.0.1:2"), "\"127.0.0.1:3\""),
    ("sessions.max", "--max-sessions", "11", Some("12"), "13"),
    ("sessions.max_per_subject", "--max-sessions-per-subject", "11", Some("12"), "13"),
    ("rate_limit.enabled", "--rate-limits", "off", Some("true"), "true"),
];

#[tokio::test]
async fn every_flag_wins_over_variable_and_file() {
    let file: String = FLAGS.iter().map(|(key, .., value)| format!("{key} = {value}\n")).collect();
    let folder = Folder::new(&file);
    let names: Vec<_> =
        FLAGS.iter().map(|(key, ..)| format!("REPLTOOL_{}", key.replace('.', "__").to_uppercase())).collect();
    let variables: Vec<_> =
        FLAGS.iter().zip(&names).filter_map(|((_, _, _, value, _), name)| Some((name.as_str(), (*value)?))).collect();
    let mut arguments = vec!["config", "show", "--output", "json"];
    let by_file = objects(&folder.repltool(&arguments, &[]).await);
    let by_variable = objects(&folder.repltool(&arguments, &variables).await);
    arguments.extend(FLAGS.iter().flat_map(|(_, flag, value, ..)| [*flag, *value]));
    let by_flag = objects(&folder.repltool(&arguments, &variables).await);
    for (line, ((key, flag, value, variable, in_file), name)) in FLAGS.iter().zip(&names).enumerate() {
        let text = |shown: &Value| match &shown[key]["value"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert_eq!(by_file[key]["value"].to_string(), *in_file, "{key}");
        let place = format!("{}:{}", folder.file.display(), line + 1);
        assert_eq!((&by_file[key]["source"], &by_file[key]["place"]), (&json!("file"), &json!(place)), "{key}");
        assert_eq!(Some(text(&by_variable).as_str()), *variable, "{key}");
        assert_eq!(by_variable[key]["place"], json!(name), "{key}");
        assert_eq!(text(&by_flag), if *value == "off" { "false" } else { value }, "{key}");
        assert_eq!((&by_flag[key]["source"], &by_flag[key]["place"]), (&json!("flag"), &json!(flag)), "{key}");
    }
}

#[tokio::test]
async fn shown_settings_can_be_used_as_a_file_and_mean_the_same() {
    let folder = Folder::new(
        "[edge]\nallowed_hosts = ['a.example', \"b.example:81\"]\n[auth]\nissuer = 'a \"quoted\" \\ # ü'\nkey_file = 'k'\n\
         [sandbox]\nbackend = 'native'\n[sandbox.max_processes]\nrelaxed = 9\n[runtimes]\npython = '/usr/bin/python3'\n",
    );
    let variables = [("REPLTOOL_LOG__FORMAT", "json"), ("REPLTOOL_TOKEN", "secret-token")];
    let shown = folder.repltool(&["config", "show", "--max-sessions", "7"], &variables).await;
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8_lossy(&shown.stdout);
    for line in ["sessions.max = 7  # --max-sessions", "log.format = \"json\"  # REPLTOOL_LOG__FORMAT"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert!(text.contains(&format!("max_processes.relaxed = 9  # {}:9", folder.file.display())), "{text}");
    assert!(text.contains("\n# auth.audience is not set\n") && !text.contains("secret-token"), "{text}");
    let again = Folder::new(&text);
    let values = |shown: Value| -> Vec<(String, Value)> {
        let shown = shown.as_object().expect("an object").clone();
        shown.into_iter().map(|(key, setting)| (key, setting["value"].clone())).collect()
    };
    let first = folder.repltool(&["config", "show", "--output", "json", "--max-sessions", "7"], &variables).await;
    let second = again.repltool(&["config", "show", "--output", "json"], &[]).await;
    assert_eq!(values(objects(&first)), values(objects(&second)));
}

#[tokio::test]
async fn check_finds_every_fault_and_serve_says_the_same() {
    let folder = Folder::new("[sessions]\nmax = 'many'\n[sesions]\nqueue = 3\n");
    let checked = folder.repltool(&["config", "check"], &[("REPLTOOL_EDGE__DRAIN_S", "5m")]).await;
    assert_eq!((checked.status.code(), checked.stdout.len()), (Some(1), 0), "{checked:?}");
    let told = lines(&checked.stderr);
    let place = folder.file.display();
    assert_eq!(
        told,
        [
            format!("repltool: sessions.max = \"many\" ({place}:2) must be a whole number from 1 to 100000"),
            format!("repltool: sesions.queue ({place}:4) is no setting of this version; did you mean sessions.queue?"),
            "repltool: edge.drain_s = \"5m\" (REPLTOOL_EDGE__DRAIN_S) must be a whole number of seconds from 0 to 3600"
                .to_owned(),
        ]
    );
    let served = folder.repltool(&["serve"], &[("REPLTOOL_EDGE__DRAIN_S", "5m")]).await;
    assert_eq!((served.status.code(), lines(&served.stderr)), (Some(1), told[..1].to_vec()), "{served:?}");
    let shown = folder.repltool(&["config", "show"], &[("REPLTOOL_EDGE__DRAIN_S", "5m")]).await;
    assert_eq!((shown.status.code(), lines(&shown.stderr)), (Some(1), told), "{shown:?}");
}

#[tokio::test]
async fn check_looks_at_the_files_that_are_named_and_starts_nothing() {
    let folder = Folder::new("");
    let key = folder.path("secret");
    std::fs::write(&key, [b'k'; 48]).expect("the key is written");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("its mode is set");
    let settings = format!(
        "edge.listen = '0.0.0.0:0'\nedge.tls_by_proxy = true\nauth.key_file = '{}'\nruntimes.python = '/bin/true'\nruntimes.bash = '/none'\n",
        key.display()
    );
    std::fs::write(&folder.file, settings).expect("the file is written");
    let checked = folder.repltool(&["config", "check"], &[]).await;
    let told = lines(&checked.stderr);
    assert_eq!((checked.status.code(), told.len()), (Some(1), 3), "{told:?}");
    assert!(told[0].contains("is open to others") && told[0].contains("chmod 600"), "{told:?}");
    assert!(told[1].contains("/bin/true cannot be run; set runtimes.python"), "{told:?}");
    assert!(told[2].contains("/none") && told[2].contains("runtimes.bash"), "{told:?}");

    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
    std::fs::set_permissions(&folder.file, std::fs::Permissions::from_mode(0o666)).expect("its mode is set");
    let checked = folder.repltool(&["config", "check"], &[]).await;
    let told = lines(&checked.stderr);
    assert!(matches!(&told[..], [line] if line.contains("can be written by others")), "{told:?}");

    std::fs::set_permissions(&folder.file, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
    let settings =
        format!("edge.listen = '0.0.0.0:0'\nedge.tls_by_proxy = true\nauth.key_file = '{}'\n", key.display());
    std::fs::write(&folder.file, settings).expect("the file is written");
    let checked = folder.repltool(&["config", "check"], &[]).await;
    assert_eq!((checked.status.code(), checked.stderr.len()), (Some(0), 0), "{checked:?}");
    let said = lines(&checked.stdout);
    assert_eq!(said, ["the settings are in order"]);
    assert!(!folder.path(".local").exists(), "no data directory is made");
}

#[tokio::test]
async fn a_server_runs_with_settings_that_were_checked() {
    let folder = Folder::new("sessions.max = 3\n");
    let shown = folder.repltool(&["config", "show"], &[]).await;
    let settings = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(settings.contains("\nsessions.max = 3  # "), "{settings}");
    let server = Server::start_with(As::Me, &settings).await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    assert!(run(&client, &id, "1").await.success);
}
