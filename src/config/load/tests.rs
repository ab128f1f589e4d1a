use std::os::unix::fs::PermissionsExt;

use super::super::file::MAX_FILE_BYTES;
use super::*;

const BASE: (&str, &str) = ("REPLTOOL_DATA_DIR", "/var/lib/repltool");

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn from_environment(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    load(None, environment(&[&[BASE], pairs].concat()), Overrides::default())
}

/// A file that only its owner can write, and its folder, which lives as long as it is used.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repltool.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    (folder, path)
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let (_folder, path) = file(text);
    load(Some(&path), environment(&[BASE]), Overrides::default())
}

fn message(result: Result<Config, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn messages_quote_a_part_of_what_is_wrong() {
    let long = "x".repeat(100_000);
    let variable = format!("REPLTOOL_{long}__\u{1}{long}");
    for text in [
        message(from_file(&format!("{long} = 1\n"))),
        message(from_file(&format!("[sessions]\nmax = \"{long}\"\n"))),
        message(from_environment(&[(&variable, "1")])),
        message(from_environment(&[(&variable.to_uppercase(), "1")])),
        message(from_environment(&[("REPLTOOL_SESSIONS__MAX", &long)])),
    ] {
        assert!(text.chars().count() < 500, "{} characters", text.chars().count());
    }
}

#[test]
fn later_layers_win() {
    let (_folder, path) = file("[sessions]\nmax = 2\nqueue = 2\nmax_per_subject = 2\n[log]\nformat = \"json\"\n");
    let env = environment(&[BASE, ("REPLTOOL_SESSIONS__QUEUE", "3"), ("REPLTOOL_SESSIONS__MAX_PER_SUBJECT", "3")]);
    let mut flags = Overrides::default();
    flags.set("--max-sessions-per-subject", "sessions.max_per_subject", Some(4)).set(
        "--listen",
        "edge.listen",
        None::<String>,
    );
    let config = load(Some(&path), env, flags).unwrap();
    assert_eq!((config.sessions.max, config.sessions.queue, config.sessions.max_per_subject), (2, 3, 4));
    assert_eq!(config.sessions.idle_timeout_s, 300);
    assert_eq!(config.log.format, super::super::LogFormat::Json);
}

#[test]
fn the_environment_carries_every_kind_of_value() {
    let config = from_environment(&[
        ("REPLTOOL_RATE_LIMIT__ENABLED", "false"),
        ("REPLTOOL_EDGE__LISTEN", "[::1]:0"),
        ("REPLTOOL_EDGE__ALLOWED_HOSTS", "a.example, B.example:81,[::1]:3000"),
        ("REPLTOOL_EDGE__ALLOWED_ORIGINS", "https://a.example, http://b.example:81,http://[::1]:3000"),
        ("REPLTOOL_EDGE__TRUSTED_PROXIES", ""),
        ("REPLTOOL_AUTH__ISSUER", "007"),
        ("REPLTOOL_SANDBOX__MAX_PROCESSES__RELAXED", "9"),
        ("REPLTOOL_LOG__LEVEL", "debug"),
    ])
    .unwrap();
    assert!(!config.rate_limit.enabled);
    assert_eq!(config.edge.listen.to_string(), "[::1]:0");
    assert_eq!(config.edge.allowed_hosts, ["a.example", "B.example:81", "[::1]:3000"]);
    assert_eq!(config.edge.allowed_origins, ["https://a.example", "http://b.example:81", "http://[::1]:3000"]);
    assert!(config.edge.trusted_proxies.is_empty());
    assert_eq!(config.auth.issuer.as_deref(), Some("007"));
    assert_eq!((config.sandbox.max_processes.standard, config.sandbox.max_processes.relaxed), (64, 9));
    assert_eq!(config.log.level, super::super::LogLevel::Debug);
}

#[test]
fn names_that_are_not_ours_are_left_alone() {
    let foreign = [("REPLTOOL_BIN", "x"), ("REPLTOOL_URL", "x"), ("REPLTOOL_TOKEN", "x"), ("OTHER__KEY", "x")];
    assert_eq!(from_environment(&foreign).unwrap(), Config::with_data_dir(BASE.1));
}

#[test]
fn unknown_keys_are_refused_by_full_name_with_a_suggestion() {
    let told = message(from_environment(&[("REPLTOOL_SESSIONS__MAXX", "1")]));
    assert_eq!(
        told,
        "sessions.maxx (REPLTOOL_SESSIONS__MAXX) is no setting of this version; did you mean sessions.max?"
    );
    let told = message(from_file("\n[sessions]\nmaxx = 1\n"));
    assert!(told.contains("repltool.toml:3) is no setting"), "{told}");
    let told = message(from_file("[server]\nlisten = \"127.0.0.1:1\"\n"));
    assert!(told.contains("server.listen") && told.ends_with("did you mean edge.listen?"), "{told}");
    for (text, hint) in [
        ("[sesions]\n", "[sessions]"),
        ("sesions = 3\n", "[sessions]"),
        ("[sesions]\nmax = 3\n", "sessions.max"),
        ("[rate-limit]\nburst = 3\n", "rate_limit.burst"),
        ("[Log]\nLevel = 'info'\n", "log.level"),
        ("[sandbox.max_processes]\nstandrad = 3\n", "sandbox.max_processes.standard"),
    ] {
        let told = message(from_file(text));
        assert!(told.ends_with(&format!("; did you mean {hint}?")), "{text}: {told}");
    }
    let told = message(from_environment(&[("REPLTOOL_sessions__MAX", "1")]));
    assert!(told.ends_with("names of variables are in capitals: REPLTOOL_SESSIONS__MAX"), "{told}");
    let told = message(from_environment(&[("REPLTOOL_COLOUR__OF_THE__LOG", "1")]));
    assert!(told.ends_with("is no setting of this version"), "{told}");
    for text in ["[nothing]\n", "sesions = 3\n", "[sandbox.max_processes.strict]\nx = 1\n", "\"sessions.max.x\" = 1\n"]
    {
        assert!(matches!(from_file(text), Err(ConfigError::Unknown { .. })), "{text}");
    }
    assert!(from_file("[sessions]\n").is_ok());
}

#[test]
fn wrong_values_are_refused_with_key_and_value() {
    let table = [
        ("[sessions]\nmax = \"100\"", "sessions.max = \"100\""),
        ("[sessions]\nmax = 1.5", "sessions.max = 1.5"),
        ("[sessions]\nmax = 0", "sessions.max = 0"),
        ("[sessions]\nmax = true", "sessions.max = true"),
        ("[auth]\nleeway_s = -1", "auth.leeway_s = -1"),
        ("[auth]\nalgorithms = [\"none\"]", "auth.algorithms = [\"none\"]"),
        ("[auth]\nissuer = \"\"", "auth.issuer = \"\""),
        ("[auth]\nissuer = \"a\\nb\"", "auth.issuer = \"a\\nb\""),
        ("[edge]\nlisten = \"localhost:8000\"", "edge.listen = \"localhost:8000\""),
        ("[edge]\nallowed_hosts = [\"https://a.example\"]", "edge.allowed_hosts"),
        ("[edge]\nallowed_hosts = [\"*\"]", "edge.allowed_hosts"),
        ("[edge]\nallowed_hosts = [\"\"]", "edge.allowed_hosts"),
        ("[edge]\nallowed_hosts = [\"a.example:http\"]", "edge.allowed_hosts"),
        ("[edge]\nallowed_hosts = \"a.example\"", "edge.allowed_hosts"),
        ("[edge]\nallowed_origins = [\"https://a.example/path\"]", "edge.allowed_origins"),
        ("[edge]\nallowed_origins = [\"*\"]", "edge.allowed_origins"),
        ("[edge]\nallowed_origins = [\"https://\"]", "edge.allowed_origins"),
        ("[edge]\nallowed_origins = [\"https://ada@a.example\"]", "edge.allowed_origins"),
        ("[edge]\nallowed_origins = [\"https://a.example:99999\"]", "edge.allowed_origins"),
        ("[edge]\nallowed_origins = \"https://a.example\"", "edge.allowed_origins"),
        ("[edge]\ntrusted_proxies = [\"10.0.0.0/33\"]", "edge.trusted_proxies"),
        ("[edge]\nmax_sockets_per_subject = 0", "edge.max_sockets_per_subject = 0"),
        ("[log]\nformat = \"xml\"", "log.format = \"xml\""),
        ("[rate_limit]\nenabled = 1", "rate_limit.enabled = 1"),
        ("[sandbox]\nmax_processes = 7", "sandbox.max_processes"),
        ("sessions = 7", "sessions"),
        ("[sessions.max]\nx = 1", "sessions.max.x"),
    ];
    for (text, expected) in table {
        let told = message(from_file(text));
        assert!(told.starts_with(expected), "{text}: {told}");
        assert!(!told.contains('\n'), "{told}");
    }
    let told = message(from_environment(&[("REPLTOOL_SESSIONS__MAX", "many")]));
    assert_eq!(told, "sessions.max = \"many\" (REPLTOOL_SESSIONS__MAX) must be a whole number from 1 to 100000");
}

#[test]
fn a_value_in_the_wrong_unit_is_told_the_right_one_and_its_line() {
    let told = message(from_file("[sessions]\nmax = 2\nidle_timeout_s = \"5m\"\n"));
    let (before, after) = told.split_once("repltool.toml:").expect("the file");
    assert!(before.starts_with("sessions.idle_timeout_s = \"5m\" (/"), "{told}");
    assert_eq!(after, "3) must be a whole number of seconds from 1 to 2592000");
    let told = message(from_environment(&[("REPLTOOL_STORE__TOTAL_MB", "4GiB")]));
    assert!(told.contains("(REPLTOOL_STORE__TOTAL_MB) must be a whole number of MiB from 1 to"), "{told}");
    let told = message(from_file("[sessions]\nmax = 2\nidle_timeout_s = 5m\nqueue = 3\n"));
    assert!(told.contains("repltool.toml:3 is not valid TOML: ") && !told.contains('\n'), "{told}");
}

#[test]
fn passwords_in_urls_are_in_no_message() {
    for text in
        ["[store]\nredis_url = 'redis://ada:pa/ss@host'\n", "[edge]\nallowed_origins = ['https://ada:pa/ss@host']\n"]
    {
        let told = message(from_file(text));
        assert!(told.contains("://***@host") && !told.contains("pa/ss"), "{told}");
    }
}

#[test]
fn every_fault_of_every_layer_is_found_and_nothing_that_follows_from_one() {
    let (_folder, path) = file("[sessions]\nmax = 0\nmaxx = 1\n[store]\nsession_mb = 'all'\n");
    let pairs = [BASE, ("REPLTOOL_LOG__LEVEL", "loud"), ("REPLTOOL_STORE__TOTAL_MB", "1")];
    let mut flags = Overrides::default();
    flags.set("--listen", "edge.listen", Some("nowhere"));
    let faults = read(Some(&path), environment(&pairs), flags).faults;
    let keys: Vec<_> = faults.iter().map(|fault| fault.to_string().split(' ').next().unwrap().to_owned()).collect();
    let expected = ["sessions.max", "sessions.maxx", "store.session_mb", "log.level", "edge.listen"];
    assert_eq!(keys, expected, "{faults:?}");
    let pairs = [BASE, ("REPLTOOL_STORE__TOTAL_MB", "1"), ("REPLTOOL_EDGE__LISTEN", "0.0.0.0:1")];
    assert_eq!(read(None, environment(&pairs), Overrides::default()).faults.len(), 3, "what is between keys");
    let (_folder, path) = file("max = \n[x\n");
    let faults = read(Some(&path), environment(&[("REPLTOOL_LOG__LEVEL", "loud")]), Overrides::default()).faults;
    assert!(faults.len() >= 3 && faults.iter().any(|it| matches!(it, ConfigError::NoHome)), "{faults:?}");
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let (_folder, path) = file("");
    for mode in [0o664, 0o646, 0o666] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let result = load(Some(&path), environment(&[BASE]), Overrides::default());
        assert!(matches!(result, Err(ConfigError::Writable { .. })), "{mode:o}");
    }
}

