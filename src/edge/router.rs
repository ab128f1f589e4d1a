//! One match from method and path to handler: the API's table of contents, with the scope that each route needs, and
//! whether it is for the owner of a session alone. Who may do what is decided here, before a handler sees the request.

mod table;

use std::str::FromStr;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use repltool_protocol::rest::capabilities::ModeSupport;
use tokio::time::Instant;
use tracing::Instrument;

use super::auth::{self, AuthError, Principal, Scope, Tenure};
use super::cors::Page;
use super::limit::Visit;
use super::problem::Fault;
use super::query::Query;
use super::received::RequestBody;
use super::respond::{self, Answer};
use super::{
    Connection, Shared, assets, capabilities, counted, files, hosts, me, one_shot, rest, scrape, security, traced,
    upgrade,
};
use crate::metrics::labels::problem;
use crate::session::SessionHandle;

use self::table::PAGE;
pub(super) use self::table::{Access, Endpoint, ROUTES, Route};

/// The table, ready to be searched.
#[derive(Debug)]
pub(super) struct Routes(matchit::Router<&'static [Route]>);

impl Routes {
    pub(super) fn new() -> Self {
        let mut router = matchit::Router::new();
        for (path, routes) in ROUTES {
            router.insert(*path, *routes).expect("the paths of the table differ");
        }
        for path in assets::paths() {
            router.insert(path, PAGE).expect("files of the page lie beside the paths of the table");
        }
        Self(router)
    }

    /// Finds the route, and what stands in the path for its names. `HEAD` goes where `GET` does, but opens no socket.
    ///
    /// # Errors
    /// `not_found` or `method_not_allowed`.
    fn find<'a>(&self, method: &Method, path: &'a str) -> Result<(Endpoint, Access, Names<'a>), Fault> {
        let found = self.0.at(path).map_err(|_| Fault::not_found())?;
        for (known, endpoint, access) in *found.value {
            let by_head = method == Method::HEAD && known == Method::GET && !matches!(access, Access::Handshake(_));
            if known == method || by_head {
                let named = |name| found.params.get(name).unwrap_or_default();
                return Ok((*endpoint, *access, Names { id: named("id"), file: named("path") }));
            }
        }
        Err(Fault::method_not_allowed(allowed(found.value)))
    }

    /// The methods of a path, as a header has them; of the server itself, those of all paths.
    ///
    /// # Errors
    /// `not_found`.
    fn options(&self, path: &str) -> Result<String, Fault> {
        match path {
            "*" => Ok("GET, HEAD, POST, PUT, DELETE, OPTIONS".to_owned()),
            path => self.0.at(path).map(|found| allowed(found.value)).map_err(|_| Fault::not_found()),
        }
    }
}

/// What stands in a path, as it stands there; empty where its route has no such name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Names<'a> {
    /// A session.
    id: &'a str,
    /// A file of it.
    file: &'a str,
}

/// A request that may be carried out.
#[derive(Debug)]
pub(super) struct Call {
    /// What it came by.
    pub(super) connection: Arc<Connection>,
    /// Who is asking.
    pub(super) principal: Principal,
    /// What is asked.
    pub(super) request: Request<RequestBody>,
}

impl Call {
    /// Its query string.
    pub(super) fn query(&self) -> Query<'_> {
        Query::new(self.request.uri().query())
    }

    /// Who is asking, for as long as the token is good.
    pub(super) fn tenure(&self) -> Tenure {
        self.connection.shared.auth.tenure(self.principal.clone())
    }

    /// The levels that this server offers.
    pub(super) fn offered(&self) -> &[ModeSupport] {
        &self.connection.shared.config.capabilities.sandbox.modes
    }

    /// The session in its path, which is the caller's.
    ///
    /// # Errors
    /// `not_found`, for somebody else's too.
    pub(super) fn session(&self, id: &str) -> Result<SessionHandle, Fault> {
        self.connection.shared.session(&self.principal, id)
    }
}

