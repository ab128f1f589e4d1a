//! Whether the other end of a socket still lives: when to ping it, and when to give it up.

use std::pin::Pin;

use repltool_protocol::frame::{MAX_SILENCE, PING_INTERVAL};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep_until};

/// What is to be done about a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beat {
    /// It is to be pinged.
    Due,
    /// It has been silent for too long.
    Silent,
}

/// When the peer gave signs of life, and when it is to be asked for one.
#[derive(Debug)]
pub(super) struct Pulse {
    heard: Instant,
    /// Set anew only when it rings, since a peer that talks is heard very often.
    alarm: Pin<Box<Sleep>>,
    pings: Interval,
}

impl Pulse {
    /// Begins with a peer that is there.
    pub(super) fn new() -> Self {
        let heard = Instant::now();
        let mut pings = interval_at(heard + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { heard, alarm: Box::pin(sleep_until(heard + MAX_SILENCE)), pings }
    }

    /// Notes a sign of life.
    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Waits until something is to be done.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Beat {
        loop {
            tokio::select! {
                // The order matters: a peer that is given up is not pinged.
                biased;
                () = &mut self.alarm => {
                    let end = self.heard + MAX_SILENCE;
                    if end <= Instant::now() {
                        return Beat::Silent;
                    }
                    self.alarm.as_mut().reset(end);
                }
                _ = self.pings.tick() => return Beat::Due,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_pinged_every_20_seconds_and_given_up_after_60() {
        let begin = Instant::now();
        let mut pulse = Pulse::new();
        let mut beats = Vec::new();
        while beats.last().is_none_or(|(beat, _)| *beat != Beat::Silent) {
            beats.push((pulse.next().await, begin.elapsed().as_secs()));
        }
        assert_eq!(beats, [(Beat::Due, 20), (Beat::Due, 40), (Beat::Silent, 60)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_answers_is_kept_for_ever() {
        let mut pulse = Pulse::new();
        for _ in 0..1000 {
            assert_eq!(pulse.next().await, Beat::Due);
            tokio::time::sleep(Duration::from_secs(1)).await;
            pulse.heard();
        }
        let last = Instant::now();
        while pulse.next().await == Beat::Due {}
        assert_eq!(last.elapsed(), MAX_SILENCE);
    }
}
