//! See `repltool::edge::fuzzing::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::edge::fuzzing::head(bytes));
