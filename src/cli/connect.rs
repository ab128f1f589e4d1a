//! Which server a command speaks to, and with which token; and what to do when that fails.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use repltool_protocol::rest::{Language, Problem, ProblemCode};

use super::args::Server;
use super::embedded::Embedded;
use crate::client::{Client, ClientError};
use crate::config::locate_data_dir;

/// A client of the server that was named, or else of the one that runs with the data directory.
pub(super) fn client(server: Server) -> anyhow::Result<Client> {
    let authorities = authorities(&server)?;
    if let (Some(url), Some(token)) = (&server.url, &server.token) {
        return Ok(Client::trusting(url, Some(token), authorities.as_deref())?);
    }
    let data_dir = locate_data_dir(server.data_dir)?;
    let local = read(&data_dir, "url");
    let url = match (server.url, local) {
        (Some(url), Ok(local)) if same_server(&url, &local) => url,
        // The local token is not for the eyes of another server.
        (Some(url), _) => bail!("no token for {url}; give --token or set REPLTOOL_TOKEN"),
        (None, local) => local?,
    };
    let token = match server.token {
        Some(token) => token,
        None => local_token(&data_dir)?,
    };
    Ok(Client::trusting(&url, Some(&token), authorities.as_deref())?)
}

/// What is trusted besides the authorities of the system.
fn authorities(server: &Server) -> anyhow::Result<Option<Vec<u8>>> {
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    server.ca_file.as_ref().map(read).transpose()
}

/// A server that was reached, which may be this command's own.
pub(super) struct Reached {
    pub(super) client: Client,
    own: Option<Embedded>,
}

impl Reached {
    /// Ends the server, if it is this command's own.
    pub(super) async fn leave(self) {
        if let Some(own) = self.own {
            own.end().await;
        }
    }
}

/// As [`client`]. Where no server was named and none runs, one is started for this command alone.
///
/// # Cancel safety
/// Cancel-safe: a server that was started ends when this is dropped.
pub(super) async fn reach(server: Server, language: Language) -> anyhow::Result<Reached> {
    if server.url.is_some() || runs(&server).await? {
        return Ok(Reached { client: client(server)?, own: None });
    }
    let (own, client) = Embedded::start(language).await?;
    Ok(Reached { client, own: Some(own) })
}

/// Whether somebody answers where the data directory says. An address may be left from a server that was killed.
async fn runs(server: &Server) -> anyhow::Result<bool> {
    let Ok(data_dir) = locate_data_dir(server.data_dir.clone()) else { return Ok(false) };
    let Some(url) = read_if_there(&data_dir, "url")? else { return Ok(false) };
    // Without a token: it is not for somebody else who may listen there by now.
    let client = Client::trusting(&url, None, authorities(server)?.as_deref())?;
    Ok(!matches!(client.is_ready().await, Err(ClientError::Connect { .. })))
}

/// The token that a server with a secret writes for this machine.
fn local_token(data_dir: &Path) -> anyhow::Result<String> {
    read_if_there(data_dir, "token")?.context(
        "the server checks tokens and signs none; give one with --token or REPLTOOL_TOKEN, from where its keys are kept",
    )
}

fn same_server(given: &str, local: &str) -> bool {
    given.trim_end_matches('/') == local.trim_end_matches('/')
}

fn read(data_dir: &Path, name: &str) -> anyhow::Result<String> {
    let found = read_if_there(data_dir, name)?;
    found.with_context(|| format!(
        "no server runs with the data directory {}; start one with `repltool serve`, or name one with --url and --token",
        data_dir.display()
    ))
}

fn read_if_there(data_dir: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let path = data_dir.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Says what can be done about a failed call.
pub(super) fn explain(error: ClientError) -> anyhow::Error {
    let advice = match &error {
        ClientError::Connect { .. } => "no server answers; start one with `repltool serve`, or name one with --url",
        ClientError::Tls { .. } => {
            "the server is not trusted, or speaks no TLS; name the authority of its certificate with --ca-file"
        }
        ClientError::Refused(problem) => match problem.code {
            ProblemCode::Unauthorized => "the server does not take this token; make one with `repltool token`",
            ProblemCode::Forbidden => "the token lacks a scope; make one with `repltool token --scope`",
            _ => return anyhow!(in_words(problem)),
        },
        _ => return error.into(),
    };
    anyhow::Error::from(error).context(advice)
}

fn in_words(problem: &Problem) -> String {
    let mut text = problem.detail.clone();
    // The first wrong field often is the detail already.
    for wrong in problem.errors.iter().map(|it| format!("{}: {}", it.field, it.message)) {
        if !text.contains(&wrong) {
            text.push_str(&format!("; {wrong}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: Option<&str>, token: Option<&str>, data_dir: &Path) -> Server {
        let (url, token) = (url.map(Into::into), token.map(Into::into));
        Server { url, token, data_dir: Some(data_dir.to_owned()), ca_file: None }
    }

    #[test]
    fn without_a_server_the_next_step_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = client(server(None, None, folder.path())).unwrap_err();
        assert!(error.to_string().contains("repltool serve"), "{error}");
    }

    #[test]
    fn the_local_token_goes_to_the_local_server_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("url"), "http://127.0.0.1:8000\n").unwrap();
        std::fs::write(folder.path().join("token"), "abc\n").unwrap();
        assert!(client(server(None, None, folder.path())).is_ok());
        assert!(client(server(Some("http://127.0.0.1:8000/"), None, folder.path())).is_ok());
        assert!(client(server(None, Some("def"), folder.path())).is_ok());
        assert!(client(server(Some("http://192.0.2.1:8000"), Some("def"), folder.path())).is_ok());
        let error = client(server(Some("http://192.0.2.1:8000"), None, folder.path())).unwrap_err();
        assert!(error.to_string().contains("REPLTOOL_TOKEN"), "{error}");
    }
}
