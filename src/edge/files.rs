//! Files of a session's working directory over HTTP: paths, conditions, ranges, and bytes that travel in pieces. Each
//! file is an open descriptor; how one is opened or put in its place is the session's affair.

mod body;
pub(super) mod conditions;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod list;
mod path;
mod upload;

use http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::fmt::rfc2822::DateTimePrinter;
use repltool_protocol::files::MAX_FILES;
use repltool_protocol::rest::{ProblemCode, SandboxMode};

use super::problem::Fault;
use super::respond::{self, Answer};
use super::rest::refused;
use super::router::Call;
use crate::session::{FileFault, OpenFile, Refusal, SessionHandle};

/// `GET /sessions/{id}/files`
pub(super) async fn list(call: &Call, id: &str) -> Result<Answer, Fault> {
    let handle = session(call, id)?;
    let query = call.query();
    let folder = query.get("path")?.unwrap_or_default();
    if !folder.is_empty() {
        path::check(&folder)?;
    }
    let limit = query.up_to("limit", MAX_FILES)?.unwrap_or(MAX_FILES);
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let pipe = handle.files(folder.into_owned(), most).await.map_err(|refusal| refused(&handle, refusal))?;
    respond::json(StatusCode::OK, &list::read(pipe, limit).await?)
}

/// `GET` and `HEAD /sessions/{id}/files/{path}`
pub(super) async fn read(call: &Call, id: &str, file: &str) -> Result<Answer, Fault> {
    let handle = session(call, id)?;
    let open = handle.read_file(path::parse(file)?).await.map_err(|refusal| refused(&handle, refusal))?;
    let headers = call.request.headers();
    let tag = conditions::tag(open.inode, open.size, open.modified);
    conditions::if_match(headers, Some(&tag))?;
    let modified = DateTimePrinter::new().timestamp_to_rfc9110_string(&open.modified);
    let mut answer = match conditions::is_known(headers, Some(&tag)) {
        true => respond::empty(StatusCode::NOT_MODIFIED),
        false => content(call.request.method(), headers, open, &tag)?,
    };
    set(&mut answer, ETAG, &tag);
    if let Ok(modified) = modified {
        set(&mut answer, LAST_MODIFIED, &modified);
    }
    Ok(answer)
}

/// `PUT /sessions/{id}/files/{path}`
pub(super) async fn write(mut call: Call, id: &str, file: &str) -> Result<Answer, Fault> {
    let written = begin(&call, id, file).await?.run(&mut call.request).await?;
    let status = if written.existed { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let mut answer = respond::empty(status);
    set(&mut answer, ETAG, &written.tag);
    Ok(answer)
}

/// `DELETE /sessions/{id}/files/{path}`
pub(super) async fn remove(call: &Call, id: &str, file: &str) -> Result<Answer, Fault> {
    let handle = session(call, id)?;
    let path = path::parse(file)?;
    preconditions(&handle, call.request.headers(), &path).await?;
    handle.remove_file(path).await.map_err(|refusal| refused(&handle, refusal))?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// The session in the path, if it has files.
fn session(call: &Call, id: &str) -> Result<SessionHandle, Fault> {
    let handle = call.session(id)?;
    match handle.identity().sandbox_mode {
        SandboxMode::Strict => Err(Fault::new(ProblemCode::Forbidden, "a strict session has no files")),
        SandboxMode::Standard | SandboxMode::Relaxed => Ok(handle),
    }
}

async fn begin(call: &Call, id: &str, file: &str) -> Result<upload::Upload, Fault> {
    let handle = session(call, id)?;
    let path = path::parse(file)?;
    let (headers, shared) = (call.request.headers(), &call.connection.shared);
    upload::check(headers, shared.config.max_file_bytes)?;
    preconditions(&handle, headers, &path).await?;
    upload::Upload::begin(handle, path, shared.config.max_file_bytes, shared.tasks.clone()).await
}

/// Checks `If-Match` and `If-None-Match` of a request that changes a file, against what is there now.
async fn preconditions(handle: &SessionHandle, headers: &HeaderMap, path: &str) -> Result<(), Fault> {
    if !conditions::are_given(headers) {
        return Ok(());
    }
    let tag = match handle.read_file(path.to_owned()).await {
        Ok(open) => Some(conditions::tag(open.inode, open.size, open.modified)),
        Err(Refusal::File(_, FileFault::Missing)) => None,
        // There is something, which no tag stands for.
        Err(Refusal::File(_, FileFault::Kind | FileFault::Denied)) => Some(String::new()),
        Err(refusal) => return Err(refused(handle, refusal)),
    };
    conditions::if_match(headers, tag.as_deref())?;
    match conditions::is_known(headers, tag.as_deref()) {
        true => Err(Fault::new(ProblemCode::PreconditionFailed, "If-None-Match: there is such a file")),
        false => Ok(()),
    }
}

/// The bytes that were asked for.
fn content(method: &Method, headers: &HeaderMap, open: OpenFile, tag: &str) -> Result<Answer, Fault> {
    let size = open.size;
    let range = if method == Method::GET { conditions::range(headers, tag, size)? } else { None };
    let (status, first, bytes) = match &range {
        Some(range) => (StatusCode::PARTIAL_CONTENT, range.start, range.end - range.start),
        None => (StatusCode::OK, 0, size),
    };
    // What a program wrote may be a page with scripts in it: browsers are to save it, whatever it is.
    let mut answer = respond::with(status, "application/octet-stream", body::stream(open.file, first, bytes));
    set(&mut answer, CONTENT_DISPOSITION, "attachment");
    set(&mut answer, ACCEPT_RANGES, "bytes");
    set(&mut answer, CONTENT_LENGTH, &bytes.to_string());
    if let Some(range) = range {
        set(&mut answer, CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
    }
    Ok(answer)
}

/// Sets a header to a text of our own making.
fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
