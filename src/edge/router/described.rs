//! The table of routes and the description that clients get of it say the same.

use std::collections::{BTreeMap, BTreeSet};

use repltool_protocol::openapi;
use serde_json::Value;

use super::*;

/// Method and path to what is needed: nothing, or a scope.
type Surface = BTreeMap<(String, String), Option<&'static str>>;

const SCOPES: [Scope; 6] = Scope::ALL;

fn document() -> Value {
    serde_json::from_str(&openapi::document()).unwrap()
}

/// The table, with names as the description has them.
fn routed() -> Surface {
    let mut surface = Surface::new();
    for (path, routes) in ROUTES {
        // An empty name of a file is refused as one; that is no operation of its own.
        if path.ends_with('/') {
            continue;
        }
        for (method, _, access) in *routes {
            let needed = match access {
                Access::Public => None,
                // Any scope will do.
                Access::Token => Some(""),
                Access::Scope(scope) | Access::Session(scope) | Access::Handshake(scope) => Some(scope.name()),
            };
            surface.insert((method.as_str().to_lowercase(), path.replace("{*path}", "{path}")), needed);
        }
    }
    surface
}

fn described() -> Surface {
    let document = document();
    let mut surface = Surface::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let scopes = operation.pointer("/security/0/bearer").and_then(Value::as_array);
            let needed = scopes.map(|scopes| match scopes.first().and_then(Value::as_str) {
                Some(name) => SCOPES.into_iter().find(|it| it.name() == name).unwrap().name(),
                None => "",
            });
            surface.insert((method.clone(), path.clone()), needed);
        }
    }
    surface
}

#[test]
fn every_route_is_described_with_its_scope_and_nothing_else_is() {
    let (routed, described) = (routed(), described());
    assert!(routed.len() > 20, "{routed:?}");
    assert_eq!(described, routed);
}

#[test]
fn what_is_about_a_session_asks_whose_it_is() {
    for (path, routes) in ROUTES {
        for (method, _, access) in *routes {
            let asks = match access {
                Access::Session(_) => true,
                // Whom a socket is for is asked in the handshake, for the session that it names.
                Access::Handshake(_) => path.contains("{id}"),
                Access::Public | Access::Token | Access::Scope(_) => false,
            };
            assert_eq!(asks, path.contains("{id}"), "{method} {path}");
        }
    }
}

#[test]
fn sockets_are_described_as_such() {
    let document = document();
    for (path, routes) in ROUTES {
        for (method, _, access) in *routes {
            let operation = &document["paths"][path.replace("{*path}", "{path}")][method.as_str().to_lowercase()];
            let is_socket = matches!(access, Access::Handshake(_));
            assert_eq!(operation.get("x-websocket").is_some(), is_socket, "{path}");
        }
    }
}

#[test]
fn described_problems_have_the_status_that_the_server_gives_them() {
    let document = document();
    let mut seen = BTreeSet::new();
    for response in document["components"]["responses"].as_object().unwrap().values() {
        let schema = &response["content"]["application/problem+json"]["schema"]["properties"];
        for code in schema["code"]["enum"].as_array().unwrap() {
            let known: ProblemCode = serde_json::from_value(code.clone()).unwrap();
            assert_eq!(schema["status"]["const"], Fault::new(known, "").status().as_u16(), "{code}");
            seen.insert(code.as_str().unwrap().to_owned());
        }
    }
    // The one that no operation has: its method is not there.
    assert!(seen.len() > 15 && !seen.contains("method_not_allowed"), "{seen:?}");
}
