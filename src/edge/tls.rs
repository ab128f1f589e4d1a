//! TLS on the way in: version 1.3 alone, and the certificate of the moment. Knows neither HTTP nor where the certificate
//! comes from.

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::connection::Transport;

/// The name of HTTP/2 in a handshake (ALPN), and that of HTTP/1.1.
const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// What every handshake begins with: a record of that type.
const HANDSHAKE: u8 = 22;

/// What a listener shows of itself, and of whom it wants to see a certificate. Connections keep what they began with.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ServerConfig>);

/// Why TLS cannot be spoken like that.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The library lacks what is needed.
    #[error("TLS 1.3 cannot be spoken")]
    Version(#[source] rustls::Error),
    /// There are no authorities to check certificates of clients with.
    #[error("certificates of clients cannot be checked")]
    Clients(#[source] VerifierBuilderError),
}

/// How a connection begins.
pub(super) enum Accepted {
    /// With HTTP/1.1, which goes for clients that say nothing of it.
    Http1(Transport),
    /// With HTTP/2.
    Http2(Transport),
    /// Without TLS, though it is wanted; nothing was read.
    PlainText(TcpStream),
}

impl Tls {
    /// A listener with this certificate. With `client_roots` every client must have a certificate of one of them.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(certified: CertifiedKey, client_roots: Option<RootCertStore>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(TlsError::Version)?;
        let builder = match client_roots {
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(TlsError::Clients)?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        // A request that came as early data could be sent again by somebody else.
        config.max_early_data_size = 0;
        Ok(Self(Arc::new(config)))
    }

    /// Waits for the end of the handshake. The caller sets it a limit.
    ///
    /// # Errors
    /// Those of the connection, and of a handshake that fails.
    pub(super) async fn accept(self, stream: TcpStream) -> io::Result<Accepted> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
            return Ok(Accepted::PlainText(stream));
        }
        let stream = TlsAcceptor::from(self.0).accept(stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        let stream = Either::Right(Box::new(stream));
        Ok(if is_http2 { Accepted::Http2(stream) } else { Accepted::Http1(stream) })
    }
}
