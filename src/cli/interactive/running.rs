//! While an execution runs: its output is shown, its questions are answered, and Ctrl-C is for it.

use std::time::Duration;

use repltool_protocol::event::Event;
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::ExecutionId;
use repltool_protocol::rest::{Language, ProblemCode};
use tokio::time::{Instant, timeout};

use super::conversation::Conversation;
use super::terminal::Hidden;
use crate::cli::execute::fresh_id;
use crate::cli::print::exit_code;
use crate::cli::stop::{INTERRUPTED, Told};
use crate::cli::{attach, connect};
use crate::client::{ClientError, Moment};

/// A second Ctrl-C within this time means that the first one did not help.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// How long a server may take to note an interrupt or a line.
const GRACE: Duration = Duration::from_secs(5);

/// How an execution ended.
pub(super) enum Ended {
    /// It ran, or was refused; with the exit code that belongs to it.
    Ran(u8),
    /// The command ends, with this exit code.
    Leave(u8),
}

/// An execution of ours.
struct Run {
    id: ExecutionId,
    frame: ClientFrame,
    /// Whether the session has it; until then it is sent again over each new connection.
    accepted: bool,
    /// Whether the program waits for a line.
    asked: bool,
    /// While what is typed must not be seen.
    hidden: Option<Hidden>,
    interrupted: Option<Instant>,
}

impl Run {
    /// Takes note of what is about this execution; gives its end, if that was it.
    fn note(&mut self, frame: &ServerFrame) -> Option<Ended> {
        let event = match frame {
            ServerFrame::Event(logged) => &logged.event,
            ServerFrame::Notice(Notice::Problem { id: Some(id), .. }) if id == self.id.as_str() => {
                return Some(Ended::Ran(1));
            }
            ServerFrame::Notice(_) => return None,
        };
        match event {
            Event::Queued { id } | Event::Started { id, .. } if *id == self.id => self.accepted = true,
            Event::InputRequest { id, password, .. } if *id == self.id => {
                self.asked = true;
                self.hidden = password.then(Hidden::new).flatten();
            }
            Event::Result(outcome) if outcome.id == self.id => {
                return Some(Ended::Ran(exit_code(outcome.success, outcome.limit)));
            }
            _ => {}
        }
        None
    }
}

impl Conversation {
    /// Runs code to its end.
    pub(super) async fn execute(&mut self, code: String) -> anyhow::Result<Ended> {
        let mut run = self.start(code).await;
        let feeds = self.feeds();
        let mut quit_pressed = false;
        loop {
            let moment = tokio::select! {
                moment = self.attachment.next() => moment.map_err(connect::explain)?,
                line = self.input.line(), if run.asked || feeds => {
                    self.answer(&mut run, line?).await?;
                    continue;
                }
                told = self.stop.told() => match told {
                    Told::Interrupt if self.interrupt(&mut run).await? => continue,
                    Told::Interrupt => return Ok(Ended::Leave(INTERRUPTED)),
                    Told::Leave(code) => return Ok(Ended::Leave(code)),
                },
                _ = self.quit.recv(), if !quit_pressed => {
                    quit_pressed = true;
                    self.screen.err("\n").await?;
                    self.restart().await?;
                    continue;
                }
            };
            if let Some(ended) = self.follow(&mut run, &moment).await? {
                return Ok(ended);
            }
        }
    }

    async fn start(&mut self, code: String) -> Run {
        let id = fresh_id();
        let frame = ClientFrame::Execute {
            id: id.clone(),
            code,
            timeout_ms: u64::try_from(self.timeout.as_millis()).ok(),
            // Bash never asks. In a script it reads end of file; at a terminal, what is typed.
            stdin: (self.is_bash() && !self.input.is_terminal()).then(String::new),
        };
        self.attachment.send(&frame).await;
        Run { id, frame, accepted: false, asked: false, hidden: None, interrupted: None }
    }

    fn is_bash(&self) -> bool {
        matches!(self.language, Language::Bash | Language::Shell)
    }

    /// Whether all that is typed is for the program. Bash does not tell when it reads; the others ask, and what is typed
    /// before that is for the next prompt.
    fn feeds(&self) -> bool {
        self.is_bash() && self.input.is_terminal()
    }

    /// Shows what the session brings; gives the end, if that was it.
    async fn follow(&mut self, run: &mut Run, moment: &Moment) -> anyhow::Result<Option<Ended>> {
        // Before it is shown: whoever sees the question for a password may type at once.
        let ended = match moment {
            Moment::Frame(frame) => run.note(frame),
            Moment::Lost | Moment::Back | Moment::Ended(_) => None,
        };
        if !self.show(moment).await? {
            return Ok(Some(Ended::Leave(1)));
        }
        if matches!(moment, Moment::Back) && !run.accepted {
            self.attachment.send(&run.frame).await;
        }
        Ok(ended)
    }

    /// Gives the program a line, or the end of its input.
    async fn answer(&mut self, run: &mut Run, line: Option<String>) -> anyhow::Result<()> {
        self.screen.line_was_ended();
        (run.asked, run.hidden) = (false, None);
        let text = line.map(|line| line + "\n");
        let given = timeout(GRACE, self.client.stdin(&self.session, text.as_deref(), text.is_none())).await;
        match given {
            Ok(Ok(())) => Ok(()),
            // It ended meanwhile.
            Ok(Err(ClientError::Refused(problem))) if problem.code == ProblemCode::Conflict => Ok(()),
            Ok(Err(error)) => Ok(self.screen.say(&format!("the line was not delivered: {error}")).await?),
            Err(_) => Ok(self.screen.say("the line was not delivered: the server does not answer").await?),
        }
    }

    /// Interrupts the execution; says whether the command goes on, which it does at a terminal.
    async fn interrupt(&mut self, run: &mut Run) -> anyhow::Result<bool> {
        if self.input.is_terminal() {
            self.screen.err("\n").await?;
        }
        let before = run.interrupted.replace(Instant::now());
        if before.is_some_and(|before| before.elapsed() < IMPATIENCE) {
            self.screen
                .say("it does not heed the interrupt; Ctrl-\\ replaces the interpreter and its variables")
                .await?;
        }
        if !matches!(timeout(GRACE, self.client.interrupt(&self.session, Some(&run.id))).await, Ok(Ok(()))) {
            self.screen.say(&format!("no interrupt: {}", attach::LOST)).await?;
        }
        Ok(self.input.is_terminal())
    }
}
