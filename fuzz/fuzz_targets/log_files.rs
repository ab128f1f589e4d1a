//! See `repltool::session::log::fuzzing::files`.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

/// A directory of this process, in memory where there is such a place.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| std::env::temp_dir().join(format!("log-{}", std::process::id())));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| repltool::session::log::fuzzing::files(&FOLDER, bytes));
