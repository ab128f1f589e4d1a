//! How sockets end. A close frame that is followed at once by a reset may never be seen, so the peer is listened to for
//! a moment after it.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use repltool_protocol::close::CloseCode;
use repltool_protocol::rest::MAX_MESSAGE_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode as WireCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::{Wire, wire};
use crate::edge::connection::Transport;

/// How long a peer has to take what is left and answer the close frame.
const GRACE: Duration = Duration::from_secs(3);
/// How much of what a peer is still sending is read away.
const DISCARD_BYTES: u64 = 8 * MAX_MESSAGE_BYTES as u64;

/// Why a socket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// We close it.
    Close(CloseCode),
    /// The peer broke the WebSocket protocol: 1002, or 1007 for text that is none.
    Protocol(u16),
    /// The peer has closed it and is to be answered.
    Answer,
    /// There is nobody left.
    Lost,
}

impl From<WsError> for Ending {
    fn from(error: WsError) -> Self {
        match error {
            WsError::Capacity(_) => Self::Close(CloseCode::TooBig),
            WsError::Utf8(_) => Self::Protocol(1007),
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Self::Lost,
            WsError::Protocol(_) | WsError::AttackAttempt => Self::Protocol(1002),
            WsError::WriteBufferFull(_) => Self::Close(CloseCode::Internal),
            WsError::ConnectionClosed
            | WsError::AlreadyClosed
            | WsError::Io(_)
            | WsError::Tls(_)
            | WsError::Url(_)
            | WsError::Http(_)
            | WsError::HttpFormat(_) => Self::Lost,
        }
    }
}

/// Tells a peer whose handshake was refused why.
pub(in crate::edge) async fn refuse(stream: Transport, early: Bytes, code: CloseCode) {
    close(wire(stream, early).await, Ending::Close(code)).await;
}

/// Ends a socket.
pub(super) async fn close(mut wire: Wire, ending: Ending) {
    let frame = match ending {
        Ending::Close(code) => Some(CloseFrame { code: WireCode::from(code.code()), reason: code.reason().into() }),
        Ending::Protocol(code) => Some(CloseFrame { code: WireCode::from(code), reason: "".into() }),
        Ending::Answer => None,
        Ending::Lost => return,
    };
    let goodbye = async {
        match frame {
            Some(frame) => wire.send(Message::Close(Some(frame))).await?,
            None => wire.flush().await?,
        }
        while let Some(Ok(_)) = wire.next().await {}
        // After a protocol error the messages cannot be told apart any more, but the bytes can be read away.
        let stream = wire.get_mut();
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(DISCARD_BYTES), &mut tokio::io::sink()).await?;
        Ok::<(), WsError>(())
    };
    // Whoever does not take part in the goodbye has gone, or is cut off.
    let _ = tokio::time::timeout(GRACE, goodbye).await;
}
