//! TLS: the version, the certificate and its renewal, certificates of clients, and what is no TLS.

use std::path::Path;
use std::time::Duration;

use repltool::client::{Client, ClientError};
use rustls::ProtocolVersion;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::harness::tls::{Authority, Pair, certificate, settings, write};
use crate::harness::{As, Server, binary_as, event, eventually, in_time, python, run, send, until_result};
use crate::wire::exchange_on;

const READY: &str = "GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/// One answer on a connection that goes on.
async fn ready(stream: &mut TlsStream<TcpStream>) -> String {
    in_time("an answer", async {
        stream.write_all(READY.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"{\"status\":\"ready\"}") {
            if stream.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    })
    .await
    .expect("the connection stands")
}

fn shown(stream: &TlsStream<TcpStream>) -> &[u8] {
    &stream.get_ref().1.peer_certificates().expect("a certificate")[0]
}

/// A greeting of a client of TLS 1.2, which knows nothing newer.
fn greeting_of_tls_1_2() -> Vec<u8> {
    let suites = [0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30];
    let extensions = [
        0, 10, 0, 4, 0, 2, 0, 23, // groups: P-256
        0, 11, 0, 2, 1, 0, // points: as they are
        0, 13, 0, 6, 0, 4, 4, 3, 8, 4, // signatures: ECDSA and RSA with SHA-256
    ];
    let mut hello =
        [&[3, 3][..], &[7; 32], &[0, 0, 8], &suites, &[1, 0, 0, extensions.len() as u8], &extensions].concat();
    let length = hello.len() as u8;
    hello.splice(0..0, [22, 3, 1, 0, length + 4, 1, 0, 0, length]);
    hello
}

#[tokio::test]
async fn results_travel_by_tls_1_3_and_by_no_older_version() {
    let (server, authority) = Server::start_with_tls("").await;
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let client = server.client();
    let id = python(&client, json!({})).await;
    assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", "print('x' * 300_000)").await;
    until_result(&mut socket, &execution).await;
    let stream = server.handshake(&authority, &["http/1.1"], None).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));

    let mut old = TcpStream::connect(server.address()).await.expect("the server accepts");
    let mut answer = Vec::new();
    old.write_all(&greeting_of_tls_1_2()).await.expect("it is sent");
    in_time("the end of the connection", old.read_to_end(&mut answer)).await.expect("it is closed");
    // An alert: fatal, protocol version.
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
}

