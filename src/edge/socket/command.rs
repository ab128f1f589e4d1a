//! What a peer asks for: messages to commands, answers to messages.

use std::future::Future;

use futures::FutureExt;
use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::{DecodeError, decode_client};
use repltool_protocol::frame::{ClientFrame, MAX_FAULTS, Notice};
use repltool_protocol::ids::{ExecutionId, RequestId, Seq};
use repltool_protocol::query::{QueryKind, Reply};
use repltool_protocol::rest::ProblemCode;

use super::closing::Ending;
use super::{Attachment, Socket};
use crate::edge::auth::Scope;
use crate::edge::problem::Fault;
use crate::edge::{rest, router, validate};
use crate::session::{Execute, Query, Refusal};

/// Questions that wait for their answers; more are refused. Fewer than the commands that may wait, so that an interrupt
/// gets through.
const MAX_QUESTIONS: usize = 8;

/// How a command ended.
#[derive(Debug)]
pub(super) enum Answered {
    /// Its effect is told by the log.
    Done,
    /// The execution's events follow `after`.
    Accepted { execution: ExecutionId, after: Seq },
    /// The session refused.
    Refused { id: Option<String>, fault: Fault },
    /// The answer to a question, or why there is none.
    Replied { id: RequestId, outcome: Result<Reply, Fault> },
}

impl<'a> Socket<'a> {
    pub(super) fn on_text(&mut self, text: &str) -> Result<(), Ending> {
        if self.principal.remaining().is_zero() {
            return Err(Ending::Close(CloseCode::Unauthorized));
        }
        match decode_client(text) {
            Ok(ClientFrame::Ping { id }) => self.say(&Notice::Pong { id }),
            Ok(ClientFrame::Auth { token, id }) => self.on_auth(id, &token),
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
            Answered::Refused { id, fault } => {
                self.connection.shared.audited.note_refusal(&self.visit(), &fault);
                self.say(&fault.notice(id))
            }
            Answered::Replied { id, outcome } => {
                self.questions -= 1;
                match outcome {
                    Ok(reply) => self.say(&Notice::Reply { id, reply }),
                    Err(fault) => self.say(&fault.notice(Some(text(id)))),
                }
            }
        }
    }

    fn on_command(&mut self, frame: ClientFrame) -> Result<(), Ending> {
        let attachment = self.attachment;
        if let Err(fault) = router::require(&self.principal, Scope::Execute) {
            let visit = self.visit();
            self.connection.shared.audited.note_refusal(&visit, &fault);
            return self.say(&fault.notice(name(&frame)));
        }
        let handle = &attachment.handle;
        let language = handle.identity().language;
        match frame {
            ClientFrame::Execute { id, code, timeout_ms, stdin } => {
                if let Err(fault) = validate::run(language, &code, timeout_ms) {
                    return self.say(&fault.notice(Some(id.to_string())));
                }
                let timeout = rest::timeout(timeout_ms);
                let account = self.connection.shared.registry.account(&self.principal.owner());
                let execute = Execute { id: Some(id.clone()), code, timeout, stdin, interactive: true, account };
                self.answers.push(run(attachment, execute, id).boxed());
            }
            ClientFrame::Stdin { data, eof } => match validate::input(data, eof) {
                Ok(input) => self.answers.push(ask(attachment, None, handle.stdin(input)).boxed()),
                Err(fault) => return self.say(&fault.notice(None)),
            },
            ClientFrame::Complete { id, code, cursor } => {
                return self.on_question(id, validate::question(language, QueryKind::Complete, code, cursor));
            }
            ClientFrame::Inspect { id, code, cursor } => {
                return self.on_question(id, validate::question(language, QueryKind::Inspect, code, cursor));
            }
            ClientFrame::IsComplete { id, code, cursor } => {
                return self.on_question(id, validate::question(language, QueryKind::IsComplete, code, cursor));
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
            ClientFrame::Auth { token, id } => return self.on_auth(id, &token),
            ClientFrame::Ping { id } => return self.say(&Notice::Pong { id }),
        }
        Ok(())
    }

    /// Asks the interpreter. It may be long in answering, so questions leave room for other commands.
    fn on_question(&mut self, id: RequestId, question: Result<Query, Fault>) -> Result<(), Ending> {
        match question {
            Ok(_) if self.questions >= MAX_QUESTIONS => {
                let detail = format!("{MAX_QUESTIONS} questions wait for their answers already");
                self.say(&Fault::new(ProblemCode::Busy, detail).notice(Some(text(id))))
            }
            Ok(question) => {
                self.questions += 1;
                self.answers.push(inquire(self.attachment, id, question).boxed());
                Ok(())
            }
            Err(fault) => self.say(&fault.notice(Some(text(id)))),
        }
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

async fn inquire(attachment: &Attachment, id: RequestId, question: Query) -> Answered {
    let outcome = attachment.handle.query(question).await;
    Answered::Replied { id, outcome: outcome.map_err(|refusal| rest::refused(&attachment.handle, refusal)) }
}

fn refused(attachment: &Attachment, id: Option<String>, refusal: Refusal) -> Answered {
    Answered::Refused { id, fault: rest::refused(&attachment.handle, refusal) }
}

/// The id by which a client knows its message.
pub(super) fn name(frame: &ClientFrame) -> Option<String> {
    match frame {
        ClientFrame::Execute { id, .. } => Some(id.to_string()),
        ClientFrame::Interrupt { id } => id.as_ref().map(ToString::to_string),
        ClientFrame::Restart { id } | ClientFrame::Terminate { id } | ClientFrame::Auth { id, .. } => {
            id.as_ref().map(ToString::to_string)
        }
        ClientFrame::Complete { id, .. }
        | ClientFrame::Inspect { id, .. }
        | ClientFrame::IsComplete { id, .. }
        | ClientFrame::Ping { id } => Some(id.to_string()),
        ClientFrame::Stdin { .. } => None,
    }
}

fn text(id: RequestId) -> String {
    id.to_string()
}
