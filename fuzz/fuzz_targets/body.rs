//! See `repltool::edge::fuzzing::bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::edge::fuzzing::bodies(bytes));
