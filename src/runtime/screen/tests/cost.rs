//! What screening costs. Run by hand: `cargo test screen::tests::cost -- --ignored --nocapture`, with `--release` too.

use tokio::time::Instant;

use super::*;

/// Ordinary code, repeated to so many bytes.
fn ordinary(language: Language, len: usize) -> String {
    let line = match language {
        Language::Python => "total = sum(float(row['price']) * 1.19 for row in rows if row['name'] != \"x\")\n",
        Language::Javascript => {
            "const total = rows.filter((row) => row.name !== 'x').map((row) => row.price * 1.19);\n"
        }
        _ => "for f in *.txt; do sort \"$f\" | uniq -c | head -n 3 > \"out/${f%.txt}\"; done\n",
    };
    line.repeat(len.div_ceil(line.len()))[..len].to_owned()
}

#[test]
#[ignore = "it measures and asserts nothing"]
fn cost_of_examining() {
    let screen = screen(PolicyAction::Refuse, &["default"]);
    for language in LANGUAGES {
        let since = Instant::now();
        screen.prepare(language);
        eprintln!("{language:?}: rules compiled in {:.1?}", since.elapsed());
        for (len, count) in [(100, 1000u32), (4096, 100), (1 << 20, 3)] {
            let code = ordinary(language, len);
            let since = Instant::now();
            for _ in 0..count {
                screen.examine(language, SandboxMode::Standard, &code);
            }
            eprintln!("{language:?}: {len:>8} bytes {:>12.1?}", since.elapsed() / count);
        }
    }
}
