//! A server for names on this machine, which knows one name and says that it is this machine. Resolvers ask port 53 alone,
//! so it takes root, and an address of its own among those of loopback.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// The type of a record with an address of IPv4.
const A: u16 = 1;
const HEADER_BYTES: usize = 12;

/// Ends when it is dropped.
pub struct Names {
    pub address: Ipv4Addr,
    asked: Asked,
    _serving: JoinSet<()>,
}

/// Questions by UDP and by TCP.
type Asked = Arc<Mutex<(usize, usize)>>;

impl Names {
    /// One that knows `name`. Where its answers are too long for UDP, it says so there and no more.
    pub async fn knowing(name: &'static str, is_long: bool) -> Self {
        let (address, by_udp, by_tcp) = loop {
            let [third, fourth]: [u8; 2] = rand::random();
            let address = Ipv4Addr::new(127, 53, third, fourth);
            let sockets = (UdpSocket::bind((address, 53)).await, TcpListener::bind((address, 53)).await);
            if let (Ok(by_udp), Ok(by_tcp)) = sockets {
                break (address, by_udp, by_tcp);
            }
        };
        let asked = Asked::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve_udp(by_udp, name, is_long, asked.clone()));
        serving.spawn(serve_tcp(by_tcp, name, asked.clone()));
        Self { address, asked, _serving: serving }
    }

    /// How often it was asked, by UDP and by TCP.
    pub fn asked(&self) -> (usize, usize) {
        *self.asked.lock().expect("no panic")
    }
}

async fn serve_udp(socket: UdpSocket, name: &str, is_long: bool, asked: Asked) {
    let mut question = [0; 512];
    while let Ok((length, peer)) = socket.recv_from(&mut question).await {
        asked.lock().expect("no panic").0 += 1;
        let _ = socket.send_to(&answer(&question[..length], name, is_long), peer).await;
    }
}

async fn serve_tcp(listener: TcpListener, name: &'static str, asked: Asked) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, name, asked.clone()));
    }
}

/// By TCP the length stands before each message.
async fn converse(mut stream: TcpStream, name: &str, asked: Asked) {
    while let Ok(length) = stream.read_u16().await {
        let mut question = vec![0; length.into()];
        if stream.read_exact(&mut question).await.is_err() {
            return;
        }
        asked.lock().expect("no panic").1 += 1;
        let answer = answer(&question, name, false);
        let length = u16::try_from(answer.len()).expect("it is short").to_be_bytes();
        if stream.write_all(&[&length[..], &answer].concat()).await.is_err() {
            return;
        }
    }
}

/// The answer of RFC 1035 to a message with one question.
fn answer(message: &[u8], name: &str, is_truncated: bool) -> Vec<u8> {
    let (header, rest) = message.split_at(HEADER_BYTES);
    let (asked, after) = labels(rest);
    let end = rest.len() - after.len() + 4;
    let is_known = asked.eq_ignore_ascii_case(name);
    let has_address = is_known && !is_truncated && u16::from_be_bytes([after[0], after[1]]) == A;
    // An answer, recursion wanted and there; TC; NXDOMAIN.
    let flags = 0x8180_u16 | if is_truncated { 0x0200 } else { 0 } | if is_known { 0 } else { 3 };
    let counts = [1, u16::from(has_address), 0, 0];
    let mut answer = header[..2].to_vec();
    answer.extend([flags].iter().chain(&counts).flat_map(|it| it.to_be_bytes()));
    answer.extend(&rest[..end]);
    if has_address {
        // The name is that of the question; A, IN, a minute, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(Ipv4Addr::LOCALHOST.octets());
    }
    answer
}

/// The name that a question begins with, and what follows it.
fn labels(mut rest: &[u8]) -> (String, &[u8]) {
    let mut labels = Vec::new();
    loop {
        let (length, after) = rest.split_first().expect("a label");
        let (label, after) = after.split_at((*length).into());
        rest = after;
        if label.is_empty() {
            return (labels.join("."), rest);
        }
        labels.push(String::from_utf8_lossy(label).into_owned());
    }
}
