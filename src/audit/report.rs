//! The story of one session, told from its records.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::search::{Query, SearchError, search};

/// What the log tells of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Story {
    /// Which session.
    pub session_id: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Everybody who is named in a record of it: also those who were refused.
    pub subjects: Vec<String>,
    /// Executions that ended.
    pub executions: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that a limit ended.
    pub limited: u64,
    /// Violations, each as often as it happened.
    pub violations: u64,
    /// Refusals of requests for it.
    pub refused: u64,
    /// When it began.
    pub created: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Why.
    pub end_reason: Option<String>,
    /// All its records, in order.
    pub records: Vec<Value>,
}

/// Tells all that the log has of a session; nothing if it has nothing.
///
/// # Errors
/// See [`SearchError`].
pub fn story(data_dir: &Path, session: &str) -> Result<Option<Story>, SearchError> {
    let mut story = Story { session_id: session.to_owned(), ..Story::default() };
    let query = Query { session: Some(session.to_owned()), ..Query::default() };
    search(data_dir, &query, |_, record| {
        story.add(record);
        io::Result::Ok(())
    })?;
    Ok(Some(story).filter(|story| !story.records.is_empty()))
}

impl Story {
    fn add(&mut self, record: &Value) {
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        if let Some(subject) = text("subject").filter(|subject| !self.subjects.contains(subject)) {
            self.subjects.push(subject);
        }
        match record["kind"].as_str().unwrap_or_default() {
            "session_created" => (self.owner, self.created) = (text("subject"), text("time")),
            "session_ended" => (self.ended, self.end_reason) = (text("time"), text("reason")),
            "execution" => {
                self.executions += 1;
                self.failed += u64::from(record["success"] == false);
                self.limited += u64::from(record["limit"].is_string());
            }
            "violation" => self.violations += record["times"].as_u64().unwrap_or(1),
            "refused" => self.refused += 1,
            _ => {}
        }
        self.records.push(record.clone());
    }
}

/// A record on one line for people: time, kind, and its other fields but for those of the chain.
pub fn as_line(record: &Value) -> String {
    let mut line = format!("{} {}", word(&record["time"]), word(&record["kind"]));
    for (name, value) in record.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "n" | "time" | "kind" | "prev" | "session_id" | "event_type") {
            line.push_str(&format!(" {name}={}", word(value)));
        }
    }
    line
}

/// A text without quotation marks where it needs none.
fn word(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() && !text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '"') => {
            text.to_owned()
        }
        _ => value.to_string(),
    }
}
