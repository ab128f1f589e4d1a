//! The end of a server in good order: its gateway drains, and what it still asks for on the way is done.

use std::time::Duration;

use super::gateway::Gateway;
use super::link::{ToGateway, ToSupervisor};
use super::sandboxes::Happening;
use super::waits::until;
use super::{Supervisor, SupervisorError, Wake};

impl Supervisor {
    /// Tells the gateway to drain and waits until it has, for as long as it may take.
    pub(super) async fn drain(&mut self) -> Result<(), SupervisorError> {
        tracing::info!("draining");
        if let Some(mut gateway) = self.gateway.take() {
            gateway.send(&ToGateway::Drain, Vec::new());
            gateway.flush(&self.sandboxes);
            let limit = Duration::from_secs(self.parts.config.edge.drain_s) + Duration::from_secs(2);
            if tokio::time::timeout(limit, self.until_gone(&mut gateway)).await.is_err() {
                tracing::warn!("the gateway did not drain in time; it is killed");
                gateway.kill();
                gateway.ended().await;
            }
        }
        if let Some(calling) = &mut self.calling {
            calling.finish().await;
        }
        Ok(())
    }

    /// While a gateway drains it may still kill sandboxes, and sandboxes may still end.
    async fn until_gone(&mut self, gateway: &mut Gateway) {
        loop {
            let due = self.sandboxes.limits_due();
            tokio::select! {
                wake = gateway.next() => match wake {
                    Wake::FromGateway(Ok(messages)) => {
                        messages.into_iter().for_each(|message| self.obey_draining(message, gateway));
                    }
                    Wake::FromGateway(Err(_)) => return gateway.ended().await,
                    Wake::GatewayGone => return,
                    // Those are no gateway's.
                    _ => {}
                },
                happening = self.sandboxes.next() => match happening {
                    Happening::Exit(sandbox) => {
                        let exited = self.sandboxes.ended(sandbox).map(ToGateway::Exited);
                        gateway.tell(exited, &self.sandboxes);
                    }
                    Happening::Calls(watched) => {
                        let (round, news) = self.sandboxes.look_at_calls(&watched);
                        gateway.tell(news, &self.sandboxes);
                        self.sandboxes.refuse_calls(watched, &round);
                    }
                    Happening::Booted(_) => {}
                },
                () = until(due) => {
                    let news = self.sandboxes.check_limits();
                    gateway.tell(news, &self.sandboxes);
                }
            }
        }
    }

    fn obey_draining(&mut self, message: ToSupervisor, gateway: &mut Gateway) {
        match message {
            ToSupervisor::Kill(sandbox) => self.sandboxes.kill(sandbox),
            ToSupervisor::LetGo(sandbox) => self.sandboxes.let_go(sandbox),
            ToSupervisor::Release(session) => self.sandboxes.release(&session),
            ToSupervisor::Seal(head) => gateway.tell(self.sealing.seal(head), &self.sandboxes),
            ToSupervisor::Watch { sandbox, watch } => self.sandboxes.watch(sandbox, watch),
            ToSupervisor::Measure(sandbox) => {
                let measured = self.sandboxes.measure(sandbox).map(ToGateway::Measured);
                gateway.tell(measured, &self.sandboxes);
            }
            _ => {}
        }
    }
}
