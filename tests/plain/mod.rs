//! The main function of a test program that cannot have libtest's threads: each test runs in a process of its own, as
//! cargo-nextest starts it; without it, the program starts itself.

use std::process::{Command, ExitCode};

/// As much of libtest's command line as cargo-nextest and `cargo test` speak.
#[derive(Default)]
struct Args {
    list: bool,
    ignored: bool,
    exact: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Args {
    fn read() -> Args {
        let (mut args, mut words) = (Args::default(), std::env::args().skip(1));
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => args.list = true,
                "--ignored" => args.ignored = true,
                "--exact" => args.exact = true,
                "--skip" => args.skip.extend(words.next()),
                "--format" | "--color" | "--test-threads" | "-Z" => drop(words.next()),
                flag if flag.starts_with('-') => {}
                _ => args.names.push(word),
            }
        }
        args
    }

    fn want(&self, name: &str) -> bool {
        let matches = |pattern: &String| if self.exact { name == pattern } else { name.contains(pattern.as_str()) };
        !self.ignored && (self.names.is_empty() || self.names.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

/// Runs the tests that the command line asks for, by their names, or lists them. `run` runs one; a panic ends the process
/// with 101.
pub fn main<T>(all: impl Iterator<Item = (String, T)>, run: impl FnOnce(&T)) -> ExitCode {
    let args = Args::read();
    let wanted: Vec<_> = all.filter(|(name, _)| args.want(name)).collect();
    if args.list {
        wanted.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match wanted.as_slice() {
        [(_, test)] if args.exact => {
            run(test);
            ExitCode::SUCCESS
        }
        several => run_each(several.iter().map(|(name, _)| name.as_str())),
    }
}

fn run_each<'a>(names: impl Iterator<Item = &'a str>) -> ExitCode {
    let (mut passed, mut failed) = (0, Vec::new());
    for name in names {
        let status = Command::new("/proc/self/exe").args(["--exact", name]).status().expect("it starts");
        println!("test {name} ... {}", if status.success() { "ok" } else { "FAILED" });
        if status.success() { passed += 1 } else { failed.push(name) }
    }
    println!("\ntest result: {passed} passed; {} failed {failed:?}", failed.len());
    ExitCode::from(if failed.is_empty() { 0 } else { 101 })
}
