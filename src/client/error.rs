//! Why a call does not succeed.

use http::StatusCode;
use repltool_protocol::rest::Problem;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not one of a server.
    #[error("not the url of a server: {0}; http://host:port or https://host:port is needed")]
    Url(String),
    /// The token or an id cannot be put into a request.
    #[error("the request cannot be written")]
    Request(#[source] http::Error),
    /// Nobody answers there.
    #[error("cannot connect to {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Somebody answers there, and is not trusted or does not speak TLS 1.3.
    #[error("no TLS connection to {address}")]
    Tls {
        /// Host and port.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The authorities that were named cannot be used.
    #[error("the file of authorities cannot be used: {0}")]
    Trust(String),
    /// The connection broke off. Whether the request was carried out is not known.
    #[error("the connection broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The server answered with something that is not of the protocol.
    #[error("unexpected answer: {0}")]
    Unexpected(StatusCode),
    /// The server sent something that cannot be read.
    #[error("unreadable answer")]
    Unreadable(#[source] serde_json::Error),
}

impl ClientError {
    /// The problem document, if the server sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}
