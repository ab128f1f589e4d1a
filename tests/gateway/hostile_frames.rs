//! Frames that no good client sends, byte by byte: each has its answer, and the session and its other sockets go on.

use std::os::fd::AsFd;

use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::MAX_MESSAGE_BYTES;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::harness::{As, Server, eventually, in_time, python};
use super::wire::{Raw, local_token, open_as};

const TEXT: u8 = 0x1;
const CONTINUATION: u8 = 0x0;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const FIN: u8 = 0x80;

/// A frame as a client must send it: masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | length as u8),
        length @ 126..65536 => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// The head of a text frame that says so many bytes follow.
fn head(length: u64) -> Vec<u8> {
    let mut bytes = vec![FIN | TEXT, 0x80 | 127];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// A message in several frames.
fn fragments<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let parts: Vec<_> = parts.into_iter().collect();
    let last = parts.len() - 1;
    let first = |n| if n == 0 { TEXT } else { CONTINUATION } | if n == last { FIN } else { 0 };
    parts.into_iter().enumerate().map(|(n, part)| frame(first(n), part)).collect()
}

struct Stage {
    server: Server,
    id: SessionId,
    witness: Raw,
}

impl Stage {
    /// The rates are off: here a socket is to bear what it is sent.
    async fn new() -> Self {
        let server = Server::start_with(As::Me, "[rate_limit]\nenabled = false\n").await;
        let id = python(&server.client(), json!({})).await;
        let witness = attach(&server, &id).await;
        Self { server, id, witness }
    }

    async fn attach(&self) -> Raw {
        attach(&self.server, &self.id).await
    }

    /// A socket that was attached before all this still works, and so does the session.
    async fn assert_unharmed(&mut self) {
        run(&mut self.witness, "6 * 7", "42").await;
    }
}

async fn attach(server: &Server, id: &SessionId) -> Raw {
    let mut socket =
        open_as(server, &format!("/api/v1/sessions/{id}/ws"), &local_token(server)).await.expect("a socket");
    socket.next_of("ready").await;
    socket
}

async fn run(socket: &mut Raw, code: &str, printed: &str) {
    let id = format!("x{}", rand_id());
    socket.send(json!({"type": "execute", "id": id, "code": code}).to_string()).await;
    result(socket, &id, printed).await;
}

async fn result(socket: &mut Raw, id: &str, printed: &str) {
    let result = loop {
        let result = socket.next_of("result").await;
        if result["id"] == id {
            break result;
        }
    };
    assert_eq!(result["result_text"], printed, "{result}");
}

/// A name that no other execution of this process has.
fn rand_id() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn write(socket: &mut Raw, bytes: &[u8]) {
    in_time("the server reads", socket.wire.get_mut().write_all(bytes)).await.expect("sent");
}

