//! The line editor, on a thread of its own: it waits for keys, and the rest of the command for the server.
//!
//! ```text
//!   command ── prompt ──▶ thread: read_line ── asks by the runtime of the command ──▶ session
//!      ▲ ◀── answer ───────┘   ▲
//!      └── lines to print ─────┘ above the prompt, while somebody types
//! ```

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Prompts, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, ExternalPrinter, KeyCode, KeyModifiers, MenuBuilder,
    Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};
use repltool_protocol::query::Completion;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::questions::Questions;
use super::{command, history};

/// Pieces of output that wait to be printed above the prompt.
const PRINTER_CAPACITY: usize = 16;
const MENU: &str = "completions";
/// What Tab gives where there is nothing to complete.
const INDENT: &str = "    ";

/// What somebody did at the prompt.
pub(super) enum Typed {
    /// Code, complete as far as anybody knows.
    Code(String),
    /// Ctrl-C: the line is dropped.
    Nothing,
    /// Ctrl-D.
    End,
}

/// The line editor. One prompt at a time.
pub(super) struct Editor {
    prompts: SyncSender<CountedPrompt>,
    answers: mpsc::Receiver<io::Result<Typed>>,
    printer: SyncSender<String>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Editor {
    /// Needs a terminal and a runtime.
    pub(super) fn new(questions: Questions, language: &str) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let printer = ExternalPrinter::new(PRINTER_CAPACITY);
        let lines = printer.sender();
        let asks = Asks { questions, runtime: Handle::current() };
        let line_editor = line_editor(asks).with_history(history::of(language)).with_external_printer(printer);
        let line_editor = line_editor.with_break_signal(Arc::clone(&stop));
        let (prompts, to_show) = sync_channel(1);
        let (to_give, answers) = mpsc::channel(1);
        let work = move || serve(line_editor, &to_show, &to_give);
        let thread = std::thread::Builder::new().name("editor".into()).spawn(work)?;
        Ok(Self { prompts, answers, printer: lines, stop, thread })
    }

    /// Shows a prompt; [`Editor::answer`] follows.
    pub(super) fn ask(&self, language: &str, number: u64) {
        // A thread that has ended is told by the answer that does not come.
        let _ = self.prompts.send(CountedPrompt(format!("{language} {number}> ")));
    }

    /// Waits for the answer to a prompt. Cancel-safe.
    pub(super) async fn answer(&mut self) -> io::Result<Typed> {
        self.answers.recv().await.unwrap_or_else(|| Err(io::Error::other("the line editor has ended")))
    }

    /// Prints text above the prompt; gives it back if too much waits already.
    pub(super) fn print(&self, text: String) -> Option<String> {
        match self.printer.try_send(text) {
            Err(TrySendError::Full(text)) => Some(text),
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
        }
    }

    /// Takes a prompt back that was not answered yet.
    pub(super) async fn take_back(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.answer().await;
    }

    /// Ends the thread and writes the history. There must be no prompt.
    pub(super) fn end(self) {
        let Self { prompts, thread, .. } = self;
        drop(prompts);
        let _ = thread.join();
    }
}

fn serve(mut editor: Reedline, prompts: &Prompts<CountedPrompt>, answers: &mpsc::Sender<io::Result<Typed>>) {
    for prompt in prompts {
        let typed = match editor.read_line(&prompt) {
            Ok(Signal::Success(code)) => Ok(Typed::Code(code)),
            Ok(Signal::CtrlD) => Ok(Typed::End),
            Ok(_) => Ok(Typed::Nothing),
            Err(error) => Err(io::Error::other(error)),
        };
        // A history that cannot be written is no reason to stop typing.
        let _ = editor.sync_history();
        if answers.blocking_send(typed).is_err() {
            return;
        }
    }
}

fn line_editor(asks: Asks) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    let new_line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, new_line);
    Reedline::create()
        .with_ansi_colors(false)
        .use_bracketed_paste(true)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(asks.clone()))
        .with_validator(Box::new(asks))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU))))
        .with_quick_completions(true)
        .with_partial_completions(true)
}

/// The session, asked from the editor's thread.
#[derive(Clone)]
struct Asks {
    questions: Questions,
    runtime: Handle,
}

impl Validator for Asks {
    fn validate(&self, code: &str) -> ValidationResult {
        let complete = code.trim().is_empty()
            || command::parse(code).is_some()
            || self.runtime.block_on(self.questions.is_complete(code));
        if complete { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

impl Completer for Asks {
    fn complete(&mut self, code: &str, position: usize) -> CompletionResult {
        let before = code.get(..position).unwrap_or(code);
        let line = before.rsplit('\n').next().unwrap_or_default();
        if line.trim().is_empty() {
            return CompletionResult::fresh(vec![suggestion(INDENT.to_owned(), position..position)]);
        }
        let cursor = u64::try_from(before.chars().count()).unwrap_or(u64::MAX);
        let found = self.runtime.block_on(self.questions.complete(code, cursor));
        CompletionResult::fresh(found.map(|found| suggestions(found, code)).unwrap_or_default())
    }
}

fn suggestions(found: Completion, code: &str) -> Vec<Suggestion> {
    let byte = |cursor: u64| {
        let cursor = usize::try_from(cursor).unwrap_or(usize::MAX);
        code.char_indices().nth(cursor).map_or(code.len(), |(at, _)| at)
    };
    let (start, end) = (byte(found.cursor_start), byte(found.cursor_end));
    found.matches.into_iter().map(|text| suggestion(text, start..end.max(start))).collect()
}

fn suggestion(value: String, place: Range<usize>) -> Suggestion {
    Suggestion { value, span: Span::new(place.start, place.end), ..Suggestion::default() }
}

/// Language and number, as in `python 3> `.
struct CountedPrompt(String);

impl Prompt for CountedPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("... ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_placed_in_bytes() {
        let found = Completion { matches: vec!["größe".into()], cursor_start: 4, cursor_end: 7 };
        let code = "ä = grö";
        let span = suggestions(found, code).remove(0).span;
        assert_eq!(code.get(span.start..span.end), Some("grö"));
    }
}
