//! A server for one command, where no other runs: this program again, as a child that ends with the command.
//!
//! Its standard input is the leash. It holds nothing and is never written to; when the command ends, however that
//! happens, Linux closes it, and the server goes with everything it made.

use std::process::Stdio;

use anyhow::{Context, bail};
use repltool_protocol::rest::Language;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::client::Client;

/// A running server. Dropping it ends it, without waiting for that.
pub(super) struct Embedded {
    child: Child,
    leash: ChildStdin,
}

impl Embedded {
    /// Starts a server that offers one language. It listens when this returns.
    ///
    /// # Errors
    /// If it does not start; it has said why on standard error.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the leash ends what was started.
    pub(super) async fn start(language: Language) -> anyhow::Result<(Self, Client)> {
        let language = serde_json::to_value(language)?;
        let mut child = Command::new("/proc/self/exe")
            .arg0("repltool")
            .arg("embedded")
            .args(["--language", language.as_str().unwrap_or_default()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a server for this command cannot be started")?;
        let (leash, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(leash), Some(stdout)) = (leash, stdout) else { bail!("a server for this command has no pipes") };
        let mut embedded = Self { child, leash };
        let line = BufReader::new(stdout).lines().next_line().await.context("the server's address cannot be read")?;
        let Some((url, token)) = line.as_deref().and_then(|line| line.split_once("/#token=")) else {
            let _ = embedded.child.wait().await;
            bail!("no server runs, and none could be started for this command; name one with --url and --token");
        };
        let client = Client::new(url, Some(token))?;
        Ok((embedded, client))
    }

    /// Ends the server and waits until nothing is left of it.
    pub(super) async fn end(mut self) {
        drop(self.leash);
        let _ = self.child.wait().await;
    }
}
