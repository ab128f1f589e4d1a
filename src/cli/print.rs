//! What the commands print: a program's output as it comes, how it ended, and the answers of a server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use repltool_protocol::event::{Event, Limit, Outcome, Recovered, StatusReason, StreamName, Violation, ViolationLayer};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Exit code of a program whose time ran out, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Why nothing could be printed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrintError {
    /// Whoever read it has gone. That is no fault, and nobody is told.
    #[error("nobody reads the output any more")]
    Closed,
    /// It cannot be written.
    #[error("cannot write the output")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// Prints to standard output, at once.
pub(super) fn print(text: &str) -> Result<(), PrintError> {
    use std::io::Write as _;
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a value as JSON, for programs.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(print(&format!("{}\n", serde_json::to_string_pretty(value)?))?)
}

/// Standard output and standard error of this process, as a program behind a server writes to them.
pub(super) struct Screen {
    stdout: tokio::io::Stdout,
    stderr: tokio::io::Stderr,
    /// Whether the session goes on after an execution, so that the loss of its variables matters.
    goes_on: bool,
    /// Whether a loss was told, so that its second mention is no news.
    loss_told: bool,
    /// Whether a violation of the execution that runs was told; its result names it again.
    violation_told: bool,
    at_line_start: bool,
}

impl Screen {
    /// For one execution, after which there is no session.
    pub(super) fn of_one_execution() -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
            goes_on: false,
            loss_told: false,
            violation_told: false,
            at_line_start: true,
        }
    }

    /// For a session that goes on.
    pub(super) fn of_session() -> Self {
        Self { goes_on: true, ..Self::of_one_execution() }
    }

    /// Prints what there is to see of an event.
    ///
    /// # Cancel safety
    /// Not cancel-safe: a part may have been written.
    pub(super) async fn event(&mut self, event: &Event) -> Result<(), PrintError> {
        for (stream, text) in self.pieces(event) {
            match stream {
                StreamName::Stdout => self.out(&text).await?,
                StreamName::Stderr => self.err(&text).await?,
            }
        }
        Ok(())
    }

    /// What there is to see of an event, in its order.
    pub(super) fn pieces<'e>(&mut self, event: &'e Event) -> Vec<(StreamName, Cow<'e, str>)> {
        use StreamName::{Stderr, Stdout};
        match event {
            Event::Stream { stream, data, .. } => vec![(*stream, data.into())],
            Event::Display { data, .. } => vec![(Stdout, format!("{}\n", in_text(data)).into())],
            Event::InputRequest { prompt, .. } => vec![(Stdout, prompt.into())],
            Event::Violation { id, rule, detail, layer, times } => {
                self.violation_told |= id.is_some();
                vec![(Stderr, refused(rule, detail, *layer, *times).into())]
            }
            Event::Result(outcome) => {
                let value = outcome.result_text.iter().map(|text| (Stdout, format!("{text}\n").into()));
                let mut pieces: Vec<_> = value.chain([(Stderr, epilogue(outcome).into())]).collect();
                if let (Some(Violation { rule, detail, layer }), false) = (&outcome.violation, self.violation_told) {
                    pieces.push((Stderr, refused(rule, detail, *layer, 1).into()));
                }
                self.violation_told = false;
                if outcome.state_lost && self.is_news_of_loss() {
                    pieces.push((Stderr, "repltool: the interpreter was replaced; its variables are gone\n".into()));
                }
                pieces
            }
            Event::Status { reason: Some(reason), recovered, .. } if self.goes_on => {
                if *reason == StatusReason::Restarted && !self.is_news_of_loss() {
                    return Vec::new();
                }
                vec![(Stderr, format!("repltool: {}\n", in_words(*reason, *recovered)).into())]
            }
            Event::Queued { .. } | Event::Started { .. } | Event::Status { .. } => Vec::new(),
        }
    }

    /// The loss of an interpreter is in a result and in a status, one after the other: only the first is news.
    fn is_news_of_loss(&mut self) -> bool {
        self.loss_told = !self.loss_told && self.goes_on;
        self.loss_told
    }

    /// Prints to standard output.
    pub(super) async fn out(&mut self, text: &str) -> Result<(), PrintError> {
        self.note(text);
        write(&mut self.stdout, text).await
    }

    /// Prints to standard error.
    pub(super) async fn err(&mut self, text: &str) -> Result<(), PrintError> {
        self.note(text);
        write(&mut self.stderr, text).await
    }

    /// Says something of our own, on a line of its own.
    pub(super) async fn say(&mut self, text: &str) -> Result<(), PrintError> {
        self.begin_line().await?;
        self.err(&format!("repltool: {text}\n")).await
    }

    /// Ends a line that the program left unfinished.
    pub(super) async fn begin_line(&mut self) -> Result<(), PrintError> {
        if self.at_line_start { Ok(()) } else { self.err("\n").await }
    }

    /// What the terminal showed by itself, such as a line that was typed.
    pub(super) fn line_was_ended(&mut self) {
        self.at_line_start = true;
    }

    fn note(&mut self, text: &str) {
        if let Some(last) = text.bytes().last() {
            self.at_line_start = last == b'\n';
        }
    }
}

async fn write(out: &mut (impl AsyncWrite + Unpin), text: &str) -> Result<(), PrintError> {
    out.write_all(text.as_bytes()).await?;
    Ok(out.flush().await?)
}