/// Highest resident memory of a process so far, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test]
async fn fragments_are_joined_whatever_stands_between_them() {
    let mut stage = Stage::new().await;
    let mut socket = stage.attach().await;
    let text = json!({"type": "execute", "id": "cut", "code": "'grüße 😀'"}).to_string();
    // One byte a frame cuts every character, and a ping stands between every two of them.
    let mut bytes = Vec::new();
    for fragment in fragments(text.as_bytes().chunks(1)) {
        bytes.extend(fragment);
        bytes.extend(frame(FIN | PING, b"between"));
    }
    write(&mut socket, &bytes).await;
    result(&mut socket, "cut", "'grüße 😀'").await;
    // And one byte a packet.
    for byte in fragments(json!({"type": "ping", "id": "slow"}).to_string().as_bytes().chunks(7)).concat() {
        write(&mut socket, &[byte]).await;
    }
    assert_eq!(socket.next_of("pong").await["id"], "slow");
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn empty_fragments_and_pings_without_end_cost_no_memory() {
    let mut stage = Stage::new().await;
    let gateway = stage.server.gateway_pid(None).await;
    let mut socket = stage.attach().await;
    let before = peak_kib(gateway);
    // None of the many pongs is read before the end.
    let ping = frame(FIN | PING, &[b'x'; 125]).repeat(100);
    for _ in 0..400 {
        write(&mut socket, &ping).await;
    }
    let empty = frame(CONTINUATION, b"").repeat(1000);
    write(&mut socket, &frame(TEXT, br#"{"type":"#)).await;
    for _ in 0..200 {
        write(&mut socket, &empty).await;
    }
    write(&mut socket, &frame(FIN | CONTINUATION, br#""ping","id":"last"}"#)).await;
    assert_eq!(socket.next_of("pong").await["id"], "last");
    let growth = peak_kib(gateway) - before;
    assert!(growth < 8 * 1024, "the gateway grew by {growth} KiB");
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn broken_frames_close_the_socket_with_their_code() {
    let mut stage = Stage::new().await;
    let whole = |parts: &[&[u8]]| fragments(parts.iter().copied()).concat();
    let mut cases = vec![
        ("not UTF-8", frame(FIN | TEXT, b"\xc3\x28"), 1007),
        ("half a character", frame(FIN | TEXT, b"\xc3"), 1007),
        ("half a character over two frames", whole(&[b"\xf0\x9f", b"\x98"]), 1007),
        ("a character broken by the next frame", whole(&[b"\xc3", b"\x28", b""]), 1007),
        ("a surrogate in UTF-8", frame(FIN | TEXT, b"\xed\xa0\x80"), 1007),
        ("an overlong slash", frame(FIN | TEXT, b"\xc0\xaf"), 1007),
        ("not masked", vec![FIN | TEXT, 1, b'x'], 1002),
        ("not masked, a ping", vec![FIN | PING, 0], 1002),
        ("a ping of 126 bytes", frame(FIN | PING, &[b'x'; 126]), 1002),
        ("a ping in two frames", frame(PING, b"x"), 1002),
        ("a close in two frames", frame(CLOSE, b""), 1002),
        ("a continuation of nothing", frame(FIN | CONTINUATION, b"x"), 1002),
        ("a message within a message", [frame(TEXT, b"a"), frame(FIN | TEXT, b"b")].concat(), 1002),
        ("2^63 bytes", head(1 << 63), 1009),
        ("2^64 - 1 bytes", head(u64::MAX), 1009),
        ("one byte too many", head(MAX_MESSAGE_BYTES as u64 + 1), 1009),
        ("a close of one byte", frame(FIN | CLOSE, b"\x03"), 1002),
        ("a reason that is no text", frame(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
    ];
    for bit in [0x40, 0x20, 0x10] {
        cases.push(("a reserved bit", frame(FIN | TEXT | bit, b"x"), 1002));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(("an unknown opcode", frame(FIN | opcode, b""), 1002));
    }
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
        cases.push(("a code that is none", frame(FIN | CLOSE, &code.to_be_bytes()), 1002));
    }
    for (what, bytes, code) in cases {
        let mut socket = stage.attach().await;
        write(&mut socket, &bytes).await;
        assert_eq!(socket.close_code().await, Some(code), "{what}: {bytes:x?}");
    }
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn a_message_too_big_in_pieces_is_refused_like_a_whole_one() {
    let mut stage = Stage::new().await;
    let mut socket = stage.attach().await;
    let piece = frame(CONTINUATION, &vec![b' '; 1 << 20]);
    write(&mut socket, &frame(TEXT, b"{")).await;
    for _ in 0..16 {
        // The server may have closed before all is sent.
        if socket.wire.get_mut().write_all(&piece).await.is_err() {
            break;
        }
    }
    assert_eq!(socket.close_code().await, Some(1009));
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn a_goodbye_is_answered_and_what_follows_it_is_not_heard() {
    let mut stage = Stage::new().await;
    for (code, reason) in [(1000_u16, "bye"), (1001, ""), (3000, "grüße"), (4999, "")] {
        let mut socket = stage.attach().await;
        let payload = [&code.to_be_bytes()[..], reason.as_bytes()].concat();
        let after = json!({"type": "execute", "id": "late", "code": "late = 1"}).to_string();
        write(&mut socket, &[frame(FIN | CLOSE, &payload), frame(FIN | TEXT, after.as_bytes())].concat()).await;
        assert_eq!(socket.close_code().await, Some(code));
    }
    let mut socket = stage.attach().await;
    write(&mut socket, &frame(FIN | CLOSE, b"")).await;
    assert_eq!(socket.close_code().await, None, "without a code");
    run(&mut stage.witness, "'late' in globals()", "False").await;
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn hostile_json_is_refused_by_name_and_the_socket_stays() {
    let mut stage = Stage::new().await;
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let digits = "9".repeat(10_000);
    let texts = [
        (String::new(), None),
        (" \n\t".to_owned(), None),
        ("null".to_owned(), None),
        ("\u{feff}{\"type\":\"ping\",\"id\":\"b\"}".to_owned(), None),
        (r#"{"type":"ping","id":"n"}{"type":"ping","id":"n"}"#.to_owned(), None),
        ("{\"type\":\"ping\",\"id\":\"n\0\"}".to_owned(), None),
        (r#"{"type":"ping","id":"n\u0000"}"#.to_owned(), None),
        (format!(r#"{{"type":"ping","id":"d","x":{}}}"#, deep("[", "]")), Some("d")),
        (format!(r#"{{"type":"ping","id":"d","x":{}}}"#, deep("{\"a\":", "}").replace(":}", ":1}")), Some("d")),
        (format!(r#"{{"type":"execute","id":"d","code":{}}}"#, deep("[", "]")), Some("d")),
        (deep("[", "]"), None),
        (r#"{"type":"execute","id":"f","code":"1","timeout_ms":1e999}"#.to_owned(), None),
        (r#"{"type":"execute","id":"f","code":"1","timeout_ms":1e4}"#.to_owned(), Some("f")),
        (format!(r#"{{"type":"execute","id":"f","code":"1","timeout_ms":{digits}}}"#), Some("f")),
        (r#"{"type":"execute","id":"f","code":"1","timeout_ms":18446744073709551616}"#.to_owned(), Some("f")),
        (r#"{"type":"complete","id":"f","code":"1","cursor":-0}"#.to_owned(), Some("f")),
        (r#"{"type":"execute","id":"s","code":"\ud800"}"#.to_owned(), None),
        (r#"{"type":"execute","id":"s","code":"\ude00\ud83d"}"#.to_owned(), None),
        (r#"{"type":"execute","id":"t","id":"t","code":"1"}"#.to_owned(), None),
        (r#"{"type":"execute","id":"t","code":"1","code":"2"}"#.to_owned(), Some("t")),
        (format!(r#"{{"type":"{}","id":"u"}}"#, "x".repeat(100_000)), Some("u")),
    ];
    for texts in texts.chunks(9) {
        let mut socket = stage.attach().await;
        for (text, id) in texts {
            let start: String = text.chars().take(60).collect();
            socket.send(text.as_str()).await;
            let problem = socket.next_of("problem").await;
            assert_eq!(problem["code"], "invalid_request", "{start}: {problem}");
            // A text that is no JSON as a whole may still have shown its id.
            assert!(id.is_none() || problem["id"] == json!(id), "{start}: {problem}");
            assert!(problem["detail"].as_str().is_some_and(|it| it.chars().count() <= 301), "{start}");
        }
        run(&mut socket, "6 * 7", "42").await;
    }
    let mut socket = stage.attach().await;
    // A NUL within code is for the interpreter to judge.
    socket.send(r#"{"type":"execute","id":"nul","code":"'a\u0000b'"}"#).await;
    let answer = loop {
        let message = socket.next().await.expect("an answer");
        if message["id"] == "nul" && (message["type"] == "result" || message["type"] == "problem") {
            break message;
        }
    };
    assert_ne!(answer["success"], Value::Bool(true), "{answer}");
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn unknown_messages_are_borne_nine_times() {
    let mut stage = Stage::new().await;
    let mut socket = stage.attach().await;
    for n in 1..10 {
        socket.send(json!({"type": "dance", "id": format!("d{n}")}).to_string()).await;
        assert_eq!(socket.next_of("problem").await["id"], format!("d{n}"));
        // Good ones in between do not make up for them.
        socket.send(r#"{"type":"ping","id":"p"}"#).await;
        socket.next_of("pong").await;
    }
    socket.send(r#"{"type":"dance","id":"d10"}"#).await;
    assert_eq!(socket.next_of("problem").await["id"], "d10");
    assert_eq!(socket.close_code().await, Some(1008));
    stage.assert_unharmed().await;
}

#[tokio::test]
async fn peers_that_vanish_in_the_middle_of_a_frame_leave_nothing() {
    let mut stage = Stage::new().await;
    let gateway = stage.server.gateway_pid(None).await;
    let open_files = || std::fs::read_dir(format!("/proc/{gateway}/fd")).expect("it lives").count();
    run(&mut stage.witness, "6 * 7", "42").await;
    let before = open_files();
    let mut sockets = Vec::new();
    for n in 0..30 {
        let mut socket = stage.attach().await;
        let message = frame(FIN | TEXT, json!({"type": "ping", "id": "p"}).to_string().as_bytes());
        write(&mut socket, &message[..n % message.len()]).await;
        if n % 2 == 0 {
            // No goodbye of any kind, but a reset.
            let none = Some(std::time::Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(socket.wire.get_ref().as_fd(), none).expect("set");
        }
        sockets.push(socket);
    }
    drop(sockets);
    eventually("their descriptors are closed", || async { (open_files() <= before).then_some(()) }).await;
    stage.assert_unharmed().await;
}