/// A new name for a request.
pub(super) fn request_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Answers one request, whatever it is.
pub(super) async fn answer(connection: Arc<Connection>, request: Request<Incoming>) -> Answer {
    let (request_id, begun) = (request_id(), Instant::now());
    let (metrics, method) = (connection.shared.metrics.clone(), counted::method(request.method()));
    let page = Page::of(&connection.shared.hosts.get(), &request);
    let keep_to_tls = connection.encrypted && !hosts::is_localhost(request.uri(), request.headers());
    let client = connection.shared.proxies.get().client(connection.peer.ip(), request.headers());
    let mut visit = Visit::new(client);
    (visit.noted.request_id, visit.noted.method) = (request_id.clone(), request.method().clone());
    let audited = connection.clone();
    let span = traced::request(&request_id, client, request.headers());
    let request = RequestBody::of(request, connection.shared.config.body_timeout, connection.shared.tasks.clone());
    let routed = route(connection, request, &mut visit).instrument(span.clone()).await;
    if let Err(fault) = &routed {
        audited.shared.audited.refused(&visit, fault).instrument(span.clone()).await;
    }
    let mut answer = routed.unwrap_or_else(|fault| {
        metrics.refused(fault.code());
        // Not the detail: it may quote what the client sent.
        span.in_scope(|| tracing::debug!(code = problem(fault.code()), "a request was refused"));
        respond::problem(&fault, &request_id)
    });
    visit.finish(answer.headers_mut());
    respond::finish(&mut answer, &request_id);
    page.finish(&mut answer);
    if keep_to_tls {
        respond::keep_to_tls(&mut answer);
    }
    let (route, status, took) = (visit.route(), answer.status().as_u16(), begun.elapsed());
    span.in_scope(|| tracing::debug!(route, method, status, ?took, "answered"));
    traced::answered(&span, &mut answer, route, method);
    metrics.answered(route, method, status, took);
    answer
}

/// From now on the lines of this request tell of the session, if it can be the name of one.
pub(super) fn note_session(id: &str) {
    if let Ok(id) = SessionId::from_str(id) {
        tracing::Span::current().record("session", tracing::field::display(&id));
    }
}

async fn route(connection: Arc<Connection>, request: Request<RequestBody>, visit: &mut Visit) -> Result<Answer, Fault> {
    let shared = &connection.shared;
    let authority = shared.hosts.get().check(request.uri(), request.headers(), connection.local)?;
    let path = request.uri().path();
    if request.method() == Method::OPTIONS {
        return respond::options(&shared.routes.options(path)?);
    }
    let (endpoint, access, names) = shared.routes.find(request.method(), path)?;
    visit.matched(counted::route(endpoint));
    let (id, file) = (names.id.to_owned(), names.file.to_owned());
    note_session(&id);
    let scope = match access {
        Access::Public => return public(shared, endpoint, &request),
        Access::Token => None,
        Access::Scope(scope) if endpoint == Endpoint::SecurityEvents && upgrade::is_asked(&request) => {
            return Box::pin(upgrade::upgrade(
                connection,
                request,
                &authority,
                upgrade::Wanted::Security,
                scope,
                visit,
            ))
            .await;
        }
        Access::Scope(scope) | Access::Session(scope) => Some(scope),
        Access::Handshake(scope) => {
            let wanted = if endpoint == Endpoint::Attach { upgrade::Wanted::Session(id) } else { upgrade::Wanted::New };
            return Box::pin(upgrade::upgrade(connection, request, &authority, wanted, scope, visit)).await;
        }
    };
    let token = auth::bearer(request.headers()).and_then(|token| token.ok_or(AuthError::Missing));
    let principal = admit(shared, visit, token, scope)?;
    shared.audited.admitted(visit, &principal).await;
    let call = Call { connection, principal, request };
    if let Access::Session(_) = access {
        call.session(&id)?;
    }
    // Those that wait are apart, for each answer has to carry the place of the largest future around.
    match endpoint {
        Endpoint::CreateSession => Box::pin(rest::create(call)).await,
        Endpoint::ListSessions => rest::list(&call),
        Endpoint::GetSession => rest::get(&call, &id),
        Endpoint::DeleteSession => Box::pin(rest::delete(&call, &id)).await,
        Endpoint::Execute => Box::pin(rest::execute(call, &id)).await,
        Endpoint::History => Box::pin(rest::history(&call, &id)).await,
        Endpoint::Events => Box::pin(rest::events(&call, &id)).await,
        Endpoint::Interrupt => Box::pin(rest::interrupt(call, &id)).await,
        Endpoint::Restart => Box::pin(rest::restart(&call, &id)).await,
        Endpoint::Stdin => Box::pin(rest::stdin(call, &id)).await,
        Endpoint::Ask(kind) => Box::pin(rest::ask(call, &id, kind)).await,
        Endpoint::ListFiles => Box::pin(files::list(&call, &id)).await,
        Endpoint::ReadFile => Box::pin(files::read(&call, &id, &file)).await,
        Endpoint::WriteFile => Box::pin(files::write(call, &id, &file)).await,
        Endpoint::RemoveFile => Box::pin(files::remove(&call, &id, &file)).await,
        Endpoint::OneShot => Box::pin(one_shot::execute(call)).await,
        Endpoint::Capabilities => capabilities::get(&call),
        Endpoint::Metrics => scrape::get(&call),
        Endpoint::SecurityEvents => security::events(&call),
        Endpoint::Me => me::me(&call, visit.standing()),
        Endpoint::Healthy | Endpoint::Ready | Endpoint::Attach | Endpoint::CreateAndAttach => Err(Fault::not_found()),
        Endpoint::Description | Endpoint::Page => Err(Fault::not_found()),
    }
}

