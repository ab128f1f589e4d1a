//! `repltool audit`: checks, searches and tells the audit log of a server on this machine. It reads the files and asks no
//! server, so it works while one runs and while none does.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::Timestamp;

use super::Output;
use super::print::{PrintError, print};
use crate::audit::{self, Query, Story, Verdict};
use crate::config;

/// What can be asked of the audit log.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Look for records that were edited, removed, put in or moved
    ///
    /// The exit code is 0 if the log is as it was written, and 1 if not; the first record that is wrong is named. A last
    /// line that is half-written is no fault: the server was killed, and cuts it off at its next start.
    Verify {
        /// The data directory.
        #[command(flatten)]
        place: Place,
        /// A copy of audit.pub that nobody on this machine can change
        #[arg(long, value_name = "FILE")]
        public_key: Option<PathBuf>,
        /// A copy of an earlier audit.head that nobody on this machine can change: the log must still hold that record
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
        /// How to print it
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print records, the oldest first; without filters, all of them
    Search(Box<Search>),
    /// Tell the story of one session: who, what, limits, violations, end
    Report {
        /// The data directory.
        #[command(flatten)]
        place: Place,
        /// The session
        #[arg(long, value_name = "ID")]
        session: String,
        /// How to print it
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

/// Where the log is.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The data directory of the server
    #[arg(long, env = "REPLTOOL_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Arguments of `audit search`.
#[derive(Debug, clap::Args)]
pub struct Search {
    #[command(flatten)]
    place: Place,
    /// Records of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Records that name this subject
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// Records of this kind, such as execution, violation, login, auth_failed, refused, session_created
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Not before this: a time as in the records, or a span before now such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = instant)]
    since: Option<Timestamp>,
    /// Before this
    #[arg(long, value_name = "TIME", value_parser = instant)]
    until: Option<Timestamp>,
    /// Executions of this code: the SHA-256 of it in UTF-8
    #[arg(long, value_name = "HEX")]
    code_sha256: Option<String>,
    /// The newest so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// json: each record as it stands in the log; text: for people
    #[arg(long, value_enum, default_value_t = Form::Json)]
    output: Form,
}

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// As they are, one a line.
    Json,
    /// For people.
    Text,
}

/// Runs the command.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Verify { place, public_key, anchor, output } => {
            let data_dir = config::locate_data_dir(place.data_dir)?;
            let verdict = audit::verify(&data_dir, public_key.as_deref(), anchor.as_deref())?;
            print(&match output {
                Output::Text => verdict_text(&verdict),
                Output::Json => serde_json::to_string_pretty(&verdict)? + "\n",
            })?;
            Ok(if verdict.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Search(args) => search(*args),
        Command::Report { place, session, output } => {
            let data_dir = config::locate_data_dir(place.data_dir)?;
            let Some(story) = audit::story(&data_dir, &session)? else {
                anyhow::bail!("the audit log of {} has nothing about this session", data_dir.display());
            };
            print(&match output {
                Output::Text => story_text(&story),
                Output::Json => serde_json::to_string_pretty(&story)? + "\n",
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn search(args: Search) -> anyhow::Result<ExitCode> {
    let Search { place, session, subject, kind, since, until, code_sha256, limit, output } = args;
    let data_dir = config::locate_data_dir(place.data_dir)?;
    let code_sha256 = code_sha256.map(|hex| hex.to_ascii_lowercase());
    let query = Query { session, subject, kind, since, until, code_sha256, limit };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let found = audit::search(&data_dir, &query, |line, record| match output {
        Form::Json => writeln!(out, "{line}"),
        Form::Text => writeln!(out, "{}", audit::as_line(record)),
    });
    match found {
        Err(audit::SearchError::Take(error)) => return Err(PrintError::from(error).into()),
        other => other?,
    }
    out.flush().map_err(PrintError::from)?;
    Ok(ExitCode::SUCCESS)
}

/// A time of RFC 3339, or a span before now.
fn instant(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let span: jiff::Span =
        text.parse().map_err(|_| "a time such as 2026-01-31T12:00:00Z, or a span such as 2h".to_owned())?;
    let ago = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|error| error.to_string())?;
    Timestamp::now().checked_sub(ago.abs()).map_err(|error| error.to_string())
}

fn verdict_text(verdict: &Verdict) -> String {
    let Verdict { records, files, first, last, checkpoint, unsigned, half_written, fault, .. } = verdict;
    if let Some(fault) = fault {
        return format!(
            "the audit log is NOT as it was written\nrecord {}, in {}: {}\n",
            fault.record, fault.file, fault.problem
        );
    }
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "never".to_owned());
    let mut text = format!(
        "the audit log is as it was written\n{records} records, {first} to {last}, in {files} files, from {} to {}\n",
        time(&verdict.first_time),
        time(&verdict.last_time)
    );
    text += &match checkpoint {
        Some(seal) => format!("signed up to record {} at {} ({})\n", seal.count, seal.time, seal.head),
        None => "nothing is signed yet\n".to_owned(),
    };
    if *unsigned > 0 {
        text += &format!("{unsigned} records after that are not signed yet\n");
    }
    if *half_written > 0 {
        text += &format!("the last line is half-written ({half_written} bytes): a crash, and no fault\n");
    }
    text
}

fn story_text(story: &Story) -> String {
    let Story { session_id, executions, failed, limited, violations, refused, subjects, records, .. } = story;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!("session    {session_id}\nowner      {}\n", known(&story.owner));
    text += &format!("named      {}\ncreated    {}\n", subjects.join(", "), known(&story.created));
    text += &match (&story.ended, &story.end_reason) {
        (Some(at), reason) => format!("ended      {at}, {}\n", known(reason)),
        (None, _) => "ended      not yet\n".to_owned(),
    };
    text += &format!("executions {executions}, of which {failed} failed and {limited} met a limit\n");
    text += &format!("violations {violations}\nrefused    {refused}\n\n");
    for record in records {
        text += &format!("{}\n", audit::as_line(record));
    }
    text
}
