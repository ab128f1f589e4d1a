//! The WebSocket as an AsyncAPI 3.0 document, for tools that draw, generate or check: channels, operations, messages with
//! their direction, security, limits and close codes. The schemas are those of the types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::close::CloseCode;
use crate::event::{Event, LoggedEvent};
use crate::frame::{BEARER_PREFIX, ClientFrame, MAX_FAULTS, MAX_SILENCE, Notice, PING_INTERVAL, SUBPROTOCOL};
use crate::rest::{Language, MAX_CODE_CHARS, MAX_MESSAGE_BYTES, SandboxMode};
use crate::token::MAX_TOKEN_BYTES;

/// What a client sends, and by which messages it is answered.
const ANSWERS: [(&str, &[&str]); 10] = [
    ("execute", &["queued", "started", "stream", "display", "input_request", "violation", "result", "problem"]),
    ("stdin", &["problem"]),
    ("interrupt", &["result", "problem"]),
    ("restart", &["status", "problem"]),
    ("terminate", &["problem"]),
    ("complete", &["reply", "problem"]),
    ("inspect", &["reply", "problem"]),
    ("is_complete", &["reply", "problem"]),
    ("auth", &["authenticated", "problem"]),
    ("ping", &["pong"]),
];

const ATTACH: &str = "session";
const CREATE: &str = "newSession";
const SECURITY: &str = "security";
/// The message of a record of the audit log.
const RECORD: &str = "record";