#[test]
fn what_is_no_file_of_settings_is_refused() {
    let (folder, path) = file("sessions = [");
    let read = |path: &Path| load(Some(path), environment(&[BASE]), Overrides::default());
    assert!(matches!(read(&path), Err(ConfigError::Syntax { .. })));
    assert!(matches!(read(folder.path()), Err(ConfigError::NoFile { .. })));
    assert!(matches!(read(&folder.path().join("none")), Err(ConfigError::Read { .. })));
    std::fs::write(&path, vec![b'#'; MAX_FILE_BYTES as usize + 1]).unwrap();
    assert!(matches!(read(&path), Err(ConfigError::NoFile { .. })));
}

#[test]
fn a_public_address_needs_a_key_of_ones_own_and_encryption() {
    for address in ["0.0.0.0:8000", "[::]:8000", "192.0.2.1:8000"] {
        assert!(matches!(from_environment(&[("REPLTOOL_EDGE__LISTEN", address)]), Err(ConfigError::KeyNeeded(_))));
        let with_key = [("REPLTOOL_EDGE__LISTEN", address), ("REPLTOOL_AUTH__KEY_FILE", "/etc/repltool.key")];
        assert!(matches!(from_environment(&with_key), Err(ConfigError::PlainText(_))));
        let encrypted = [with_key[0], with_key[1], ("REPLTOOL_EDGE__TLS_BY_PROXY", "true")];
        assert!(from_environment(&encrypted).is_ok());
    }
    assert!(from_environment(&[("REPLTOOL_EDGE__LISTEN", "127.0.0.2:8000")]).is_ok());
}

