//! Why a supervisor ends early.

use super::gateway::GatewayError;
use crate::sandbox;

/// Why a supervisor ended early.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// This host cannot sandbox.
    #[error("no sandbox can be made on this host")]
    Sandbox(#[from] sandbox::PlanError),
    /// Linux refuses the mounts that working directories are made of.
    #[error("no working directory can be made on this host")]
    Workdirs(#[source] std::io::Error),
    /// The gateway could not be started.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// A system call failed.
    #[error("{0} failed")]
    Io(&'static str, #[source] std::io::Error),
    /// The key could not be read.
    #[error("the signing key cannot be read: {0:#}")]
    Key(anyhow::Error),
}
