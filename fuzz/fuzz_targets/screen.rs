//! See `repltool::runtime::screen::fuzzing`.
#![no_main]

use std::sync::LazyLock;

use repltool::runtime::screen::fuzzing::Laws;

static LAWS: LazyLock<Laws> = LazyLock::new(Laws::default);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| LAWS.hold(bytes));
