//! See `repltool::edge::fuzzing::proxied`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::edge::fuzzing::proxied(bytes));
