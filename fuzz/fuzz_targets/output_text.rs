//! See `repltool::session::log::fuzzing::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::session::log::fuzzing::text(bytes));
