//! Whom CPU time is counted to: that of an execution to whoever asked for it, what is used beside executions to the
//! owner of the session. After a crash of the gateway it is no longer known who asked, and the owner is taken.

use std::time::Duration;

use repltool_protocol::event::Outcome;

use super::Actor;
use super::running::Running;
use crate::runtime::Used;
use crate::session::quotas::Account;

impl Actor {
    /// Whoever asked for what runs, or the owner.
    pub(super) fn payer(&self) -> Account {
        let asked = self.running.as_ref().and_then(|running| running.job.account.as_ref());
        asked.unwrap_or(&self.account).clone()
    }

    /// An execution has ended.
    pub(super) fn charge_execution(&self, running: &Running, outcome: &Outcome) {
        let payer = running.job.account.as_ref().unwrap_or(&self.account);
        payer.charge(Duration::from_millis(outcome.usage.cpu_time_ms));
    }

    /// So much was used by a sandbox that is gone, and in which nothing ran.
    pub(super) fn charge_lost(&self, used: Used) {
        self.account.charge(used.cpu);
    }

    /// What the sandbox has used since something last began or ended in it.
    pub(super) fn charge_rest(&mut self, payer: &Account) {
        payer.charge(self.kernel.as_mut().map_or(Duration::ZERO, |kernel| kernel.used().cpu));
    }
}
