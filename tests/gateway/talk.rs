//! One HTTP/1.1 connection by hand: any bytes go in, answers come out one after the other.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{Server, in_time};
use super::wire::{Reply, address, bearer, local_token, read_head};

/// See the module. Dropping it closes the connection.
pub struct Talk {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request of the local user, with JSON if it has a body.
pub fn request(server: &Server, method: &str, path: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{}{length}\r\n{body}", head(server, method, path))
}

/// The head of a request of the local user for JSON, without a length and the empty line.
pub fn head(server: &Server, method: &str, path: &str) -> String {
    let token = bearer(&local_token(server));
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {token}\r\ncontent-type: application/json\r\n",
        address(server)
    )
}

impl Talk {
    pub async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(address(server)).await.expect("the server accepts");
        stream.set_nodelay(true).expect("an option");
        Self { stream, buffer: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        in_time("the server reads", self.stream.write_all(bytes.as_ref())).await.expect("the server reads");
    }

    /// The next answer with its body.
    pub async fn reply(&mut self) -> Reply {
        let (status, headers) = self.head().await;
        let chunked = headers.get(TRANSFER_ENCODING).is_some_and(|it| it == "chunked");
        let length = headers.get(CONTENT_LENGTH).map(|it| it.to_str().expect("text").parse().expect("a number"));
        let body = match (chunked, length) {
            (true, None) => self.chunks().await,
            (false, Some(length)) => self.take(length).await,
            (false, None) if matches!(status, 100..=199 | 204 | 304) => Vec::new(),
            (false, None) => self.until_closed().await,
            (true, Some(_)) => panic!("two lengths: {headers:?}"),
        };
        Reply { status, headers, body }
    }

    /// The next head; its body, if it has one, is still to be read.
    pub async fn head(&mut self) -> (u16, HeaderMap) {
        let head = self.line_until(b"\r\n\r\n").await;
        read_head(&head)
    }

    /// All that still comes, up to the end of the connection.
    pub async fn until_closed(&mut self) -> Vec<u8> {
        in_time("the end of the connection", async {
            // A reset is an end as well.
            while self.fill().await.is_ok_and(|bytes| bytes > 0) {}
        })
        .await;
        std::mem::take(&mut self.buffer)
    }

    /// A body in pieces, to its end.
    pub async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line_until(b"\r\n").await;
            let size = usize::from_str_radix(std::str::from_utf8(&line).expect("a size"), 16).expect("a size");
            let chunk = self.take(size + 2).await;
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            self.more().await;
        }
        let rest = self.buffer.split_off(length);
        std::mem::replace(&mut self.buffer, rest)
    }

    async fn line_until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|it| it == end) {
                let mut line = self.take(at + end.len()).await;
                line.truncate(at);
                return line;
            }
            self.more().await;
        }
    }

    async fn more(&mut self) {
        let got = in_time("an answer", self.fill()).await.expect("the connection stands");
        assert!(got > 0, "the server closed the connection after {:?}", String::from_utf8_lossy(&self.buffer));
    }

    async fn fill(&mut self) -> std::io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }
}
