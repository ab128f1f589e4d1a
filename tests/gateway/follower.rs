//! Clients that lose their gateway and come back, and the means to take it from them.

use repltool::client::{Client, ClientError, Events, Received, Socket};
use repltool_protocol::event::{Event, LoggedEvent, Outcome};
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, Seq, SessionId};

use crate::harness::{Server, assert_log, eventually, in_time, kill};

/// A client that attaches again after what it saw last, whenever its socket ends.
pub struct Follower<'a> {
    client: &'a Client,
    session: &'a SessionId,
    socket: Option<Socket>,
    pub seen: Vec<LoggedEvent>,
}

impl<'a> Follower<'a> {
    pub fn new(client: &'a Client, session: &'a SessionId) -> Self {
        Self { client, session, socket: None, seen: Vec::new() }
    }

    async fn socket(&mut self) -> &mut Socket {
        if self.socket.is_none() {
            let last = self.seen.last().map_or(Seq(0), |logged| logged.seq);
            let (client, session) = (self.client, self.session);
            // A connection may be accepted by a gateway that dies before it answers.
            let attach = || async {
                match client.attach(session, Some(last)).await {
                    Ok(socket) => Some(socket),
                    Err(ClientError::Broken(_) | ClientError::Connect { .. }) => None,
                    Err(error) => panic!("{error}"),
                }
            };
            self.socket = Some(eventually("a socket", attach).await);
        }
        self.socket.as_mut().expect("it was just made")
    }

    /// Sends until the gateway that gets it lives to answer; the same id makes it one execution.
    pub async fn execute(&mut self, id: &str, code: &str, timeout_ms: u64) -> ExecutionId {
        let id: ExecutionId = id.parse().expect("an id");
        let frame =
            ClientFrame::Execute { id: id.clone(), code: code.to_owned(), timeout_ms: Some(timeout_ms), stdin: None };
        while self.socket().await.send(&frame).await.is_err() {
            self.socket = None;
        }
        id
    }

    /// The next event; `None` if the socket ended instead.
    pub async fn try_next(&mut self) -> Option<LoggedEvent> {
        loop {
            match in_time("an event", self.socket().await.receive()).await.expect("a readable frame") {
                Received::Frame(ServerFrame::Event(logged)) => {
                    self.seen.push(logged.clone());
                    return Some(logged);
                }
                Received::Frame(ServerFrame::Notice(Notice::Ready { .. })) => {}
                Received::Frame(ServerFrame::Notice(notice)) => panic!("unexpected: {notice:?}"),
                Received::Closed(_) => {
                    self.socket = None;
                    return None;
                }
            }
        }
    }

    /// Follows up to the first event that is wanted, over any number of sockets.
    pub async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> LoggedEvent {
        loop {
            if let Some(logged) = self.try_next().await
                && wanted(&logged.event)
            {
                return logged;
            }
        }
    }

    pub async fn started(&mut self, id: &ExecutionId) {
        self.until(|event| matches!(event, Event::Started { id: started, .. } if started == id)).await;
    }

    pub async fn result(&mut self, id: &ExecutionId) -> Outcome {
        loop {
            let mut outcomes = self.seen.iter().rev().filter_map(|logged| match &logged.event {
                Event::Result(outcome) if outcome.id == *id => Some((**outcome).clone()),
                _ => None,
            });
            if let Some(outcome) = outcomes.next() {
                return outcome;
            }
            self.until(|event| matches!(event, Event::Result(_))).await;
        }
    }

    /// Takes what the gateway before its end had sent still.
    pub async fn until_closed(&mut self) {
        while self.socket.is_some() {
            self.try_next().await;
        }
    }

    /// What was seen is what the log tells anybody who reads it now, from the first event on.
    pub async fn assert_unchanged(&self) {
        assert_log(&self.seen);
        let (seen, log) = (joined(&self.seen), whole_log(self.client, self.session).await);
        for (seen, kept) in seen.iter().zip(&log) {
            assert_eq!(seen, kept, "an event was told otherwise");
        }
        assert_eq!(seen.len(), log.len());
    }
}

/// Events as if all output of a stream that follows on itself had gone out as one message: how much of it did is up to
/// the moment at which it was read.
fn joined(events: &[LoggedEvent]) -> Vec<LoggedEvent> {
    let mut joined: Vec<LoggedEvent> = Vec::new();
    for next in events {
        if let (Some(last), Event::Stream { id, stream, data }) = (joined.last_mut(), &next.event)
            && let Event::Stream { id: last_id, stream: last_stream, data: gathered } = &mut last.event
            && (&*last_id, &*last_stream) == (id, stream)
        {
            gathered.push_str(data);
            last.seq = next.seq;
        } else {
            joined.push(next.clone());
        }
    }
    joined
}

/// Everything that the log of a session holds, with output joined as far as it follows on itself.
pub async fn whole_log(client: &Client, session: &SessionId) -> Vec<LoggedEvent> {
    let mut log: Vec<LoggedEvent> = Vec::new();
    loop {
        let after = log.last().map_or(Seq(0), |logged| logged.seq);
        let events = Events { after: Some(after), limit: Some(1000), follow: false };
        let mut page = in_time("events", client.events(session, events)).await.expect("the log is readable");
        let had = log.len();
        while let Some(frame) = in_time("an event", page.next()).await.expect("the log is readable") {
            match frame {
                ServerFrame::Event(logged) => log.push(logged),
                ServerFrame::Notice(notice) => panic!("unexpected: {notice:?}"),
            }
        }
        if log.len() == had {
            return joined(&log);
        }
    }
}

/// While it lives, every gateway that is started finds its store unusable and ends.
pub struct Outage<'a> {
    server: &'a Server,
}

impl<'a> Outage<'a> {
    /// Ends the gateway as a crash would; no other comes up.
    pub async fn begin(server: &'a Server) -> Self {
        let gateway = server.gateway_pid(None).await;
        let logs = server.data().join("store/sessions");
        std::fs::rename(&logs, logs.with_extension("away")).expect("the logs are put away");
        std::fs::write(&logs, "").expect("a file stands in their place");
        kill(gateway, "KILL");
        let outage = Self { server };
        outage.starts(1).await;
        outage
    }

    /// Waits until so many more gateways have been started in vain.
    pub async fn starts(&self, more: usize) {
        let failures = || self.server.log().matches("the gateway ends").count();
        let wanted = failures() + more;
        eventually("gateways that end at once", || async { (failures() >= wanted).then_some(()) }).await;
    }

    pub async fn end(self) {
        let logs = self.server.data().join("store/sessions");
        std::fs::remove_file(&logs).expect("the file goes");
        std::fs::rename(logs.with_extension("away"), &logs).expect("the logs are back");
        self.server.until_ready().await;
    }
}
