//! The audit log of a gateway: where it lies, who signs it, and what is told of the gateway itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::alerts::Alerts;
use crate::audit::{self, Audit, Hash, Kind, Record, Settings, What};
use crate::config::{self, Config};
use crate::supervisor::handle::SupervisorHandle;
use crate::supervisor::link::Welcome;

/// Starts the log in the store at `root`; alerts hear of all that is recorded. What the supervisor signs is carried to it by a task.
///
/// # Errors
/// If there can be no thread.
pub(super) fn start(
    welcome: &Welcome,
    root: &Path,
    supervisor: &SupervisorHandle,
    tasks: &TaskTracker,
    alerts: Arc<Alerts>,
) -> std::io::Result<Audit> {
    let mut sealed = supervisor.sealed();
    let asker = supervisor.clone();
    let ask = Box::new(move |head| asker.seal(head));
    let (settings, last) = (settings(&welcome.config), welcome.sealed.clone());
    let audit = Audit::start(audit::in_store(root), settings, last, ask, Some(alerts))?;
    let listener = audit.clone();
    tasks.spawn(async move {
        while sealed.changed().await.is_ok() {
            let seal = sealed.borrow_and_update().clone();
            seal.into_iter().for_each(|seal| listener.sealed(seal));
        }
    });
    let version = Some(env!("CARGO_PKG_VERSION"));
    if welcome.is_first {
        audit.note(Record::new(Kind::ServerStarted, What { version, ..What::default() }));
    }
    configured(&audit, &welcome.config);
    audit.note(Record::new(Kind::GatewayStarted, What { version, ..What::default() }));
    Ok(audit)
}

/// Records which settings are in force.
pub(super) fn configured(audit: &Audit, config: &Config) {
    let (version, config_sha256) = (Some(env!("CARGO_PKG_VERSION")), Some(fingerprint(config)));
    audit.note(Record::new(Kind::Config, What { version, config_sha256, ..What::default() }));
}

/// The last words of a server that ends in good order.
pub(super) async fn end(audit: &Audit) {
    audit.note(Record::new(Kind::ServerStopped, What::default()));
    audit.close().await;
}

fn settings(config: &Config) -> Settings {
    let config::Audit { file_mb, keep_days, on_failure } = config.audit;
    Settings {
        file_bytes: file_mb << 20,
        keep: Duration::from_secs(keep_days.saturating_mul(24 * 3600)),
        on_failure: match on_failure {
            config::OnFailure::Refuse => audit::OnFailure::Refuse,
            config::OnFailure::Continue => audit::OnFailure::Continue,
        },
    }
}

/// The hash of the effective settings as JSON, with passwords masked.
fn fingerprint(config: &Config) -> Hash {
    let mut settings = serde_json::to_value(config).unwrap_or_default();
    mask(&mut settings);
    Hash::of(settings.to_string().as_bytes())
}

fn mask(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = config::masked(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(mask),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(mask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_settings_tells_them_apart_and_holds_no_password() {
        let mut config = Config::with_data_dir("/d");
        let first = fingerprint(&config);
        assert_eq!(first, fingerprint(&config), "the same settings");
        config.audit.keep_days += 1;
        assert_ne!(first, fingerprint(&config), "others");
        config.auth.issuer = Some("https://ada:one@host".to_owned());
        let masked = fingerprint(&config);
        config.auth.issuer = Some("https://ada:two@host".to_owned());
        assert_eq!(masked, fingerprint(&config), "but for the password");
    }
}
