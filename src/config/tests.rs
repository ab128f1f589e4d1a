//! The table of keys, compared with the configuration, with what is promised to clients, and with the documents.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;

use toml::Value;

use super::rules::{RULES, Rule, rule};
use super::{Config, ConfigError, Origin, Overrides, Reading, Settings, read};

const OPERATIONS: &str = include_str!("../../docs/operations.md");
const README: &str = include_str!("../../README.md");
const REFERENCE: &str = include_str!("../../deploy/repltool.toml");

/// The keys and defaults that are fixed for good; none is "not set".
const FIXED: &[(&str, Option<&str>)] = &[
    ("sessions.idle_timeout_s", Some("300")),
    ("sessions.idle_after_s", Some("60")),
    ("sessions.max", Some("1000")),
    ("sessions.max_per_subject", Some("100")),
    ("sessions.queue", Some("16")),
    ("rate_limit.enabled", Some("true")),
    ("rate_limit.requests_per_minute", Some("6000")),
    ("rate_limit.burst", Some("200")),
    ("rate_limit.failed_logins_per_minute", Some("30")),
    ("edge.listen", Some("\"127.0.0.1:8000\"")),
    ("edge.metrics_addr", Some("\"127.0.0.1:9464\"")),
    ("edge.trusted_proxies", Some("[]")),
    ("edge.allowed_origins", Some("[]")),
    ("edge.tls_cert", None),
    ("edge.tls_key", None),
    ("edge.header_timeout_s", Some("10")),
    ("edge.drain_s", Some("10")),
    ("store.keep_ended_s", Some("3600")),
    ("store.session_mb", Some("64")),
    ("store.total_mb", Some("4096")),
    ("store.redis_url", None),
    ("runtimes.python", None),
    ("runtimes.javascript", None),
    ("runtimes.bash", None),
    ("auth.key_file", None),
    ("auth.revocations_file", None),
    ("auth.jwks_url", None),
    ("auth.jwks_refresh_s", Some("300")),
    ("auth.algorithms", Some("[]")),
    ("auth.issuer", None),
    ("auth.audience", None),
    ("auth.leeway_s", Some("30")),
    ("sandbox.backend", Some("\"native\"")),
    ("sandbox.allow_reduced_isolation", Some("false")),
    ("sandbox.disk_mb", Some("64")),
    ("sandbox.violations_per_minute", Some("100")),
    ("log.level", Some("\"info\"")),
    ("log.format", Some("\"text\"")),
];

fn defaults() -> Settings {
    layered("", &[], Overrides::default())
}

/// The settings of a file and variables, which have no fault.
fn layered(file: &str, variables: &[(String, String)], flags: Overrides) -> Settings {
    let Reading { settings, mut faults } = reading(file, variables, flags);
    // One key at a time is what most tests set, and the reference file has them all.
    faults.retain(|fault| {
        use ConfigError::{HalfTls, Keys, Needs, WebhookSecret};
        !matches!(fault, HalfTls(..) | Needs(..) | Keys | WebhookSecret)
    });
    assert!(faults.is_empty(), "{file} {variables:?}: {faults:?}");
    settings
}

fn reading(file: &str, variables: &[(String, String)], flags: Overrides) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repltool.toml");
    std::fs::write(&path, file).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let home: (OsString, OsString) = ("HOME".into(), "/home/ada".into());
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    read(Some(&path), variables.chain([home]), flags)
}

fn value_of(settings: &Settings, key: &str) -> Option<Value> {
    settings.iter().find(|setting| setting.key == key).unwrap().value
}

fn layer_of(settings: &Settings, key: &str) -> &'static str {
    settings.iter().find(|setting| setting.key == key).unwrap().origin.layer()
}

fn variable(key: &str) -> String {
    format!("REPLTOOL_{}", key.replace('.', "__").to_uppercase())
}

