//! Where code comes from: the line editor of a terminal, or lines of a pipe, a file or a terminal that cannot do more.

use std::io::{self, IsTerminal};

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::editor::Editor;
use super::questions::Questions;
use super::terminal::Keyboard;

/// The source of code, and of what a program asks for.
pub(super) enum Input {
    Terminal { editor: Editor, keyboard: Keyboard },
    Lines { lines: Lines<BufReader<Stdin>>, is_terminal: bool },
}

impl Input {
    /// Looks at the standard streams and chooses. Needs a runtime.
    pub(super) fn choose(questions: Questions, language: &str) -> anyhow::Result<Self> {
        let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if is_terminal
            && !is_dumb
            && let Ok(keyboard) = Keyboard::open()
        {
            return Ok(Self::Terminal { editor: Editor::new(questions, language)?, keyboard });
        }
        Ok(Self::Lines { lines: BufReader::new(tokio::io::stdin()).lines(), is_terminal })
    }

    /// Whether a person types.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. } | Self::Lines { is_terminal: true, .. })
    }

    /// Waits for a line for a program that runs; `None` at the end. Cancel-safe.
    pub(super) async fn line(&mut self) -> io::Result<Option<String>> {
        match self {
            Self::Terminal { keyboard, .. } => keyboard.line().await,
            Self::Lines { lines, .. } => lines.next_line().await,
        }
    }

    /// Puts the terminal in order and writes the history. There must be no prompt.
    pub(super) fn end(self) {
        if let Self::Terminal { editor, .. } = self {
            editor.end();
        }
    }
}
