//! The AsyncAPI document: equal to the types, valid, and true of the golden messages.

use std::collections::BTreeSet;

use repltool_protocol::asyncapi;
use repltool_protocol::event::Event;
use repltool_protocol::frame::{ClientFrame, Notice};
use serde_json::{Value, json};

use super::{beside, read_json};

const DOCUMENT: &str = "schema/asyncapi.json";
/// The schema of AsyncAPI itself, of the npm package `@asyncapi/specs`.
const SPECIFICATION: &str = "tests/wire/asyncapi-3.0.0.schema.json";

#[test]
fn the_checked_in_asyncapi_document_is_that_of_the_types() {
    let generated = asyncapi::document();
    if std::env::var_os("REPLTOOL_BLESS").is_some() {
        std::fs::write(beside(DOCUMENT), &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(beside(DOCUMENT)).unwrap_or_default();
    assert!(checked_in == generated, "{DOCUMENT} is stale: run `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`");
}

fn document() -> Value {
    serde_json::from_str(&asyncapi::document()).unwrap()
}

#[test]
fn the_document_is_valid_asyncapi() {
    let specification = jsonschema::validator_for(&read_json(SPECIFICATION)).unwrap();
    let faults: Vec<_> =
        specification.iter_errors(&document()).map(|it| format!("{}: {it}", it.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let mut wrong = document();
    wrong["channels"]["session"]["address"] = json!(5);
    assert!(!specification.is_valid(&wrong), "the specification refuses nothing");
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(whole: &Value, part: &Value) {
        if let Some(reference) = part.get("$ref").and_then(Value::as_str) {
            let path = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out"));
            assert!(whole.pointer(path).is_some(), "{reference} leads nowhere");
        }
        match part {
            Value::Object(fields) => fields.values().for_each(|it| walk(whole, it)),
            Value::Array(items) => items.iter().for_each(|it| walk(whole, it)),
            _ => {}
        }
    }
    walk(&document(), &document());
}

#[test]
fn every_frame_is_a_message_and_every_client_frame_an_operation() {
    let document = document();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let all = ClientFrame::TYPES.iter().chain(&Event::TYPES).chain(&Notice::TYPES);
    let all: BTreeSet<String> = all.map(|it| (*it).to_owned()).collect();
    let mut messages = names(&document["components"]["messages"]);
    assert!(messages.remove("record"), "of what concerns security");
    assert_eq!(messages, all);
    for channel in ["session", "newSession"] {
        assert_eq!(names(&document["channels"][channel]["messages"]), all, "{channel}");
    }
    for kind in ClientFrame::TYPES {
        assert_eq!(document["operations"][kind]["action"], "receive", "{kind}");
    }
}

/// Whether a message of this type is what the document says.
fn fits(document: &Value, message: &Value) -> Result<(), String> {
    let kind = message["type"].as_str().unwrap();
    let payload = &document["components"]["messages"][kind]["payload"];
    assert!(payload.is_object(), "{kind} is no message");
    // References lead from the root, so the definitions come along.
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [payload],
        "components": { "schemas": document["components"]["schemas"] },
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.validate(message).map_err(|error| error.to_string())
}

#[test]
fn the_golden_messages_are_those_that_the_document_describes() {
    let document = document();
    for file in ["vectors/client.json", "vectors/server.json"] {
        for entry in read_json(file)["frames"].as_array().unwrap() {
            let message: Value = serde_json::from_str(entry["text"].as_str().unwrap()).unwrap();
            fits(&document, &message).unwrap_or_else(|fault| panic!("{}: {fault}", entry["name"]));
        }
    }
    for wrong in [
        json!({"type": "execute", "id": "e1"}),
        json!({"type": "execute", "id": "e 1", "code": "1"}),
        json!({"type": "ping", "id": "p1", "code": null}),
        json!({"type": "auth", "id": "a1", "token": "x".repeat(8193)}),
        json!({"type": "queued", "id": "e1"}),
        json!({"type": "result", "seq": 1, "id": "e1"}),
        json!({"type": "reply", "id": "q1"}),
    ] {
        fits(&document, &wrong).expect_err(&wrong.to_string());
    }
}
