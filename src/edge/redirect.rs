//! A listener in plain text that does nothing but send clients to the encrypted one. Where it sends them is configured: it
//! takes nothing from a request but path and query.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderValue, Request, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::respond::{self, Answer};
use super::{MAX_HEADER_BYTES, accept};
use crate::config;

/// Connections at once; beyond it clients wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 256;
/// How long a connection lives at most: for a head, an answer without a body, and a goodbye.
const MAX_LIFE: Duration = Duration::from_secs(10);

/// Where clients are sent: a host and, unless it is the usual one, a port.
#[derive(Debug, Clone)]
pub struct Redirect {
    authority: String,
}

impl Redirect {
    /// To the first name of `edge.allowed_hosts`; to its port, or else that of the listener if that speaks TLS itself. None
    /// without such a name.
    pub fn new(edge: &config::Edge, listener_port: u16) -> Option<Self> {
        let host = edge.allowed_hosts.first()?;
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = match edge.tls_cert {
            Some(_) if !has_port && listener_port != 443 => format!("{host}:{listener_port}"),
            _ => host.clone(),
        };
        Some(Self { authority })
    }

    /// Serves until `drain` is cancelled.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting; connections that are open end by themselves within seconds.
    pub async fn serve(self, listener: TcpListener, drain: CancellationToken) {
        let (places, tasks) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
        let accepting = async {
            while let Ok(place) = places.clone().acquire_owned().await {
                let (stream, _) = accept(&listener).await;
                tasks.spawn(self.clone().connection(stream, place, drain.clone()));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = drain.cancelled() => {}
        }
    }

    async fn connection(self, stream: TcpStream, _place: OwnedSemaphorePermit, drain: CancellationToken) {
        let service = service_fn(|request: Request<hyper::body::Incoming>| {
            let answer = self.answer(&request);
            async { Ok::<_, Infallible>(answer) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(MAX_LIFE)
            .max_header_size(MAX_HEADER_BYTES)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // How it ends is all the same.
            _ = tokio::time::timeout(MAX_LIFE, served) => {}
            () = drain.cancelled() => {}
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Answer {
        let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
        let target = if target.starts_with('/') { target } else { "/" };
        let location = HeaderValue::from_str(&format!("https://{}{target}", self.authority));
        let Ok(location) = location else { return respond::empty(StatusCode::BAD_REQUEST) };
        let mut answer = respond::empty(StatusCode::PERMANENT_REDIRECT);
        answer.headers_mut().insert(LOCATION, location);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(hosts: &[&str], tls: bool, port: u16, target: &str) -> String {
        let allowed_hosts = hosts.iter().map(|it| (*it).to_owned()).collect();
        let edge = config::Edge { allowed_hosts, tls_cert: tls.then(|| "cert".into()), ..config::Edge::default() };
        let redirect = Redirect::new(&edge, port).unwrap();
        let answer = redirect.answer(&Request::get(target).header("host", "evil.example").body(()).unwrap());
        assert_eq!(answer.status(), 308);
        answer.headers()[LOCATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn clients_are_sent_to_the_configured_host_whatever_they_ask_for() {
        assert_eq!(location(&["a.example", "b.example"], true, 443, "/x?y=1"), "https://a.example/x?y=1");
        assert_eq!(location(&["a.example"], true, 8443, "/"), "https://a.example:8443/");
        assert_eq!(location(&["a.example:444"], true, 8443, "/"), "https://a.example:444/");
        assert_eq!(location(&["a.example"], false, 8000, "http://evil.example/x"), "https://a.example/x");
        assert_eq!(location(&["a.example"], true, 443, "//evil.example/"), "https://a.example//evil.example/");
        assert_eq!(location(&["a.example"], true, 443, "*"), "https://a.example/");
        assert!(Redirect::new(&config::Edge::default(), 443).is_none());
    }
}
