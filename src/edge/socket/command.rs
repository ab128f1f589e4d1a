//! What a peer asks for: messages to commands, answers to messages.

use std::future::Future;

use futures::FutureExt;
use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::{DecodeError, decode_client};
use repltool_protocol::frame::{ClientFrame, Notice};
use repltool_protocol::ids::{ExecutionId, RequestId, Seq};
use repltool_protocol::rest::ProblemCode;

use super::closing::Ending;
use super::{Attachment, Socket};
use crate::edge::auth::Scope;
use crate::edge::problem::Fault;
use crate::edge::{rest, router, validate};
use crate::session::{Execute, Refusal};

/// Malformed messages before a socket is closed.
const MAX_FAULTS: u32 = 10;

/// How a command ended.
#[derive(Debug)]
pub(super) enum Answered {
    /// Its effect is told by the log.
    Done,
    /// The execution's events follow `after`.
    Accepted { execution: ExecutionId, after: Seq },
    /// The session refused.
    Refused { id: Option<String>, fault: Fault },
}

impl<'a> Socket<'a> {
    pub(super) fn on_text(&mut self, text: &str) -> Result<(), Ending> {
        if self.attachment.principal.remaining().is_zero() {
            return Err(Ending::Close(CloseCode::Unauthorized));
        }
        match decode_client(text) {
            Ok(ClientFrame::Ping { id }) => self.say(&Notice::Pong { id }),
            Ok(frame) => self.on_command(frame),
            Err(DecodeError::Malformed { detail, id }) => self.on_fault(id, detail),
            Err(DecodeError::TooBig(_)) => Err(Ending::Close(CloseCode::TooBig)),
        }
    }

    /// Tells the peer what is wrong with a message; not for ever.
    pub(super) fn on_fault(&mut self, id: Option<String>, detail: impl Into<String>) -> Result<(), Ending> {
        self.faults += 1;
        self.say(&Fault::new(ProblemCode::InvalidRequest, detail.into()).notice(id))?;
        if self.faults >= MAX_FAULTS { Err(Ending::Close(CloseCode::Policy)) } else { Ok(()) }
    }

    pub(super) fn on_answer(&mut self, answered: Answered) -> Result<(), Ending> {
        match answered {
            Answered::Done => Ok(()),
            Answered::Accepted { execution, after } => {
                self.source.follow(execution, after);
                Ok(())
            }
            Answered::Refused { id, fault } => self.say(&fault.notice(id)),
        }
    }

    fn on_command(&mut self, frame: ClientFrame) -> Result<(), Ending> {
        let attachment = self.attachment;
        if let Err(fault) = router::require(&attachment.principal, Scope::Execute) {
            return self.say(&fault.notice(name(&frame)));
        }
        let handle = &attachment.handle;
        match frame {
            ClientFrame::Execute { id, code, timeout_ms, stdin } => {
                if let Err(fault) = validate::run(&code, timeout_ms, stdin.as_deref()) {
                    return self.say(&fault.notice(Some(id.to_string())));
                }
                let timeout = rest::timeout(timeout_ms);
                let execute = Execute { id: Some(id.clone()), code, timeout, stdin, interactive: true };
                self.answers.push(run(attachment, execute, id).boxed());
            }
            ClientFrame::Interrupt { id } => {
                let named = id.as_ref().map(ToString::to_string);
                self.answers.push(ask(attachment, named, handle.interrupt(id)).boxed());
            }
            ClientFrame::Restart { id } => {
                self.answers.push(ask(attachment, id.map(text), handle.restart()).boxed());
            }
            ClientFrame::Terminate { id } => {
                self.answers.push(ask(attachment, id.map(text), handle.terminate()).boxed());
            }
            ClientFrame::Ping { id } => return self.say(&Notice::Pong { id }),
        }
        Ok(())
    }
}

async fn run(attachment: &Attachment, execute: Execute, id: ExecutionId) -> Answered {
    match attachment.handle.execute(execute).await {
        Ok(accepted) => Answered::Accepted { execution: accepted.id, after: accepted.after },
        Err(refusal) => refused(attachment, Some(id.to_string()), refusal),
    }
}

async fn ask(
    attachment: &Attachment,
    id: Option<String>,
    asked: impl Future<Output = Result<(), Refusal>>,
) -> Answered {
    match asked.await {
        Ok(()) => Answered::Done,
        Err(refusal) => refused(attachment, id, refusal),
    }
}

fn refused(attachment: &Attachment, id: Option<String>, refusal: Refusal) -> Answered {
    Answered::Refused { id, fault: rest::refused(&attachment.handle, refusal) }
}

/// The id by which a client knows its message.
fn name(frame: &ClientFrame) -> Option<String> {
    match frame {
        ClientFrame::Execute { id, .. } => Some(id.to_string()),
        ClientFrame::Interrupt { id } => id.as_ref().map(ToString::to_string),
        ClientFrame::Restart { id } | ClientFrame::Terminate { id } => id.as_ref().map(ToString::to_string),
        ClientFrame::Ping { id } => Some(id.to_string()),
    }
}

fn text(id: RequestId) -> String {
    id.to_string()
}