/// The document, as it is checked in under `schema/`.
pub fn document() -> String {
    // AsyncAPI's own form of schemas is draft 7 and a little more.
    let settings = SchemaSettings::draft07().with(|it| it.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut messages = messages(&mut generator);
    let channels = json!({
        ATTACH: channel(&mut generator, ATTACH, &messages),
        CREATE: channel(&mut generator, CREATE, &messages),
        SECURITY: security_channel(),
    });
    messages.insert(RECORD.to_owned(), record());
    let document = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "repltool",
            "version": "1",
            "description": format!("Sessions of interpreters over WebSockets, subprotocol `{SUBPROTOCOL}`: JSON text, one frame a message. A frame with a `seq` is an event of the session's log; every socket of a session gets the same ones."),
            "license": { "name": "Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": { "local": server() },
        "channels": channels,
        "operations": operations(),
        "components": {
            "messages": messages,
            "schemas": generator.take_definitions(true),
            "securitySchemes": security_schemes(),
        },
        "x-limits": limits(),
        "x-close-codes": close_codes(),
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn server() -> Value {
    json!({
        "host": "127.0.0.1:8000",
        "pathname": "/api/v1",
        "protocol": "ws",
        "description": "Where `repltool serve` listens if nothing else is configured.",
        "security": [
            { "$ref": "#/components/securitySchemes/header" },
            { "$ref": "#/components/securitySchemes/subprotocol" },
        ],
    })
}

fn security_schemes() -> Value {
    json!({
        "header": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "`Authorization: Bearer TOKEN`. Attaching needs the scope `session:read`, creating and all commands `tool:execute`.",
        },
        "subprotocol": {
            "type": "httpApiKey",
            "in": "header",
            "name": "Sec-WebSocket-Protocol",
            "description": format!("For pages, which cannot set headers: a second subprotocol, `{BEARER_PREFIX}TOKEN`, beside `{SUBPROTOCOL}`."),
        },
    })
}

/// Every message by the `type` of its frame.
fn messages(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut messages = Map::new();
    generator.subschema_for::<ClientFrame>();
    generator.subschema_for::<LoggedEvent>();
    generator.subschema_for::<Notice>();
    for (definition, direction) in
        [("ClientFrame", "from the client"), ("LoggedEvent", "event of the log"), ("Notice", "to one socket")]
    {
        // The frames themselves are messages; what they are made of stays among the schemas.
        let Some(mut frames) = generator.definitions_mut().shift_remove(definition) else { continue };
        let common = frames["properties"].take();
        for mut payload in frames["oneOf"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            let Some(kind) = payload.pointer("/properties/type/const").and_then(Value::as_str).map(str::to_owned)
            else {
                continue;
            };
            join(&mut payload, &common);
            // Beside a reference nothing else counts in draft 7.
            if let Some(reference) = payload.as_object_mut().and_then(|it| it.shift_remove("$ref")) {
                payload["allOf"] = json!([{ "$ref": reference }]);
            }
            let summary = payload["description"].take();
            if let Some(payload) = payload.as_object_mut() {
                payload.shift_remove("description");
            }
            let message = json!({ "name": kind, "title": kind, "summary": summary, "tags": [{ "name": direction }], "payload": payload });
            messages.insert(kind, message);
        }
    }
    messages
}

/// Adds the fields that all frames of a kind have.
fn join(payload: &mut Value, common: &Value) {
    for (name, schema) in common.as_object().into_iter().flatten() {
        payload["properties"][name] = schema.clone();
        if let Some(required) = payload["required"].as_array_mut() {
            required.push(json!(name));
        }
    }
}

fn channel(generator: &mut SchemaGenerator, name: &str, messages: &Map<String, Value>) -> Value {
    let after = json!({
        "type": "integer",
        "minimum": 0,
        "description": "The last event that the client has seen; what came after it is sent first. 0: everything that is kept.",
    });
    let references: Map<String, Value> = messages
        .keys()
        .map(|kind| (kind.clone(), json!({ "$ref": format!("#/components/messages/{kind}") })))
        .collect();
    let (address, description, query) = if name == ATTACH {
        ("/sessions/{session_id}/ws", "Attaches to a session.", json!({ "after": after }))
    } else {
        let query = json!({
            "language": generator.subschema_for::<Language>(),
            "sandbox_mode": generator.subschema_for::<SandboxMode>(),
            "after": after,
        });
        ("/ws", "Creates a session and attaches to it.", query)
    };
    let required: &[&str] = if name == ATTACH { &[] } else { &["language"] };
    let mut channel = json!({
        "address": address,
        "description": description,
        "messages": references,
        "bindings": { "ws": {
            "method": "GET",
            "query": { "type": "object", "properties": query, "required": required },
            "headers": {
                "type": "object",
                "properties": { "Sec-WebSocket-Protocol": {
                    "type": "string",
                    "description": format!("`{SUBPROTOCOL}`; the server's answer names it alone."),
                } },
                "required": ["Sec-WebSocket-Protocol"],
            },
            "bindingVersion": "0.1.0",
        } },
    });
    if name == ATTACH {
        channel["parameters"] = json!({ "session_id": { "description": "The session." } });
    }
    channel
}

fn security_channel() -> Value {
    let reference = |kind: &str| json!({ "$ref": format!("#/components/messages/{kind}") });
    json!({
        "address": "/security/events",
        "description": "Follows the records of the audit log that concern security; needs the scope `audit:read`. Clients send nothing.",
        "messages": { RECORD: reference(RECORD), "gap": reference("gap") },
        "bindings": { "ws": {
            "method": "GET",
            "query": { "type": "object", "properties": { "after": {
                "type": "integer",
                "minimum": 0,
                "description": "The last record that the client has seen; what came after it is sent first, as far as it is in memory.",
            } } },
            "bindingVersion": "0.1.0",
        } },
    })
}

fn record() -> Value {
    json!({
        "name": RECORD,
        "title": RECORD,
        "summary": "A record of the audit log. What other fields it has is up to its kind.",
        "tags": [{ "name": "to one socket" }],
        "payload": {
            "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 1, "description": "Its number; absent while the log cannot be written." },
                "time": { "type": "string", "format": "date-time" },
                "kind": { "type": "string" },
            },
            "required": ["time", "kind"],
        },
    })
}

/// The server receives each message of a client as an operation of its own, and sends events and notices.
fn operations() -> Value {
    let mut operations = Map::new();
    for channel in [ATTACH, CREATE] {
        let message = |kind: &&str| json!({ "$ref": format!("#/channels/{channel}/messages/{kind}") });
        let name = |what: &str| if channel == ATTACH { what.to_owned() } else { format!("{what}_{CREATE}") };
        let at = json!({ "$ref": format!("#/channels/{channel}") });
        for (kind, answers) in ANSWERS {
            let operation = json!({
                "action": "receive",
                "channel": at,
                "messages": [message(&kind)],
                "reply": { "channel": at, "messages": answers.iter().map(message).collect::<Vec<_>>() },
            });
            operations.insert(name(kind), operation);
        }
        for (what, kinds) in [("events", &Event::TYPES[..]), ("notices", &Notice::TYPES)] {
            let messages: Vec<_> = kinds.iter().map(message).collect();
            operations.insert(name(what), json!({ "action": "send", "channel": at, "messages": messages }));
        }
    }
    let sent = [RECORD, "gap"].map(|kind| json!({ "$ref": format!("#/channels/{SECURITY}/messages/{kind}") }));
    let at = json!({ "$ref": format!("#/channels/{SECURITY}") });
    operations.insert(SECURITY.to_owned(), json!({ "action": "send", "channel": at, "messages": sent }));
    Value::Object(operations)
}

fn limits() -> Value {
    json!({
        "max_message_bytes": MAX_MESSAGE_BYTES,
        "max_code_chars": MAX_CODE_CHARS,
        "max_token_bytes": MAX_TOKEN_BYTES,
        "max_malformed_messages": MAX_FAULTS,
        "ping_interval_s": PING_INTERVAL.as_secs(),
        "max_silence_s": MAX_SILENCE.as_secs(),
    })
}

fn close_codes() -> Value {
    let described = |code: CloseCode| json!({ "code": code.code(), "name": format!("{code:?}"), "because": code.reason(), "may_retry": code.may_retry() });
    CloseCode::ALL.map(described).into()
}