#[test]
fn the_data_directory_has_a_default() {
    let find =
        |pairs: &[(&str, &str)]| load(None, environment(pairs), Overrides::default()).map(|config| config.data_dir);
    assert_eq!(find(&[("HOME", "/home/ada")]).unwrap(), Path::new("/home/ada/.local/state/repltool"));
    let both = [("HOME", "/home/ada"), ("XDG_STATE_HOME", "/state")];
    assert_eq!(find(&both).unwrap(), Path::new("/state/repltool"));
    let relative = [("HOME", "/home/ada"), ("XDG_STATE_HOME", "state")];
    assert_eq!(find(&relative).unwrap(), Path::new("/home/ada/.local/state/repltool"));
    assert!(matches!(find(&[]), Err(ConfigError::NoHome)));
    assert!(find(&[("REPLTOOL_DATA_DIR", "here")]).unwrap().is_absolute());
}

#[test]
fn a_configuration_survives_the_way_to_the_gateway() {
    let config =
        from_environment(&[("REPLTOOL_AUTH__AUDIENCE", "a"), ("REPLTOOL_RUNTIMES__PYTHON", "/usr/bin/python3")]);
    let config = config.unwrap();
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
}

#[test]
fn one_session_cannot_take_more_than_all() {
    assert!(matches!(from_environment(&[("REPLTOOL_STORE__TOTAL_MB", "32")]), Err(ConfigError::Store(64, 32))));
}

