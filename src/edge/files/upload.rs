//! A file that a client writes: it grows under a name of its own as its bytes arrive, and takes its place in one step when
//! all of them are there. Whatever ends it before that leaves nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_RANGE;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use repltool_protocol::rest::ProblemCode;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{conditions, preconditions};
use crate::edge::body;
use crate::edge::problem::Fault;
use crate::edge::received::RequestBody;
use crate::edge::rest::refused;
use crate::session::{NewFile, SessionHandle};

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    handle: SessionHandle,
    path: String,
    /// Present until it is committed or discarded.
    begun: Option<NewFile>,
    /// The same file, for the threads that write.
    file: Arc<File>,
    /// So far, in bytes.
    written: u64,
    /// In bytes.
    most: u64,
    /// Where a file that was given up in the middle is discarded.
    tasks: TaskTracker,
}

/// A file that is in its place.
#[derive(Debug)]
pub(super) struct Written {
    /// Whether something was there before.
    pub(super) existed: bool,
    /// Its entity tag.
    pub(super) tag: String,
}

/// Checks what the headers tell of the file.
///
/// # Errors
/// `invalid_request` for a part of a file, `unsupported_media_type` for an encoded one, `too_large`.
pub(super) fn check(headers: &HeaderMap, most: u64) -> Result<(), Fault> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Fault::invalid("a file is written as a whole; Content-Range is not allowed"));
    }
    body::is_plain(headers)?;
    match body::length(headers) {
        Some(bytes) if bytes > most => Err(too_large(most)),
        Some(_) | None => Ok(()),
    }
}

impl Upload {
    /// Begins to write the file at `path`.
    ///
    /// # Errors
    /// As the session refuses it.
    pub(super) async fn begin(
        handle: SessionHandle,
        path: String,
        most: u64,
        tasks: TaskTracker,
    ) -> Result<Self, Fault> {
        let begun = handle.create_file(path.clone()).await.map_err(|refusal| refused(&handle, refusal))?;
        match begun.file.try_clone() {
            Ok(file) => Ok(Self { handle, path, begun: Some(begun), file: Arc::new(file), written: 0, most, tasks }),
            Err(error) => {
                handle.discard_file(begun).await;
                Err(Fault::internal(&error))
            }
        }
    }

    /// Writes the body of the request to the file, and puts it in its place.
    ///
    /// # Errors
    /// `too_large`, `storage_full`, `invalid_request` if the body breaks off, `precondition_failed`, and as the session
    /// refuses it. Nothing is left of the file then.
    ///
    /// # Cancel safety
    /// Dropping the future discards the file, or lets it be committed if that has begun.
    pub(super) async fn run(mut self, request: &mut Request<RequestBody>) -> Result<Written, Fault> {
        if let Err(fault) = self.receive(request).await {
            self.discard().await;
            return Err(fault);
        }
        self.commit().await
    }

    async fn receive(&mut self, request: &mut Request<RequestBody>) -> Result<(), Fault> {
        while let Some(data) = next_piece(request.body_mut()).await? {
            self.append(data).await?;
        }
        // What is there may have changed meanwhile.
        preconditions(&self.handle, request.headers(), &self.path).await
    }

    async fn append(&mut self, data: Bytes) -> Result<(), Fault> {
        let (at, bytes) = (self.written, data.len() as u64);
        self.written = at.saturating_add(bytes);
        if self.written > self.most {
            return Err(too_large(self.most));
        }
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || file.write_all_at(&data, at));
        written.await.map_err(|error| Fault::internal(&error))?.map_err(|error| failed(&error))
    }

    async fn commit(mut self) -> Result<Written, Fault> {
        let it = self.file.metadata().map_err(|error| Fault::internal(&error))?;
        let modified = jiff::Timestamp::new(it.mtime(), i32::try_from(it.mtime_nsec()).unwrap_or(0));
        let tag = conditions::tag(it.ino(), it.len(), modified.unwrap_or_default());
        let begun = self.begun.take().expect("an upload is committed or discarded once");
        let existed = begun.existed;
        let committed = self.handle.commit_file(begun).await;
        committed.map_err(|refusal| refused(&self.handle, refusal))?;
        Ok(Written { existed, tag })
    }

    async fn discard(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.handle.discard_file(begun).await;
        }
    }
}

/// A client that goes away takes its request with it, at any point.
impl Drop for Upload {
    fn drop(&mut self) {
        let (Some(begun), Ok(runtime)) = (self.begun.take(), Handle::try_current()) else { return };
        let handle = self.handle.clone();
        self.tasks.spawn_on(async move { handle.discard_file(begun).await }, &runtime);
    }
}

async fn next_piece(body: &mut RequestBody) -> Result<Option<Bytes>, Fault> {
    loop {
        match tokio::time::timeout(body.patience(), body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                // Trailers say nothing here.
                Err(_) => continue,
            },
            Ok(Some(Err(_))) => return Err(Fault::invalid("the body broke off")),
            Ok(None) => return Ok(None),
            Err(_) => return Err(Fault::invalid("the body took too long")),
        }
    }
}

fn too_large(most: u64) -> Fault {
    Fault::new(ProblemCode::TooLarge, format!("a file of at most {most} bytes is allowed"))
}

fn failed(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Fault::new(ProblemCode::StorageFull, "the session has no room for this file; remove others first")
        }
        _ => Fault::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};

    use super::*;

    #[test]
    fn headers_tell_what_cannot_be_written() {
        let with = |name: HeaderName, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        for (headers, status) in [
            (HeaderMap::new(), None),
            (with(CONTENT_LENGTH, "1000"), None),
            (with(CONTENT_LENGTH, "1001"), Some(413)),
            (with(CONTENT_TYPE, "image/png"), None),
            (with(CONTENT_ENCODING, "gzip"), Some(415)),
            (with(CONTENT_RANGE, "bytes 0-1/2"), Some(400)),
        ] {
            let refused = check(&headers, 1000).err().map(|fault| fault.status().as_u16());
            assert_eq!(refused, status, "{headers:?}");
        }
    }

    #[test]
    fn a_full_disk_is_told_as_one() {
        for (errno, status) in [(28, 507), (122, 507), (27, 507), (5, 500)] {
            assert_eq!(failed(&io::Error::from_raw_os_error(errno)).status().as_u16(), status, "{errno}");
        }
    }
}
