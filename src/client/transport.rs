//! The way to a server: TCP, or TLS over it. Authorities are those of the system and those that are named.

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::ClientError;

/// What carries a connection.
pub(super) type Transport = Either<TcpStream, TlsStream<TcpStream>>;

/// How a server is reached.
pub(super) struct Route {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Route {
    /// In plain text.
    pub(super) fn plain(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, tls: None }
    }

    /// By TLS 1.3, to a server whose certificate is for this host. `authorities` is PEM.
    pub(super) fn encrypted(host: &str, port: u16, authorities: Option<&[u8]>) -> Result<Self, ClientError> {
        let name = ServerName::try_from(bare(host).to_owned()).map_err(|_| ClientError::Url(host.to_owned()))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(|error| trust(&error))?;
        let config = builder.with_root_certificates(roots(authorities)?).with_no_client_auth();
        Ok(Self { host: host.to_owned(), port, tls: Some((TlsConnector::from(Arc::new(config)), name)) })
    }

    /// Host and port, as in a `Host` header.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// A connection of its own.
    pub(super) async fn connect(&self) -> Result<Transport, ClientError> {
        let stream = async {
            let stream = TcpStream::connect((bare(&self.host), self.port)).await?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        let stream = stream.await.map_err(|source| ClientError::Connect { address: self.authority(), source })?;
        let Some((connector, name)) = &self.tls else { return Ok(Either::Left(stream)) };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(|source| ClientError::Tls { address: self.authority(), source })?;
        Ok(Either::Right(stream))
    }
}

/// A host without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    // What the system has and cannot be read is missing, as on any other machine that does not have it.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(pem) = authorities else { return Ok(roots) };
    let named: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let named = named.map_err(|error| trust(&error))?;
    if named.is_empty() {
        return Err(ClientError::Trust("there is no certificate in it; PEM is needed".to_owned()));
    }
    for certificate in named {
        roots.add(certificate).map_err(|error| trust(&error))?;
    }
    Ok(roots)
}

fn trust(error: &dyn std::error::Error) -> ClientError {
    ClientError::Trust(error.to_string())
}