/// The principal of a token, if it has the scope; the request is charged to it.
///
/// # Errors
/// `unauthorized`, `rate_limited` or `forbidden`.
pub(super) fn admit(
    shared: &Shared,
    visit: &mut Visit,
    token: Result<&str, AuthError>,
    scope: Option<Scope>,
) -> Result<Principal, Fault> {
    let principal = authenticate(shared, visit, token)?;
    visit.noted.subject = Some(principal.subject.clone());
    shared.limits.charge(visit, &principal)?;
    if let Some(scope) = scope {
        require(&principal, scope)?;
    }
    Ok(principal)
}

/// Whom a token stands for. A token that is refused is told in the log, without the token, and charged to its peer. What
/// is beyond the peer's rate is told at the level debug alone: nobody fills the log by guessing.
///
/// # Errors
/// `unauthorized` or `rate_limited`.
fn authenticate(shared: &Shared, visit: &mut Visit, token: Result<&str, AuthError>) -> Result<Principal, Fault> {
    token.and_then(|token| shared.auth.verify(token)).map_err(|error| {
        visit.noted.reason = Some(error.to_string());
        shared.metrics.login_failed(counted::reason(error));
        match shared.limits.charge_failure(visit) {
            Ok(()) => {
                tracing::warn!(reason = %error, "authentication failed");
                error.into()
            }
            Err(fault) => {
                tracing::debug!(reason = %error, "authentication failed, as it does too often for this peer");
                fault
            }
        }
    })
}

/// Whether the principal has the scope.
///
/// # Errors
/// `forbidden`, with the scope that is missing.
pub(super) fn require(principal: &Principal, scope: Scope) -> Result<(), Fault> {
    if principal.scopes.has(scope) {
        return Ok(());
    }
    tracing::info!(subject = principal.subject, scope = scope.name(), "a scope is missing");
    Err(Fault::new(ProblemCode::Forbidden, format!("the token lacks the scope {}", scope.name())))
}

fn public<B>(shared: &Shared, endpoint: Endpoint, request: &Request<B>) -> Result<Answer, Fault> {
    match endpoint {
        Endpoint::Healthy => return respond::json(StatusCode::OK, &serde_json::json!({ "status": "ok" })),
        Endpoint::Description => return assets::description(request.headers()),
        Endpoint::Page => return assets::page(request.uri().path(), request.headers()),
        _ => {}
    }
    if shared.drain.is_cancelled() {
        return Err(Fault::new(ProblemCode::Draining, "the server is about to stop"));
    }
    if !shared.auth.has_keys() {
        return Err(Fault::new(ProblemCode::SandboxUnavailable, "there are no keys yet to check tokens with"));
    }
    if !shared.registry.ready() {
        return Err(Fault::new(ProblemCode::SandboxUnavailable, "no session can be created yet"));
    }
    respond::json(StatusCode::OK, &serde_json::json!({ "status": "ready" }))
}

fn allowed(routes: &[Route]) -> String {
    let mut names: Vec<&str> = routes.iter().map(|(method, ..)| method.as_str()).collect();
    if routes.iter().any(|(method, _, access)| method == Method::GET && !matches!(access, Access::Handshake(_))) {
        names.insert(1, "HEAD");
    }
    names.push("OPTIONS");
    names.join(", ")
}

#[cfg(test)]
mod described;

#[cfg(test)]
mod tests;
