//! Files of a session's working directory.

use bytes::Bytes;
use http::{Method, StatusCode};
use repltool_protocol::files::FileList;
use repltool_protocol::ids::SessionId;

use super::{Client, ClientError, path, refusal};

impl Client {
    /// The files below a folder, `""` for all; at most `limit` if it is given.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn files(&self, session: &SessionId, folder: &str, limit: Option<u64>) -> Result<FileList, ClientError> {
        let limit = limit.map(|limit| format!("&limit={limit}")).unwrap_or_default();
        let query = format!("/files?path={}{limit}", escape(folder));
        self.call(Method::GET, &path(session, &query), None).await
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn read_file(&self, session: &SessionId, file: &str) -> Result<Bytes, ClientError> {
        let reply = self.send(Method::GET, &file_path(session, file), None, None).await?;
        self.checked(reply).await
    }

    /// Writes a file, as a whole; says whether it is new.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn write_file(
        &self,
        session: &SessionId,
        file: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<bool, ClientError> {
        let body = Some(("application/octet-stream", bytes.into()));
        let reply = self.send(Method::PUT, &file_path(session, file), body, None).await?;
        let status = reply.status();
        let answer = self.whole(reply).await?;
        if status.is_success() { Ok(status == StatusCode::CREATED) } else { Err(refusal(status, &answer)) }
    }

    /// Removes a file, or an empty folder.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn remove_file(&self, session: &SessionId, file: &str) -> Result<(), ClientError> {
        self.quietly(Method::DELETE, &file_path(session, file), None).await
    }
}

fn file_path(session: &SessionId, file: &str) -> String {
    path(session, &format!("/files/{}", escape(file)))
}

/// Escapes everything but what stands for itself in a path and in a query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        assert_eq!(escape("a/b c%+?#&é"), "a/b%20c%25%2B%3F%23%26%C3%A9");
    }
}
