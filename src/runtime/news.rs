//! What the supervisor tells of a sandbox that lives: limits, measurements, and calls that were refused.
//!
//! A refused call is told by a message and then counted by an eventfd, both before the program goes on. The end of an
//! execution comes over another socket and may be here before the message: the count says whether one is missing.

use std::os::fd::OwnedFd;

use super::control::Decoder;
use super::{Kernel, KernelEvent};
use crate::supervisor::handle::News;

/// Refused calls: the count of Linux, and what was told.
#[derive(Debug)]
pub(super) struct Refusals {
    count: OwnedFd,
    tally: Tally,
}

/// Refused calls in the life of a kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    counted: u64,
    told: u64,
}

impl Refusals {
    /// `count`: the eventfd(2), non-blocking.
    pub(super) fn new(count: OwnedFd) -> Self {
        Self { count, tally: Tally::default() }
    }

    /// Takes what was counted since the last time.
    fn read(&mut self) {
        let mut bytes = [0; 8];
        // Nothing to read means that nothing was refused.
        if rustix::io::read(&self.count, &mut bytes).is_ok_and(|got| got == bytes.len()) {
            self.tally.counted = self.tally.counted.saturating_add(u64::from_ne_bytes(bytes));
        }
    }
}

impl Tally {
    /// Calls that were counted and not told.
    fn owed(self) -> u64 {
        self.counted.saturating_sub(self.told)
    }

    fn tell(&mut self, times: u32) {
        self.told = self.told.saturating_add(times.into());
    }

    fn give_up(&mut self) {
        self.told = self.told.max(self.counted);
    }
}

impl Kernel {
    /// Takes note of how many calls were refused until now. One read of a descriptor.
    pub fn count_refusals(&mut self) {
        self.refusals.read();
    }

    /// Of how many of those [`KernelEvent::Refused`] is still to come.
    pub fn owed_refusals(&self) -> u64 {
        self.refusals.tally.owed()
    }

    /// Nothing will come of those any more. Gives how many they were.
    pub fn give_up_refusals(&mut self) -> u64 {
        let owed = self.refusals.tally.owed();
        self.refusals.tally.give_up();
        owed
    }

    pub(super) fn told(&mut self, news: News) -> KernelEvent {
        match news {
            News::Limit(limit) => KernelEvent::Limit(limit),
            News::Measured(measured) => {
                self.meters.take(measured.into());
                KernelEvent::Measured
            }
            News::Refused(refused) => {
                self.refusals.tally.tell(refused.times);
                KernelEvent::Refused(refused)
            }
        }
    }

    /// Nothing that the driver says is heard any more. Its sandbox lives on until it is killed.
    pub fn give_up_driver(&mut self) {
        self.decoder = Decoder::default();
        self.control_open = false;
    }

    /// A refused call that was told before the end of the sandbox and not taken yet.
    pub(super) fn last_refusal(&mut self) -> Option<KernelEvent> {
        while let Ok(news) = self.news.try_recv() {
            if matches!(news, News::Refused(_)) {
                return Some(self.told(news));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn what_linux_counted_is_read_once() {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let count = eventfd(0, flags).expect("an eventfd");
        let writer = count.try_clone().expect("a copy");
        let mut refusals = Refusals::new(count);
        refusals.read();
        assert_eq!(refusals.tally.owed(), 0, "nothing was refused");
        for _ in 0..2 {
            rustix::io::write(&writer, &3_u64.to_ne_bytes()).expect("counted");
        }
        refusals.read();
        refusals.read();
        assert_eq!(refusals.tally.owed(), 6);
        refusals.tally.tell(4);
        assert_eq!(refusals.tally.owed(), 2);
    }

    proptest! {
        /// Each call is told by a message before it is counted; messages arrive late, in order. Whenever it is asked,
        /// nothing is owed only if all that was counted has arrived, and all is there in the end.
        #[test]
        fn nothing_is_owed_once_all_that_was_counted_has_arrived(
            sent in prop::collection::vec(1_u32..5, 0..40), steps in prop::collection::vec(0_u8..2, 0..80),
        ) {
            let mut tally = Tally::default();
            let (mut counted, mut arrived) = (0, 0);
            for step in steps {
                match step {
                    0 if counted < sent.len() => {
                        tally.counted += u64::from(sent[counted]);
                        counted += 1;
                    }
                    _ if arrived < sent.len() => {
                        tally.tell(sent[arrived]);
                        arrived += 1;
                    }
                    _ => {}
                }
                prop_assert_eq!(tally.owed() == 0, arrived >= counted);
            }
            sent.iter().skip(counted).for_each(|times| tally.counted += u64::from(*times));
            sent.iter().skip(arrived).for_each(|times| tally.tell(*times));
            prop_assert_eq!(tally.owed(), 0);
        }

        /// Messages may be lost with a gateway. Once they are given up, later ones are waited for as before.
        #[test]
        fn what_was_given_up_is_not_owed_again(lost in 1_u64..100, told in 0_u32..100, later in 1_u32..100) {
            let mut tally = Tally { counted: u64::from(told) + lost, told: told.into() };
            prop_assert_eq!(tally.owed(), lost);
            tally.give_up();
            prop_assert_eq!(tally.owed(), 0);
            tally.counted += u64::from(later);
            prop_assert_eq!(tally.owed(), u64::from(later));
            tally.tell(later);
            prop_assert_eq!(tally.owed(), 0);
        }
    }
}
