//! The bytes of a file, read when the client takes them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::edge::respond::Body;

/// What is read at once, in bytes; a slow client holds no more than this.
const CHUNK_BYTES: usize = 128 * 1024;

/// A body of `bytes` bytes from `first` on. If the file shrinks meanwhile, the body breaks off.
pub(super) fn stream(file: File, first: u64, bytes: u64) -> Body {
    let file = Arc::new(file);
    let end = first.saturating_add(bytes);
    let chunks = stream::try_unfold(first, move |at| {
        let file = file.clone();
        async move {
            if at >= end {
                return Ok(None);
            }
            let chunk = read(file, at, end - at).await?;
            let next = at + chunk.len() as u64;
            Ok(Some((Frame::data(chunk), next)))
        }
    });
    StreamBody::new(chunks).boxed_unsync()
}

async fn read(file: Arc<File>, at: u64, left: u64) -> io::Result<Bytes> {
    let length = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
    let read = tokio::task::spawn_blocking(move || {
        let mut chunk = BytesMut::zeroed(length);
        let got = file.read_at(&mut chunk, at)?;
        chunk.truncate(got);
        if chunk.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(chunk.freeze()) }
    });
    read.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: usize) -> (File, Vec<u8>) {
        let content: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &content).unwrap();
        (file, content)
    }

    #[tokio::test]
    async fn a_body_has_the_bytes_of_its_range() {
        for (first, bytes) in [(0, 300_000), (0, 0), (1, 131_072), (131_071, 2), (299_999, 1)] {
            let (file, content) = file(300_000);
            let read = stream(file, first as u64, bytes as u64).collect().await.unwrap().to_bytes();
            assert!(read == content[first..first + bytes], "{first} {bytes}");
        }
    }

    #[tokio::test]
    async fn a_file_that_shrinks_breaks_its_body_off() {
        let (file, _) = file(300_000);
        let other = file.try_clone().unwrap();
        let mut body = stream(file, 0, 300_000);
        assert!(body.frame().await.unwrap().is_ok());
        other.set_len(10).unwrap();
        assert!(body.frame().await.unwrap().is_err());
    }
}
