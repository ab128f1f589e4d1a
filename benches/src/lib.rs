//! Steps of the hot path, each with its input made before it is measured. The program `instructions` runs those of
//! [`codec`] and [`fence`] under valgrind, and the benchmark `micro` times all.
#![allow(clippy::unwrap_used, reason = "a measurement that fails is to stop")]

pub mod codec;
pub mod fence;
pub mod log;
pub mod screening;

use std::fmt;

/// What is measured, ready to be run again and again.
pub type Run = Box<dyn FnMut()>;

/// One thing that is measured.
pub struct Step {
    /// What the step does; no two have the same.
    pub name: &'static str,
    /// Makes its input.
    pub make: fn() -> Run,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The steps whose instructions are counted: those that call Linux for nothing but memory.
pub fn counted() -> impl Iterator<Item = &'static Step> {
    codec::STEPS.iter().chain(&fence::STEPS)
}

/// Ordinary code of this many bytes, made of one line.
fn repeated(line: &str, length: usize) -> String {
    line.repeat(length.div_ceil(line.len()))[..length].to_owned()
}
