//! REST handlers: decode, call a session's handle, encode.

use std::time::Duration;

use http::StatusCode;
use repltool_protocol::ids::Seq;
use repltool_protocol::query::{CodeRequest, QueryKind};
use repltool_protocol::rest::capabilities::ModeSupport;
use repltool_protocol::rest::{
    DEFAULT_TIMEOUT_MS, ExecutionRequest, ExecutionResult, History, InterruptRequest, MAX_PAGE, ProblemCode,
    SandboxMode, Session, SessionConfig, SessionList, StdinRequest,
};

use super::auth::{Principal, Scope};
use super::problem::Fault;
use super::respond::{self, Answer};
use super::router::{self, Call};
use super::stream::{Feed, Format, Scope as FeedScope};
use super::{body, validate};
use crate::session::log::collect;
use crate::session::{Accepted, End, Execute, Refusal, SessionHandle};

/// How long a reply waits for the interpreter that takes the place of a lost one.
const FRESH_INTERPRETER: Duration = Duration::from_secs(1);

/// `POST /sessions`
pub(super) async fn create(mut call: Call) -> Result<Answer, Fault> {
    let mut config: SessionConfig = body::json(&mut call.request).await?;
    may_create(&call.principal, &mut config, call.offered())?;
    let handle = call.connection.shared.create(&call.principal, config).await?;
    let session = handle.describe();
    respond::created(&format!("/api/v1/sessions/{}", session.session_id), &session)
}

/// `GET /sessions`
pub(super) fn list(call: &Call) -> Result<Answer, Fault> {
    let (limit, offset) = call.query().page()?;
    let all = call.principal.scopes.has(Scope::Admin);
    let handles = call.connection.shared.registry.list((!all).then_some(call.principal.subject.as_str()));
    let page = handles.iter().skip(index(offset)).take(index(limit));
    let sessions: Vec<Session> = page.map(SessionHandle::describe).collect();
    respond::json(StatusCode::OK, &SessionList { total: handles.len() as u64, limit, offset, sessions })
}

/// `GET /sessions/{id}`
pub(super) fn get(call: &Call, id: &str) -> Result<Answer, Fault> {
    respond::json(StatusCode::OK, &call.session(id)?.describe())
}

