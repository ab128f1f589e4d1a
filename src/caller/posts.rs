//! What the gateway has to say outside: taken from its link, and posted until it is taken there, or given up.
//!
//! At most 256 webhooks and 64 posts of traces are held; what comes beyond is dropped. Each waits for its own next try, and
//! few go out at once. At the end of the server those that wait for a try get one more, and no other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use rand::distr::{Alphanumeric, SampleString as _};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::Gateway;
use super::request::{Client, Site};
use super::sign::signature;
use crate::outbound::Target;
use crate::outbound::link::{Called, Ended, Packed, unpack};
use crate::supervisor::link::MAX_PACKET_BYTES;

/// Tries of one webhook: the last one some ten minutes after the first.
const WEBHOOK_TRIES: u32 = 8;
/// Tries of one post of traces.
const TRACES_TRIES: u32 = 2;
/// Posts that are held.
const WEBHOOKS: usize = 256;
const TRACES: usize = 64;
/// Connections at once, for each target.
const AT_ONCE: usize = 4;
/// Before the second try; each further pause is three times as long, but for the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(240);

/// Where posts of one kind go.
struct Way {
    called: Called,
    site: Site,
    secret: Option<Zeroizing<Vec<u8>>>,
    tries: u32,
    room: Arc<Semaphore>,
    at_once: Semaphore,
}

/// A post on its way.
struct Letter {
    id: String,
    content_type: String,
    traceparent: Option<String>,
    body: Bytes,
}

impl Letter {
    fn new(packed: Packed<'_>) -> Self {
        Self {
            id: format!("msg_{}", Alphanumeric.sample_string(&mut rand::rng(), 22)),
            content_type: packed.content_type.to_owned(),
            traceparent: packed.traceparent.map(str::to_owned),
            body: Bytes::copy_from_slice(packed.body),
        }
    }
}

/// Why a try was of no use.
enum Failure {
    /// It may be tried again.
    Passing(anyhow::Error),
    /// It would be answered in the same way again.
    Lasting(StatusCode),
}

/// Takes posts from the gateway and sends them, until it is told to finish: then what was taken, and what lies in the link.
///
/// # Errors
/// If the link fails.
pub(super) async fn serve(
    client: &Client,
    gateway: &Gateway,
    webhook: Option<(Site, Zeroizing<Vec<u8>>)>,
    traces: Option<Site>,
    finish: &CancellationToken,
) -> anyhow::Result<()> {
    let way = |called, site, secret, tries, room| {
        let (room, at_once) = (Arc::new(Semaphore::new(room)), Semaphore::new(AT_ONCE));
        Way { called, site, secret, tries, room, at_once }
    };
    let webhook = webhook.map(|(site, secret)| way(Called::Webhook, site, Some(secret), WEBHOOK_TRIES, WEBHOOKS));
    let traces = traces.map(|site| way(Called::Traces, site, None, TRACES_TRIES, TRACES));
    let mut sending: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    loop {
        let received = tokio::select! {
            received = gateway.receive(&mut buffer) => received.map(Some),
            Some(()) = sending.next() => continue,
            () = finish.cancelled(), if sending.is_empty() => gateway.try_receive(&mut buffer),
        };
        let Some(length) = received.context("the link with the gateway failed")? else { return Ok(()) };
        let Some(packed) = unpack(&buffer[..length]) else { continue };
        let way = match packed.target {
            Target::Webhook => &webhook,
            Target::Traces => &traces,
        };
        let Some(way) = way else { continue };
        let Ok(place) = way.room.clone().try_acquire_owned() else {
            gateway.tell(way.called, Ended::Dropped);
            continue;
        };
        let letter = Letter::new(packed);
        sending.push(Box::pin(async move {
            gateway.tell(way.called, deliver(client, way, &letter, finish).await);
            drop(place);
        }));
    }
}

/// Tries until the post is taken, or given up.
async fn deliver(client: &Client, way: &Way, letter: &Letter, finish: &CancellationToken) -> Ended {
    for n in 1..=way.tries {
        let is_last = n == way.tries || finish.is_cancelled();
        match post(client, way, letter).await {
            Ok(()) => return Ended::Delivered,
            Err(Failure::Lasting(status)) => {
                tracing::warn!(to = ?way.called, id = letter.id, %status, "a post is refused and given up");
                return Ended::Failed;
            }
            Err(Failure::Passing(error)) if is_last => {
                tracing::warn!(to = ?way.called, id = letter.id, tries = n, "a post is given up: {error:#}");
                break;
            }
            Err(Failure::Passing(error)) => {
                tracing::debug!(to = ?way.called, id = letter.id, tries = n, "a post is to be tried again: {error:#}");
                tokio::select! {
                    () = sleep(pause(n, 0.5 + rand::random::<f64>() / 2.0)) => {}
                    () = finish.cancelled() => {}
                }
            }
        }
    }
    Ended::Failed
}

/// After the try `n`: 1, 3, 9, … seconds, of which the part `share` is waited for.
fn pause(n: u32, share: f64) -> Duration {
    (FIRST_PAUSE * 3_u32.saturating_pow(n - 1)).min(LONGEST_PAUSE).mul_f64(share)
}

async fn post(client: &Client, way: &Way, letter: &Letter) -> Result<(), Failure> {
    let _turn = way.at_once.acquire().await;
    let mut request = Request::post("/").header(CONTENT_TYPE, &letter.content_type);
    if let Some(traceparent) = &letter.traceparent {
        request = request.header("traceparent", traceparent);
    }
    if let Some(secret) = &way.secret {
        let now = jiff::Timestamp::now().as_second();
        request = request
            .header("webhook-id", &letter.id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature(secret, &letter.id, now, &letter.body));
    }
    let answer = client.ask(&way.site, request, letter.body.clone()).await.map_err(Failure::Passing)?;
    match answer.status {
        status if status.is_success() => Ok(()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(Failure::Passing(anyhow::anyhow!("the answer is {}", answer.status)))
        }
        status if status.is_server_error() => Err(Failure::Passing(anyhow::anyhow!("the answer is {status}"))),
        status => Err(Failure::Lasting(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_tried_for_some_ten_minutes() {
        let sum = |share| (1..WEBHOOK_TRIES).map(|n| pause(n, share)).sum::<Duration>().as_secs();
        assert_eq!((sum(0.5), sum(1.0)), (300, 601));
    }
}
