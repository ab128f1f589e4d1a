//! `repltool attach`: shows what happens in a session, and comes back when the connection breaks off.

use anyhow::bail;
use repltool_protocol::close::CloseCode;
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::Seq;

use super::args::Attach;
use super::print::{Screen, print};
use super::stop::Stop;
use super::{Output, connect};
use crate::client::{Attachment, Closed, Moment};

/// Shows events until the session ends or somebody says stop.
pub(super) async fn attach(args: Attach) -> anyhow::Result<u8> {
    let mut stop = Stop::new()?;
    let client = connect::client(args.server)?;
    let after = if args.from_start { Some(Seq(0)) } else { args.after };
    let mut attachment = Attachment::open(&client, &args.session, after).await.map_err(connect::explain)?;
    let mut viewer = Viewer { output: args.output, screen: Screen::of_session() };
    loop {
        let moment = tokio::select! {
            moment = attachment.next() => moment.map_err(connect::explain)?,
            code = stop.requested() => return Ok(code),
        };
        match moment {
            Moment::Frame(frame) => viewer.show(&frame).await?,
            Moment::Lost => viewer.screen.say(LOST).await?,
            Moment::Back => viewer.screen.say(BACK).await?,
            Moment::Ended(closed) if closed.code == Some(CloseCode::Terminated.code()) => return Ok(0),
            Moment::Ended(closed) => bail!(why(&closed)),
        }
    }
}

pub(super) const LOST: &str = "the connection broke off; connecting again";
pub(super) const BACK: &str = "connected again; nothing is missing";

/// Why an attachment ended, in words.
pub(super) fn why(closed: &Closed) -> String {
    let known = closed.code.and_then(|code| CloseCode::ALL.into_iter().find(|known| known.code() == code));
    match known {
        Some(CloseCode::Terminated) => "the session was terminated".to_owned(),
        Some(CloseCode::IdleTimeout) => "the session has ended: nobody used it for its idle timeout".to_owned(),
        Some(CloseCode::Forbidden) => {
            "the session was ended by too many violations, or the token may not use it".to_owned()
        }
        Some(CloseCode::NotFound) => "there is no such session any more".to_owned(),
        Some(CloseCode::Unauthorized) => "the token has expired; make one with `repltool token`".to_owned(),
        _ if closed.reason.is_empty() => format!("the server closed the connection ({:?})", closed.code),
        _ => closed.reason.clone(),
    }
}

struct Viewer {
    output: Output,
    screen: Screen,
}

impl Viewer {
    async fn show(&mut self, frame: &ServerFrame) -> anyhow::Result<()> {
        match (self.output, frame) {
            (Output::Json, ServerFrame::Event(_) | ServerFrame::Notice(Notice::Gap { .. })) => {
                print(&format!("{}\n", serde_json::to_string(frame)?))?;
            }
            (Output::Text, ServerFrame::Event(logged)) => self.screen.event(&logged.event).await?,
            (Output::Text, ServerFrame::Notice(Notice::Gap { .. })) => self.screen.say(GAP).await?,
            (_, ServerFrame::Notice(_)) => {}
        }
        Ok(())
    }
}

pub(super) const GAP: &str = "the server no longer has some of the output";
