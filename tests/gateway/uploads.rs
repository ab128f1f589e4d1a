//! Files while they are written and read: in one step or not at all, within the disk, and in nobody's way.

use futures::future::{join, join_all};
use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ProblemCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{As, Server, eventually, in_time, python, run, send, until_printed};
use super::wire::{Reply, ask, bearer, exchange, local_token};

/// The disk of a session in these tests, in MiB.
const SMALL_DISK: &str = "[sandbox]\ndisk_mb = 4\n";

async fn fresh(server: &Server) -> (Client, SessionId) {
    let client = server.client();
    let id = python(&client, json!({})).await;
    (client, id)
}

/// The head of a request for a file, of which any length of body may follow.
fn head(server: &Server, method: &str, id: &SessionId, file: &str, more: &str) -> Vec<u8> {
    let (host, token) = (server.url.trim_start_matches("http://"), local_token(server));
    format!(
        "{method} /api/v1/sessions/{id}/files/{file} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n{more}\r\n"
    )
    .into_bytes()
}

async fn begin(server: &Server, head: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.expect("the server accepts");
    stream.write_all(head).await.expect("sent");
    stream
}

async fn files(client: &Client, id: &SessionId) -> Vec<String> {
    let list = client.files(id, "", None).await.expect("a list");
    list.files.into_iter().map(|entry| entry.path).collect()
}

/// All names in the working directory, those of files in the making among them.
async fn all_names(client: &Client, id: &SessionId) -> String {
    run(client, id, "import os; print(sorted(os.listdir('.')))").await.output
}

fn status(answer: &[u8]) -> &str {
    std::str::from_utf8(answer.get(9..12).expect("a status line")).expect("digits")
}

#[tokio::test]
async fn a_file_is_seen_when_all_of_it_is_there() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    client.write_file(&id, "f", "old").await.expect("written");
    let mut stream = begin(&server, &head(&server, "PUT", &id, "f", "content-length: 200000\r\n")).await;
    stream.write_all(&[b'n'; 100_000]).await.expect("sent");
    eventually("it is begun", || async { all_names(&client, &id).await.contains(".part").then_some(()) }).await;
    assert_eq!(client.read_file(&id, "f").await.expect("read"), "old");
    assert_eq!(files(&client, &id).await, ["f"], "what is in the making is not listed");
    stream.write_all(&[b'n'; 100_000]).await.expect("sent");
    let mut answer = Vec::new();
    in_time("an answer", stream.read_to_end(&mut answer)).await.expect("read");
    assert_eq!(status(&answer), "204");
    assert_eq!(client.read_file(&id, "f").await.expect("read").len(), 200_000);
    assert_eq!(all_names(&client, &id).await, "['f']\n");
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    for framing in ["content-length: 200000\r\n", "transfer-encoding: chunked\r\n"] {
        let mut stream = begin(&server, &head(&server, "PUT", &id, "d/f", framing)).await;
        let body = if framing.starts_with('t') { &b"186a0\r\nxxxx"[..] } else { &[b'x'; 100_000] };
        stream.write_all(body).await.expect("sent");
        let begun = "import os; print(os.path.isdir('d') and os.listdir('d'))";
        eventually("it is begun", || async { run(&client, &id, begun).await.output.contains(".part").then_some(()) })
            .await;
        drop(stream);
        eventually("nothing is left", || async { (run(&client, &id, begun).await.output == "[]\n").then_some(()) })
            .await;
    }
}

#[tokio::test]
async fn writers_at_once_replace_each_other_as_a_whole() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    let contents: Vec<String> = (0..8).map(|n| n.to_string().repeat(300_000)).collect();
    let writers = join_all(contents.iter().map(|it| client.write_file(&id, "f", it.clone())));
    let readers = join_all((0..8).map(|_| client.read_file(&id, "f")));
    let (written, read) = in_time("all of them", join(writers, readers)).await;
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    for bytes in read.into_iter().flatten() {
        assert!(contents.iter().any(|it| *it == bytes), "a mixture of {} bytes", bytes.len());
    }
    let last = client.read_file(&id, "f").await.expect("read");
    assert!(contents.iter().any(|it| *it == last));
    assert_eq!(all_names(&client, &id).await, "['f']\n");
}

