//! What screening costs: the time until the rules of a language are compiled, and to read ordinary code of three lengths.
//!
//! ```text
//! screen_cost
//! ```

use repltool::config::PolicyAction;
use repltool::runtime::modules::Modules;
use repltool::runtime::screen::{Policy, Screen};
use repltool_protocol::rest::{Language, SandboxMode};
use tokio::time::Instant;

/// Each language, with a line of ordinary code.
const LANGUAGES: [(Language, &str); 3] = [
    (Language::Python, "total = sum(float(row['price']) * 1.19 for row in rows if row['name'] != \"x\")\n"),
    (Language::Javascript, "const total = rows.filter((row) => row.name !== 'x').map((row) => row.price * 1.19);\n"),
    (Language::Bash, "for f in *.txt; do sort \"$f\" | uniq -c | head -n 3 > \"out/${f%.txt}\"; done\n"),
];
/// Bytes of code, and how often they are read.
const LENGTHS: [(usize, u32); 3] = [(100, 1000), (4096, 100), (1 << 20, 3)];

fn main() {
    let built_in = ["default".to_owned()];
    let screen = Screen::new(|mode| Policy {
        action: PolicyAction::Refuse,
        python: Modules::resolve(Language::Python, mode, &built_in),
        javascript: Modules::resolve(Language::Javascript, mode, &built_in),
    });
    for (language, line) in LANGUAGES {
        let since = Instant::now();
        screen.prepare(language);
        println!("{language:?}: rules compiled in {:.1?}", since.elapsed());
        for (length, times) in LENGTHS {
            let code = &line.repeat(length.div_ceil(line.len()))[..length];
            let since = Instant::now();
            for _ in 0..times {
                screen.examine(language, SandboxMode::Standard, code);
            }
            println!("{language:?}: {length:>8} bytes {:>12.1?}", since.elapsed() / times);
        }
    }
}
