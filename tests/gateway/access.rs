//! Every operation of the API, walked with every scope, right and wrong owners, and tokens that are none. What is needed
//! for each is what the server's own description says, which the table of routes is held against.

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use serde_json::{Value, json};

use super::harness::signer::Signer;
use super::harness::{As, Server, session};
use super::wire::{ask, bearer, open, open_as};

const SCOPES: [&str; 6] = ["tool:execute", "session:read", "sandbox:relaxed", "metrics:read", "audit:read", "admin"];

#[derive(Debug)]
struct Operation {
    method: String,
    path: String,
    needed: Needed,
    is_socket: bool,
}

/// What a token has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Needed {
    Nothing,
    AnyToken,
    Scope(String),
}

impl Operation {
    /// Whether it is about a session of somebody's.
    fn has_owner(&self) -> bool {
        self.path.contains("{id}")
    }

    fn ends_a_session(&self) -> bool {
        self.method == "DELETE" && self.path.ends_with('}') && !self.path.ends_with("{path}")
    }

    /// Whether a token with this scope alone may.
    fn allows(&self, scope: &str) -> bool {
        match &self.needed {
            Needed::Nothing | Needed::AnyToken => true,
            Needed::Scope(needed) => needed == scope || (needed == "session:read" && scope == "tool:execute"),
        }
    }

    fn body(&self) -> &'static str {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        match (self.method.as_str(), last) {
            ("POST", "sessions") => r#"{"language":"bash"}"#,
            ("POST", "execute") if !self.has_owner() => r#"{"language":"bash","code":"true"}"#,
            ("POST", "execute") => r#"{"code":"true"}"#,
            ("POST", "stdin") => r#"{"eof":true}"#,
            ("POST", "complete" | "inspect" | "is_complete") => r#"{"code":"ec"}"#,
            ("PUT", _) => "text",
            _ => "",
        }
    }
}