/// A value as the environment has it.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Three values of a key that are neither the default nor each other, for three layers; a switch has but two.
fn candidates(key: &str, rule: Rule, default: Option<&Value>) -> [Value; 3] {
    match rule {
        Rule::Switch => {
            let on = default.and_then(Value::as_bool).unwrap();
            [(!on).into(), on.into(), (!on).into()]
        }
        Rule::Count(..) => [1, 2, 3].map(|more| (default.and_then(Value::as_integer).unwrap() + more).into()),
        Rule::Ratio => [0.25, 0.5, 0.75].map(Value::from),
        Rule::Text => ["/one", "/two", "/three"].map(Value::from),
        Rule::Word(words) => {
            let others: Vec<_> = words.iter().filter(|word| default.and_then(Value::as_str) != Some(**word)).collect();
            [0, 1, 2].map(|n| (*others[n % others.len()]).into())
        }
        Rule::Site => ["https://a.example/1", "https://[::1]:2/", "http://127.0.0.1:3"].map(Value::from),
        Rule::Address => ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(Value::from),
        Rule::List(..) => {
            let item = match key {
                "edge.allowed_hosts" => "a.example",
                "edge.allowed_origins" => "https://a.example",
                "edge.trusted_proxies" => "10.0.0.0/8",
                "auth.algorithms" => "HS256",
                "sandbox.levels" => "standard",
                "pool.preload" => "numpy",
                _ if key.ends_with("_modules") => "!ctypes",
                other => panic!("give an example for {other}"),
            };
            [1, 2, 3].map(|times| Value::Array(vec![item.into(); times]))
        }
        Rule::Absent(_) => panic!("{key} may not be there"),
    }
}

#[test]
fn every_key_has_a_rule_and_every_default_keeps_it() {
    fn leaves(prefix: &str, value: &serde_json::Value, found: &mut Vec<(String, serde_json::Value)>) {
        match value.as_object() {
            Some(fields) => fields.iter().for_each(|(name, value)| leaves(&format!("{prefix}.{name}"), value, found)),
            None => found.push((prefix.trim_start_matches('.').to_owned(), value.clone())),
        }
    }
    let defaults = defaults().config;
    assert_eq!(defaults, Config::with_data_dir("/home/ada/.local/state/repltool"));
    let mut found = Vec::new();
    leaves("", &serde_json::to_value(&defaults).unwrap(), &mut found);
    let offered = RULES.iter().filter(|(_, rule)| !matches!(rule, Rule::Absent(_))).count();
    assert_eq!(found.len(), offered);
    for (key, value) in found {
        let (_, rule) = rule(&key).unwrap_or_else(|| panic!("{key} has no rule"));
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert!(value.is_null() || value.is_array() || rule.admits(&rule.read(&text)), "{key} = {value}");
    }
}

#[test]
fn fixed_keys_have_their_fixed_defaults() {
    let defaults = defaults();
    for (key, expected) in FIXED {
        let value = value_of(&defaults, key).map(|value| value.to_string());
        assert_eq!(value.as_deref(), *expected, "{key}");
    }
}

#[test]
fn every_key_is_read_from_file_environment_and_flag_and_the_later_wins() {
    let defaults = defaults();
    for (key, rule) in RULES.iter().filter(|(_, rule)| !matches!(rule, Rule::Absent(_))) {
        let default = value_of(&defaults, key);
        let [in_file, in_variable, in_flag] = candidates(key, *rule, default.as_ref());
        let file = format!("{key} = {in_file}\n");
        let variables = [(variable(key), as_text(&in_variable))];
        let flag = || {
            let mut flags = Overrides::default();
            flags.set("--flag", key, Some(in_flag.clone()));
            flags
        };
        for (settings, expected, layer) in [
            (layered("", &[], Overrides::default()), default.as_ref(), "default"),
            (layered(&file, &[], Overrides::default()), Some(&in_file), "file"),
            (layered("", &variables, Overrides::default()), Some(&in_variable), "environment"),
            (layered(&file, &variables, Overrides::default()), Some(&in_variable), "environment"),
            (layered(&file, &variables, flag()), Some(&in_flag), "flag"),
        ] {
            assert_eq!((value_of(&settings, key).as_ref(), layer_of(&settings, key)), (expected, layer), "{key}");
        }
    }
}

