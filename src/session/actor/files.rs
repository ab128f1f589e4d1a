//! Asks about files: handed to init, a few at a time, and answered.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Actor;
use crate::runtime::files::{FileAnswer, FileAsk};
use crate::session::{Refusal, files};

/// Asks that init has at once.
const MAX_ASKED: usize = 4;
/// Asks that may wait for that.
const MAX_WAITING: usize = 64;
/// How long an ask may take, waiting included.
const PATIENCE: Duration = Duration::from_secs(10);

type Asker = oneshot::Sender<Result<FileAnswer, Refusal>>;

/// Asks that wait, and those that init has.
#[derive(Default)]
pub(super) struct Asks {
    waiting: VecDeque<(FileAsk, Asker, Instant)>,
    asked: VecDeque<Asked>,
}

struct Asked {
    id: u64,
    ask: FileAsk,
    asker: Asker,
    until: Instant,
}

impl Actor {
    /// A client asks.
    pub(super) fn ask_file(&mut self, ask: FileAsk, asker: Asker) {
        if self.files.waiting.len() >= MAX_WAITING {
            let _ = asker.send(Err(Refusal::NoTime));
            return;
        }
        self.touch();
        self.publish();
        self.files.waiting.push_back((ask, asker, Instant::now() + PATIENCE));
        self.ask_files();
        if self.kernel.is_none() {
            self.begin_boot();
        }
    }

    /// Hands to init what it has room for.
    pub(super) fn ask_files(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        while self.files.asked.len() < MAX_ASKED {
            let Some((ask, asker, until)) = self.files.waiting.pop_front() else { return };
            if !asker.is_closed() {
                self.files.asked.push_back(Asked { id: kernel.file(ask.clone()), ask, asker, until });
            }
        }
    }

    /// Init answers.
    pub(super) fn on_file(&mut self, id: u64, answer: FileAnswer) {
        let Some(at) = self.files.asked.iter().position(|asked| asked.id == id) else { return };
        if let Some(Asked { ask, asker, .. }) = self.files.asked.remove(at) {
            let answer = if answer.errno == 0 { Ok(answer) } else { Err(files::refusal(answer.errno)) };
            // A file that was begun for somebody who has gone is nobody's.
            if let (Err(Ok(_)), FileAsk::Create { path, temporary }, Some(kernel)) =
                (asker.send(answer), ask, &mut self.kernel)
            {
                kernel.file(FileAsk::Discard { path, temporary });
            }
        }
        self.ask_files();
    }

    /// When something must be done about asks.
    pub(super) fn file_deadline(&self) -> Option<Instant> {
        let Asks { waiting, asked } = &self.files;
        waiting.front().map(|it| it.2).into_iter().chain(asked.front().map(|it| it.until)).min()
    }

    /// Gives up asks that took too long: what answers them has the program's rights, and the program can stop it.
    pub(super) fn enforce_files(&mut self, now: Instant) {
        while let Some((_, asker, _)) = self.files.waiting.pop_front_if(|it| now >= it.2) {
            let _ = asker.send(Err(Refusal::NoTime));
        }
        while let Some(asked) = self.files.asked.pop_front_if(|it| now >= it.until) {
            let _ = asked.asker.send(Err(Refusal::NoTime));
        }
        self.ask_files();
    }

    /// The sandbox is gone with its init, the files are not.
    pub(super) fn lose_file_asks(&mut self) {
        for asked in self.files.asked.drain(..) {
            let _ = asked.asker.send(Err(Refusal::NoTime));
        }
    }
}
