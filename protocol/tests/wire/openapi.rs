use std::collections::{BTreeMap, BTreeSet};

use repltool_protocol::openapi;
use serde_json::Value;

use super::beside;

const DOCUMENT: &str = "schema/openapi.json";

fn document() -> Value {
    serde_json::from_str(&openapi::document()).unwrap()
}

#[test]
fn the_checked_in_description_is_that_of_the_types() {
    let generated = openapi::document();
    if std::env::var_os("REPLTOOL_BLESS").is_some() {
        std::fs::write(beside(DOCUMENT), &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(beside(DOCUMENT)).unwrap_or_default();
    assert!(checked_in == generated, "{DOCUMENT} is stale: run `REPLTOOL_BLESS=1 cargo test -p repltool-protocol`");
}

/// What every `$ref` of a document points to.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                found.insert(target.clone());
            }
            fields.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

#[test]
fn every_reference_of_the_description_leads_somewhere() {
    let (document, mut found) = (document(), BTreeSet::new());
    references(&document, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for target in found {
        let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leads out of the document"));
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
}

/// The operations, by what they are called.
fn operations(document: &Value) -> BTreeMap<String, &Value> {
    let all = document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let named: Vec<_> = all.map(|it| (it["operationId"].as_str().unwrap().to_owned(), it)).collect();
    let count = named.len();
    let by_name: BTreeMap<_, _> = named.into_iter().collect();
    assert_eq!(by_name.len(), count, "two operations have one name");
    by_name
}

#[test]
fn links_of_the_description_lead_to_operations() {
    let document = document();
    let operations = operations(&document);
    let links = operations["createSession"]["responses"]["201"]["links"].as_object().unwrap();
    assert!(links.keys().all(|id| operations.contains_key(id)), "{links:?}");
    for (id, link) in links {
        assert_eq!(link["operationId"], id.as_str());
        assert_eq!(link["parameters"]["id"], "$response.body#/session_id");
    }
}

#[test]
fn every_operation_of_the_description_is_told_in_words() {
    let document = document();
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    for (id, operation) in operations(&document) {
        assert!(tags.contains(operation["tags"][0].as_str().unwrap()), "{id}");
        for field in ["summary", "description"] {
            assert!(operation[field].as_str().is_some_and(|text| !text.is_empty()), "{id}: {field}");
        }
        for response in operation["responses"].as_object().unwrap().values() {
            let pointer = response["$ref"].as_str().map(|target| target.trim_start_matches('#'));
            let response = pointer.map_or(response, |pointer| document.pointer(pointer).unwrap());
            assert!(response["headers"].get("X-Request-Id").is_some(), "{id}: {response}");
        }
    }
}

#[test]
fn examples_of_the_description_are_what_the_types_read() {
    use repltool_protocol::{files, me, query, rest};

    let document = document();
    let mut examples: BTreeMap<String, Value> = BTreeMap::new();
    fn collect(value: &Value, found: &mut BTreeMap<String, Value>) {
        if let (Some(name), Some(example)) =
            (value.pointer("/schema/$ref").and_then(Value::as_str), value.get("example"))
        {
            found.insert(name.rsplit('/').next().unwrap().to_owned(), example.clone());
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|it| collect(it, found)),
            Value::Array(items) => items.iter().for_each(|it| collect(it, found)),
            _ => {}
        }
    }
    collect(&document, &mut examples);
    macro_rules! read {
        ($($module:ident::$name:ident),*) => { $(
            let example = examples.remove(stringify!($name)).expect(stringify!($name));
            let value: $module::$name = serde_json::from_value(example.clone()).expect(stringify!($name));
            assert_eq!(shown(&serde_json::to_value(value).unwrap(), &example), example, stringify!($name));
        )* };
    }
    read!(
        rest::SessionConfig,
        rest::Session,
        rest::SessionList,
        rest::ExecutionRequest,
        rest::ExecutionResult,
        rest::History,
        rest::OneShotRequest,
        me::Me,
        rest::InterruptRequest,
        rest::StdinRequest,
        query::CodeRequest,
        query::Completion,
        query::Inspection,
        query::Completeness,
        files::FileList
    );
    assert!(examples.is_empty(), "no test reads these: {:?}", examples.keys());
}

/// Those fields of a value that an example has: defaults may be left out of one.
fn shown(value: &Value, example: &Value) -> Value {
    match (value, example) {
        (Value::Object(fields), Value::Object(wanted)) => wanted
            .iter()
            .map(|(name, it)| (name.clone(), shown(fields.get(name).unwrap_or(&Value::Null), it)))
            .collect(),
        _ => value.clone(),
    }
}
