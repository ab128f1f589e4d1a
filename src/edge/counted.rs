//! What the edge tells metrics: names for routes, methods and reasons, from closed sets.

use http::Method;

use super::auth::AuthError;
use super::router::{Endpoint, ROUTES};

/// The route of what has none.
pub(super) const NO_ROUTE: &str = "none";
/// The route of the web page's files, which are many.
const PAGE: &str = "page";

/// The template of an endpoint's path.
pub(super) fn route(endpoint: Endpoint) -> &'static str {
    // What ends with a slash is an empty name of a file, which is refused.
    let mut paths = ROUTES.iter().filter(|(path, _)| !path.ends_with('/'));
    paths.find(|(_, routes)| routes.iter().any(|(_, it, _)| *it == endpoint)).map_or(PAGE, |(path, _)| *path)
}

/// The name of a method. Clients may make up others.
pub(super) fn method(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or(crate::metrics::labels::OTHER)
}

/// Why a token was refused.
pub(super) fn reason(error: AuthError) -> &'static str {
    match error {
        AuthError::Missing => "missing",
        AuthError::Ambiguous => "ambiguous",
        AuthError::TooLong => "too_long",
        AuthError::Malformed => "malformed",
        AuthError::Algorithm => "algorithm",
        AuthError::Signature => "signature",
        AuthError::Key => "key",
        AuthError::NoKeys => "no_keys",
        AuthError::Kind => "kind",
        AuthError::Expired => "expired",
        AuthError::Revoked => "revoked",
        AuthError::Early => "early",
        AuthError::Claim => "claim",
        AuthError::Issuer => "issuer",
        AuthError::Audience => "audience",
        AuthError::Subject => "subject",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_client_sends_the_labels_are_those_of_the_table() {
        assert_eq!(route(Endpoint::ReadFile), "/api/v1/sessions/{id}/files/{*path}");
        assert_eq!(route(Endpoint::Healthy), "/healthz");
        assert_eq!(route(Endpoint::Page), PAGE);
        assert_eq!(method(&Method::PUT), "PUT");
        assert_eq!(method(&Method::from_bytes(b"INVENTED").unwrap()), "other");
        assert_eq!(method(&Method::TRACE), "other");
    }
}
