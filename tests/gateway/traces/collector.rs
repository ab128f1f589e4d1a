//! A collector of traces on this machine: takes what is posted by OTLP over HTTP, and reads it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::eventually;

/// What has come, as it came.
type Bodies = Arc<Mutex<Vec<Bytes>>>;

/// A running collector. Dropping it ends it.
pub struct Collector {
    pub url: String,
    bodies: Bodies,
    _serving: JoinSet<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
        let bodies = Bodies::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, bodies.clone()));
        Self { url, bodies, _serving: serving }
    }

    /// Every span that has come.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.bodies();
        let requests = requests.iter().map(|body| ExportTraceServiceRequest::decode(&body[..]).expect("OTLP"));
        let of_servers = requests.flat_map(|request| request.resource_spans);
        of_servers.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }

    /// What has come, byte by byte.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.bodies.lock().expect("no panic").clone()
    }

    /// The span of this name with this attribute, once it has come.
    pub async fn span(&self, name: &str, attribute: &str, value: &str) -> Span {
        eventually(&format!("{name} with {attribute} = {value}"), || async {
            let mut found = self.spans();
            found.retain(|span| span.name == name && text(span, attribute).as_deref() == Some(value));
            assert!(found.len() < 2, "{found:?}");
            found.pop()
        })
        .await
    }
}

async fn serve(listener: TcpListener, bodies: Bodies) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let bodies = bodies.clone();
        let service = service_fn(move |request| take(request, bodies.clone()));
        connections.spawn(async move {
            // Whoever goes away in the middle has posted nothing.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn take(request: Request<Incoming>, bodies: Bodies) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    if let Ok(body) = request.into_body().collect().await {
        bodies.lock().expect("no panic").push(body.to_bytes());
    }
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::OK;
    Ok(answer)
}

/// The value of an attribute; numbers are written out.
pub fn text(span: &Span, attribute: &str) -> Option<String> {
    let mut values = span.attributes.iter().filter(|it| it.key == attribute);
    let value = values.next()?.value.as_ref()?.value.as_ref()?;
    assert!(values.next().is_none(), "{attribute} twice in {span:?}");
    Some(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => panic!("{attribute} is {other:?}"),
    })
}
