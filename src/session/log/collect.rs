//! One execution gathered from the log, for a reply that waits for its end.

use repltool_protocol::event::{Outcome, RawJson, StreamName};
use repltool_protocol::ids::{ExecutionId, Seq};
use repltool_protocol::rest::Display;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cursor::{Body, LogReader, Step};
use super::{Kind, LogError};

/// All that an execution told.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its rich outputs.
    pub displays: Vec<Display>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether a part of the log was no longer kept while it was gathered.
    pub has_gap: bool,
}

/// Reads the log after `after`, which must lie before the execution's first event, until its result.
///
/// It holds what the execution printed: at most `max_output_size`, three times that if none of it is text.
///
/// # Errors
/// [`LogError::ResultGone`] if the result is not in the log and will not come; [`LogError::WriterGone`],
/// [`LogError::File`], [`LogError::Damaged`].
///
/// # Cancel safety
/// Cancel-safe: it only reads.
pub async fn collect(reader: &LogReader, after: Seq, id: &ExecutionId) -> Result<Collected, LogError> {
    let mut cursor = reader.cursor(Some(after));
    let mut stdout = String::new();
    let mut stderr = String::new();
    let mut displays = Vec::new();
    let mut has_gap = false;
    let mut was_settled = false;
    loop {
        tokio::task::consume_budget().await;
        match cursor.step()? {
            Step::Event(event) if event.execution.as_ref() == Some(id) => match event.body {
                Body::Output(StreamName::Stdout, text) => stdout.push_str(&text),
                Body::Output(StreamName::Stderr, text) => stderr.push_str(&text),
                Body::Json(Kind::Display, json) => displays.push(decode(&json)?),
                Body::Json(Kind::Result, json) => {
                    let outcome = decode_outcome(&json)?;
                    return Ok(Collected { stdout, stderr, displays, outcome, has_gap });
                }
                Body::Json(..) => {}
            },
            Step::Event(_) => {}
            Step::Gap { .. } => has_gap = true,
            Step::End => return Err(LogError::ResultGone),
            // Readers are woken before an execution counts as settled: what is not there on the second look is gone.
            Step::Wait if was_settled => return Err(LogError::ResultGone),
            Step::Wait if !reader.is_pending(id) => was_settled = true,
            Step::Wait => cursor.wait().await?,
        }
    }
}

fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, LogError> {
    serde_json::from_slice(json).map_err(|_| LogError::Damaged("an event cannot be decoded"))
}

/// Keeps the text of `result` as it is: by way of a number in memory, digits could change.
pub(super) fn decode_outcome(json: &[u8]) -> Result<Outcome, LogError> {
    #[derive(Deserialize)]
    struct Only {
        result: Box<RawValue>,
    }
    let mut outcome: Outcome = decode(json)?;
    outcome.result = RawJson(decode::<Only>(json)?.result);
    Ok(outcome)
}
