//! What can be typed besides code.

/// A command of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Restart,
    Quit,
}

/// What `%help` prints.
pub(super) const HELP: &str = "\
%help     this list
%restart  a fresh interpreter: variables go, files stay
%quit     ends, as Ctrl-D does
Tab       completes; Alt-Enter begins a new line; Up and Ctrl-R find what was typed before
Ctrl-C    interrupts what runs, or drops the line
Ctrl-\\    replaces an interpreter that does not heed an interrupt
";

/// The command that was typed; `None` for code.
pub(super) fn parse(text: &str) -> Option<Command> {
    match text.trim() {
        "%help" => Some(Command::Help),
        "%restart" => Some(Command::Restart),
        "%quit" => Some(Command::Quit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stands_alone() {
        assert_eq!(parse(" %help \n"), Some(Command::Help));
        for code in ["x = 7 %help", "%help\nx", "%unknown", ""] {
            assert_eq!(parse(code), None, "{code}");
        }
    }
}