/// `DELETE /sessions/{id}`
pub(super) async fn delete(call: &Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    handle.terminate().await.map_err(|refusal| refused(&handle, refusal))?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// `POST /sessions/{id}/execute`
pub(super) async fn execute(mut call: Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let request: ExecutionRequest = body::json(&mut call.request).await?;
    validate::execution(handle.identity().language, &request, id)?;
    let format = Format::asked(call.request.headers());
    let execute = Execute {
        id: request.execution_id,
        code: request.code,
        timeout: timeout(request.timeout_ms),
        stdin: request.stdin,
        // Whoever reads the events as they come sees what the program asks, and can answer it.
        interactive: format.is_some(),
        account: call.connection.shared.registry.account(&call.principal.owner()),
    };
    let place = format.map(|_| call.connection.shared.limits.place(&call.principal)).transpose()?;
    let accepted = handle.execute(execute).await.map_err(|refusal| refused(&handle, refusal))?;
    if let Some(format) = format {
        let cursor = handle.log().cursor(Some(accepted.after));
        let scope = FeedScope::Execution { id: accepted.id, log: handle.log().clone() };
        return Ok(Feed::new(cursor, format, scope).held_by(call.tenure()).holding(place).answer());
    }
    let result = result(&handle, &accepted).await?;
    if result.state_lost {
        // Whoever waited for the end finds the next interpreter ready.
        handle.until_idle(FRESH_INTERPRETER).await;
    }
    respond::json(StatusCode::OK, &result)
}

/// Waits for the end of an execution.
///
/// # Errors
/// `gone` if its result is no longer kept, and faults of the server.
pub(super) async fn result(handle: &SessionHandle, accepted: &Accepted) -> Result<ExecutionResult, Fault> {
    let it = collect(handle.log(), accepted.after, &accepted.id).await?;
    let session_id = handle.identity().id.clone();
    let mut result = ExecutionResult::new(session_id, it.outcome, it.stdout, it.stderr, it.displays);
    result.truncated |= it.has_gap;
    Ok(result)
}

/// `GET /sessions/{id}/history`
pub(super) async fn history(call: &Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let (limit, offset) = call.query().page()?;
    let (total, executions) = handle.history(limit, offset).await?;
    let session_id = handle.identity().id.clone();
    respond::json(StatusCode::OK, &History { session_id, total, limit, offset, executions })
}

/// `GET /sessions/{id}/events`
pub(super) async fn events(call: &Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let (query, headers) = (call.query(), call.request.headers());
    let (follow, limit) = (query.flag("follow")?, query.limit()?);
    let after = query.number("after")?;
    // A browser that comes back by itself could not do anything about a refusal: it is told of a gap.
    let last_seen = headers.get("last-event-id").and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
    let kept_from = handle.log().kept_from();
    if after.is_some_and(|after| Seq(after).next() < kept_from) {
        return Err(Fault::new(ProblemCode::Gone, format!("events before {kept_from} are no longer kept")));
    }
    let place = follow.then(|| call.connection.shared.limits.place(&call.principal)).transpose()?;
    let cursor = handle.log().cursor(Some(Seq(after.or(last_seen).unwrap_or(0))));
    let scope = if follow {
        FeedScope::Live { tenure: Box::new(call.tenure()), drain: call.connection.shared.drain.clone() }
    } else {
        FeedScope::UpTo(handle.log().last_seq())
    };
    let limit = if follow { limit } else { Some(limit.unwrap_or(MAX_PAGE)) };
    let format = Format::asked(headers).unwrap_or(Format::Ndjson);
    Ok(Feed::new(cursor, format, scope).at_most(limit).holding(place).answer())
}

/// `POST /sessions/{id}/interrupt`
pub(super) async fn interrupt(mut call: Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let request: InterruptRequest = body::optional_json(&mut call.request).await?.unwrap_or_default();
    handle.interrupt(request.execution_id).await.map_err(|refusal| refused(&handle, refusal))?;
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// `POST /sessions/{id}/stdin`
pub(super) async fn stdin(mut call: Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let request: StdinRequest = body::json(&mut call.request).await?;
    let input = validate::input(request.data, request.eof)?;
    handle.stdin(input).await.map_err(|refusal| refused(&handle, refusal))?;
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// `POST /sessions/{id}/complete`, `/inspect` and `/is_complete`
pub(super) async fn ask(mut call: Call, id: &str, kind: QueryKind) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    let request: CodeRequest = body::json(&mut call.request).await?;
    let question = validate::question(handle.identity().language, kind, request.code, request.cursor)?;
    let reply = handle.query(question).await.map_err(|refusal| refused(&handle, refusal))?;
    respond::json(StatusCode::OK, &reply)
}

/// `POST /sessions/{id}/restart`
pub(super) async fn restart(call: &Call, id: &str) -> Result<Answer, Fault> {
    let handle = call.session(id)?;
    handle.restart().await.map_err(|refusal| refused(&handle, refusal))?;
    respond::json(StatusCode::OK, &handle.describe())
}

/// Whether this session may be created by this principal; what it asks for beyond its level, or the token, is lowered.
/// `offered`: the levels of this server.
///
/// # Errors
/// The first wrong field, or `forbidden`.
pub(super) fn may_create(
    principal: &Principal,
    config: &mut SessionConfig,
    offered: &[ModeSupport],
) -> Result<(), Fault> {
    validate::session(config, offered)?;
    principal.limits.lower(&mut config.resource_limits, validate::min_memory_mb(config.language));
    match config.sandbox_mode {
        SandboxMode::Relaxed => router::require(principal, Scope::Relaxed),
        SandboxMode::Standard | SandboxMode::Strict => Ok(()),
    }
}

/// The timeout of an execution.
pub(super) fn timeout(timeout_ms: Option<u64>) -> Duration {
    Duration::from_millis(timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS))
}

/// What a session's refusal means to its client: one that a client terminated is not there any more.
pub(super) fn refused(handle: &SessionHandle, refusal: Refusal) -> Fault {
    if refusal == Refusal::Gone && handle.snapshot().ended == Some(End::Terminated) {
        return Fault::not_found();
    }
    refusal.into()
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