/// A rich output where only text can be shown.
fn in_text(data: &BTreeMap<String, serde_json::Value>) -> String {
    match data.get("text/plain").and_then(serde_json::Value::as_str) {
        Some(text) => text.to_owned(),
        None => format!("[{}]", data.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
    }
}

/// Why the state of a session changed.
fn in_words(reason: StatusReason, recovered: Option<Recovered>) -> &'static str {
    match (reason, recovered) {
        (StatusReason::Restarted, _) => "a fresh interpreter took over; variables are gone",
        (StatusReason::Limit, _) => "what ran in the background passed a limit; the interpreter was replaced",
        (StatusReason::IdleTimeout, _) => "nobody used the session for its idle timeout; it has ended",
        (StatusReason::Recovered, Some(Recovered::Replayed)) => "the session was taken up again, with its variables",
        (StatusReason::Recovered, _) => "the session was taken up again; variables are gone",
        (StatusReason::Terminated, _) => "the session was terminated",
        (StatusReason::Violations, _) => "too many rules of the sandbox were broken; the session has ended",
        (StatusReason::StorageFull, _) => "the disk of the server is full; it takes no new work until there is room",
    }
}

/// What was tried against the rules of the sandbox, on a line of its own.
fn refused(rule: &str, detail: &str, layer: ViolationLayer, times: u32) -> String {
    let what = match layer {
        ViolationLayer::Kernel => "refused by the sandbox",
        ViolationLayer::Policy => "against the policy of the sandbox",
    };
    match times {
        0 | 1 => format!("repltool: {what} ({rule}): {detail}\n"),
        times => format!("repltool: {what} ({rule}), {times} times: {detail}\n"),
    }
}

/// What standard error gets at the end: the traceback, as Python would print it, and the limit that struck.
fn epilogue(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(exception) = &outcome.exception {
        for line in &exception.traceback {
            text.push_str(line);
            text.push('\n');
        }
        if exception.traceback.is_empty() {
            text.push_str(&format!("{}: {}\n", exception.name, exception.message));
        }
    }
    if let Some(limit) = outcome.limit {
        text.push_str(&format!("repltool: ended by the limit on {}\n", name(limit)));
    }
    text
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::WallTime => "time (--timeout)",
        Limit::CpuTime => "cpu time (--max-cpu-time)",
        Limit::Memory => "memory (--max-memory)",
        Limit::Output => "output (--max-output)",
        Limit::Processes => "processes",
    }
}

/// The exit code for the end of an execution.
pub(super) fn exit_code(success: bool, limit: Option<Limit>) -> u8 {
    match (success, limit) {
        (true, _) => 0,
        (false, Some(Limit::WallTime)) => TIMED_OUT,
        (false, _) => 1,
    }
}

#[cfg(test)]
mod tests {
    use repltool_protocol::event::{Exception, RawJson, Usage};

    use super::*;

    fn outcome(exception: Option<Exception>, limit: Option<Limit>) -> Outcome {
        Outcome {
            id: "e1".parse().unwrap(),
            execution_count: 1,
            success: false,
            result: RawJson::null(),
            result_text: None,
            exception,
            exit_code: None,
            limit,
            violation: None,
            truncated: false,
            state_lost: false,
            usage: Usage::default(),
            execution_time_ms: 1,
            timestamp: String::new(),
        }
    }

    #[test]
    fn exit_codes_tell_failure_from_timeout() {
        assert_eq!(exit_code(true, None), 0);
        assert_eq!(exit_code(false, None), 1);
        assert_eq!(exit_code(false, Some(Limit::Memory)), 1);
        assert_eq!(exit_code(false, Some(Limit::WallTime)), 124);
    }

    #[test]
    fn the_end_names_exception_and_limit() {
        let exception = |traceback| Exception { name: "StateLost".into(), message: "gone".into(), traceback };
        assert_eq!(epilogue(&outcome(Some(exception(vec!["a".into(), "b".into()])), None)), "a\nb\n");
        let told = epilogue(&outcome(Some(exception(vec![])), Some(Limit::Memory)));
        assert_eq!(told, "StateLost: gone\nrepltool: ended by the limit on memory (--max-memory)\n");
    }

    #[test]
    fn a_violation_is_told_once_and_before_the_end() {
        let (rule, detail) = ("exec".to_owned(), "execve /usr/bin/id".to_owned());
        let layer = ViolationLayer::Kernel;
        let mut ended = outcome(None, None);
        ended.violation = Some(Violation { rule: rule.clone(), detail: detail.clone(), layer });
        let told = Event::Violation { id: Some(ended.id.clone()), rule, detail, layer, times: 3 };
        let ended = Event::Result(Box::new(ended));
        let mut screen = Screen::of_one_execution();
        let mut said = |event| screen.pieces(event).into_iter().map(|(_, text)| text).collect::<String>();
        assert_eq!(said(&told), "repltool: refused by the sandbox (exec), 3 times: execve /usr/bin/id\n");
        assert_eq!(said(&ended), "");
        let alone = "repltool: refused by the sandbox (exec): execve /usr/bin/id\n";
        assert_eq!(said(&ended), alone, "where the event itself is no longer kept");
    }

    #[test]
    fn rich_output_is_shown_by_its_text_or_named() {
        let data = |pairs: &[(&str, &str)]| pairs.iter().map(|(kind, text)| ((*kind).into(), (*text).into())).collect();
        assert_eq!(in_text(&data(&[("image/png", "aGk="), ("text/plain", "<Figure>")])), "<Figure>");
        assert_eq!(in_text(&data(&[("image/png", "aGk="), ("text/html", "<p>")])), "[image/png, text/html]");
    }
}
