//! Configuration: a file, and after a line `---` the environment, `NAME=value` a line. What is accepted is within its
//! bounds and comes over the link as it is; a refusal is short.
#![no_main]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use repltool::config::{Config, Overrides, load};

static FILE: LazyLock<PathBuf> = LazyLock::new(|| std::env::temp_dir().join(format!("{}.toml", std::process::id())));

fn check(config: &Config) {
    let written = serde_json::to_vec(config).expect("a configuration is JSON");
    assert_eq!(&serde_json::from_slice::<Config>(&written).expect("it was one"), config);
    assert!(config.data_dir.is_absolute());
    assert!((1..=100_000).contains(&config.sessions.max) && (1..=1024).contains(&config.sessions.queue));
    assert!(config.store.session_mb <= config.store.total_mb && config.auth.leeway_s <= 300);
    let has_keys = config.auth.key_file.is_some() || config.auth.jwks_url.is_some();
    assert!(config.edge.listen.ip().is_loopback() || has_keys);
}

fuzz_target!(|text: &str| {
    let (file, environment) = text.split_once("\n---\n").unwrap_or((text, ""));
    std::fs::write(&*FILE, file).expect("there is room for a file");
    let pairs = environment.lines().filter_map(|line| line.split_once('='));
    let mut environment: Vec<(OsString, OsString)> = pairs.map(|(name, value)| (name.into(), value.into())).collect();
    environment.push(("HOME".into(), "/home/ada".into()));
    match load(Some(&FILE), environment, Overrides::default()) {
        Ok(config) => check(&config),
        Err(error) => assert!(error.to_string().len() <= 2000, "{error}"),
    }
});
