//! Screening of ordinary code, with the rules compiled before.

use std::hint::black_box;

use repltool::config::PolicyAction;
use repltool::runtime::modules::Modules;
use repltool::runtime::screen::{Policy, Screen};
use repltool_protocol::rest::{Language, SandboxMode};

use crate::{Run, Step, repeated};

const PYTHON: &str = "total = sum(float(row['price']) * 1.19 for row in rows if row['name'] != \"x\")\n";
const JAVASCRIPT: &str = "const total = rows.filter((row) => row.name !== 'x').map((row) => row.price * 1.19);\n";
const BASH: &str = "for f in *.txt; do sort \"$f\" | uniq -c | head -n 3 > \"out/${f%.txt}\"; done\n";

/// All of them.
pub static STEPS: [Step; 6] = [
    Step { name: "Python, 100 bytes", make: || screen(Language::Python, PYTHON, 100) },
    Step { name: "Python, 10 KB", make: || screen(Language::Python, PYTHON, 10_000) },
    Step { name: "JavaScript, 100 bytes", make: || screen(Language::Javascript, JAVASCRIPT, 100) },
    Step { name: "JavaScript, 10 KB", make: || screen(Language::Javascript, JAVASCRIPT, 10_000) },
    Step { name: "Bash, 100 bytes", make: || screen(Language::Bash, BASH, 100) },
    Step { name: "Bash, 10 KB", make: || screen(Language::Bash, BASH, 10_000) },
];

fn screen(language: Language, line: &str, length: usize) -> Run {
    let built_in = ["default".to_owned()];
    let screen = Screen::new(|mode| Policy {
        action: PolicyAction::Refuse,
        python: Modules::resolve(Language::Python, mode, &built_in),
        javascript: Modules::resolve(Language::Javascript, mode, &built_in),
    });
    screen.prepare(language);
    let code = repeated(line, length);
    Box::new(move || {
        black_box(screen.examine(language, SandboxMode::Standard, black_box(&code)));
    })
}
