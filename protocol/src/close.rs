//! WebSocket close codes, each with what the client should make of it.

/// Why the server closed a socket. Codes 44xx mirror the HTTP status 4xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// 1000: a client terminated the session.
    Terminated,
    /// 1001: the gateway drains; connect again.
    Draining,
    /// 1008: malformed or unknown messages, repeatedly.
    Policy,
    /// 1009: a message was too big.
    TooBig,
    /// 1011: a fault of the server.
    Internal,
    /// 1013: overloaded; try later.
    Overloaded,
    /// 4401: the token is missing, invalid or expired.
    Unauthorized,
    /// 4403: not allowed; or the session was ended because of too many violations.
    Forbidden,
    /// 4404: there is no such session.
    NotFound,
    /// 4408: the session was ended by its idle timeout.
    IdleTimeout,
    /// 4429: rate limited.
    RateLimited,
}

impl CloseCode {
    /// Every code, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::Terminated,
        Self::Draining,
        Self::Policy,
        Self::TooBig,
        Self::Internal,
        Self::Overloaded,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::IdleTimeout,
        Self::RateLimited,
    ];

    /// The number in the close frame.
    pub fn code(self) -> u16 {
        match self {
            Self::Terminated => 1000,
            Self::Draining => 1001,
            Self::Policy => 1008,
            Self::TooBig => 1009,
            Self::Internal => 1011,
            Self::Overloaded => 1013,
            Self::Unauthorized => 4401,
            Self::Forbidden => 4403,
            Self::NotFound => 4404,
            Self::IdleTimeout => 4408,
            Self::RateLimited => 4429,
        }
    }

    /// The reason in the close frame.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Terminated => "session terminated",
            Self::Draining => "server is about to stop, connect again",
            Self::Policy => "malformed messages",
            Self::TooBig => "message too big",
            Self::Internal => "internal fault",
            Self::Overloaded => "overloaded, try later",
            Self::Unauthorized => "token missing, invalid or expired",
            Self::Forbidden => "not allowed",
            Self::NotFound => "no such session",
            Self::IdleTimeout => "session ended by its idle timeout",
            Self::RateLimited => "too many requests or sessions",
        }
    }

    /// Whether the same request may succeed later without the client changing anything.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Draining | Self::Internal | Self::Overloaded | Self::RateLimited)
    }
}
