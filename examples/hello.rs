//! The smallest HTTP server with the connection settings of the gateway: what `scripts/bench_surface.py` compares it with.
//!
//! Prints its address and answers every request with the same few bytes, until it is killed.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(serve(stream));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream) {
    let answer = |_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello world")))) };
    let served = stream.set_nodelay(true).map(|()| {
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .max_header_size(64 * 1024)
            .max_buf_size(128 * 1024)
            .serve_connection(TokioIo::new(stream), service_fn(answer))
    });
    if let Ok(connection) = served {
        // A client that goes away is none of this server's business.
        let _ = connection.with_upgrades().await;
    }
}
