//! Servers that speak TLS, the authority of their certificates, and clients of them.

use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use repltool::client::Client;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{As, LENIENT, Server, canary, eventually, in_time};

/// Who issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate with its key, as PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for these names, with what else is changed.
    pub fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate: Certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Authority {
    /// A handshake on a connection to `127.0.0.1`, whose certificate this authority has issued.
    pub async fn greet(
        &self,
        stream: TcpStream,
        protocols: &[&str],
        client: Option<&Pair>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        in_time("a handshake", connector(self, protocols, client).connect(name, stream)).await
    }
}

impl Pair {
    /// Puts both where a server has them, the one after the other.
    pub fn write(&self, folder: &Path) {
        write(&folder.join("cert.pem"), &self.certificate);
        write(&folder.join("key.pem"), &self.key);
    }
}

/// Writes a file that nobody else can read, in one step.
pub fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new();
    let file = file.create(true).truncate(true).write(true).mode(0o600).open(&new);
    std::io::Write::write_all(&mut file.expect("a file"), text.as_bytes()).expect("it is written");
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
    std::fs::rename(&new, path).expect("it is moved");
}

/// The lines of a configuration that has this folder's certificate shown.
pub fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!("edge.tls_cert = '{folder}/cert.pem'\nedge.tls_key = '{folder}/key.pem'\n")
}

impl Server {
    /// A server with a certificate for `127.0.0.1` and `localhost`, and with these settings, each with its section.
    pub async fn start_with_tls(more: &str) -> (Self, Authority) {
        let authority = Authority::new();
        let dir = TempDir::with_prefix("repltool-test-").expect("a directory for the server");
        authority.issue(&["127.0.0.1", "localhost"], |_| ()).write(dir.path());
        write(&dir.path().join("ca.pem"), &authority.pem);
        let settings = settings(dir.path()) + more;
        (Self::start_in(dir, As::Me, &settings, LENIENT).await, authority)
    }

    /// A server with these settings whose listener no client of the harness may reach.
    pub async fn start_unseen(settings: &str) -> Self {
        let dir = TempDir::with_prefix("repltool-test-").expect("a directory for the server");
        let server = Self::launch(dir, As::Me, settings, LENIENT).await;
        eventually("the server serves", || async { server.log().contains(" serving ").then_some(()) }).await;
        server
    }

    /// A client with this token, that trusts the authority of the server.
    pub fn client_with(&self, token: &str) -> Client {
        canary::plant_token(token);
        self.trusting_client(Some(token))
    }

    /// A client without a token, that trusts it too.
    pub fn client_of_nobody(&self) -> Client {
        self.trusting_client(None)
    }

    fn trusting_client(&self, token: Option<&str>) -> Client {
        let authority = std::fs::read(self.dir.path().join("ca.pem")).ok();
        Client::trusting(&self.url, token, authority.as_deref()).expect("a client")
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        self.url.rsplit('/').next().expect("the url of a server")
    }

    /// A handshake with a client of these protocols, with or without a certificate.
    pub async fn handshake(
        &self,
        authority: &Authority,
        protocols: &[&str],
        client: Option<&Pair>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address()).await.expect("the server accepts");
        authority.greet(stream, protocols, client).await
    }
}

fn connector(authority: &Authority, protocols: &[&str], client: Option<&Pair>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&authority.pem)).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config.expect("TLS 1.3").with_root_certificates(roots);
    let mut config = match client {
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
            config
                .with_client_auth_cert(vec![certificate(&pair.certificate)], key)
                .expect("a certificate of the client")
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// The first certificate of a PEM.
pub fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}
