//! See `repltool::edge::fuzzing::query`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| repltool::edge::fuzzing::query(text));
