//! What is said to a driver: each message whole or not at all.

use rustix::net::SendFlags;

use super::Kernel;
use super::control::{self, ControlError, ToDriver};

impl Kernel {
    /// Sends a message to the driver, whole or not at all.
    ///
    /// # Errors
    /// [`ControlError::Stuck`] if there is no room: with one message outstanding that is a driver that does not read.
    pub fn tell(&mut self, message: &ToDriver<'_>) -> Result<(), ControlError> {
        let frame = control::encode(message)?;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(self.control.get_ref(), &frame, flags) {
            Ok(sent) if sent == frame.len() => Ok(()),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Err(ControlError::Stuck),
            Err(error) => Err(ControlError::Io(error.into())),
        }
    }

    /// Sends step `i` of code: all of it by `message(code, none)` if it is short, else part `i`, and after the last part
    /// `message(none, parts)`.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub fn send_code<'a>(
        &mut self,
        n: u64,
        code: &'a str,
        i: usize,
        message: impl FnOnce(Option<&'a str>, Option<usize>) -> ToDriver<'a>,
    ) -> Result<(), ControlError> {
        match control::parts(code).nth(i) {
            Some(whole) if whole.len() == code.len() => self.tell(&message(Some(code), None)),
            Some(s) => self.tell(&ToDriver::Part { n, i, s }),
            None if i == 0 => self.tell(&message(Some(code), None)),
            None => self.tell(&message(None, Some(i))),
        }
    }

    /// Begins to synchronise with a driver; [`Hello`](super::control::FromDriver::Hello) follows. `reap`: its children were killed.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub fn synchronise(&mut self, reap: bool) -> Result<(), ControlError> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        self.decoder.synchronise(nonce.clone());
        self.tell(&ToDriver::Hello { nonce: &nonce, reap })
    }
}
