//! The list of problem codes.

use super::ProblemCode;

impl ProblemCode {
    /// Every code, in the order of its status.
    pub const ALL: [Self; 20] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Busy,
        Self::Conflict,
        Self::Gone,
        Self::PreconditionFailed,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::RangeNotSatisfiable,
        Self::MisdirectedRequest,
        Self::SessionLimit,
        Self::RateLimited,
        Self::ExpressionLimit,
        Self::Internal,
        Self::SandboxUnavailable,
        Self::Draining,
        Self::StorageFull,
    ];
}
