//! One request to one of the named addresses: its name, a connection, TLS, the answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use bytes::Bytes;
use hickory_resolver::config::{ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::outbound::link::Order;

/// For the name, the connection and the answer together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For each address of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// The largest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// An address that the operator has named.
#[derive(Debug, Clone)]
pub(super) struct Site {
    uri: Uri,
    /// Without brackets.
    host: String,
    is_tls: bool,
}

impl Site {
    /// Reads `https://…`, or `http://…` to this machine.
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().context("it is no address")?;
        let host = uri.host().context("it names no host")?.trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        Ok(Self { uri, host, is_tls })
    }

    pub(super) fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_tls { 443 } else { 80 })
    }
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Makes requests. Keeps no connection.
pub(super) struct Client {
    names: TokioResolver,
    tls: TlsConnector,
}

impl Client {
    /// With the settings for names and the certificates of the order.
    pub(super) fn new(order: &Order) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        let (_, useless) = roots.add_parsable_certificates(order.roots.iter().map(|der| CertificateDer::from(&**der)));
        if useless > 0 {
            tracing::debug!(useless, "some trusted certificates cannot be used");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { names: resolver(order)?, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Asks, and reads the whole answer. Redirects are not followed: they come out as what they are.
    ///
    /// # Errors
    /// Without an answer within [`TIMEOUT`], or with one that is too large.
    pub(super) async fn ask(
        &self,
        site: &Site,
        request: http::request::Builder,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let answer = tokio::time::timeout(TIMEOUT, self.exchange_with(site, request, body)).await;
        answer.unwrap_or_else(|_| bail!("no answer within {} s", TIMEOUT.as_secs()))
    }

    async fn exchange_with(&self, site: &Site, request: http::request::Builder, body: Bytes) -> anyhow::Result<Answer> {
        let authority = site.uri.authority().context("it names no host")?;
        let request = request
            .uri(site.uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(HOST, authority.as_str())
            .header(USER_AGENT, concat!("repltool/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))?;
        let stream = self.connect(site).await?;
        if !site.is_tls {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(site.host.clone()).context("no certificate could have this name")?;
        let stream = self.tls.connect(name, stream).await.context("it is not who it should be")?;
        exchange(stream, request).await
    }

    async fn connect(&self, site: &Site) -> anyhow::Result<TcpStream> {
        let mut last = anyhow!("{} has no address", site.host);
        for address in self.addresses(&site.host).await? {
            // The name was checked to be one of this machine, and where it leads must be it, too.
            ensure!(site.is_tls || address.is_loopback(), "without TLS nobody is called but this machine");
            let target = SocketAddr::new(address, site.port());
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = anyhow!(error).context(format!("{target} is not reached")),
                Err(_) => last = anyhow!("{target} does not answer"),
            }
        }
        Err(last)
    }

    async fn addresses(&self, host: &str) -> anyhow::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let found = self.names.lookup_ip(host).await.with_context(|| format!("{host} is not found"))?;
        Ok(found.iter().collect())
    }
}

fn resolver(order: &Order) -> anyhow::Result<TokioResolver> {
    // Without a server for names there are still those of the hosts file.
    let (config, mut options) = parse_resolv_conf(&order.resolv_conf)
        .unwrap_or_else(|_| (ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default()));
    options.use_hosts_file = ResolveHosts::Never;
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options);
    let mut names = builder.build().context("names cannot be looked up")?;
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(order.hosts.as_bytes()).context("/etc/hosts cannot be read")?;
    names.set_hosts(Arc::new(hosts));
    Ok(names)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("it speaks no HTTP")?;
    let answer = async {
        let (head, body) = sender.send_request(request).await.context("it does not answer")?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| anyhow!("its answer cannot be read: {error}"))?.to_bytes();
        anyhow::Ok(Answer { status: head.status, headers: head.headers, body })
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        // What has arrived is read before the end of the connection counts.
        biased;
        answer = &mut answer => answer,
        ended = connection => match (answer.await, ended) {
            // Many servers close without a word of TLS; an answer that was cut off is an error by itself.
            (Err(_), Err(error)) => Err(error).context("the connection broke off"),
            (answer, _) => answer,
        },
    }
}
