//! A gateway that somebody has taken over. The supervisor here is the real one, and because it starts its own program as
//! the gateway, that is this program: which confines itself as the gateway does and then does what it wants. No libtest:
//! this program is three things by its first argument, and a supervisor has one thread.
//!
//! ```text
//!   test ──starts──▶ supervisor ──starts──▶ gateway: turned, if a file `scene` lies in the directory of the test;
//!                                                    else the real one
//! ```
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod attacks;
mod caged;
mod link;
mod server;
mod turned;

use std::process::{Command, ExitCode};

use server::Setting;

/// A test, and the settings that it runs in.
type Test = (&'static str, fn(Setting), &'static [Setting]);

const EVERYWHERE: &[Setting] = &[Setting::Root, Setting::User];

const TESTS: &[Test] = &[
    (
        "a_turned_gateway_reaches_nothing_but_its_store",
        caged::a_turned_gateway_reaches_nothing_but_its_store,
        EVERYWHERE,
    ),
    ("outside_the_cage_the_attacks_work", caged::outside_the_cage_the_attacks_work, &[Setting::Root]),
    ("no_sandbox_is_weaker_than_the_configuration", link::no_sandbox_is_weaker_than_the_configuration, EVERYWHERE),
    ("names_of_nothing_do_nothing", link::names_of_nothing_do_nothing, EVERYWHERE),
    ("sandboxes_are_bounded_whoever_asks", link::sandboxes_are_bounded_whoever_asks, EVERYWHERE),
    ("what_breaks_the_link_ends_the_gateway_alone", link::what_breaks_the_link_ends_the_gateway_alone, EVERYWHERE),
    ("a_gateway_that_does_not_read_is_replaced", link::a_gateway_that_does_not_read_is_replaced, EVERYWHERE),
];

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

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["gateway"] => return turned::gateway(),
        ["supervise"] => return server::supervise(),
        ["attack", name] => return caged::attack(name),
        _ => {}
    }
    let args = Args::read();
    let all = TESTS.iter().flat_map(|(name, run, settings)| {
        settings.iter().map(move |setting| (format!("{}::{name}", setting.name()), *run, *setting))
    });
    let wanted: Vec<_> = all.filter(|(name, ..)| args.want(name)).collect();
    if args.list {
        wanted.iter().for_each(|(name, ..)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match wanted.as_slice() {
        [(_, run, setting)] if args.exact => {
            // A panic ends the process with 101.
            run(*setting);
            ExitCode::SUCCESS
        }
        several => run_each(several.iter().map(|(name, ..)| name.as_str())),
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
