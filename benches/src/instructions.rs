//! Runs one step as often as it is told, and nothing else: `scripts/instructions.py` has valgrind count what that takes.
//!
//! ```text
//! instructions               prints the names of the steps
//! instructions NAME TIMES
//! ```

use std::env;
use std::process::ExitCode;

use repltool_benches::counted;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [name, times] = arguments.as_slice() else {
        for step in counted() {
            println!("{}", step.name);
        }
        return ExitCode::SUCCESS;
    };
    let (Some(step), Ok(times)) = (counted().find(|step| step.name == name), times.parse::<u32>()) else {
        eprintln!("usage: instructions [NAME TIMES]");
        return ExitCode::FAILURE;
    };
    let mut run = (step.make)();
    for _ in 0..times {
        run();
    }
    ExitCode::SUCCESS
}
