//! HTTP and WebSocket by hand, for what a good client never sends: any header, any text, any frame.

use futures::{SinkExt, StreamExt};
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use repltool_protocol::frame::SUBPROTOCOL;
use repltool_protocol::rest::{Problem, ProblemCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::harness::{Server, canary, in_time};

/// Headers of a request, as they stand.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    /// The value of a header that is there once, or nothing.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map_or("", |value| value.to_str().expect("a readable header"));
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The problem document, which must have this code and the status of the answer.
    pub fn problem(&self, code: ProblemCode) -> Problem {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem: Problem = serde_json::from_slice(&self.body).expect("a problem document");
        assert_eq!((problem.code, problem.status), (code, self.status), "{problem:?}");
        assert_eq!(self.header("x-request-id"), problem.request_id);
        problem
    }
}

/// The header that carries a token.
pub fn bearer(token: &str) -> String {
    canary::plant_token(token);
    format!("Bearer {token}")
}

pub fn address(server: &Server) -> &str {
    server.address()
}

/// Sends a request on a connection of its own. Speaks HTTP/1.0, in which a body comes in one piece and ends with its
/// connection. `Host` is the server's, unless it is among the headers.
pub async fn ask(server: &Server, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) -> Reply {
    canary::plant(std::str::from_utf8(body).unwrap_or_default());
    let mut head = format!("{method} {path} HTTP/1.0\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("host: {}\r\n", address(server));
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        head += &format!("content-length: {}\r\n", body.len());
    }
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    read_reply(exchange(server, &bytes).await)
}

/// [`ask`] with the local token, and a JSON body if there is one.
pub async fn ask_as_owner(server: &Server, method: &str, path: &str, body: &str) -> Reply {
    let token = bearer(&local_token(server));
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    ask(server, method, path, &headers, body.as_bytes()).await
}

/// The token that the server has made for its own user.
pub fn local_token(server: &Server) -> String {
    std::fs::read_to_string(server.data().join("token")).expect("the server wrote its token")
}

/// Sends bytes and reads all that comes until the server closes the connection.
pub async fn exchange(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address(server)).await.expect("the server accepts");
    let mut answer = Vec::new();
    let talk = async {
        stream.write_all(bytes).await.expect("the server reads");
        stream.read_to_end(&mut answer).await.expect("the server answers");
    };
    in_time("an answer", talk).await;
    answer
}

fn read_reply(bytes: Vec<u8>) -> Reply {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("the end of the head");
    let (status, headers) = read_head(&bytes[..end]);
    Reply { status, headers, body: bytes[end + 4..].to_vec() }
}

/// Status and headers of an answer, without the empty line at their end.
pub fn read_head(bytes: &[u8]) -> (u16, HeaderMap) {
    let head = std::str::from_utf8(bytes).expect("a head");
    let (status, lines) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = status.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let mut headers = HeaderMap::new();
    for (name, value) in lines.lines().filter_map(|line| line.split_once(": ")) {
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, HeaderValue::from_str(value).expect("a value"));
    }
    (status, headers)
}

/// A WebSocket without manners.
#[derive(Debug)]
pub struct Raw {
    pub wire: WebSocketStream<TcpStream>,
}

/// Asks for a WebSocket. The subprotocol and `Host` are as they should be, unless they are among the headers.
pub async fn open(server: &Server, path: &str, headers: Headers<'_>) -> Result<Raw, Reply> {
    open_with_buffer(server, path, headers, None).await
}

/// [`open`] with a receive buffer of about so many bytes.
pub async fn open_with_buffer(
    server: &Server,
    path: &str,
    headers: Headers<'_>,
    receive_bytes: Option<u32>,
) -> Result<Raw, Reply> {
    let url = format!("ws://{}{path}", address(server));
    let mut request = url.into_client_request().expect("a request");
    let wanted = request.headers_mut();
    wanted.insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a name");
        assert!(name != HOST, "the host of a WebSocket is that of its url");
        wanted.insert(name, HeaderValue::from_str(value).expect("a value"));
    }
    let socket = TcpSocket::new_v4().expect("a socket");
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes).expect("a small buffer");
    }
    let stream = socket.connect(address(server).parse().expect("an address")).await.expect("the server accepts");
    match in_time("a handshake", tokio_tungstenite::client_async(request, stream)).await {
        Ok((wire, answer)) => {
            assert_eq!(answer.headers()["sec-websocket-protocol"], SUBPROTOCOL, "the subprotocol alone");
            Ok(Raw { wire })
        }
        Err(WsError::Http(answer)) => {
            let (head, body) = answer.into_parts();
            Err(Reply { status: head.status.as_u16(), headers: head.headers, body: body.unwrap_or_default() })
        }
        Err(error) => panic!("{path}: {error}"),
    }
}

/// [`open`] with a token.
pub async fn open_as(server: &Server, path: &str, token: &str) -> Result<Raw, Reply> {
    open(server, path, &[("authorization", &bearer(token))]).await
}

impl Raw {
    pub async fn send(&mut self, text: impl Into<String>) {
        self.wire.send(Message::text(text.into())).await.expect("the message is sent");
    }

    /// The next message, or the close code with which there is none. Pings are passed over.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            return match in_time("a message", self.wire.next()).await {
                Some(Ok(Message::Text(text))) => Ok(serde_json::from_str(&text).expect("JSON")),
                Some(Ok(Message::Close(frame))) => Err(frame.map(|it| it.code.into())),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(other)) => panic!("unexpected: {other:?}"),
                Some(Err(_)) | None => Err(None),
            };
        }
    }

    /// The next message of a type.
    pub async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?}, without {kind}"));
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// The close code, after whatever else comes.
    pub async fn close_code(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }
}

/// Sends bytes on a connection that may be encrypted, and reads to its end.
pub async fn exchange_on(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), bytes: &[u8]) -> String {
    let mut answer = Vec::new();
    let talk = async {
        let _ = stream.write_all(bytes).await;
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer).await;
    };
    in_time("the end of the connection", talk).await;
    String::from_utf8_lossy(&answer).into_owned()
}
