//! What a client says to a program that runs, and asks an interpreter that does not.

use http::Method;
use repltool_protocol::ids::SessionId;
use repltool_protocol::query::{CodeRequest, Completeness, Completion, Inspection};
use repltool_protocol::rest::StdinRequest;
use serde::de::DeserializeOwned;

use super::{Client, ClientError, json, path};

impl Client {
    /// Gives the program that runs something to read, and then the end if `eof` says so.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn stdin(&self, session: &SessionId, data: Option<&str>, eof: bool) -> Result<(), ClientError> {
        let request = StdinRequest { data: data.map(Into::into), eof };
        self.quietly(Method::POST, &path(session, "/stdin"), Some(json(&request)?)).await
    }

    /// What could stand at a cursor, in code points; without one, at the end of the code.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn complete(
        &self,
        session: &SessionId,
        code: &str,
        cursor: Option<u64>,
    ) -> Result<Completion, ClientError> {
        self.ask(session, "/complete", code, cursor).await
    }

    /// What is known of the thing at a cursor, in code points; without one, at the end of the code.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn inspect(
        &self,
        session: &SessionId,
        code: &str,
        cursor: Option<u64>,
    ) -> Result<Inspection, ClientError> {
        self.ask(session, "/inspect", code, cursor).await
    }

    /// Whether code can be run as it is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn is_complete(&self, session: &SessionId, code: &str) -> Result<Completeness, ClientError> {
        self.ask(session, "/is_complete", code, None).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        session: &SessionId,
        route: &str,
        code: &str,
        cursor: Option<u64>,
    ) -> Result<T, ClientError> {
        let request = CodeRequest { code: code.to_owned(), cursor };
        self.call(Method::POST, &path(session, route), Some(json(&request)?)).await
    }
}
