//! The conversation with a session: a prompt, code, what it prints, the next prompt.

use std::time::Duration;

use repltool_protocol::event::{Event, StreamName};
use repltool_protocol::frame::{Notice, ServerFrame};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, Session};
use tokio::signal::unix::{Signal, SignalKind};

use super::command::{self, Command, HELP};
use super::editor::Typed;
use super::input::Input;
use super::name;
use super::questions::Questions;
use super::running::Ended;
use crate::cli::attach::{BACK, GAP, LOST, why};
use crate::cli::connect;
use crate::cli::print::Screen;
use crate::cli::stop::{INTERRUPTED, Stop, Told, listen};
use crate::client::{Attachment, Client, Moment};

/// How often output is offered again to an editor that has enough of it.
const OFFER_AGAIN: Duration = Duration::from_millis(50);

/// Somebody, or a script, and a session.
pub(super) struct Conversation {
    pub(super) client: Client,
    pub(super) session: SessionId,
    pub(super) language: Language,
    pub(super) timeout: Duration,
    pub(super) attachment: Attachment,
    pub(super) screen: Screen,
    pub(super) input: Input,
    pub(super) stop: Stop,
    /// Ctrl-\.
    pub(super) quit: Signal,
    /// Executions of the session so far.
    pub(super) count: u64,
    questions: Questions,
}

/// What comes of waiting for input.
enum Next {
    Typed(Typed),
    /// The command ends, with this exit code.
    Leave(u8),
}

impl Conversation {
    /// Attaches to a session and makes the terminal ready.
    pub(super) async fn open(
        client: &Client,
        session: &Session,
        timeout: Duration,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let id = &session.session_id;
        let questions = Questions::new(client, id);
        let attachment = Attachment::open(client, id, None).await.map_err(connect::explain)?;
        let input = Input::choose(questions.clone(), name(session.language))?;
        let questions = if input.is_terminal() { questions } else { questions.of_script() };
        Ok(Self {
            attachment,
            input,
            client: client.clone(),
            session: id.clone(),
            language: session.language,
            timeout,
            screen: Screen::of_session(),
            stop,
            quit: listen(SignalKind::quit())?,
            count: session.expression_count,
            questions,
        })
    }

    /// Talks until one of the two ends it; gives the exit code.
    pub(super) async fn hold(mut self) -> anyhow::Result<u8> {
        let outcome = self.talk().await;
        self.input.end();
        outcome
    }

    async fn talk(&mut self) -> anyhow::Result<u8> {
        if self.input.is_terminal() {
            let hint = format!("{}, in a sandbox. %help tells more, Ctrl-D ends.\n", name(self.language));
            self.screen.err(&hint).await?;
        }
        let mut last = 0;
        loop {
            let code = match self.next().await? {
                Next::Typed(Typed::Code(code)) => code,
                Next::Typed(Typed::Nothing) => {
                    self.screen.err("^C\n").await?;
                    continue;
                }
                Next::Typed(Typed::End) if self.input.is_terminal() => {
                    self.screen.err("\n").await?;
                    return Ok(0);
                }
                Next::Typed(Typed::End) => return Ok(last),
                Next::Leave(code) => return Ok(code),
            };
            match command::parse(&code) {
                Some(Command::Quit) => return Ok(0),
                Some(Command::Help) => self.screen.err(HELP).await?,
                Some(Command::Restart) => self.restart().await?,
                None if code.trim().is_empty() => {}
                None => match self.execute(code).await? {
                    Ended::Ran(code) => last = code,
                    Ended::Leave(code) => return Ok(code),
                },
            }
        }
    }

