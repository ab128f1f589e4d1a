//! See `repltool::edge::fuzzing::files::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| repltool::edge::fuzzing::files::path(text));
