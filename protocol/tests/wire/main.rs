//! What the wire contract promises, seen from outside.
//!
//! `asyncapi` and `typescript` keep what is generated for others equal to the types.
//!
//! `vectors` plays the golden messages that clients in other languages read too; `properties` throws arbitrary frames and
//! arbitrary text at the codec; `schema` keeps the checked-in schema and the prose equal to the types, `openapi` the description of the REST surface.

#![allow(clippy::unwrap_used, reason = "in a test a panic is how a failure is told")]

mod asyncapi;
mod openapi;
mod properties;
mod schema;
mod typescript;
mod vectors;

use std::path::PathBuf;

/// A file beside the crate's manifest.
fn beside(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A checked-in JSON document.
fn read_json(name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(beside(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}
