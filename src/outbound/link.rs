//! The messages of the process that calls outside: with the supervisor, which starts it, and with the gateway.
//!
//! Both links are SOCK_SEQPACKET pairs with packets of at most 64 KiB. That with the supervisor carries JSON, like the one
//! of the gateway. On that with the gateway a post goes as it is, and an [`Outcome`] comes back as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Post, Target};

/// The largest order, in bytes.
pub const MAX_ORDER_BYTES: usize = 8 * 1024 * 1024;

/// What the supervisor tells.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCaller {
    /// The first message. Its descriptors: memory that holds an [`Order`] as JSON, and the near end of the link with the
    /// gateway.
    Start,
    /// A token came of a key that is not known.
    KeysWanted,
    /// The server ends, and no gateway sends anything any more: what lies in the link is to be sent still.
    Finish,
}

/// What the supervisor is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromCaller {
    /// Public keys were fetched and can be used; with the descriptor of the memory that holds them.
    Keys,
}

/// All that may be called, and what is needed for it.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// Where public keys are fetched.
    pub keys: Option<KeysOrder>,
    /// Where webhooks are posted.
    pub webhook: Option<WebhookOrder>,
    /// Where traces are posted.
    pub traces: Option<String>,
    /// Certificates that are trusted, DER.
    pub roots: Vec<Vec<u8>>,
    /// `/etc/resolv.conf`
    pub resolv_conf: String,
    /// `/etc/hosts`
    pub hosts: String,
    /// The user to become, where the supervisor is root.
    pub user: Option<u32>,
    /// The log.
    pub log: crate::config::Log,
}

/// The keys that tokens are checked with.
#[derive(Serialize, Deserialize)]
pub struct KeysOrder {
    /// Where they are.
    pub url: String,
    /// Seconds after which they are fetched anew, where their source says nothing else.
    pub refresh_s: u64,
    /// The algorithms that they must be for; empty: any that is known.
    pub algorithms: Vec<String>,
}

/// Webhooks.
#[derive(Serialize, Deserialize)]
pub struct WebhookOrder {
    /// Where they are posted.
    pub url: String,
    /// What signs them.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Order(***)")
    }
}

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Called {
    /// `auth.jwks_url`
    Keys,
    /// `alerts.webhook_url`
    Webhook,
    /// `traces.otlp_url`
    Traces,
}

/// How that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ended {
    /// The answer is good.
    Delivered,
    /// No try has brought a good answer, and there is no further one.
    Failed,
    /// Too much waited already.
    Dropped,
}

/// What the gateway is told of each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was called.
    pub called: Called,
    /// How it ended.
    pub ended: Ended,
}

/// Makes a packet of a post: the name of the target, the type and the span, a line each, and the body.
pub fn pack(post: &Post) -> Vec<u8> {
    let traceparent = post.traceparent.as_deref().unwrap_or_default();
    let head = format!("{}\n{}\n{traceparent}\n", post.target.name(), post.content_type);
    [head.as_bytes(), &post.body].concat()
}

/// A post as it comes out of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed<'a> {
    /// To whom.
    pub target: Target,
    /// What the body is, as in `Content-Type`.
    pub content_type: &'a str,
    /// The span that it belongs to.
    pub traceparent: Option<&'a str>,
    /// What is sent.
    pub body: &'a [u8],
}

/// Reads what [`pack`] has made. None if it is something else.
pub fn unpack(packet: &[u8]) -> Option<Packed<'_>> {
    let mut parts = packet.splitn(4, |byte| *byte == b'\n');
    let (target, content_type, traceparent, body) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let target = Target::ALL.into_iter().find(|known| known.name().as_bytes() == target)?;
    let (content_type, traceparent) = (std::str::from_utf8(content_type).ok()?, std::str::from_utf8(traceparent).ok()?);
    Some(Packed { target, content_type, traceparent: Some(traceparent).filter(|it| !it.is_empty()), body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::MAX_BODY_BYTES;

    #[test]
    fn a_post_comes_out_as_it_went_in_and_fits_into_a_packet() {
        for body in [vec![], b"a\n\nb\xff".to_vec(), vec![b'\n'; MAX_BODY_BYTES]] {
            for traceparent in [None, Some(format!("00-{:032x}-{:016x}-01", 1, 2))] {
                let (target, content_type) = (Target::Traces, "application/x-protobuf");
                let post = Post { target, content_type, traceparent: traceparent.clone(), body: body.clone() };
                let packet = pack(&post);
                assert!(packet.len() <= 64 * 1024);
                let traceparent = traceparent.as_deref();
                assert_eq!(unpack(&packet), Some(Packed { target, content_type, traceparent, body: &body }));
            }
        }
        let bad = [&b""[..], b"webhook", b"webhook\ntext/plain", b"webhook\ntext/plain\n"];
        for bad in bad.into_iter().chain([&b"keys\ntext/plain\n\n."[..], b"webhook\n\xff\n\n."]) {
            assert_eq!(unpack(bad), None);
        }
    }
}
