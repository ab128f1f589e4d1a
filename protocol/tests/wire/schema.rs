use std::collections::BTreeSet;

use repltool_protocol::close::CloseCode;
use repltool_protocol::event::Event;
use repltool_protocol::frame::{ClientFrame, Notice};
use repltool_protocol::rest::capabilities::{Bounds, ResourceBounds};
use repltool_protocol::rest::{OneShotRequest, ProblemCode};
use repltool_protocol::schema;
use serde_json::Value;

use super::beside;

const SCHEMA: &str = "schema/repltool.v1.json";

#[test]
fn the_checked_in_schema_is_that_of_the_types() {
    let generated = schema::document();
    if std::env::var_os("REPLTOOL_BLESS").is_some() {
        std::fs::write(beside(SCHEMA), &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(beside(SCHEMA)).unwrap_or_default();
    assert!(checked_in == generated, "{SCHEMA} is stale: run `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`");
}

fn document() -> Value {
    serde_json::from_str(&schema::document()).unwrap()
}

/// The values of `type` that a definition of the schema allows.
fn types_of(definition: &str) -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        if let Some(kind) = value.pointer("/properties/type/const").and_then(Value::as_str) {
            found.insert(kind.to_owned());
        }
        for variant in value["oneOf"].as_array().into_iter().flatten() {
            collect(variant, found);
        }
    }
    let mut found = BTreeSet::new();
    collect(&document()["$defs"][definition], &mut found);
    found
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn lists_of_types_are_complete() {
    assert_eq!(types_of("ClientFrame"), set(&ClientFrame::TYPES));
    assert_eq!(types_of("Notice"), set(&Notice::TYPES));
    assert_eq!(types_of("LoggedEvent"), set(&Event::TYPES));
}

#[test]
fn client_frames_and_request_bodies_admit_no_other_fields() {
    let schema = document();
    for frame in schema["$defs"]["ClientFrame"]["oneOf"].as_array().unwrap() {
        assert_eq!(frame["additionalProperties"], false, "{frame}");
    }
    for body in [
        "SessionConfig",
        "ResourceLimits",
        "ExecutionRequest",
        "OneShotRequest",
        "InterruptRequest",
        "StdinRequest",
        "CodeRequest",
    ] {
        assert_eq!(schema["$defs"][body]["additionalProperties"], false, "{body}");
    }
}

#[test]
fn the_prose_names_every_frame_and_close_code() {
    let prose = std::fs::read_to_string(beside("README.md")).unwrap();
    for kind in ClientFrame::TYPES.iter().chain(&Notice::TYPES).chain(&Event::TYPES) {
        assert!(prose.contains(&format!("`{kind}`")), "{kind}");
    }
    for code in CloseCode::ALL {
        assert!(prose.contains(&format!("| {} |", code.code())), "{}", code.code());
    }
}

#[test]
fn the_list_of_problem_codes_is_complete() {
    let listed: BTreeSet<String> =
        ProblemCode::ALL.iter().map(|code| name(&serde_json::to_value(code).unwrap())).collect();
    let known =
        document()["$defs"]["ProblemCode"]["oneOf"].as_array().unwrap().iter().map(|it| name(&it["const"])).collect();
    assert_eq!(listed, known);
}

fn name(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn bounds_of_limits_are_those_of_the_schema() {
    let bounds = serde_json::to_value(ResourceBounds::of_protocol()).unwrap();
    let schema = document();
    let properties = schema["$defs"]["ResourceLimits"]["properties"].as_object().unwrap();
    assert_eq!(properties.len(), bounds.as_object().unwrap().len());
    for (name, property) in properties {
        let of_schema =
            [&property["minimum"], &property["maximum"], &property["default"]].map(|it| it.as_u64().unwrap());
        let Bounds { min, max, default } = serde_json::from_value(bounds[name].clone()).unwrap();
        assert_eq!([min, max, default], of_schema, "{name}");
    }
}

#[test]
fn a_one_shot_request_is_a_session_and_an_execution() {
    let schema = document();
    let names = |body: &str| -> BTreeSet<String> {
        schema["$defs"][body]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let mut both = &names("SessionConfig") | &names("ExecutionRequest");
    both.remove("session_id");
    assert_eq!(names("OneShotRequest"), both);
    let body = r#"{"language":"shell","sandbox_mode":"relaxed","environment":{"A":"b"},"working_directory":"w",
        "resource_limits":{"max_cpu_time":7,"max_memory_mb":64,"max_output_size":2048,"max_expressions":9},
        "code":"1","timeout_ms":500,"execution_id":"e1","stdin":"in"}"#;
    let (config, request) = serde_json::from_str::<OneShotRequest>(body).unwrap().into_parts();
    let mut joined = serde_json::to_value(config).unwrap();
    joined.as_object_mut().unwrap().extend(serde_json::to_value(request).unwrap().as_object().unwrap().clone());
    assert_eq!(joined, serde_json::from_str::<Value>(body).unwrap());
}
