//! JSON Schema of everything that travels, for clients in other languages.

use schemars::{JsonSchema, schema_for};

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
}

/// The schema document, draft 2020-12, as it is checked in under `schema/`.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&schema_for!(Wire)).unwrap_or_default();
    text.push('\n');
    text
}
