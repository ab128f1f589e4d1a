//! A WebSocket attached to a session.

use futures::{SinkExt, StreamExt};
use http::{HeaderValue, StatusCode};
use repltool_protocol::frame::{ClientFrame, SUBPROTOCOL, ServerFrame};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode as WireCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::http1::Connections;
use super::transport::Transport;
use super::{ClientError, decode, encode, refusal};

/// The longest message a server sends, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// What a socket brings.
#[derive(Debug, Clone)]
pub enum Received {
    /// A message.
    Frame(ServerFrame),
    /// The end.
    Closed(Closed),
}

/// How a socket ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The close code; none if the connection broke off.
    pub code: Option<u16>,
    /// In words.
    pub reason: String,
}

/// A WebSocket attached to a session. Dropping it ends nothing but itself.
#[derive(Debug)]
pub struct Socket {
    wire: WebSocketStream<Transport>,
}

impl Socket {
    pub(super) async fn open(
        connections: &Connections,
        path: &str,
        authorization: Option<HeaderValue>,
    ) -> Result<Self, ClientError> {
        let url = format!("ws://{}{path}", connections.authority());
        let mut request = url.as_str().into_client_request().map_err(broken)?;
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
        if let Some(authorization) = authorization {
            headers.insert("authorization", authorization);
        }
        let config = WebSocketConfig::default()
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        match client_async_with_config(request, connections.connect().await?, Some(config)).await {
            Ok((wire, _)) => Ok(Self { wire }),
            Err(WsError::Http(response)) => {
                let status = StatusCode::from_u16(response.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
                Err(refusal(status, response.body().as_deref().unwrap_or_default()))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ClientError::Broken`] if the socket has ended.
    ///
    /// # Cancel safety
    /// Not cancel-safe: the message may be sent later, or not.
    pub async fn send(&mut self, frame: &ClientFrame) -> Result<(), ClientError> {
        let text = encode(frame)?;
        self.wire.send(Message::text(text)).await.map_err(broken)
    }

    /// Sends any text, also one that is no message of the protocol.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send_text(&mut self, text: impl Into<String>) -> Result<(), ClientError> {
        self.wire.send(Message::text(text.into())).await.map_err(broken)
    }

    /// Waits for the next message or the end. Pings are answered meanwhile, and messages of a type that this version does
    /// not know are passed over.
    ///
    /// # Errors
    /// [`ClientError::Unreadable`] for a message that is not of the protocol.
    ///
    /// # Cancel safety
    /// Cancel-safe: a message is taken only by the call that returns it.
    pub async fn receive(&mut self) -> Result<Received, ClientError> {
        loop {
            match self.wire.next().await {
                Some(Ok(Message::Text(text))) => {
                    if let Some(frame) = decode(&text)? {
                        return Ok(Received::Frame(frame));
                    }
                }
                Some(Ok(Message::Close(frame))) => return Ok(Received::Closed(closed(frame))),
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => {
                    return Ok(Received::Closed(Closed { code: None, reason: error.to_string() }));
                }
                None => return Ok(Received::Closed(Closed { code: None, reason: "ended".into() })),
            }
        }
    }

    /// Says goodbye and waits for the server's.
    ///
    /// # Errors
    /// [`ClientError::Broken`] if the connection breaks off.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let frame = CloseFrame { code: WireCode::Normal, reason: "".into() };
        self.wire.close(Some(frame)).await.map_err(broken)?;
        while let Some(Ok(_)) = self.wire.next().await {}
        Ok(())
    }
}

fn closed(frame: Option<CloseFrame>) -> Closed {
    match frame {
        Some(frame) => Closed { code: Some(frame.code.into()), reason: frame.reason.to_string() },
        None => Closed { code: None, reason: String::new() },
    }
}

fn broken(error: WsError) -> ClientError {
    ClientError::Broken(Box::new(error))
}

#[cfg(test)]
mod tests {
    use repltool_protocol::frame::Notice;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test]
    async fn types_that_a_later_version_added_are_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (far, _) = listener.accept().await.expect("accepted");
        let mut server = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        let mut socket =
            Socket { wire: WebSocketStream::from_raw_socket(Transport::Left(near), Role::Client, None).await };
        for text in [r#"{"type":"forecast","seq":1,"sky":"blue"}"#, r#"{"type":"pong","id":"p1"}"#, r#"{"type":5}"#] {
            server.send(Message::text(text)).await.expect("sent");
        }
        let first = socket.receive().await.expect("a message");
        let Received::Frame(ServerFrame::Notice(Notice::Pong { id })) = first else { panic!("{first:?}") };
        assert_eq!(id.to_string(), "p1");
        assert!(matches!(socket.receive().await, Err(ClientError::Unreadable(_))));
    }
}
