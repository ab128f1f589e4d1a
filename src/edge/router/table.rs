//! The API's table of contents: each path with its methods, what they do, and who may.

use http::Method;
use repltool_protocol::query::QueryKind;

use super::super::auth::Scope;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) enum Endpoint {
    Healthy,
    Ready,
    Description,
    Page,
    CreateSession,
    ListSessions,
    GetSession,
    DeleteSession,
    Execute,
    History,
    Events,
    Interrupt,
    Restart,
    Stdin,
    Ask(QueryKind),
    ListFiles,
    ReadFile,
    WriteFile,
    RemoveFile,
    Me,
    Attach,
    CreateAndAttach,
    OneShot,
    Capabilities,
    Metrics,
    SecurityEvents,
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) enum Access {
    /// Anybody.
    Public,
    /// Whoever has a token.
    Token,
    /// Whoever has the scope.
    Scope(Scope),
    /// Whoever has the scope, if the session in the path is theirs or they are administrators.
    Session(Scope),
    /// Whoever has the scope; the handshake finds the token, which may be in a second place.
    Handshake(Scope),
}

pub(in crate::edge) type Route = (Method, Endpoint, Access);

/// What can be done with a file. An empty path leads here as well, to be refused as one.
const FILE: &[Route] = &[
    (Method::GET, Endpoint::ReadFile, Access::Session(Scope::Read)),
    (Method::PUT, Endpoint::WriteFile, Access::Session(Scope::Execute)),
    (Method::DELETE, Endpoint::RemoveFile, Access::Session(Scope::Execute)),
];

/// What can be done with a file of the web page.
pub(in crate::edge) const PAGE: &[Route] = &[(Method::GET, Endpoint::Page, Access::Public)];

pub(in crate::edge) static ROUTES: &[(&str, &[Route])] = &[
    ("/healthz", &[(Method::GET, Endpoint::Healthy, Access::Public)]),
    ("/readyz", &[(Method::GET, Endpoint::Ready, Access::Public)]),
    ("/api/v1/openapi.json", &[(Method::GET, Endpoint::Description, Access::Public)]),
    (
        "/api/v1/sessions",
        &[
            (Method::GET, Endpoint::ListSessions, Access::Scope(Scope::Read)),
            (Method::POST, Endpoint::CreateSession, Access::Scope(Scope::Execute)),
        ],
    ),
    (
        "/api/v1/sessions/{id}",
        &[
            (Method::GET, Endpoint::GetSession, Access::Session(Scope::Read)),
            (Method::DELETE, Endpoint::DeleteSession, Access::Session(Scope::Execute)),
        ],
    ),
    ("/api/v1/sessions/{id}/execute", &[(Method::POST, Endpoint::Execute, Access::Session(Scope::Execute))]),
    ("/api/v1/sessions/{id}/history", &[(Method::GET, Endpoint::History, Access::Session(Scope::Read))]),
    ("/api/v1/sessions/{id}/events", &[(Method::GET, Endpoint::Events, Access::Session(Scope::Read))]),
    ("/api/v1/sessions/{id}/interrupt", &[(Method::POST, Endpoint::Interrupt, Access::Session(Scope::Execute))]),
    ("/api/v1/sessions/{id}/restart", &[(Method::POST, Endpoint::Restart, Access::Session(Scope::Execute))]),
    ("/api/v1/sessions/{id}/stdin", &[(Method::POST, Endpoint::Stdin, Access::Session(Scope::Execute))]),
    (
        "/api/v1/sessions/{id}/complete",
        &[(Method::POST, Endpoint::Ask(QueryKind::Complete), Access::Session(Scope::Execute))],
    ),
    (
        "/api/v1/sessions/{id}/inspect",
        &[(Method::POST, Endpoint::Ask(QueryKind::Inspect), Access::Session(Scope::Execute))],
    ),
    (
        "/api/v1/sessions/{id}/is_complete",
        &[(Method::POST, Endpoint::Ask(QueryKind::IsComplete), Access::Session(Scope::Execute))],
    ),
    ("/api/v1/sessions/{id}/files", &[(Method::GET, Endpoint::ListFiles, Access::Session(Scope::Read))]),
    ("/api/v1/sessions/{id}/files/", FILE),
    ("/api/v1/sessions/{id}/files/{*path}", FILE),
    ("/api/v1/me", &[(Method::GET, Endpoint::Me, Access::Token)]),
    ("/api/v1/sessions/{id}/ws", &[(Method::GET, Endpoint::Attach, Access::Handshake(Scope::Read))]),
    ("/api/v1/ws", &[(Method::GET, Endpoint::CreateAndAttach, Access::Handshake(Scope::Execute))]),
    ("/api/v1/execute", &[(Method::POST, Endpoint::OneShot, Access::Scope(Scope::Execute))]),
    ("/api/v1/capabilities", &[(Method::GET, Endpoint::Capabilities, Access::Token)]),
    ("/metrics", &[(Method::GET, Endpoint::Metrics, Access::Scope(Scope::MetricsRead))]),
    ("/api/v1/security/events", &[(Method::GET, Endpoint::SecurityEvents, Access::Scope(Scope::AuditRead))]),
];
