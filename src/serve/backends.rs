//! Levels whose sandboxes are containers: the runtime is found, and tried, before anybody needs it.

use std::ffi::OsString;

use anyhow::{Context as _, bail};
use repltool_protocol::rest::SandboxMode;

use crate::config::{self, Backend};
use crate::sandbox::oci::Runtime;
use crate::sandbox::probe;

/// What makes the containers of which level; nothing for levels without.
///
/// # Errors
/// A runtime that is not there, or that makes no container here: nobody is to get less than what the settings say.
pub(super) fn containers(settings: &config::Sandbox) -> anyhow::Result<Vec<(SandboxMode, Runtime)>> {
    let contained = |mode: &&SandboxMode| settings.backend(**mode) == Backend::Oci;
    let Some(first) = settings.levels.iter().find(contained) else { return Ok(Vec::new()) };
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let why = || {
        format!(
            "sandbox.{}.backend is \"oci\", and sandbox.oci_runtime \"{}\" is of no use",
            word(*first),
            settings.oci_runtime
        )
    };
    let runtime = Runtime::find(&settings.oci_runtime, &path).with_context(why)?;
    let tried = probe::container(&runtime);
    if !tried.active {
        bail!("{}: {}; `repltool doctor` tells which runtimes work here", why(), tried.detail);
    }
    tracing::info!(runtime = %runtime.path().display(), tried = tried.detail, "a container runtime works");
    Ok(settings.levels.iter().filter(contained).map(|mode| (*mode, runtime.clone())).collect())
}

fn word(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Strict => "strict",
        SandboxMode::Standard => "standard",
        SandboxMode::Relaxed => "relaxed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_is_not_there_is_named_with_its_key_and_package() {
        let mut settings = config::Sandbox { oci_runtime: "no-such-runtime".to_owned(), ..Default::default() };
        assert!(containers(&settings).expect("nothing is contained").is_empty());
        settings.strict.backend = Some(Backend::Oci);
        let told = format!("{:#}", containers(&settings).expect_err("it is not there"));
        assert!(told.contains("sandbox.strict.backend") && told.contains("apt-get install no-such"), "{told}");
        settings.levels = vec![SandboxMode::Standard];
        assert!(containers(&settings).expect("strict is not offered").is_empty());
    }
}
