//! What the process that calls outside is told: addresses, and all that it could not read itself.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::config::Config;
use crate::keys;
use crate::outbound::link::{KeysOrder, Order, WebhookOrder};

/// What secrets of webhooks begin with where standardwebhooks.com is followed.
const PREFIX: &str = "whsec_";
/// The shortest secret of webhooks, in bytes.
const MIN_SECRET_BYTES: usize = 24;
/// The largest file of settings for names, in bytes; of a larger one nothing is taken.
const MAX_NAMES_BYTES: usize = 512 * 1024;
/// The largest file of certificates, in bytes.
const MAX_CA_BYTES: u64 = 1024 * 1024;

/// What is to be called; none if nothing is. `base_uid` is the first of the users of this server, where it is root.
///
/// # Errors
/// If a file cannot be read, or is not fit to be used.
pub(super) fn order(config: &Config, base_uid: Option<u32>) -> anyhow::Result<Option<Order>> {
    let keys = config.auth.jwks_url.clone().map(|url| KeysOrder {
        url,
        refresh_s: config.auth.jwks_refresh_s,
        algorithms: config.auth.algorithms.clone(),
    });
    let webhook = webhook(config)?;
    let traces = config.traces.otlp_url.clone();
    if keys.is_none() && webhook.is_none() && traces.is_none() {
        return Ok(None);
    }
    let urls = [keys.as_ref().map(|it| &it.url), webhook.as_ref().map(|it| &it.url), traces.as_ref()];
    let is_tls = urls.into_iter().flatten().any(|url| url.starts_with("https:"));
    let roots = if is_tls { roots(config)? } else { Vec::new() };
    Ok(Some(Order {
        keys,
        webhook,
        traces,
        roots,
        resolv_conf: of_system("/etc/resolv.conf"),
        hosts: of_system("/etc/hosts"),
        // Between that of the gateway and those of sessions.
        user: base_uid.map(|base| base + 1),
        log: config.log.clone(),
    }))
}

fn webhook(config: &Config) -> anyhow::Result<Option<WebhookOrder>> {
    let (Some(url), Some(path)) = (config.alerts.webhook_url.clone(), &config.alerts.webhook_secret_file) else {
        return Ok(None);
    };
    let (content, mode) =
        keys::contents(path, keys::MAX_FILE_BYTES).context("alerts.webhook_secret_file cannot be used")?;
    let shown = path.display();
    ensure!(mode & 0o044 == 0, "the secret in {shown} is open to others; run `chmod 600 {shown}`");
    let secret =
        secret(&content).with_context(|| format!("{shown} begins with {PREFIX} and goes on with no base64"))?;
    ensure!(
        secret.len() >= MIN_SECRET_BYTES,
        "the secret in {shown} is shorter than {MIN_SECRET_BYTES} bytes; make one with `openssl rand -hex 32`"
    );
    Ok(Some(WebhookOrder { url, secret }))
}

/// The bytes that sign: what follows the prefix is base64, and all else is taken as it stands.
fn secret(content: &[u8]) -> Result<Vec<u8>, base64::DecodeError> {
    let text = content.trim_ascii();
    match text.strip_prefix(PREFIX.as_bytes()) {
        Some(encoded) => STANDARD.decode(encoded),
        None => Ok(text.to_vec()),
    }
}

/// The certificates of the configured file, or those that this system trusts.
fn roots(config: &Config) -> anyhow::Result<Vec<Vec<u8>>> {
    let Some(path) = &config.outbound.ca_file else {
        let found = rustls_native_certs::load_native_certs().certs;
        ensure!(
            !found.is_empty(),
            "this system trusts no certificates; install ca-certificates or set outbound.ca_file"
        );
        return Ok(found.into_iter().map(|it| it.to_vec()).collect());
    };
    let (pem, _) = keys::contents(path, MAX_CA_BYTES).context("outbound.ca_file cannot be used")?;
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let roots = roots.with_context(|| format!("{} is no PEM", path.display()))?;
    ensure!(!roots.is_empty(), "{} holds no PEM certificates", path.display());
    Ok(roots.into_iter().map(|it| it.to_vec()).collect())
}

/// A file that need not be there.
fn of_system(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if text.len() <= MAX_NAMES_BYTES { text } else { String::new() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn config_of(folder: &tempfile::TempDir, secret: &str, mode: u32) -> Config {
        let path = folder.path().join("secret");
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut config = Config::with_data_dir(folder.path());
        config.alerts.webhook_url = Some("http://127.0.0.1:1/".to_owned());
        config.alerts.webhook_secret_file = Some(path);
        config
    }

    #[test]
    fn nothing_is_called_unless_it_is_named_and_secrets_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert!(order(&Config::with_data_dir(folder.path()), None).unwrap().is_none());
        let long = "a secret of at least twenty-four bytes";
        let found = order(&config_of(&folder, &format!("{long}\n"), 0o600), Some(7)).unwrap().unwrap();
        assert_eq!(
            (found.webhook.unwrap().secret, found.user, found.roots.len()),
            (long.as_bytes().to_vec(), Some(8), 0)
        );
        let coded = format!("whsec_{}", STANDARD.encode([0xff; 24]));
        let found = order(&config_of(&folder, &coded, 0o600), None).unwrap().unwrap();
        assert_eq!(found.webhook.as_ref().unwrap().secret, [0xff; 24]);
        assert!(!format!("{found:?}").contains("255"));
        for (secret, mode, told) in
            [(long, 0o644, "open to others"), ("short", 0o600, "24"), ("whsec_?", 0o600, "base64")]
        {
            let error = format!("{:#}", order(&config_of(&folder, secret, mode), None).unwrap_err());
            assert!(error.contains(told) && !error.contains(long), "{error}");
        }
    }

    #[test]
    fn trusted_certificates_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let path = folder.path().join("ca.pem");
        let mut config = Config::with_data_dir(folder.path());
        config.auth.jwks_url = Some("https://localhost/".to_owned());
        config.outbound.ca_file = Some(path.clone());
        assert!(order(&config, None).is_err(), "there is none");
        std::fs::write(&path, key.cert.pem()).unwrap();
        assert_eq!(order(&config, None).unwrap().unwrap().roots, [key.cert.der().to_vec()]);
        std::fs::write(&path, "nothing").unwrap();
        assert!(order(&config, None).is_err());
    }
}
