//! The link between the two processes, over a socket: what is read is the same when it is sent on.
#![no_main]

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use libfuzzer_sys::fuzz_target;
use repltool::supervisor::link::{LinkError, MAX_PACKET_BYTES, ToGateway, ToSupervisor, encode, receive, send};
use serde::Serialize;
use serde::de::DeserializeOwned;

struct Link {
    ends: (UnixDatagram, UnixDatagram),
    buffer: Vec<u8>,
}

impl Link {
    fn new() -> Self {
        Self { ends: UnixDatagram::pair().expect("a pair of sockets"), buffer: vec![0; MAX_PACKET_BYTES] }
    }

    fn carry<T: DeserializeOwned>(&mut self, packet: &[u8]) -> Result<T, LinkError> {
        send(self.ends.0.as_fd(), packet, &[]).expect("the socket is empty");
        let (message, descriptors) = receive(self.ends.1.as_fd(), &mut self.buffer)?;
        assert!(descriptors.is_empty());
        Ok(message)
    }

    fn check<T: Serialize + DeserializeOwned>(&mut self, packet: &[u8]) {
        let Ok(message) = self.carry::<T>(packet) else { return };
        match encode(&message) {
            Ok(written) => {
                let again: T = self.carry(&written).expect("it was a message");
                assert_eq!(encode(&again).expect("it fitted before"), written);
            }
            Err(error) => assert!(matches!(error, LinkError::TooBig(bytes) if bytes > MAX_PACKET_BYTES), "{error:?}"),
        }
    }
}

thread_local!(static LINK: RefCell<Link> = RefCell::new(Link::new()));

fuzz_target!(|packet: &[u8]| {
    if packet.len() > MAX_PACKET_BYTES {
        return;
    }
    LINK.with_borrow_mut(|link| {
        link.check::<ToGateway>(packet);
        link.check::<ToSupervisor>(packet);
    });
});
