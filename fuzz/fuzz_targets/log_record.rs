//! See `repltool::session::log::fuzzing::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::session::log::fuzzing::record(bytes));
