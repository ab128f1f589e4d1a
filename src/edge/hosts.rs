//! Which host names the server answers to, and which web pages may open its sockets. Pure.
//!
//! A page that makes its own name point at this machine still sends its own name as `Host`: such requests are refused,
//! whatever token they carry. Addresses need no list, since a page cannot make them point elsewhere.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use repltool_protocol::rest::ProblemCode;

use super::problem::Fault;

/// Names and origins from the configuration.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    names: Vec<String>,
    origins: Vec<String>,
}

/// What a request says about the page it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nothing: it is a program.
    Absent,
    /// The server's own, or one on the list.
    Allowed,
    /// Any other.
    Foreign,
}

impl Hosts {
    /// Names besides those of loopback and the address a connection came in by; origins besides the server's own.
    pub(super) fn new(names: &[String], origins: &[String]) -> Self {
        let lower = |list: &[String]| list.iter().map(|it| it.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { names: lower(names), origins: lower(origins) }
    }

    /// The authority a request is meant for, in lower case, if the server answers to it; `local` is the address the
    /// connection came in by.
    ///
    /// # Errors
    /// `invalid_request` without one readable host, `misdirected_request` for another.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap, local: IpAddr) -> Result<String, Fault> {
        let unreadable = || Fault::invalid("one readable Host header is needed");
        let mut values = headers.get_all(HOST).iter();
        let header = values.next();
        if values.next().is_some() {
            return Err(unreadable());
        }
        let authority = match (uri.authority(), header) {
            (Some(authority), _) => authority.clone(),
            (None, Some(value)) => Authority::try_from(value.as_bytes()).map_err(|_| unreadable())?,
            (None, None) => return Err(unreadable()),
        };
        let whole = authority.as_str().to_ascii_lowercase();
        if whole.contains('@') {
            return Err(unreadable());
        }
        let host = authority.host().to_ascii_lowercase();
        if self.answers_to(&host, &whole, local) {
            return Ok(whole);
        }
        Err(Fault::new(ProblemCode::MisdirectedRequest, "this server does not answer to that host name"))
    }

    /// Judges the page a request comes from; `authority` is what [`Hosts::check`] gave.
    pub(super) fn origin(&self, headers: &HeaderMap, authority: &str) -> Origin {
        let mut values = headers.get_all(ORIGIN).iter();
        let Some(value) = values.next() else { return Origin::Absent };
        let Ok(text) = value.to_str() else { return Origin::Foreign };
        if values.next().is_some() {
            return Origin::Foreign;
        }
        let origin = text.to_ascii_lowercase();
        let own = |scheme: &str| origin.strip_prefix(scheme).is_some_and(|it| it == authority);
        if own("http://") || own("https://") || self.origins.contains(&origin) {
            return Origin::Allowed;
        }
        Origin::Foreign
    }

    /// Whether there are origins besides the server's own.
    pub(super) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Whether the page a request comes from is of one of those.
    pub(super) fn lists_origin(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(ORIGIN).iter().map(|value| value.to_str().map(str::to_ascii_lowercase));
        matches!((values.next(), values.next()), (Some(Ok(origin)), None) if self.origins.contains(&origin))
    }

    fn answers_to(&self, host: &str, whole: &str, local: IpAddr) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().ok().map(|it| it.to_canonical());
        host == "localhost"
            || address.is_some_and(|it| it.is_loopback() || it == local.to_canonical())
            || self.names.iter().any(|name| name == host || name == whole)
    }
}

/// Whether a request names no host but `localhost`. What a browser keeps of that name, it keeps for every server on the
/// machine of its user.
pub(super) fn is_localhost(uri: &Uri, headers: &HeaderMap) -> bool {
    let header = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = uri.host().unwrap_or_else(|| header.split(':').next().unwrap_or_default());
    host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::new(&["Repl.Example".into(), "odd.example:81".into()], &["https://ide.example/".into()])
    }

    fn with(name: http::HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    fn status(values: &[&str]) -> u16 {
        let local = "10.1.2.3".parse().unwrap();
        match hosts().check(&Uri::from_static("/x"), &with(HOST, values), local) {
            Ok(_) => 200,
            Err(fault) => fault.status().as_u16(),
        }
    }

    #[test]
    fn own_names_are_answered() {
        for host in [
            "localhost",
            "localhost:8000",
            "LOCALHOST:1",
            "127.0.0.1:8000",
            "127.8.8.8",
            "[::1]:8000",
            "[::1]",
            "[::ffff:127.0.0.1]:8000",
            "10.1.2.3:8000",
            "repl.example",
            "REPL.example:443",
            "odd.example:81",
        ] {
            assert_eq!(status(&[host]), 200, "{host}");
        }
    }

    #[test]
    fn other_names_are_misdirected() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.localhost.example:8000",
            "10.1.2.4",
            "repl.example.evil",
            "odd.example",
            "127.0.0.1.nip.io",
            "0.0.0.0:8000",
            "[::]:8000",
        ] {
            assert_eq!(status(&[host]), 421, "{host}");
        }
    }

    #[test]
    fn there_is_exactly_one_host() {
        for values in [&[][..], &["localhost", "localhost"], &[""], &["a b"], &["x@localhost"], &["localhost:x:y"]] {
            assert_eq!(status(values), 400, "{values:?}");
        }
    }

    #[test]
    fn the_target_goes_before_the_header() {
        let uri = Uri::from_static("http://evil.example/x");
        let fault = hosts().check(&uri, &with(HOST, &["localhost"]), "127.0.0.1".parse().unwrap()).unwrap_err();
        assert_eq!(fault.code(), ProblemCode::MisdirectedRequest);
    }

    #[test]
    fn origins_are_own_listed_or_foreign() {
        let judge = |values: &[&str]| hosts().origin(&with(ORIGIN, values), "127.0.0.1:8000");
        assert_eq!(judge(&[]), Origin::Absent);
        for origin in ["http://127.0.0.1:8000", "https://ide.example", "HTTPS://IDE.example"] {
            assert_eq!(judge(&[origin]), Origin::Allowed, "{origin}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost:9999",
            "http://127.0.0.1:80001",
            "http://127.0.0.1",
            "https://ide.example.evil.example",
            "http://ide.example",
            "https://ide.example:444",
            "file://127.0.0.1:8000",
        ] {
            assert_eq!(judge(&[origin]), Origin::Foreign, "{origin}");
        }
        assert_eq!(judge(&["https://ide.example", "https://ide.example"]), Origin::Foreign);
    }
}
