//! What is read again at SIGHUP: the configuration, and the operator's files. What cannot be used changes nothing.

use std::fmt;

use super::Supervisor;
use super::lending::Loan;
use super::link::ToGateway;
use crate::config::{Change, Config};
use crate::telemetry;

/// Reads the settings once more, from wherever they were read at the start.
pub struct Reread(Box<dyn Fn() -> anyhow::Result<Config>>);

impl Reread {
    /// By this function.
    pub fn new(read: impl Fn() -> anyhow::Result<Config> + 'static) -> Self {
        Self(Box::new(read))
    }
}

impl fmt::Debug for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reread")
    }
}

impl Supervisor {
    /// Reads everything again.
    pub(super) fn reload(&mut self) {
        match self.changed() {
            Ok(change) => self.put_in_force(change),
            Err(error) => {
                tracing::error!("the configuration is not taken, and the one before stays in force: {error:#}")
            }
        }
        let all = self.lending.reload(&self.parts.config);
        self.lend(all);
    }

    fn changed(&self) -> anyhow::Result<Change> {
        let current = &self.parts.config;
        let next = self.parts.reread.as_ref().map_or_else(|| Ok(current.clone()), |reread| (reread.0)())?;
        Ok(Change::between(current, &next)?)
    }

    fn put_in_force(&mut self, Change { config, live, later }: Change) {
        tracing::info!(changed = live.join(", "), "the configuration was read again");
        if !later.is_empty() {
            tracing::warn!(changed = later.join(", "), "these settings take effect at the next start");
        }
        telemetry::set_level(config.log.level);
        self.parts.config = config;
        if let Some(gateway) = &mut self.gateway {
            gateway.send(&ToGateway::Configured(Box::new(self.parts.config.clone())), Vec::new());
        }
    }

    /// Sends the gateway what is new.
    pub(super) fn lend(&mut self, news: Vec<Loan>) {
        if let Some(gateway) = &mut self.gateway {
            gateway.lend(news);
            gateway.flush(&self.sandboxes);
        }
    }
}