#[test]
fn the_audit_log_is_kept_for_ninety_days_at_least() {
    assert_eq!(Config::with_data_dir("/d").audit.keep_days, 90);
    assert_eq!(from_file("[audit]\nkeep_days = 400\n").unwrap().audit.keep_days, 400);
    let told = message(from_file("[audit]\nkeep_days = 89\n"));
    assert!(told.contains("audit.keep_days") && told.contains("from 90 to"), "{told}");
}

#[test]
fn addresses_that_cannot_be_believed_or_that_are_named_twice_are_refused() {
    for (file, told) in [
        ("[auth]\njwks_url = 'http://issuer.example/jwks'", "loopback"),
        ("[auth]\njwks_url = 'http://127.0.0.1.example/jwks'", "loopback"),
        ("[auth]\njwks_url = 'file:///etc/passwd'", "https://"),
        ("[auth]\njwks_url = 'https://ada:hunter2@issuer.example/jwks'", "no user"),
        ("[auth]\njwks_url = 'https://issuer.example/'\nkey_file = 'k'", "auth.key_file and auth.jwks_url"),
        ("[traces]\notlp_url = 'https://collector.example/a b'", "https://"),
        ("[alerts]\nwebhook_url = 'https://alerts.example/'", "alerts.webhook_secret_file"),
    ] {
        let error = from_file(file).unwrap_err();
        assert!(error.to_string().contains(told) && !error.to_string().contains("hunter2"), "{file}: {error}");
    }
}
