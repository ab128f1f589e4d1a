//! Sessions as metrics tell of them: what is counted when somebody asks, and the names of their ends.

use super::End;
use super::registry::Registry;
use crate::metrics::Stock;

impl Registry {
    /// Counts the sessions that have not ended, and what all logs take.
    pub fn take_stock(&self) {
        let sessions = self.shared.sessions.iter();
        let active = sessions.filter(|entry| entry.snapshot().ended.is_none());
        let active = active.map(|entry| (entry.identity().language, entry.identity().sandbox_mode)).collect();
        self.shared.metrics.take_stock(&Stock { active, log_bytes: self.shared.log_total.bytes() });
    }
}

impl End {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::IdleTimeout => "idle_timeout",
            Self::Violations => "violations",
        }
    }
}
