//! What is told of findings: bounded, and on one line.

use repltool_protocol::rest::SandboxMode;

/// Characters of a detail.
pub(super) const MAX_DETAIL: usize = 100;

/// Code as a detail: white space is one blank, what cannot be printed is left out, the end is cut off if it is long.
pub(super) fn detail(code: &str) -> String {
    let mut detail = String::new();
    let mut length = 0;
    let printable = code.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| is_printable(*c));
    for c in printable {
        if c == ' ' && (detail.is_empty() || detail.ends_with(' ')) {
            continue;
        }
        if length == MAX_DETAIL - 1 {
            detail.truncate(detail.trim_end().len());
            detail.push('…');
            return detail;
        }
        detail.push(c);
        length += 1;
    }
    detail.truncate(detail.trim_end().len());
    detail
}

/// Whether a character shows, and leaves the order of the others as it is.
fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// The name of a level.
pub(super) fn level(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Strict => "strict",
        SandboxMode::Standard => "standard",
        SandboxMode::Relaxed => "relaxed",
    }
}

/// What to do about code that is refused, as the end of a sentence.
pub(super) fn way_out(mode: SandboxMode) -> String {
    let operator = format!("ask the operator for sandbox.{}.policy", level(mode));
    match mode {
        SandboxMode::Relaxed => operator,
        _ => format!("use sandbox_mode \"relaxed\" (needs the scope sandbox:relaxed), or {operator}"),
    }
}
