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
mod calling;
mod link;
#[path = "../plain/mod.rs"]
mod plain;
mod server;
mod turned;

use std::process::ExitCode;

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
    ("what_calls_outside_reaches_named_ports_alone", calling::what_calls_outside_reaches_named_ports_alone, EVERYWHERE),
    ("no_sandbox_is_weaker_than_the_configuration", link::no_sandbox_is_weaker_than_the_configuration, EVERYWHERE),
    ("what_was_let_go_is_nobodys", link::what_was_let_go_is_nobodys, EVERYWHERE),
    ("names_of_nothing_do_nothing", link::names_of_nothing_do_nothing, EVERYWHERE),
    ("sandboxes_are_bounded_whoever_asks", link::sandboxes_are_bounded_whoever_asks, EVERYWHERE),
    ("what_breaks_the_link_ends_the_gateway_alone", link::what_breaks_the_link_ends_the_gateway_alone, EVERYWHERE),
    ("a_gateway_that_does_not_read_is_replaced", link::a_gateway_that_does_not_read_is_replaced, EVERYWHERE),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["gateway"] => return turned::gateway(),
        ["supervise"] => return server::supervise(),
        ["attack", name] => return caged::attack(name),
        ["call", user, port, other] => return calling::attempts(user, port, other),
        _ => {}
    }
    let all = TESTS.iter().flat_map(|(name, run, settings)| {
        settings.iter().map(move |setting| (format!("{}::{name}", setting.name()), (*run, *setting)))
    });
    plain::main(all, |(run, setting)| run(*setting))
}