#[test]
fn what_this_version_does_not_have_is_refused_with_what_to_do_instead() {
    for (key, rule) in RULES {
        let Rule::Absent(instead) = rule else { continue };
        for (file, variables) in [
            (format!("{key} = true\n"), vec![]),
            (format!("{key} = \"redis://ada:hunter2@host\"\n"), vec![]),
            (String::new(), vec![(variable(key), "true".to_owned())]),
        ] {
            let faults = reading(&file, &variables, Overrides::default()).faults;
            let told = faults.first().unwrap_or_else(|| panic!("{key} is accepted: {file}")).to_string();
            assert!(told.starts_with(&format!("{key} = ")) && told.ends_with(instead), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
    let refused = ["store.redis_url"];
    assert!(refused.iter().all(|key| matches!(rule(key), Some((_, Rule::Absent(_))))));
}

#[test]
fn origins_say_file_line_variable_and_flag() {
    let variables = [("REPLTOOL_LOG__FORMAT".to_owned(), "json".to_owned())];
    let mut flags = Overrides::default();
    flags.set("--listen", "edge.listen", Some("127.0.0.1:1"));
    let settings = layered("# first\n[sessions]\nqueue = 3\n\"max\" = 4\n", &variables, flags);
    let origin = |key| settings.iter().find(|setting| setting.key == key).unwrap().origin;
    assert!(matches!(origin("sessions.queue"), Origin::File { line: 3, path } if path.ends_with("repltool.toml")));
    assert!(matches!(origin("sessions.max"), Origin::File { line: 4, .. }));
    assert_eq!(origin("log.format"), Origin::Environment("REPLTOOL_LOG__FORMAT".to_owned()));
    assert_eq!(origin("edge.listen"), Origin::Flag("--listen"));
    assert_eq!(origin("log.level"), Origin::Default);
}

/// The names in backticks of a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// A setting as the document has it: key, default, range.
struct Row<'a> {
    key: &'a str,
    default: &'a str,
    range: &'a str,
}

/// The settings that the document lists as rows of tables.
fn documented() -> Vec<Row<'static>> {
    let settings = OPERATIONS.split("\n## Settings\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut rows = Vec::new();
    for line in settings.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let keys = quoted(cells[0]);
        let each: Vec<_> = cells[1].split(", ").collect();
        for (n, key) in keys.iter().enumerate() {
            let default = if each.len() == keys.len() { each[n] } else { cells[1] };
            rows.push(Row { key, default, range: cells[2] });
        }
    }
    rows
}

#[test]
fn the_document_of_settings_has_every_key_with_its_default_and_range() {
    let (defaults, rows) = (defaults(), documented());
    for (key, rule) in RULES {
        let found: Vec<_> = rows.iter().filter(|row| row.key == *key).collect();
        assert_eq!(found.len(), 1, "{key} must stand in docs/operations.md once");
        let Row { default, range, .. } = found[0];
        match value_of(&defaults, key) {
            _ if *key == "data_dir" => assert!(default.contains("`$XDG_STATE_HOME/repltool`"), "{default}"),
            None => assert!(!default.contains(|c: char| c == '`' || c.is_ascii_digit()), "{key}: {default}"),
            Some(Value::Array(items)) => {
                let items: Vec<_> = items.iter().map(Value::to_string).collect();
                assert_eq!(default.trim_matches('`'), format!("[{}]", items.join(", ")), "{key}");
            }
            Some(value) => assert_eq!(default.trim_matches('`'), as_text(&value), "{key}"),
        }
        if let (Rule::Count(min, max), false) = (rule, range.is_empty()) {
            assert_eq!(bounds(range), Some((*min, *max)), "{key}: {range}");
        }
    }
    for row in &rows {
        assert!(rule(row.key).is_some(), "{} is documented and does not exist", row.key);
    }
}

/// `1 … 100,000`, `0 … 10 years`.
fn bounds(range: &str) -> Option<(i64, i64)> {
    let (min, max) = range.split_once(" … ")?;
    let (number, unit) = max.split_once(' ').unwrap_or((max, ""));
    let times = match unit {
        "" => 1,
        "days" => 86_400,
        "years" => 365 * 86_400,
        _ => return None,
    };
    Some((min.parse().ok()?, number.replace(',', "").parse::<i64>().ok()? * times))
}

#[test]
fn variables_in_the_documents_are_those_of_keys() {
    let mut seen = 0;
    for text in [OPERATIONS, README] {
        for rest in text.split("REPLTOOL_").skip(1) {
            let name = rest.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap();
            if name.contains("__") {
                seen += 1;
                let key = name.to_lowercase().replace("__", ".");
                assert!(rule(&key).is_some(), "REPLTOOL_{name} is no variable of a setting");
            }
        }
    }
    assert!(seen >= 2, "the document gives examples");
}

/// The reference file with every key in it set.
fn uncommented() -> String {
    let key = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let lines = REFERENCE.lines().map(|line| line.strip_prefix('#').filter(key).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_reference_file_has_every_key_with_its_default() {
    let shipped = layered(REFERENCE, &[], Overrides::default());
    assert_eq!(shipped.config, Config::with_data_dir("/var/lib/repltool"));
    let (all, defaults) = (layered(&uncommented(), &[], Overrides::default()), defaults());
    for (key, _) in RULES.iter().filter(|(_, rule)| !matches!(rule, Rule::Absent(_))) {
        assert_eq!(layer_of(&all, key), "file", "{key} must stand in deploy/repltool.toml");
        if let Some(default) = value_of(&defaults, key).filter(|_| *key != "data_dir") {
            assert_eq!(value_of(&all, key), Some(default), "{key} in deploy/repltool.toml");
        }
    }
}

#[test]
fn what_belongs_together_at_the_edge_is_asked_for() {
    let faults = |file: &str| -> Vec<String> {
        let key = "auth.key_file = 'secret'\n";
        reading(&format!("{key}{file}"), &[], Overrides::default()).faults.iter().map(ToString::to_string).collect()
    };
    let both = "edge.tls_cert = 'c'\nedge.tls_key = 'k'\n";
    let public = "edge.listen = '192.0.2.1:8443'\n";
    for file in ["", both, &format!("{both}edge.tls_client_ca = 'a'\n"), &format!("{both}{public}")] {
        assert_eq!(faults(file), Vec::<String>::new(), "{file}");
    }
    assert_eq!(faults(&format!("{public}edge.tls_by_proxy = true\n")), Vec::<String>::new());
    for (file, told) in [
        ("edge.tls_cert = 'c'\n", "edge.tls_cert is set and edge.tls_key is not"),
        ("edge.tls_key = 'k'\n", "edge.tls_key is set and edge.tls_cert is not"),
        ("edge.tls_client_ca = 'a'\n", "edge.tls_client_ca is set and edge.tls_cert is not"),
        (
            "edge.redirect_listen = '127.0.0.1:80'\nedge.allowed_hosts = ['a.example']\n",
            "edge.redirect_listen needs TLS to send clients to",
        ),
        (&format!("{both}edge.redirect_listen = '127.0.0.1:80'\n"), "edge.redirect_listen needs the name"),
        ("edge.proxy_protocol = true\n", "edge.proxy_protocol needs the proxies"),
        (public, "edge.listen = 192.0.2.1:8443 is not a loopback address and speaks no TLS"),
    ] {
        let faults = faults(file);
        assert!(matches!(&faults[..], [fault] if fault.starts_with(told)), "{file}: {faults:?}");
    }
}
