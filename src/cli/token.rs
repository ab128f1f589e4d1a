//! `repltool token`: signs a token with the key of a server on this machine. It asks no server.

use anyhow::Context;

use super::args::Token;
use super::print::print;
use crate::config::{self, Overrides};
use crate::edge::auth::{self, Grant};
use crate::keys;

/// Prints the token alone on standard output.
pub(super) fn run(args: Token) -> anyhow::Result<()> {
    let mut flags = Overrides::default();
    flags.set("--data-dir", "data_dir", args.data_dir);
    let config = config::load(args.config.as_deref(), std::env::vars_os(), flags)?;
    anyhow::ensure!(config.auth.jwks_url.is_none(), "the server has keys of an issuer (auth.jwks_url), who signs");
    let key = keys::load(&config.data_dir, config.auth.key_file.as_deref())?;
    let grant = Grant {
        subject: &args.subject,
        scope: &args.scope,
        issuer: config.auth.issuer.as_deref(),
        audience: config.auth.audience.as_deref(),
    };
    let token = auth::sign(&key, &grant, args.ttl).context("no token can be made")?;
    Ok(print(&format!("{token}\n"))?)
}
