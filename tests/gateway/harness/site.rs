//! A server on the loopback that is called: it keeps what it was asked, and answers what it is told to.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The lines before the body.
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a header.
    pub fn header(&self, name: &str) -> String {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    /// Told once each, but for the last.
    answers: Vec<Vec<u8>>,
    asked: Vec<Asked>,
}

/// Ends when it is dropped.
pub struct Site {
    pub port: u16,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

impl Site {
    pub async fn new() -> Self {
        Self::with(None).await
    }

    /// One that speaks TLS.
    pub async fn with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state: Arc<Mutex<State>> = Arc::default();
        let (mut tasks, shared) = (JoinSet::new(), state.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, shared) = (tls.clone(), shared.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, &shared).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &shared).await,
                            Err(_) => None,
                        },
                    };
                });
            }
        });
        Self { port, state, _tasks: tasks }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/.well-known/jwks.json?v=1", self.port)
    }

    /// Answers in this way from now on: the status line's end, lines of the head, the body.
    pub fn say(&self, status: &str, head: &str, body: &str) {
        self.state.lock().expect("a state").answers = vec![answer(status, head, body)];
    }

    /// Answers in these ways, one after the other, and then always in the last one.
    pub fn say_each(&self, statuses: &[&str]) {
        let answers = statuses.iter().map(|status| answer(status, "", "")).collect();
        self.state.lock().expect("a state").answers = answers;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("a state").asked.clone()
    }
}

fn answer(status: &str, head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{head}\r\n{body}", body.len()).into_bytes()
}

/// One request; without an answer to give, the connection stays open and nothing is said.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Mutex<State>) -> Option<()> {
    let mut read = Vec::new();
    let (head, body) = loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let asked = Asked { head: head.to_owned(), body: Vec::new() };
        let length = asked.header("content-length").parse().unwrap_or(0);
        if read.len() >= head.len() + 4 + length {
            break (asked.head, read[read.len() - length..].to_vec());
        }
    };
    let answer = {
        let mut state = shared.lock().expect("a state");
        state.asked.push(Asked { head, body });
        if state.answers.len() > 1 { Some(state.answers.remove(0)) } else { state.answers.first().cloned() }
    };
    match answer {
        Some(answer) => stream.write_all(&answer).await.ok(),
        None => std::future::pending().await,
    }
}
