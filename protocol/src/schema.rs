//! JSON Schema of everything that travels, for clients in other languages.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Value, json};

/// Everything a client can meet, gathered so that one schema document names it all.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Wire {
    client_frame: crate::frame::ClientFrame,
    server_frame: crate::frame::ServerFrame,
    session_config: crate::rest::SessionConfig,
    session: crate::rest::Session,
    session_list: crate::rest::SessionList,
    execution_request: crate::rest::ExecutionRequest,
    one_shot_request: crate::rest::OneShotRequest,
    capabilities: crate::rest::Capabilities,
    execution_result: crate::rest::ExecutionResult,
    history: crate::rest::History,
    interrupt_request: crate::rest::InterruptRequest,
    stdin_request: crate::rest::StdinRequest,
    code_request: crate::query::CodeRequest,
    reply: crate::query::Reply,
    file_list: crate::files::FileList,
    me: crate::me::Me,
    problem: crate::rest::Problem,
    security_item: crate::security::SecurityItem,
}

/// The schema document, draft 2020-12, as it is checked in under `schema/`.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&schema_for!(Wire)).unwrap_or_default();
    text.push('\n');
    text
}

/// The schema of each type, for a document that has them at `place`, a JSON pointer.
pub(crate) fn definitions(place: &'static str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = place.into());
    let root = settings.into_generator().into_root_schema_for::<Wire>();
    root.pointer(place).cloned().unwrap_or_default()
}

/// A path that does not begin outside the session's directory; it may still lead out of it further on.
const DIRECTORY: &str = r"^(?!(/workspace)?/*(\.{1,2}/+)*\.\.(/|$))(/workspace(/+[^/\u0000]{1,255})*|[^/\u0000]{1,255}(/+[^/\u0000]{1,255})*)/*$";

/// What holds of a session to be created beyond its types.
pub(crate) fn bounds_of_session(schema: &mut Schema) {
    let Some(fields) = schema.get_mut("properties") else { return };
    let environment = &mut fields["environment"];
    environment["maxProperties"] = 100.into();
    environment["propertyNames"] = json!({ "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" });
    environment["additionalProperties"]["pattern"] = "^[^\\u0000]*$".into();
    let directory = &mut fields["working_directory"];
    directory["maxLength"] = 1024.into();
    directory["pattern"] = DIRECTORY.into();
    // Less memory than this does not start the interpreter.
    let language = |name: &str| json!({ "properties": { "language": { "const": name } } });
    let memory = |mib: u64| json!({ "properties": { "resource_limits": { "properties": { "max_memory_mb": { "minimum": mib } } } } });
    schema.insert("if".into(), language("javascript"));
    schema.insert("then".into(), memory(64));
    schema.insert("else".into(), json!({ "if": language("python"), "then": memory(32) }));
}

/// Of the two fields of an input one is needed.
pub(crate) fn bounds_of_input(schema: &mut Schema) {
    schema.insert("if".into(), json!({ "properties": { "eof": { "const": true } }, "required": ["eof"] }));
    schema.insert("else".into(), json!({ "properties": { "data": { "type": "string" } }, "required": ["data"] }));
}
