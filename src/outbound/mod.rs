//! What this server sends to addresses outside that its operator has named.
//!
//! The gateway has no network to call out with. It names what it sends to whom, and never an address: a process of its own,
//! [`crate::caller`], has the addresses and nothing else.

pub mod link;

use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// The largest body, in bytes.
pub const MAX_BODY_BYTES: usize = 60 * 1024;

/// To whom something is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// `alerts.webhook_url`.
    Webhook,
    /// `traces.otlp_url`.
    Traces,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Traces];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Traces => "traces",
        }
    }

    /// How many posts may wait for the other process to take them.
    const fn queue(self) -> usize {
        match self {
            Self::Webhook => 256,
            Self::Traces => 64,
        }
    }
}

/// What is sent: the body of a POST.
#[derive(Clone, PartialEq, Eq)]
pub struct Post {
    /// To whom.
    pub target: Target,
    /// What the body is, as in `Content-Type`.
    pub content_type: &'static str,
    /// The span that it belongs to, as `traceparent` has it; none: it belongs to none that is taken.
    pub traceparent: Option<String>,
    /// At most [`MAX_BODY_BYTES`].
    pub body: Vec<u8>,
}

/// Bodies are nobody's but the target's.
impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Post({:?}, {}, {} bytes)", self.target, self.content_type, self.body.len())
    }
}

/// Why something is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The operator has named no such address.
    #[error("no address is configured for it")]
    NotConfigured,
    /// Too much waits already.
    #[error("too much waits to be sent")]
    Full,
    /// The body has more than [`MAX_BODY_BYTES`].
    #[error("it is larger than {MAX_BODY_BYTES} bytes")]
    TooLarge,
}

/// Takes what is to be sent. Cheap to clone.
///
/// For each target there is a queue: 256 webhooks, 64 posts of traces. Nobody waits when it is full; what comes then is
/// dropped.
#[derive(Debug, Clone, Default)]
pub struct Outbound {
    webhook: Option<mpsc::Sender<Post>>,
    traces: Option<mpsc::Sender<Post>>,
}

/// The other end of the queues of an [`Outbound`]; none where nothing is configured.
#[derive(Debug, Default)]
pub struct Queues {
    /// Of [`Target::Webhook`].
    pub webhook: Option<mpsc::Receiver<Post>>,
    /// Of [`Target::Traces`].
    pub traces: Option<mpsc::Receiver<Post>>,
}

impl Outbound {
    /// One that sends nothing to anybody.
    pub fn none() -> Self {
        Self::default()
    }

    /// One that sends to the targets of which `configured` says so, with the ends where that comes out.
    pub fn new(configured: impl Fn(Target) -> bool) -> (Self, Queues) {
        let open = |target: Target| configured(target).then(|| mpsc::channel(target.queue())).unzip();
        let (webhook, webhooks) = open(Target::Webhook);
        let (traces, spans) = open(Target::Traces);
        (Self { webhook, traces }, Queues { webhook: webhooks, traces: spans })
    }

    /// Puts a post into the queue of its target. Never waits.
    ///
    /// # Errors
    /// See [`Unsent`]; the post is dropped.
    pub fn send(&self, post: Post) -> Result<(), Unsent> {
        let queue = self.queue(post.target).ok_or(Unsent::NotConfigured)?;
        if post.body.len() > MAX_BODY_BYTES {
            return Err(Unsent::TooLarge);
        }
        queue.try_send(post).map_err(|_| Unsent::Full)
    }

    /// Whether there is an address for a target.
    pub fn reaches(&self, target: Target) -> bool {
        self.queue(target).is_some()
    }

    fn queue(&self, target: Target) -> Option<&mpsc::Sender<Post>> {
        match target {
            Target::Webhook => self.webhook.as_ref(),
            Target::Traces => self.traces.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_address_does_not_fit_or_is_too_large_is_not_taken() {
        let (outbound, mut queues) = Outbound::new(|target| target == Target::Traces);
        let send = |target, bytes| {
            let body = vec![b'.'; bytes];
            outbound.send(Post { target, content_type: "application/json", traceparent: None, body })
        };
        assert_eq!(send(Target::Webhook, 1), Err(Unsent::NotConfigured));
        assert!(outbound.reaches(Target::Traces) && !outbound.reaches(Target::Webhook) && queues.webhook.is_none());
        assert_eq!(send(Target::Traces, MAX_BODY_BYTES + 1), Err(Unsent::TooLarge));
        for _ in 0..64 {
            assert_eq!(send(Target::Traces, MAX_BODY_BYTES), Ok(()));
        }
        assert_eq!(send(Target::Traces, 1), Err(Unsent::Full));
        let taken = queues.traces.as_mut().unwrap().try_recv().unwrap();
        assert_eq!((taken.body.len(), taken.content_type), (MAX_BODY_BYTES, "application/json"));
        assert_eq!(send(Target::Traces, 1), Ok(()));
        assert!(Target::ALL.iter().all(|target| !Outbound::none().reaches(*target)));
    }
}
