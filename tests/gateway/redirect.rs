//! The listener in plain text that sends clients to the encrypted one.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Server, eventually, in_time};

async fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let mut answer = Vec::new();
    let talk = async {
        let _ = stream.write_all(bytes).await;
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer).await;
    };
    in_time("the end of the connection", talk).await;
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// Where it listens, which the log tells.
async fn told(server: &Server) -> String {
    eventually("the address is told", || async {
        let log = server.log();
        let rest = log.split(" redirect=").nth(1)?;
        rest.split_whitespace().next().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn plain_text_is_sent_to_the_configured_host_and_gets_nothing_else() {
    let settings = "edge.redirect_listen = '127.0.0.1:0'\nedge.allowed_hosts = ['repl.example', 'other.example']\n";
    let (mut server, _) = Server::start_with_tls(settings).await;
    let address = told(&server).await;
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    for (request, target) in [
        ("GET /docs/?x=1 HTTP/1.1\r\nhost: evil.example\r\n\r\n", "/docs/?x=1"),
        ("GET http://evil.example/readyz HTTP/1.1\r\nhost: other.example\r\n\r\n", "/readyz"),
        ("POST /api/v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}", "/api/v1/sessions"),
        ("GET / HTTP/1.0\r\n\r\n", "/"),
        ("GET /%0d%0ax:%20y HTTP/1.1\r\nhost: x\r\n\r\nGET /second HTTP/1.1\r\nhost: x\r\n\r\n", "/%0d%0ax:%20y"),
    ] {
        let answer = exchange(&address, request.as_bytes()).await;
        assert!(answer.starts_with("http/1.1 308 ") || answer.starts_with("http/1.0 308 "), "{answer}");
        assert!(answer.contains(&format!("\r\nlocation: https://repl.example:{port}{target}\r\n")), "{answer}");
        assert_eq!(answer.matches(" 308 ").count(), 1, "one answer: {answer}");
        assert!(answer.ends_with("\r\n\r\n") && !answer.contains("evil"), "nothing else: {answer}");
    }
    assert!(exchange(&address, b"\x16\x03\x01\x02\x00\x01").await.starts_with("http/1.1 400 "));
    // The next gateway does the same, and the end of the server is its end.
    server.crash_gateway().await;
    assert!(exchange(&address, b"GET / HTTP/1.0\r\n\r\n").await.contains(" 308 "));
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    assert!(TcpStream::connect(&address).await.is_err());
}