    /// Gives the session a fresh interpreter, which the log then tells.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        match self.client.restart(&self.session).await {
            Ok(_) => Ok(()),
            Err(error) => Ok(self.screen.say(&format!("no restart: {:#}", connect::explain(error))).await?),
        }
    }

    async fn next(&mut self) -> anyhow::Result<Next> {
        match self.input {
            Input::Terminal { .. } => self.next_of_editor().await,
            Input::Lines { .. } => self.next_of_lines().await,
        }
    }

    async fn next_of_editor(&mut self) -> anyhow::Result<Next> {
        self.screen.begin_line().await?;
        let Self { input: Input::Terminal { editor, .. }, attachment, screen, stop, count, .. } = self else {
            return Ok(Next::Typed(Typed::End));
        };
        editor.ask(name(self.language), *count + 1);
        let mut backlog: Option<String> = None;
        loop {
            tokio::select! {
                typed = editor.answer() => {
                    screen.out(&backlog.unwrap_or_default()).await?;
                    return Ok(Next::Typed(typed?));
                }
                moment = attachment.next(), if backlog.is_none() => match moment.map_err(connect::explain)? {
                    Moment::Ended(closed) => {
                        editor.take_back().await;
                        screen.err(&format!("\nrepltool: {}\n", why(&closed))).await?;
                        return Ok(Next::Leave(1));
                    }
                    moment => {
                        let text = seen_at_prompt(&moment, screen, count);
                        backlog = text.and_then(|text| editor.print(text));
                    }
                },
                () = tokio::time::sleep(OFFER_AGAIN), if backlog.is_some() => {
                    backlog = backlog.and_then(|text| editor.print(text));
                }
                told = stop.told() => if let Told::Leave(code) = told {
                    editor.take_back().await;
                    screen.err("\n").await?;
                    return Ok(Next::Leave(code));
                },
            }
        }
    }

    async fn next_of_lines(&mut self) -> anyhow::Result<Next> {
        let mut code = String::new();
        loop {
            if self.input.is_terminal() {
                self.screen.begin_line().await?;
                let prompt = if code.is_empty() {
                    format!("{} {}> ", name(self.language), self.count + 1)
                } else {
                    "... ".to_owned()
                };
                self.screen.err(&prompt).await?;
            }
            let line = loop {
                tokio::select! {
                    line = self.input.line() => break line?,
                    moment = self.attachment.next() => {
                        let moment = moment.map_err(connect::explain)?;
                        if !self.show(&moment).await? {
                            return Ok(Next::Leave(1));
                        }
                    }
                    told = self.stop.told() => return Ok(match told {
                        // At a terminal it drops what was typed.
                        Told::Interrupt if self.input.is_terminal() => Next::Typed(Typed::Code(String::new())),
                        Told::Interrupt => Next::Leave(INTERRUPTED),
                        Told::Leave(code) => Next::Leave(code),
                    }),
                    // Nothing runs that it could be for.
                    _ = self.quit.recv() => {}
                }
            };
            self.screen.line_was_ended();
            let Some(line) = line else {
                let last = if code.trim().is_empty() { Typed::End } else { Typed::Code(code) };
                return Ok(Next::Typed(last));
            };
            code.push_str(&line);
            if code.trim().is_empty() || command::parse(&code).is_some() || self.questions.is_complete(&code).await {
                return Ok(Next::Typed(Typed::Code(code)));
            }
            code.push('\n');
        }
    }

    /// Shows what the session brings; says whether it goes on.
    pub(super) async fn show(&mut self, moment: &Moment) -> anyhow::Result<bool> {
        match moment {
            Moment::Frame(frame) => match frame.as_ref() {
                ServerFrame::Event(logged) => {
                    if let Event::Started { execution_count, .. } = &logged.event {
                        self.count = *execution_count;
                    }
                    self.screen.event(&logged.event).await?;
                }
                ServerFrame::Notice(Notice::Gap { .. }) => self.screen.say(GAP).await?,
                ServerFrame::Notice(Notice::Problem { detail, .. }) => self.screen.say(detail).await?,
                ServerFrame::Notice(_) => {}
            },
            Moment::Lost => self.screen.say(LOST).await?,
            Moment::Back => self.screen.say(BACK).await?,
            Moment::Ended(closed) => {
                self.screen.say(&why(closed)).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is printed above a prompt: what runs in the background, or what others run.
fn seen_at_prompt(moment: &Moment, screen: &mut Screen, count: &mut u64) -> Option<String> {
    let say = |text: &str| Some(format!("repltool: {text}\n"));
    let frame = match moment {
        Moment::Frame(frame) => frame,
        Moment::Lost => return say(LOST),
        Moment::Back => return say(BACK),
        Moment::Ended(_) => return None,
    };
    match frame.as_ref() {
        ServerFrame::Event(logged) => {
            if let Event::Started { execution_count, .. } = &logged.event {
                *count = *execution_count;
            }
            let pieces: Vec<(StreamName, _)> = screen.pieces(&logged.event);
            Some(pieces.into_iter().map(|(_, text)| text).collect::<String>()).filter(|text| !text.is_empty())
        }
        ServerFrame::Notice(Notice::Gap { .. }) => say(GAP),
        ServerFrame::Notice(_) => None,
    }
}
