//! What a kernel hears of others than its driver and init, and when it stops to hear its driver.

use super::control::Decoder;
use super::{Kernel, KernelEvent};
use crate::supervisor::handle::News;

impl Kernel {
    /// Takes news of the supervisor.
    pub(super) fn learn(&mut self, news: News) -> KernelEvent {
        match news {
            News::Limit(limit) => KernelEvent::Limit(limit),
            News::Measured(measured) => {
                self.meters.take(measured.into());
                KernelEvent::Measured
            }
            News::Refused(refused) => KernelEvent::Refused(refused),
        }
    }

    /// Nothing that the driver says is heard any more. Its sandbox lives on until it is killed.
    pub fn give_up_driver(&mut self) {
        self.decoder = Decoder::default();
        self.control_open = false;
    }
}