#[tokio::test]
async fn the_port_of_tls_speaks_nothing_else() {
    let (server, _) = Server::start_with_tls("").await;
    let mut plain = TcpStream::connect(server.address()).await.expect("the server accepts");
    let next = [READY, READY].concat();
    let answer = exchange_on(&mut plain, next.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("this port speaks TLS"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "one answer, whatever was sent: {answer}");
    assert!(!answer.to_lowercase().contains("strict-transport-security"), "not in plain text: {answer}");
    for noise in [&b"\x16\x03\x01\xff\xffnonsense and more of it\r\n\r\n"[..], b"\x80\x2e\x01", b"SSH-2.0-x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address()).await.expect("the server accepts");
        stream.write_all(noise).await.expect("it is sent");
        stream.shutdown().await.expect("it is closed");
        let answer = exchange_on(&mut stream, b"").await;
        assert!(!answer.contains("ready"), "{answer}");
    }
    assert!(server.client().is_ready().await.expect("an answer"));
}

#[tokio::test]
async fn browsers_are_told_to_come_back_by_tls() {
    let (server, authority) = Server::start_with_tls("").await;
    let mut stream = server.handshake(&authority, &[], None).await.expect("a handshake");
    let answer = ready(&mut stream).await.to_lowercase();
    assert!(answer.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{answer}");
    // The name that every server of a machine shares is left alone.
    let request = READY.replace("127.0.0.1\r\n", "localhost\r\nconnection: close\r\n");
    let answer = exchange_on(&mut stream, request.as_bytes()).await.to_lowercase();
    assert!(answer.starts_with("http/1.1 200 ") && !answer.contains("strict-transport"), "{answer}");
    let plain = Server::start().await;
    let mut stream = TcpStream::connect(plain.address()).await.expect("the server accepts");
    let answer = exchange_on(&mut stream, READY.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await;
    assert!(answer.contains("ready") && !answer.to_lowercase().contains("strict-transport"), "{answer}");
}

#[tokio::test]
async fn silence_at_any_point_ends_a_connection() {
    let (server, authority) = Server::start_with_tls("edge.header_timeout_s = 1\n").await;
    let mut silent = TcpStream::connect(server.address()).await.expect("the server accepts");
    let mut halfway = TcpStream::connect(server.address()).await.expect("the server accepts");
    halfway.write_all(&greeting_of_tls_1_2()[..40]).await.expect("it is sent");
    let mut greeted = server.handshake(&authority, &["http/1.1"], None).await.expect("a handshake");
    let mut asking = server.handshake(&authority, &["http/1.1"], None).await.expect("a handshake");
    asking.write_all(b"GET /readyz HTTP/1.1\r\nhost:").await.expect("it is sent");
    let mut prefaced = server.handshake(&authority, &["h2"], None).await.expect("a handshake");
    prefaced.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("it is sent");
    let mut unspoken = server.handshake(&authority, &["h2"], None).await.expect("a handshake");
    assert_eq!(exchange_on(&mut silent, b"").await, "");
    assert_eq!(exchange_on(&mut halfway, b"").await, "");
    exchange_on(&mut greeted, b"").await;
    exchange_on(&mut asking, b"").await;
    exchange_on(&mut prefaced, b"").await;
    exchange_on(&mut unspoken, b"").await;
    assert!(server.client().is_ready().await.expect("an answer"));
}

/// Waits until new connections are shown this certificate.
async fn until_shown(server: &Server, authority: &Authority, pair: &Pair) {
    eventually("the certificate is shown", || async {
        let stream = server.handshake(authority, &[], None).await.expect("a handshake");
        (shown(&stream) == &*certificate(&pair.certificate)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_a_broken_one_to_nobody() {
    let (server, authority) = Server::start_with_tls("").await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let mut old = server.handshake(&authority, &[], None).await.expect("a handshake");
    let first = shown(&old).to_vec();
    let folder = server.dir.path();

    // By a signal, at once.
    let second = authority.issue(&["127.0.0.1"], |_| ());
    second.write(folder);
    server.signal("HUP");
    until_shown(&server, &authority, &second).await;
    assert!(ready(&mut old).await.contains("200 OK") && shown(&old) == first, "what was open goes on");
    let execution = send(&mut socket, "e1", "1").await;
    until_result(&mut socket, &execution).await;

    // One that does not fit its key is refused, and the old one stays; for the next gateway too.
    write(&folder.join("key.pem"), &authority.issue(&["127.0.0.1"], |_| ()).key);
    server.signal("HUP");
    eventually("it is refused", || async { server.log().contains("what has changed is not taken").then_some(()) })
        .await;
    until_shown(&server, &authority, &second).await;
    assert!(server.log().contains("does not belong to the key"), "{}", server.log());
    server.crash_gateway().await;
    until_shown(&server, &authority, &second).await;

    // Without a signal, once the files have changed.
    let third = authority.issue(&["127.0.0.1"], |_| ());
    third.write(folder);
    until_shown(&server, &authority, &third).await;
    server.crash_gateway().await;
    until_shown(&server, &authority, &third).await;
    assert!(run(&client, &id, "1").await.success, "the session has seen all of it");
}

#[tokio::test]
async fn clients_show_a_certificate_where_one_is_wanted_and_a_token_too() {
    let (clients, stranger) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    authority.issue(&["127.0.0.1"], |_| ()).write(folder.path());
    write(&folder.path().join("clients.pem"), &clients.pem);
    let path = folder.path().join("clients.pem");
    let settings = format!("{}edge.tls_client_ca = '{}'\n", settings(folder.path()), path.display());
    let server = Server::start_unseen(&settings).await;
    let known = clients.issue(&["ada"], |_| ());
    let mut stream = server.handshake(&authority, &[], Some(&known)).await.expect("a handshake");
    assert!(ready(&mut stream).await.contains("200 OK"));
    let ask = "GET /api/v1/sessions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    assert!(exchange_on(&mut stream, ask.as_bytes()).await.starts_with("HTTP/1.1 401 "), "a certificate is no token");
    for client in [None, Some(stranger.issue(&["ada"], |_| ()))] {
        // In TLS 1.3 a client learns of it after its own part of the handshake.
        let refused = match server.handshake(&authority, &[], client.as_ref()).await {
            Ok(mut stream) => exchange_on(&mut stream, READY.as_bytes()).await,
            Err(_) => String::new(),
        };
        assert_eq!(refused, "");
    }
}

async fn refused(settings: &str, folder: &Path) -> String {
    let config = folder.join("refused.toml");
    std::fs::write(&config, settings).expect("the configuration is written");
    for arguments in [&["config", "check"][..], &["serve"]] {
        let mut command = binary_as(As::Me);
        command.args(arguments).arg("--data-dir").arg(folder.join("data")).arg("--config").arg(&config);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output();
        let output = in_time("a server that does not start", output).await.expect("it runs");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if arguments == ["serve"] {
            return said;
        }
    }
    unreachable!("serve is the last")
}

#[tokio::test]
async fn a_server_that_could_not_encrypt_does_not_start_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, authority) = (folder.path(), Authority::new());
    let secret = path.join("secret");
    write(&secret, &"k".repeat(48));
    let good = authority.issue(&["127.0.0.1"], |_| ());
    let with_tls = settings(path) + "edge.listen = '127.0.0.1:0'\n";
    let key = format!("auth.key_file = '{}'\n", secret.display());

    let said = refused(&format!("{key}edge.listen = '0.0.0.0:0'\n"), path).await;
    assert!(said.contains("speaks no TLS; set edge.tls_cert") && said.contains("edge.tls_by_proxy"), "{said}");
    let half = with_tls.lines().filter(|line| !line.contains("tls_key")).collect::<Vec<_>>().join("\n");
    let said = refused(&half, path).await;
    assert!(said.contains("edge.tls_cert is set and edge.tls_key is not"), "{said}");

    good.write(path);
    std::os::unix::fs::symlink("/nonexistent", path.join("gone")).expect("a link");
    let said = refused(&with_tls.replace("cert.pem", "gone"), path).await;
    assert!(said.contains("gone cannot be read"), "{said}");
    std::fs::set_permissions(path.join("key.pem"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("a mode");
    let said = refused(&with_tls, path).await;
    assert!(said.contains("is open to others") && said.contains("chmod 600"), "{said}");
    write(&path.join("key.pem"), &authority.issue(&["127.0.0.1"], |_| ()).key);
    let said = refused(&with_tls, path).await;
    assert!(said.contains("does not belong to the key of edge.tls_key"), "{said}");

    let expired = |params: &mut rcgen::CertificateParams| {
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 2, 3));
    };
    authority.issue(&["127.0.0.1"], expired).write(path);
    let said = refused(&with_tls, path).await;
    assert!(said.contains("expired at 2021-02-03"), "{said}");
}

#[tokio::test]
async fn the_end_of_a_certificate_is_told_two_weeks_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let soon = jiff::Timestamp::now() + Duration::from_secs(10 * 24 * 3600);
    let soon = soon.to_string();
    let date = soon.split('T').next().expect("a date");
    let numbers: Vec<u16> = date.split('-').map(|it| it.parse().expect("a number")).collect();
    let (year, month, day) = (i32::from(numbers[0]), numbers[1] as u8, numbers[2] as u8);
    let authority = Authority::new();
    authority.issue(&["127.0.0.1"], |it| it.not_after = rcgen::date_time_ymd(year, month, day)).write(folder.path());
    let server = Server::start_unseen(&settings(folder.path())).await;
    let told = || async { server.log().contains("it expires soon").then_some(()) };
    eventually("a warning", told).await;
    assert!(server.log().contains(&format!("good_until={date}T")), "{}", server.log());
}

#[tokio::test]
async fn the_command_line_trusts_the_system_and_whom_it_is_told_to() {
    let (server, _) = Server::start_with_tls("").await;
    let run = async |arguments: &[&str]| {
        let mut command = binary_as(As::Me);
        command
            .args(["execute", "--language", "python", "--data-dir"])
            .arg(server.data())
            .args(arguments)
            .args(["-c", "6 * 7"]);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output();
        in_time("the end of the command", output).await.expect("it runs")
    };
    let authority = server.dir.path().join("ca.pem");
    let authority = authority.to_str().expect("a path");
    for arguments in [vec!["--ca-file", authority], vec!["--ca-file", authority, "--url", &server.url]] {
        let output = run(&arguments).await;
        assert!(output.status.success() && output.stdout == b"42\n", "{output:?}");
    }
    let untrusted = run(&[]).await;
    let said = String::from_utf8_lossy(&untrusted.stderr);
    assert!(!untrusted.status.success() && said.contains("--ca-file") && said.contains("UnknownIssuer"), "{said}");
    let wrong = Client::new(&server.url, None).expect("a client").is_ready().await;
    assert!(matches!(wrong, Err(ClientError::Tls { .. })), "{wrong:?}");
    let nothing = run(&["--ca-file", "/dev/null"]).await;
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("no certificate in it"), "{nothing:?}");
}

#[tokio::test]
async fn the_link_has_a_name_that_the_certificate_covers() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    for (names, hosts, host) in [
        (&["127.0.0.1", "repl.example"][..], "edge.allowed_hosts = ['repl.example']\n", "127.0.0.1"),
        (&["repl.example"], "edge.allowed_hosts = ['other.example', 'repl.example:81']\n", "repl.example"),
        (&["localhost"], "", "localhost"),
        (&["elsewhere.example"], "", "127.0.0.1"),
    ] {
        authority.issue(names, |_| ()).write(folder.path());
        let server = Server::start_unseen(&(settings(folder.path()) + hosts)).await;
        let (named, _) = server.url.rsplit_once(':').expect("a port");
        assert_eq!(named, format!("https://{host}"));
    }
}

/// What is still to come of a socket is not lost with a certificate: kept apart, since it takes its time.
#[tokio::test]
async fn a_socket_carries_much_in_both_directions() {
    let (server, _) = Server::start_with_tls("").await;
    let client = server.client();
    let id = python(&client, json!({"resource_limits": {"max_output_size": 10 << 20}})).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let long = format!("text = '{}'\nprint(len(text)); print('y' * 4_000_000)", "x".repeat(900_000));
    let execution = send(&mut socket, "e1", &long).await;
    let events = until_result(&mut socket, &execution).await;
    let printed: usize = events.iter().map(|it| serde_json::to_string(it).expect("JSON").matches('y').count()).sum();
    assert!(printed >= 4_000_000, "{printed}");
    let execution = send(&mut socket, "e2", "1").await;
    assert!(event(&mut socket).await.seq > events[0].seq);
    let _ = execution;
}
