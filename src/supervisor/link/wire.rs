//! How a message becomes a packet with its descriptors, and back.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{LinkError, MAX_FDS, MAX_PACKET_BYTES};

/// Encodes a message for [`send`].
///
/// # Errors
/// [`LinkError::TooBig`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, LinkError> {
    let bytes = serde_json::to_vec(message).map_err(LinkError::Malformed)?;
    if bytes.len() > MAX_PACKET_BYTES { Err(LinkError::TooBig(bytes.len())) } else { Ok(bytes) }
}

/// Sends one packet without waiting.
///
/// # Errors
/// `WouldBlock` if there is no room now, as [`LinkError::Io`].
pub fn send(socket: BorrowedFd<'_>, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(LinkError::Descriptors);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags)?;
    Ok(())
}

/// Receives one packet without waiting. `buffer` is [`MAX_PACKET_BYTES`] long.
///
/// # Errors
/// `WouldBlock` if there is none now, as [`LinkError::Io`]; [`LinkError::Closed`] at the end.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(T, Vec<OwnedFd>), LinkError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Err(LinkError::Closed);
    }
    let message = serde_json::from_slice(&buffer[..got.bytes]).map_err(LinkError::Malformed)?;
    Ok((message, fds))
}

/// Puts a descriptor, which `fd` owns, under the watch of the runtime: of what it is to tell, and of nothing else. A socket
/// is told to be writable each time that its peer has read from it, and each time a thread wakes up for that.
///
/// # Errors
/// Those of epoll_ctl(2).
#[expect(
    deprecated,
    reason = "what the constructor cannot know holds for what owns its descriptor: it stays open while it is registered"
)]
pub fn register<T: AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}

/// Whether an error only says that nothing could be done without waiting.
pub fn would_block(error: &LinkError) -> bool {
    matches!(error, LinkError::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}
