//! The only place where a failure becomes a status, a problem document (RFC 9457) or a close code.
//!
//! A [`Fault`] is written for the client: it says what to do about it. What the operator should know of an internal
//! fault is logged once, where the fault is made; the client learns the request id and nothing more.

use std::borrow::Cow;

use http::header::{ALLOW, CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::shorten;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{FieldError, Problem, ProblemCode};

use super::auth::AuthError;
use crate::session::log::LogError;
use crate::session::quotas::Exhausted;
use crate::session::registry::CreateError;
use crate::session::{FileFault, Refusal};

/// A refused request, as its client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    code: ProblemCode,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    header: Option<(HeaderName, String)>,
    /// Somebody else's session, which it says is not there.
    conceals: Option<Box<SessionId>>,
}

impl Fault {
    /// A refusal that names no field.
    pub(super) fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), header: None, conceals: None }
    }

    /// `invalid_request`, because of one field of the body or query.
    pub(super) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        // Both may quote what the client sent.
        let error = FieldError { field: shorten(field.into()), message: shorten(message.into()) };
        let detail = format!("{}: {}", error.field, error.message);
        Self { errors: vec![error], ..Self::new(ProblemCode::InvalidRequest, detail) }
    }

    /// `invalid_request`, because of something that has no field.
    pub(super) fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::InvalidRequest, detail)
    }

    /// No such thing, or not the caller's: the two cannot be told apart.
    pub(super) fn not_found() -> Self {
        Self::new(ProblemCode::NotFound, "there is no such session or page")
    }

    /// As [`Fault::not_found`], for a session that is somebody else's.
    pub(super) fn concealing(session: SessionId) -> Self {
        Self { conceals: Some(Box::new(session)), ..Self::not_found() }
    }

    /// The session that it says is not there, although it is. For nobody but the audit log.
    pub(super) fn conceals(&self) -> Option<&SessionId> {
        self.conceals.as_deref()
    }

    /// The path is known, the method is not; `allow` lists the methods that are.
    pub(super) fn method_not_allowed(allow: String) -> Self {
        let detail = format!("this path allows {allow}");
        Self { header: Some((ALLOW, allow)), ..Self::new(ProblemCode::MethodNotAllowed, detail) }
    }

    /// Nothing of a file of `size` bytes lies in the range that was asked for.
    pub(super) fn range_not_satisfiable(size: u64) -> Self {
        let detail = format!("the file has {size} bytes, none of them in this range");
        let header = Some((CONTENT_RANGE, format!("bytes */{size}")));
        Self { header, ..Self::new(ProblemCode::RangeNotSatisfiable, detail) }
    }

    /// Adds the header that belongs to it.
    pub(super) fn with_header(self, name: HeaderName, value: String) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// A fault of the server. The cause goes to the log, once, and to nobody else.
    pub(super) fn internal(cause: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = cause, "a request failed inside the server");
        Self::untold()
    }

    /// What went wrong, for programs.
    pub(super) fn code(&self) -> ProblemCode {
        self.code
    }

    /// What to do about it. Never logged: it may quote what the client sent.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The header that belongs to it: `Allow` of a 405, `Content-Range` of a 416, `Retry-After` of `rate_limited`.
    pub(super) fn header(&self) -> Option<(&HeaderName, &str)> {
        self.header.as_ref().map(|(name, value)| (name, value.as_str()))
    }

    /// The HTTP status.
    pub(super) fn status(&self) -> StatusCode {
        match self.code {
            ProblemCode::InvalidRequest => StatusCode::BAD_REQUEST,
            ProblemCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ProblemCode::Forbidden => StatusCode::FORBIDDEN,
            ProblemCode::NotFound => StatusCode::NOT_FOUND,
            ProblemCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ProblemCode::Busy | ProblemCode::Conflict => StatusCode::CONFLICT,
            ProblemCode::Gone => StatusCode::GONE,
            ProblemCode::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            ProblemCode::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            ProblemCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemCode::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
            ProblemCode::SessionLimit | ProblemCode::RateLimited | ProblemCode::ExpressionLimit => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ProblemCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ProblemCode::SandboxUnavailable | ProblemCode::Draining => StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    /// How a socket is closed for it.
    pub(super) fn close_code(&self) -> CloseCode {
        match self.code {
            ProblemCode::InvalidRequest
            | ProblemCode::MethodNotAllowed
            | ProblemCode::Conflict
            | ProblemCode::PreconditionFailed
            | ProblemCode::RangeNotSatisfiable
            | ProblemCode::UnsupportedMediaType
            | ProblemCode::MisdirectedRequest => CloseCode::Policy,
            ProblemCode::Unauthorized => CloseCode::Unauthorized,
            ProblemCode::Forbidden => CloseCode::Forbidden,
            ProblemCode::NotFound => CloseCode::NotFound,
            ProblemCode::Gone => CloseCode::IdleTimeout,
            ProblemCode::TooLarge => CloseCode::TooBig,
            ProblemCode::SessionLimit | ProblemCode::RateLimited | ProblemCode::ExpressionLimit => {
                CloseCode::RateLimited
            }
            ProblemCode::Internal => CloseCode::Internal,
            ProblemCode::Busy | ProblemCode::SandboxUnavailable | ProblemCode::StorageFull => CloseCode::Overloaded,
            ProblemCode::Draining => CloseCode::Draining,
        }
    }

    /// The problem document of one request.
    pub(super) fn document(&self, request_id: &str) -> Problem {
        let status = self.status();
        Problem {
            kind: "about:blank".into(),
            title: status.canonical_reason().unwrap_or("Error").into(),
            status: status.as_u16(),
            detail: self.detail.to_string(),
            code: self.code,
            request_id: request_id.into(),
            errors: self.errors.clone(),
        }
    }

    /// The message on a socket that stays open; `id` is that of the refused request.
    pub(super) fn notice(self, id: Option<String>) -> Notice {
        Notice::Problem { id, code: self.code, detail: self.detail.into_owned(), errors: self.errors }
    }

    fn untold() -> Self {
        Self::new(ProblemCode::Internal, "the server failed; its log has the cause under the request id")
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Busy(_) | Refusal::NoTime => ProblemCode::Busy,
            Refusal::Conflict(_) | Refusal::NothingReads => ProblemCode::Conflict,
            Refusal::StdinFull => ProblemCode::TooLarge,
            Refusal::File(_, FileFault::Missing) => ProblemCode::NotFound,
            Refusal::File(_, FileFault::Kind) => ProblemCode::Conflict,
            Refusal::File(_, FileFault::Denied) => ProblemCode::Forbidden,
            Refusal::File(message, FileFault::Path) => return Self::field("path", message),
            Refusal::File(_, FileFault::Full) => ProblemCode::StorageFull,
            Refusal::ExpressionLimit(_) => ProblemCode::ExpressionLimit,
            Refusal::Quota(exhausted) => return exhausted.into(),
            Refusal::Gone => ProblemCode::Gone,
            Refusal::Draining => ProblemCode::Draining,
            Refusal::StorageFull => ProblemCode::StorageFull,
            Refusal::SandboxUnavailable(_) => ProblemCode::SandboxUnavailable,
            // Its maker has logged the cause.
            Refusal::Internal => return Self::untold(),
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<CreateError> for Fault {
    fn from(error: CreateError) -> Self {
        let code = match &error {
            CreateError::PerSubject(_) | CreateError::Total(_) => ProblemCode::SessionLimit,
            CreateError::Quota(exhausted) => return exhausted.into(),
            CreateError::SandboxUnavailable(_) => ProblemCode::SandboxUnavailable,
            CreateError::Invalid { field, message } => return Self::field(field.clone(), message.clone()),
            CreateError::StorageFull => ProblemCode::StorageFull,
            CreateError::Draining => ProblemCode::Draining,
            // Its maker has logged the cause.
            CreateError::Internal => return Self::untold(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<&Exhausted> for Fault {
    fn from(exhausted: &Exhausted) -> Self {
        let field = format!("quotas.{}", exhausted.quota.name());
        let fault = Self::new(ProblemCode::RateLimited, exhausted.to_string());
        let errors = vec![FieldError { field, message: fault.detail.to_string() }];
        let wait_s =
            exhausted.anew.map(|anew| anew.duration_since(Timestamp::now()).as_secs().saturating_add(1).max(1));
        Self { errors, header: wait_s.map(|wait_s| (RETRY_AFTER, wait_s.to_string())), ..fault }
    }
}

impl From<AuthError> for Fault {
    fn from(error: AuthError) -> Self {
        let detail = match error {
            AuthError::Missing => "a bearer token is needed",
            AuthError::Ambiguous => "one bearer token is needed, in one place",
            AuthError::Expired => "the token has expired; get a new one",
            AuthError::NoKeys => "the server has no keys yet to check tokens with; try again in a moment",
            AuthError::Early => "the token is not valid yet",
            AuthError::TooLong
            | AuthError::Malformed
            | AuthError::Algorithm
            | AuthError::Signature
            | AuthError::Key
            | AuthError::Revoked
            | AuthError::Kind
            | AuthError::Claim
            | AuthError::Issuer
            | AuthError::Audience
            | AuthError::Subject => "the token is not valid here",
        };
        Self::new(ProblemCode::Unauthorized, detail)
    }
}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        match error {
            LogError::ResultGone => Self::new(ProblemCode::Gone, "the result of this execution is no longer kept"),
            LogError::Full(_) => Self::new(ProblemCode::StorageFull, "the server's disk is full"),
            LogError::File { .. }
            | LogError::Directory(_)
            | LogError::Damaged(_)
            | LogError::Format(_)
            | LogError::TooLong
            | LogError::Misplaced(_)
            | LogError::WriterGone => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fault: Fault) -> String {
        serde_json::to_string(&fault.document("7f")).unwrap()
    }

    #[test]
    fn a_field_is_named_in_detail_and_errors() {
        insta::assert_snapshot!(shown(Fault::field("code", "too long")), @r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"code: too long","code":"invalid_request","request_id":"7f","errors":[{"field":"code","message":"too long"}]}"#);
    }

    #[test]
    fn internal_faults_say_nothing_of_their_cause() {
        let fault = Fault::internal(&std::io::Error::other("/var/secret is gone"));
        insta::assert_snapshot!(shown(fault), @r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the server failed; its log has the cause under the request id","code":"internal","request_id":"7f"}"#);
    }

    #[test]
    fn refusals_of_a_session_have_their_status() {
        for (refusal, status, close) in [
            (Refusal::Busy(16), 409, 1013),
            (Refusal::ExpressionLimit(5), 429, 4429),
            (Refusal::NothingReads, 409, 1008),
            (Refusal::StdinFull, 413, 1009),
            (Refusal::File("no such file".into(), FileFault::Missing), 404, 4404),
            (Refusal::File("a directory".into(), FileFault::Kind), 409, 1008),
            (Refusal::File("closed".into(), FileFault::Denied), 403, 4403),
            (Refusal::File("no path".into(), FileFault::Path), 400, 1008),
            (Refusal::File("no room".into(), FileFault::Full), 507, 1013),
            (Refusal::Gone, 410, 4408),
            (Refusal::Draining, 503, 1001),
            (Refusal::StorageFull, 507, 1013),
            (Refusal::SandboxUnavailable("no user namespaces".into()), 503, 1013),
            (Refusal::Internal, 500, 1011),
        ] {
            let fault = Fault::from(refusal);
            assert_eq!((fault.status().as_u16(), fault.close_code().code()), (status, close), "{fault:?}");
        }
    }

    #[test]
    fn a_quota_is_named_and_comes_with_a_time_if_time_helps() {
        use crate::config::Period;
        use crate::session::quotas::Quota;
        let anew = Timestamp::now() + jiff::SignedDuration::from_secs(90);
        let of = |quota, anew| Exhausted { quota, limit: 7, period: Period::Day, anew };
        let fault = Fault::from(Refusal::Quota(of(Quota::Executions, Some(anew))));
        assert_eq!((fault.status().as_u16(), fault.close_code().code()), (429, 4429), "{fault:?}");
        let wait_s: u64 = fault.header().expect("a header").1.parse().expect("seconds");
        assert!((60..=91).contains(&wait_s), "{wait_s}");
        assert_eq!(fault.document("7f").errors[0].field, "quotas.executions");
        let fault = Fault::from(CreateError::Quota(of(Quota::StoredMb, None)));
        assert_eq!((fault.code(), fault.header()), (ProblemCode::RateLimited, None));
        insta::assert_snapshot!(fault.detail(), @"your quota of 7 MiB in the logs of your sessions is used up; delete sessions that you need no longer");
    }

    #[test]
    fn a_wrong_token_is_told_in_one_shape() {
        let wrong = [AuthError::Malformed, AuthError::Signature, AuthError::Algorithm, AuthError::Claim];
        let mut shapes: Vec<_> = wrong.into_iter().map(|error| shown(error.into())).collect();
        shapes.dedup();
        insta::assert_snapshot!(shapes.join("\n"), @r#"{"type":"about:blank","title":"Unauthorized","status":401,"detail":"the token is not valid here","code":"unauthorized","request_id":"7f"}"#);
    }

    #[test]
    fn every_code_is_told_in_the_list_of_errors_as_it_is_answered() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md")).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"))
            .map(|row| row.split(" | ").map(|cell| cell.trim_matches('`')).collect())
            .filter(|row: &Vec<_>| row.len() == 6)
            .collect();
        assert_eq!(rows.len(), ProblemCode::ALL.len());
        for (row, code) in rows.iter().zip(ProblemCode::ALL) {
            let fault = Fault::new(code, "x");
            let name = serde_json::to_value(code).unwrap();
            let (status, close) = (fault.status().as_str().to_owned(), fault.close_code().code().to_string());
            assert_eq!(row[..3], [name.as_str().unwrap(), &status, &close]);
            let comes_with_a_time = crate::edge::respond::problem(&fault, "x").headers().contains_key("retry-after");
            assert!(!comes_with_a_time || row[3].contains("`Retry-After`"), "{name}");
        }
    }
}