#[tokio::test]
async fn a_file_fits_on_the_disk_or_is_not_there() {
    let server = Server::start_with(As::Me, SMALL_DISK).await;
    let (client, id) = fresh(&server).await;
    // Beyond the whole disk: refused at once by its length, or when it is too long.
    let large = vec![b'x'; (4 << 20) + 1];
    let token = bearer(&local_token(&server));
    let path = format!("/api/v1/sessions/{id}/files/f");
    let reply: Reply = ask(&server, "PUT", &path, &[("authorization", &token)], &large).await;
    assert_eq!(reply.status, 413);
    reply.problem(ProblemCode::TooLarge);
    let waits = head(&server, "PUT", &id, "f", "content-length: 4194305\r\nexpect: 100-continue\r\n");
    assert_eq!(status(&exchange(&server, &waits).await), "413", "a client that waits need not send it");
    let mut chunked = head(&server, "PUT", &id, "f", "transfer-encoding: chunked\r\n");
    chunked.extend_from_slice(format!("{:x}\r\n", large.len()).as_bytes());
    chunked.extend_from_slice(&large);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    // Without a length either bound may be met first.
    let answer = exchange(&server, &chunked).await;
    assert!(matches!(status(&answer), "413" | "507"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(all_names(&client, &id).await, "[]\n");
    // Beyond what is left of it.
    client.write_file(&id, "half", vec![b'h'; 2 << 20]).await.expect("written");
    let refused = client.write_file(&id, "f", vec![b'x'; 3 << 20]).await.expect_err("no room");
    assert_eq!(refused.problem().expect("a problem").code, ProblemCode::StorageFull);
    assert_eq!(all_names(&client, &id).await, "['half']\n");
    client.remove_file(&id, "half").await.expect("removed");
    client.write_file(&id, "f", vec![b'x'; 3 << 20]).await.expect("there is room again");
    let full = run(&client, &id, "open('g', 'wb').write(b'x' * (2 << 20))").await;
    assert!(full.error.contains("No space left"), "{full:?}");
    assert_eq!(run(&client, &id, "6 * 7").await.result.0.get(), "42");
}

#[tokio::test]
async fn a_file_that_shrinks_breaks_off_one_answer() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    client.write_file(&id, "f", vec![b'x'; 32 << 20]).await.expect("written");
    let mut stream = begin(&server, &head(&server, "GET", &id, "f", "")).await;
    let mut some = [0; 1000];
    in_time("the beginning", stream.read_exact(&mut some)).await.expect("read");
    assert!(run(&client, &id, "import os; os.truncate('f', 10)").await.success);
    let mut rest = Vec::new();
    // The end, or a reset: either tells that something is missing.
    let _ = in_time("the end", stream.read_to_end(&mut rest)).await;
    assert!(rest.len() < 32 << 20, "{}", rest.len());
    assert_eq!(client.read_file(&id, "f").await.expect("read").len(), 10);
}

#[tokio::test]
async fn a_busy_program_is_in_no_files_way() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    let mut socket = client.attach(&id, None).await.expect("a socket");
    send(&mut socket, "e1", "print('runs')\nwhile True: pass").await;
    until_printed(&mut socket).await;
    client.write_file(&id, "f", "while it runs").await.expect("written");
    assert_eq!(client.read_file(&id, "f").await.expect("read"), "while it runs");
    assert_eq!(files(&client, &id).await, ["f"]);
    // One that writes all the time is read as it is at some moment.
    client.interrupt(&id, None).await.expect("accepted");
    let text =
        "print('runs')\nn = 0\nwhile True:\n    n += 1\n    with open('g', 'w') as g: g.write('x' * (n % 100000))";
    send(&mut socket, "e2", text).await;
    until_printed(&mut socket).await;
    for _ in 0..50 {
        // A file that shrinks at the wrong moment breaks its answer off; the next one is read.
        if let Ok(bytes) = client.read_file(&id, "g").await {
            assert!(bytes.iter().all(|byte| *byte == b'x'));
        }
    }
    client.delete(&id).await.expect("deleted");
}

#[tokio::test]
async fn files_have_their_scopes_and_owners() {
    let server = Server::start().await;
    let (client, id) = fresh(&server).await;
    client.write_file(&id, "f", "x").await.expect("written");
    let code =
        |outcome: Result<(), repltool::client::ClientError>| outcome.expect_err("refused").problem().map(|it| it.code);
    let reader = server.client_of("local", "session:read");
    assert_eq!(reader.read_file(&id, "f").await.expect("read"), "x");
    assert_eq!(reader.files(&id, "", None).await.expect("a list").files.len(), 1);
    assert_eq!(code(reader.write_file(&id, "f", "y").await.map(drop)), Some(ProblemCode::Forbidden));
    assert_eq!(code(reader.remove_file(&id, "f").await), Some(ProblemCode::Forbidden));
    assert_eq!(code(reader.stdin(&id, Some("x"), false).await), Some(ProblemCode::Forbidden));
    let other = server.client_of("eve", "tool:execute");
    for outcome in [
        other.read_file(&id, "f").await.map(drop),
        other.files(&id, "", None).await.map(drop),
        other.write_file(&id, "f", "y").await.map(drop),
        other.remove_file(&id, "f").await,
        other.stdin(&id, Some("x"), false).await,
    ] {
        assert_eq!(code(outcome), Some(ProblemCode::NotFound));
    }
    assert_eq!(client.read_file(&id, "f").await.expect("read"), "x");
}
