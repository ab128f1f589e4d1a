//! `repltool config`: what the settings of a server are, where each comes from, and what is wrong with them. It starts no
//! server and needs none.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use jiff::Timestamp;
use toml::Value;

use super::args::Serve;
use crate::certificates::Files;
use crate::config::{Config, Origin, Reading, Setting, Settings, masked};
use crate::edge::auth::keys::KeySet;
use crate::edge::auth::revoked::{MAX_LIST_BYTES, Revocations};
use crate::keys;
use crate::runtime::{bash, javascript, python};

/// What can be asked about the settings.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print every setting, its value, and where it comes from: default, file, environment or flag
    ///
    /// The TOML form can be used as a file. A user and password in a URL are printed as ***.
    Show {
        /// The command line of the server.
        #[command(flatten)]
        serve: Box<Serve>,
        /// toml: a file of settings; json: an object for each key
        #[arg(long, value_enum, default_value_t)]
        output: Form,
    },
    /// Look for everything that keeps a server from starting with these settings; the exit code is 1 if there is something
    Check {
        /// The command line of the server.
        #[command(flatten)]
        serve: Box<Serve>,
    },
}

/// How settings are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A file of settings.
    #[default]
    Toml,
    /// One object.
    Json,
}

/// Runs the command. Faults go to standard error, one a line, in the words of `serve`.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let (Reading { settings, faults }, form) = match command {
        Command::Show { serve, output } => (serve.read(), Some(output)),
        Command::Check { serve } => (serve.read(), None),
    };
    let mut faults: Vec<anyhow::Error> = faults.into_iter().map(Into::into).collect();
    if form.is_none() {
        faults.extend(named_files(&settings.config));
    }
    for fault in &faults {
        eprintln!("repltool: {fault:#}");
    }
    if !faults.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let text = match form {
        Some(Form::Toml) => settings.iter().map(|setting| toml_line(&setting)).collect(),
        Some(Form::Json) => json(&settings)?,
        None => "the settings are in order\n".to_owned(),
    };
    std::io::stdout().write_all(text.as_bytes()).context("the settings cannot be printed")?;
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the files that the settings name. The interpreters are asked for their versions, as `serve` does.
fn named_files(config: &Config) -> Vec<anyhow::Error> {
    let mut faults = Vec::new();
    if let Some(path) = &config.auth.key_file {
        faults.extend(key_file(path, &config.auth.algorithms).err());
    }
    if let Some(path) = &config.auth.revocations_file {
        faults.extend(revocations(path).err());
    }
    if let (Some(chain), Some(key)) = (&config.edge.tls_cert, &config.edge.tls_key) {
        let client_ca = config.edge.tls_client_ca.as_deref();
        let read = Files::read(chain, key, client_ca).and_then(|files| files.parse());
        faults.extend(read.and_then(|it| it.judge(Timestamp::now())).err().map(anyhow::Error::from));
    }
    let named = &config.runtimes;
    faults.extend(named.python.as_deref().and_then(|path| python::find(Some(path)).err()).map(anyhow::Error::from));
    faults.extend(named.javascript.as_deref().and_then(|path| javascript::find(Some(path)).err()).map(Into::into));
    faults.extend(named.bash.as_deref().and_then(|path| bash::find(Some(path)).err()).map(Into::into));
    faults
}

fn key_file(path: &Path, algorithms: &[String]) -> anyhow::Result<KeySet> {
    let file = keys::read(path)?;
    KeySet::new(&file, algorithms).with_context(|| format!("the key file {} cannot be used", path.display()))
}

fn revocations(path: &Path) -> anyhow::Result<Revocations> {
    let (list, _) = keys::contents(path, MAX_LIST_BYTES as u64)?;
    Revocations::parse(&list).with_context(|| format!("{} cannot be used", path.display()))
}

/// Dotted keys rather than tables, so that one line tells all of one setting.
fn toml_line(Setting { key, value, origin }: &Setting) -> String {
    match value {
        Some(value) => format!("{key} = {}  # {origin}\n", without_password(value)),
        None => format!("# {key} is not set\n"),
    }
}

fn json(settings: &Settings) -> anyhow::Result<String> {
    let mut object = serde_json::Map::new();
    for Setting { key, value, origin } in settings.iter() {
        let mut entry = serde_json::Map::new();
        let value = value.as_ref().map(without_password);
        entry.insert("value".to_owned(), serde_json::to_value(value)?);
        entry.insert("source".to_owned(), origin.layer().into());
        if origin != Origin::Default {
            entry.insert("place".to_owned(), origin.to_string().into());
        }
        object.insert(key.to_owned(), entry.into());
    }
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

fn without_password(value: &Value) -> Value {
    match value {
        Value::String(text) => masked(text).into(),
        Value::Array(items) => Value::Array(items.iter().map(without_password).collect()),
        other => other.clone(),
    }
}
