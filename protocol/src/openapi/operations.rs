//! The table of operations. A route of the router that is missing here, or the other way round, fails a test of the edge.

mod executions;
mod files;
mod server;
mod sessions;

use super::operation::{Operation, Parameter, Place, Shape};
use crate::rest::{DEFAULT_PAGE, MAX_PAGE, ProblemCode};

/// The groups, in the order in which they are shown.
pub(super) const TAGS: [(&str, &str); 6] = [
    ("sessions", "What a client owns: variables, files and a log behind one interpreter"),
    ("executions", "Code, its input and its end"),
    ("events", "The numbered log of all that happened in a session"),
    ("editor", "Questions to the live interpreter"),
    ("files", "The session's working directory. A path is decoded once; `%2F` separates as `/` does"),
    ("server", "The server itself"),
];

/// Reading what is the caller's.
const READ: &str = "session:read";
/// Creating, running and changing.
const EXECUTE: &str = "tool:execute";

/// What the creation of a session can be refused for.
const OF_CREATION: &[ProblemCode] =
    &[ProblemCode::SessionLimit, ProblemCode::SandboxUnavailable, ProblemCode::Draining, ProblemCode::StorageFull];

const LIMIT: Parameter = Parameter::query(
    "limit",
    Shape::Number { least: 1, most: MAX_PAGE, default: Some(DEFAULT_PAGE) },
    "How many entries at most",
);
/// The store counts rows in 63 bits.
const OFFSET: Parameter = Parameter::query(
    "offset",
    Shape::Number { least: 0, most: i64::MAX.cast_unsigned(), default: Some(0) },
    "How many entries to pass over",
);
const AFTER: Shape = Shape::Number { least: 0, most: u64::MAX, default: None };

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Operation> {
    let groups = [sessions::ALL, executions::ALL, files::ALL, server::ALL];
    groups.into_iter().flatten()
}

/// The parameter that a path names.
pub(super) fn of_path(name: &'static str) -> Parameter {
    let (shape, says) = match name {
        "id" => (Shape::Named("SessionId"), "The session"),
        _ => (Shape::Matching(files::PATH), "Names with `/` between them, below the working directory"),
    };
    Parameter { name, place: Place::Path, is_required: true, says, shape }
}