async fn operations(server: &Server) -> Vec<Operation> {
    let document = ask(server, "GET", "/api/v1/openapi.json", &[], b"").await.json();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let needed = match operation.pointer("/security/0/bearer").and_then(Value::as_array) {
                None => Needed::Nothing,
                Some(scopes) => match scopes.first().and_then(Value::as_str) {
                    None => Needed::AnyToken,
                    Some(scope) => Needed::Scope(scope.to_owned()),
                },
            };
            let is_socket = operation.get("x-websocket").is_some();
            found.push(Operation { method: method.to_uppercase(), path: path.clone(), needed, is_socket });
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// A server, and a session of ada's.
struct Scene {
    server: Server,
    signer: Signer,
    session: SessionId,
}

impl Scene {
    async fn new() -> Self {
        let server = Server::start_with(As::Me, "[rate_limit]\nenabled = false\n").await;
        let secret = repltool::keys::load(&server.data(), None).expect("the server's key");
        let session = session(&server.client_of("ada", "tool:execute"), "bash", json!({})).await;
        Self { signer: Signer::secret(&secret), server, session }
    }

    fn token(&self, subject: &str, scope: &str) -> String {
        self.signer.token(None, &claims(subject, scope, 3600))
    }

    /// Where an operation leads for ada's session, and what it needs there.
    async fn path(&self, operation: &Operation) -> String {
        let owner = self.server.client_of("ada", "tool:execute");
        let own =
            if operation.ends_a_session() { session(&owner, "bash", json!({})).await } else { self.session.clone() };
        let path = operation.path.replace("{id}", own.as_str());
        if path.ends_with("{path}") {
            let path = path.replace("{path}", "a");
            let headers = [("authorization", &*bearer(&self.token("ada", "tool:execute")))];
            let written = ask(&self.server, "PUT", &path, &headers, b"text").await;
            assert!(matches!(written.status, 201 | 204), "{written:?}");
            return path;
        }
        if path.ends_with("/security/events") {
            return format!("{path}?after=0&once=true");
        }
        if operation.is_socket && !operation.has_owner() { format!("{path}?language=bash") } else { path }
    }

    /// The status of an operation with a token, or without one.
    async fn status(&self, operation: &Operation, path: &str, token: Option<&str>) -> u16 {
        if operation.is_socket {
            let opened = match token {
                Some(token) => open_as(&self.server, path, token).await,
                None => open(&self.server, path, &[]).await,
            };
            return opened.map_or_else(|reply| reply.status, |_| 101);
        }
        let authorization = token.map(bearer);
        let kind = if operation.method == "PUT" { "application/octet-stream" } else { "application/json" };
        let mut headers = vec![("content-type", kind)];
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        let reply = ask(&self.server, &operation.method, path, &headers, operation.body().as_bytes()).await;
        match reply.status {
            401 => drop(reply.problem(ProblemCode::Unauthorized)),
            403 => drop(reply.problem(ProblemCode::Forbidden)),
            _ => {}
        }
        reply.status
    }
}

fn claims(subject: &str, scope: &str, seconds: i64) -> Value {
    json!({"sub": subject, "scope": scope, "exp": jiff::Timestamp::now().as_second() + seconds})
}

/// Whether a request was carried out, or refused for what it asks and not for who asks.
fn was_let_in(status: u16) -> bool {
    !matches!(status, 401 | 403 | 404 | 405 | 500)
}

#[tokio::test]
async fn no_operation_that_needs_a_token_is_open_without_a_right_one() {
    let scene = Scene::new().await;
    let all = SCOPES.join(" ");
    let expired = scene.signer.token(None, &claims("ada", &all, -60));
    let foreign = Signer::secret(&[7; 32]).token(None, &claims("ada", &all, 3600));
    for operation in operations(&scene.server).await {
        let path = scene.path(&operation).await;
        for token in [None, Some(&*expired), Some(&*foreign), Some("a.b.c")] {
            let status = scene.status(&operation, &path, token).await;
            match operation.needed {
                Needed::Nothing => assert_eq!(status, 200, "{operation:?}"),
                _ => assert_eq!(status, 401, "{operation:?} with {token:?}"),
            }
        }
    }
}

#[tokio::test]
async fn every_operation_takes_its_own_scope_and_no_other() {
    let scene = Scene::new().await;
    for operation in operations(&scene.server).await {
        for scope in SCOPES.into_iter().chain(["", "nonsense TOOL:EXECUTE tool:execute2"]) {
            let path = scene.path(&operation).await;
            let status = scene.status(&operation, &path, Some(&scene.token("ada", scope))).await;
            match operation.allows(scope) {
                true => assert!(was_let_in(status), "{status}: {operation:?} with {scope:?}"),
                false => assert_eq!(status, 403, "{operation:?} with {scope:?}"),
            }
        }
    }
}

#[tokio::test]
async fn every_operation_on_a_session_is_for_its_owner_and_for_administrators() {
    let scene = Scene::new().await;
    let stranger = scene.token("eve", "tool:execute session:read sandbox:relaxed metrics:read audit:read");
    let admin = scene.token("root", "admin tool:execute");
    let mut seen = 0;
    for operation in operations(&scene.server).await.into_iter().filter(Operation::has_owner) {
        let path = scene.path(&operation).await;
        assert_eq!(scene.status(&operation, &path, Some(&stranger)).await, 404, "{operation:?}");
        let unknown = path.replacen(scene.session.as_str(), "ABCDEFGHIJKLMNOPQRSTUV", 1);
        if unknown != path {
            assert_eq!(scene.status(&operation, &unknown, Some(&admin)).await, 404, "{operation:?}");
        }
        assert!(was_let_in(scene.status(&operation, &path, Some(&admin)).await), "{operation:?}");
        seen += 1;
    }
    assert!(seen > 12, "{seen} operations on sessions");
}
