//! Events as they come, one JSON object a line.

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use repltool_protocol::frame::ServerFrame;

use super::http1::Reply;
use super::{ClientError, decode};

/// The longest line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Events of a session. Dropping it stops nothing but the reading.
pub struct EventStream {
    reply: Reply,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line break.
    looked: usize,
}

impl EventStream {
    pub(super) fn new(reply: Reply) -> Self {
        Self { reply, buffer: BytesMut::new(), looked: 0 }
    }

    /// Waits for the next event or gap; `None` at the end. Types that this version does not know are passed over.
    ///
    /// # Errors
    /// [`ClientError::Broken`] if the stream breaks off before its end, [`ClientError::Unreadable`].
    ///
    /// # Cancel safety
    /// Cancel-safe: what was read is kept.
    pub async fn next(&mut self) -> Result<Option<ServerFrame>, ClientError> {
        loop {
            while let Some(line) = self.line() {
                if !line.is_empty()
                    && let Some(frame) = decode(&String::from_utf8_lossy(&line))?
                {
                    return Ok(Some(frame));
                }
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ClientError::Broken("a line is too long".into()));
            }
            match self.reply.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(ClientError::Broken(Box::new(error))),
                None => return Ok(None),
            }
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let fresh = self.buffer.get(self.looked..).unwrap_or_default();
        let Some(at) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.looked = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.looked + at);
        self.buffer.advance(1);
        self.looked = 0;
        Some(line)
    }
}
