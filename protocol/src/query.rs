//! Questions to a live interpreter: completion, documentation, "is this input finished?".

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum QueryKind {
    /// What could stand at the cursor.
    Complete,
    /// What is known of the thing at the cursor.
    Inspect,
    /// Whether the code can be run as it is.
    IsComplete,
}

/// Body of `POST /sessions/{id}/complete`, `/inspect` and `/is_complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct CodeRequest {
    /// The code that is asked about, in characters.
    #[schemars(length(max = 1_048_576))]
    pub code: String,
    /// In code points; absent: the end of the code. Of no meaning for `/is_complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// An answer, in the shape that its question has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(untagged)]
pub enum Reply {
    /// To [`QueryKind::Complete`].
    Complete(Completion),
    /// To [`QueryKind::Inspect`].
    Inspect(Inspection),
    /// To [`QueryKind::IsComplete`].
    IsComplete(Completeness),
}

/// What could stand at the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Completion {
    /// Each takes the place of the text between the two cursors; at most 500.
    pub matches: Vec<String>,
    /// In code points.
    pub cursor_start: u64,
    /// In code points.
    pub cursor_end: u64,
}

/// What is known of the thing at the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Inspection {
    /// Whether anything is.
    pub found: bool,
    /// MIME type to text, at most 64 KiB.
    pub data: BTreeMap<String, String>,
}

/// Whether code can be run as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub struct Completeness {
    /// The verdict.
    pub status: CompletenessStatus,
    /// What an editor would put at the beginning of the next line.
    #[serde(default)]
    pub indent: String,
}

/// The verdict on whether code can be run as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum CompletenessStatus {
    /// It can.
    Complete,
    /// More is to come.
    Incomplete,
    /// Nothing that follows could make it right.
    Invalid,
    /// The language cannot tell.
    Unknown,
}
