//! Which path and method leads where.

use repltool_protocol::query::QueryKind;

use super::*;

fn found(method: Method, path: &str) -> Result<(Endpoint, String), (u16, Option<String>)> {
    match Routes::new().find(&method, path) {
        Ok((endpoint, _, names)) => Ok((endpoint, [names.id, names.file].join(" ").trim_end().into())),
        Err(fault) => Err((fault.status().as_u16(), fault.header().map(|(_, value)| value.into()))),
    }
}

#[test]
fn paths_lead_to_their_endpoints() {
    assert_eq!(found(Method::POST, "/api/v1/sessions"), Ok((Endpoint::CreateSession, "".into())));
    assert_eq!(found(Method::HEAD, "/readyz"), Ok((Endpoint::Ready, "".into())));
    assert_eq!(found(Method::GET, "/api/v1/ws"), Ok((Endpoint::CreateAndAttach, "".into())));
    assert_eq!(found(Method::GET, "/api/v1/sessions/a%2fb/ws"), Ok((Endpoint::Attach, "a%2fb".into())));
}

#[test]
fn paths_of_files_are_taken_as_they_stand() {
    for (path, endpoint, names) in [
        ("/api/v1/sessions/a/files", Endpoint::ListFiles, "a"),
        ("/api/v1/sessions/a/files/", Endpoint::ReadFile, "a"),
        ("/api/v1/sessions/a/files/b/c.txt", Endpoint::ReadFile, "a b/c.txt"),
        ("/api/v1/sessions/a/files/b%2fc", Endpoint::ReadFile, "a b%2fc"),
        ("/api/v1/sessions/a/files//b/../c/", Endpoint::ReadFile, "a /b/../c/"),
    ] {
        assert_eq!(found(Method::HEAD, path), Ok((endpoint, names.into())), "{path}");
    }
    assert_eq!(found(Method::PUT, "/api/v1/sessions/a/files/b"), Ok((Endpoint::WriteFile, "a b".into())));
    assert_eq!(
        found(Method::POST, "/api/v1/sessions/a/complete"),
        Ok((Endpoint::Ask(QueryKind::Complete), "a".into()))
    );
}

#[test]
fn unknown_paths_are_not_found() {
    for path in [
        "/api/v1/",
        "/api/v1/sessions/",
        "/api/v1/sessions//execute",
        "/api/v1/sessions/a/b/execute",
        "/API/v1/sessions",
        "*",
        "",
    ] {
        assert_eq!(found(Method::GET, path), Err((404, None)), "{path}");
    }
}

#[test]
fn other_methods_are_told_which_are_allowed() {
    for (method, path, allow) in [
        (Method::PUT, "/api/v1/sessions", "GET, HEAD, POST, OPTIONS"),
        (Method::POST, "/api/v1/sessions/abcdefgh", "GET, HEAD, DELETE, OPTIONS"),
        (Method::GET, "/api/v1/sessions/abcdefgh/execute", "POST, OPTIONS"),
        (Method::GET, "/api/v1/sessions/abcdefgh/stdin", "POST, OPTIONS"),
        (Method::PUT, "/api/v1/sessions/abcdefgh/files", "GET, HEAD, OPTIONS"),
        (Method::POST, "/api/v1/sessions/abcdefgh/files/a", "GET, HEAD, PUT, DELETE, OPTIONS"),
        (Method::HEAD, "/api/v1/ws", "GET, OPTIONS"),
        (Method::POST, "/healthz", "GET, HEAD, OPTIONS"),
        (Method::GET, "/api/v1/execute", "POST, OPTIONS"),
    ] {
        assert_eq!(found(method, path), Err((405, Some(allow.into()))), "{path}");
    }
}
