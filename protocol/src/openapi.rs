//! The REST surface as an OpenAPI 3.1 document.
//!
//! The paths come from one table ([`operations`]), the schemas from the types, by the same generator as the JSON Schema of
//! [`crate::schema`]: OpenAPI 3.1 takes JSON Schema 2020-12 as it is. Nothing here is looked up at run time: the document
//! is checked in, and a test keeps it equal to what [`document`] makes.

mod examples;
mod operation;
mod operations;
mod problems;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::operation::{Access, Answer, Content, Operation, Parameter, Place, Shape};
use crate::rest::ProblemCode;

/// Where the schemas are in the document.
const SCHEMAS: &str = "/components/schemas";

/// What no operation says for itself.
const ABOUT: &str = "\
Stateful, sandboxed sessions of Python, JavaScript and Bash: a client sends code, reads what it prints while it runs, and \
finds its variables again in the next call.

- Every `GET` answers `HEAD` too, but for the WebSockets. `OPTIONS` tells which methods a path has.
- A failed program is a success of the request, with `success: false`. A failed request is a problem document (RFC 9457) \
whose `code` is for programs and stable.
- Clients skip fields that they do not know. The server refuses fields of a body that it does not know, by name, and \
leaves unknown names in a query alone.
- Somebody else's session is answered like one that is not there.";

/// The document, as it is checked in under `schema/`.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&value()).unwrap_or_default();
    text.push('\n');
    text
}

fn value() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "repltool",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "REPL sessions over REST and WebSocket",
            "description": ABOUT,
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The server that this document came from" }],
        "tags": operations::TAGS.iter().map(|(name, says)| json!({ "name": name, "description": says })).collect::<Vec<_>>(),
        "paths": paths(),
        "components": {
            "schemas": crate::schema::definitions(SCHEMAS),
            "responses": responses(),
            "headers": headers(),
            "securitySchemes": { "bearer": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "A signed token. Its claim `scope` says what it allows: `tool:execute` to create, run and \
                    change (it implies `session:read`), `session:read` to read, `sandbox:relaxed` to ask for that level, \
                    `admin` for everybody's sessions.",
            } },
        },
    })
}

fn paths() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations::all() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    paths.into()
}

fn described(operation: &Operation) -> Value {
    let mut it = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": match operation.access {
            Access::Public => json!([]),
            Access::Token => json!([{ "bearer": [] }]),
            Access::Scope(scope) => json!([{ "bearer": [scope] }]),
        },
    });
    let of_path = operation.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameters: Vec<Value> =
        of_path.map(operations::of_path).chain(operation.parameters.iter().copied()).map(parameter).collect();
    if !parameters.is_empty() {
        it["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        it["requestBody"] = json!({ "required": !body.may_be_absent, "content": content(&[body.content]) });
    }
    it["responses"] = operation.answers.iter().map(|it| (it.status.to_string(), answer(it, operation))).collect();
    for (status, codes) in by_status(operation) {
        let place = format!("#/components/responses/{}", problems::name(&codes));
        it["responses"][status.to_string()] = json!({ "$ref": place });
    }
    if operation.is_socket {
        it["x-websocket"] = json!({ "subprotocol": crate::frame::SUBPROTOCOL });
    }
    it
}

fn parameter(parameter: Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": match parameter.place {
            Place::Path => "path",
            Place::Query => "query",
            Place::Header => "header",
        },
        "required": parameter.is_required,
        "description": parameter.says,
        "schema": shape(parameter.shape),
    })
}

fn shape(shape: Shape) -> Value {
    match shape {
        Shape::Named(name) => json!({ "$ref": format!("#{SCHEMAS}/{name}") }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Matching(pattern) => json!({ "type": "string", "pattern": pattern }),
        Shape::Number { least, most, default: None } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Number { least, most, default } => {
            json!({ "type": "integer", "minimum": least, "maximum": most, "default": default })
        }
        Shape::Flag => json!({ "type": "boolean", "default": false }),
        Shape::Anything => json!({}),
    }
}

fn content(contents: &[Content]) -> Value {
    contents.iter().map(|it| (it.media_type.to_owned(), media(it))).collect()
}

fn media(content: &Content) -> Value {
    let named = match content.shape {
        Shape::Named(name) => examples::of(name),
        _ => None,
    };
    let mut it = json!({ "schema": shape(content.shape) });
    if let Some(item) = content.item {
        // A keyword of OpenAPI 3.2; under an own name until then.
        it["x-itemSchema"] = shape(Shape::Named(item));
    }
    if let Some(example) = named {
        it["example"] = example;
    }
    it
}

fn answer(answer: &Answer, operation: &Operation) -> Value {
    let limited: &[&str] = if operation.access == Access::Public { &[] } else { &operation::LIMITED };
    let names = operation::OF_ALL.iter().chain(answer.headers).chain(limited);
    let mut it = json!({ "description": answer.says, "headers": header_refs(names) });
    if !answer.contents.is_empty() {
        it["content"] = content(answer.contents);
    }
    if !answer.links.is_empty() {
        let parameters = json!({ "id": "$response.body#/session_id" });
        let link = |id: &&str| ((*id).to_owned(), json!({ "operationId": id, "parameters": parameters }));
        it["links"] = answer.links.iter().map(link).collect();
    }
    it
}

fn header_refs<'a>(names: impl IntoIterator<Item = &'a &'a str>) -> Value {
    let reference = |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    names.into_iter().map(reference).collect()
}

/// The codes of an operation's problems, by status.
fn by_status(operation: &Operation) -> BTreeMap<u16, Vec<ProblemCode>> {
    let of_access: &[ProblemCode] = match operation.access {
        Access::Public => &[],
        Access::Token | Access::Scope(_) => &problems::OF_TOKEN,
    };
    let of_session: &[ProblemCode] = if operation.path.contains("{id}") { &problems::OF_SESSION } else { &[] };
    let of_body: &[ProblemCode] = if operation.body.is_some() { &problems::OF_BODY } else { &[] };
    let mut found: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for code in problems::ALWAYS.iter().chain(of_access).chain(of_session).chain(of_body).chain(operation.problems) {
        let codes = found.entry(problems::status(*code)).or_default();
        if !codes.contains(code) {
            codes.push(*code);
        }
    }
    // One combination has one name.
    found.values_mut().for_each(|codes| codes.sort_by_key(|code| problems::text(*code)));
    found
}

/// The problem documents that operations refer to, each combination of codes once.
fn responses() -> Value {
    let all = operations::all().flat_map(by_status);
    all.map(|(status, codes)| (problems::name(&codes), problems::response(status, &codes))).collect()
}

fn headers() -> Value {
    operation::HEADERS
        .iter()
        .map(|(name, says)| {
            let required = *name == operation::REQUEST_ID;
            ((*name).to_owned(), json!({ "description": says, "required": required, "schema": { "type": "string" } }))
        })
        .collect()
}
