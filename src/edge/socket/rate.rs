//! Messages beyond the rate of a socket: answered, and not carried out. Who goes on regardless loses the socket.

use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::{DecodeError, decode_client};
use tokio_tungstenite::tungstenite::Message;

use super::Socket;
use super::closing::Ending;
use super::command::name;
use crate::edge::limit::{self, Verdict};

impl Socket<'_> {
    /// Charges a message, and answers one that is beyond the rate. Pings are charged too, and answered below us. What
    /// answers our own pings, or says goodbye, costs nothing.
    pub(super) fn is_within_rate(&mut self, message: &Message) -> Result<bool, Ending> {
        if !matches!(message, Message::Text(_) | Message::Binary(_) | Message::Ping(_)) {
            return Ok(true);
        }
        let wait_s = match self.attachment.meter.charge() {
            Verdict::Granted => return Ok(true),
            Verdict::Refused { wait_s } => wait_s,
            Verdict::Cut => return Err(Ending::Close(CloseCode::RateLimited)),
        };
        if !message.is_ping() {
            self.say(&limit::refusal("too many messages", wait_s).notice(id(message)))?;
        }
        Ok(false)
    }
}

/// The id of a message, if it has a valid one.
fn id(message: &Message) -> Option<String> {
    let Message::Text(text) = message else { return None };
    match decode_client(text) {
        Ok(frame) => name(&frame),
        Err(DecodeError::Malformed { id, .. }) => id,
        Err(DecodeError::TooBig(_)) => None,
    }
}
