//! The keys of an issuer: when they are fetched, and what of an answer is believed.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderMap, Request, StatusCode};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Gateway;
use super::request::{Client, Site};
use crate::edge::auth::keys::KeySet;
use crate::keys::KeyFile;
use crate::outbound::link::{Called, Ended, KeysOrder};

/// Between two fetches that somebody asks for by a token of an unknown key.
const ASKED_PAUSE: Duration = Duration::from_secs(30);
/// After a first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// What an answer may ask for by `max-age`, in seconds.
const PAUSES: std::ops::RangeInclusive<u64> = 30..=86_400;

/// Fetches the keys at once, again when they grow old, and when somebody has brought a token of an unknown key. What cannot
/// be used is told, and changes nothing.
pub(super) async fn fetch_for_ever(
    client: &Client,
    site: &Site,
    order: &KeysOrder,
    wanted: &Notify,
    gateway: &Gateway,
    supervisor: &AsyncFd<OwnedFd>,
) -> anyhow::Result<()> {
    let mut earliest = Instant::now();
    let mut failures = 0;
    loop {
        let pause = match fetch(client, site, &order.algorithms).await {
            Ok((set, max_age)) => {
                failures = 0;
                super::send_keys(supervisor, &set).await?;
                gateway.tell(Called::Keys, Ended::Delivered);
                max_age.map_or(order.refresh_s, |it| it.clamp(*PAUSES.start(), *PAUSES.end()))
            }
            Err(error) => {
                tracing::warn!("the keys of auth.jwks_url are not fetched, and what was good last stays: {error:#}");
                gateway.tell(Called::Keys, Ended::Failed);
                let pause = (FIRST_PAUSE.as_secs() << failures).min(order.refresh_s);
                failures = (failures + 1).min(16);
                pause
            }
        };
        let due = Instant::now() + Duration::from_secs(pause);
        tokio::select! {
            () = sleep_until(due) => {}
            () = asked(wanted, earliest) => earliest = Instant::now() + ASKED_PAUSE,
        }
    }
}

/// Returns when somebody has asked, but not before this instant.
async fn asked(wanted: &Notify, earliest: Instant) {
    wanted.notified().await;
    sleep_until(earliest).await;
}

/// The set, and the seconds for which it is good, if they are told.
async fn fetch(client: &Client, site: &Site, algorithms: &[String]) -> anyhow::Result<(Bytes, Option<u64>)> {
    let request = Request::get("/").header(ACCEPT, "application/jwk-set+json, application/json");
    let answer = client.ask(site, request, Bytes::new()).await?;
    let status = answer.status;
    ensure!(!status.is_redirection(), "the answer is {status}; redirects are not followed, name the last address");
    ensure!(status == StatusCode::OK, "the answer is {status}");
    KeySet::new(&KeyFile::Document(answer.body.to_vec()), algorithms).context("the answer cannot be used")?;
    Ok((answer.body, max_age(&answer.headers)))
}

fn max_age(headers: &HeaderMap) -> Option<u64> {
    let directives = headers.get(CACHE_CONTROL)?.to_str().ok()?.split(',');
    directives.into_iter().find_map(|it| it.trim().strip_prefix("max-age=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_an_answer_is_good_for_is_read() {
        for (text, seconds) in
            [("max-age=600", Some(600)), ("public, max-age=5, x", Some(5)), ("no-store", None), ("max-age=a", None)]
        {
            assert_eq!(max_age(&HeaderMap::from_iter([(CACHE_CONTROL, text.parse().unwrap())])), seconds, "{text}");
        }
        assert_eq!(max_age(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_too_soon_waits() {
        let (wanted, begun) = (Notify::new(), Instant::now());
        wanted.notify_one();
        asked(&wanted, begun).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        wanted.notify_one();
        wanted.notify_one();
        asked(&wanted, begun + ASKED_PAUSE).await;
        assert_eq!(begun.elapsed(), ASKED_PAUSE);
        assert!(tokio::time::timeout(ASKED_PAUSE, asked(&wanted, begun)).await.is_err(), "nobody asks any more");
    }
}
