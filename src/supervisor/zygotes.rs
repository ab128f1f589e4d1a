//! The zygotes of this server: one for each level at which somebody wants Python, started when it is wanted, and replaced
//! after so many forks, when it has ended, and never because of what a session does.

use std::time::Duration;

use repltool_protocol::rest::SandboxMode;
use tokio::time::Instant;

use super::homes::Home;
use crate::sandbox::zygote::Zygote;

/// Forks after which a zygote is replaced: so many sessions may share a layout of memory and a seed of hashes.
const MOST_FORKS: u32 = 500;
/// How long no other is started after one that could not be, or that ended by itself.
const RETRY: Duration = Duration::from_secs(30);
/// How long one may boot.
const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// One zygote and where it lives.
#[derive(Debug)]
struct Running {
    zygote: Zygote,
    home: Home,
    forks: u32,
    since: Instant,
}

/// What is known of a level.
#[derive(Debug, Default)]
struct Level {
    running: Option<Running>,
    retry_at: Option<Instant>,
}

/// What can be had of a zygote now.
#[derive(Debug)]
pub(super) enum Offer<'a> {
    /// It is there.
    Ready(&'a Zygote),
    /// It boots.
    Booting,
    /// There is none: one is to be started.
    Wanted,
    /// There is none, and none is to be started now.
    None,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Zygotes {
    levels: [Level; 3],
}

impl Zygotes {
    /// What there is for a level.
    pub(super) fn offer(&self, mode: SandboxMode, now: Instant) -> Offer<'_> {
        let level = &self.levels[index(mode)];
        match &level.running {
            Some(running) if running.zygote.is_ready() => Offer::Ready(&running.zygote),
            Some(_) => Offer::Booting,
            None if level.retry_at.is_none_or(|at| at <= now) => Offer::Wanted,
            None => Offer::None,
        }
    }

    /// One was started.
    pub(super) fn started(&mut self, mode: SandboxMode, zygote: Zygote, home: Home, now: Instant) {
        self.levels[index(mode)].running = Some(Running { zygote, home, forks: 0, since: now });
    }

    /// None can be had of it now; gives the home of the one that was there.
    pub(super) fn failed(&mut self, mode: SandboxMode, now: Instant) -> Option<Home> {
        let level = &mut self.levels[index(mode)];
        level.retry_at = Some(now + RETRY);
        level.running.take().map(|running| running.home)
    }

    /// It has forked once more.
    pub(super) fn forked(&mut self, mode: SandboxMode) {
        if let Some(running) = &mut self.levels[index(mode)].running {
            running.forks += 1;
        }
    }

    /// Ends those that have served their time or do not boot, and forgets those that have ended; gives their homes.
    pub(super) fn sweep(&mut self, now: Instant) -> Vec<Home> {
        let mut homes = Vec::new();
        for level in &mut self.levels {
            let Some(running) = &level.running else { continue };
            let is_stuck = running.since + BOOT_LIMIT <= now && !running.zygote.is_ready();
            let is_broken = is_stuck || running.zygote.is_gone();
            if is_broken {
                tracing::warn!(is_stuck, forks = running.forks, "a zygote has ended, and is replaced later");
                level.retry_at = Some(now + RETRY);
            }
            if is_broken || running.forks >= MOST_FORKS {
                homes.extend(level.running.take().map(|running| running.home));
            }
        }
        homes
    }
}

fn index(mode: SandboxMode) -> usize {
    match mode {
        SandboxMode::Strict => 0,
        SandboxMode::Standard => 1,
        SandboxMode::Relaxed => 2,
    }
}
