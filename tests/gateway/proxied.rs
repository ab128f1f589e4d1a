//! Proxies that tell the address of a client before its first byte (PROXY protocol, version 2), over plain text and TLS.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{As, Server, eventually, in_time};
use crate::wire::exchange_on;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const ASK: &str = "GET /api/v1/me HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer a.b.c\r\nconnection: close\r\n";
const TRUSTED: &str = "edge.trusted_proxies = ['127.0.0.1', '10.0.0.0/8']\nedge.proxy_protocol = true\n";

/// A header that says: a client of this IPv4 address.
fn header(client: [u8; 4]) -> Vec<u8> {
    [SIGNATURE, &[0x21, 0x11, 0, 12], &client, &[127, 0, 0, 1, 0x30, 0x39, 1, 187]].concat()
}

async fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("the server accepts");
    exchange_on(&mut stream, bytes).await
}

async fn told_as(server: &Server, peer: &str) {
    let failed = |line: &str| line.contains("authentication failed") && line.contains(&format!("peer={peer}"));
    eventually(peer, || async { server.log().lines().any(failed).then_some(()) }).await;
}

#[tokio::test]
async fn a_trusted_proxy_tells_the_address_of_its_client() {
    // The harness connects from a listed address and has no header: it would not be heard.
    let server = Server::start_unseen(TRUSTED).await;
    for (client, more, peer) in [
        ([192, 0, 2, 7], "", "192.0.2.7"),
        ([192, 0, 2, 8], "x-forwarded-for: 198.51.100.1\r\n", "192.0.2.8"),
        ([10, 1, 2, 3], "x-forwarded-for: 198.51.100.2\r\n", "198.51.100.2"),
    ] {
        let answer = exchange(&server, &[&header(client), format!("{ASK}{more}\r\n").as_bytes()].concat()).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        told_as(&server, peer).await;
    }
    // The proxy itself, as when it asks whether the server lives.
    let own = [SIGNATURE, &[0x20, 0, 0, 0], format!("{ASK}\r\n").as_bytes()].concat();
    assert!(exchange(&server, &own).await.starts_with("HTTP/1.1 401 "));
    told_as(&server, "127.0.0.1").await;
    assert!(!server.log().contains("peer=198.51.100.1"), "a client's own word");
}

#[tokio::test]
async fn what_begins_with_no_header_of_a_proxy_is_closed_unheard() {
    let server = Server::start_unseen(&format!("{TRUSTED}edge.header_timeout_s = 1\n")).await;
    let long = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
    let request = format!("{ASK}\r\n");
    let version_1 = format!("PROXY TCP4 192.0.2.7 127.0.0.1 12345 443\r\n{request}");
    let twice = [&header([192, 0, 2, 7])[..], &header([192, 0, 2, 8]), request.as_bytes()].concat();
    for (bytes, answered) in [
        (request.as_bytes(), false),
        (version_1.as_bytes(), false),
        (&long, false),
        (&header([192, 0, 2, 7])[..20], false),
        (SIGNATURE, false),
        // Only the first is a header; what follows is the client's, and no request.
        (&twice, true),
    ] {
        let answer = exchange(&server, bytes).await;
        assert_eq!(answer.starts_with("HTTP/1.1 400 "), answered, "{answer}");
        assert!(answered || answer.is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn a_header_of_anybody_else_is_no_header() {
    let server = Server::start_with(As::Me, "edge.trusted_proxies = ['192.0.2.1']\nedge.proxy_protocol = true\n").await;
    let bytes = [&header([198, 51, 100, 9]), format!("{ASK}\r\n").as_bytes()].concat();
    let answer = exchange(&server, &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(exchange(&server, format!("{ASK}\r\n").as_bytes()).await.starts_with("HTTP/1.1 401 "));
    told_as(&server, "127.0.0.1").await;
}

#[tokio::test]
async fn a_header_goes_before_tls() {
    let (server, authority) = {
        let authority = crate::harness::tls::Authority::new();
        let folder = tempfile::tempdir().expect("a folder");
        authority.issue(&["127.0.0.1"], |_| ()).write(folder.path());
        let settings = crate::harness::tls::settings(folder.path()) + TRUSTED;
        (Server::start_unseen(&settings).await, authority)
    };
    let mut stream = TcpStream::connect(server.address()).await.expect("the server accepts");
    stream.write_all(&header([192, 0, 2, 44])).await.expect("it is sent");
    let mut stream = authority.greet(stream, &["http/1.1"], None).await.expect("a handshake");
    stream.write_all(format!("{ASK}\r\n").as_bytes()).await.expect("it is sent");
    let mut answer = String::new();
    in_time("an answer", stream.read_to_string(&mut answer)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    told_as(&server, "192.0.2.44").await;
    assert!(server.handshake(&authority, &[], None).await.is_err(), "without a header there is no handshake");
}
