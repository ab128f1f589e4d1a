//! See `repltool::audit::fuzzing`.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

/// A directory of this process, in memory where there is such a place.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| std::env::temp_dir().join(format!("audit-{}", std::process::id())));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    repltool::audit::fuzzing::end(bytes);
    repltool::audit::fuzzing::check(&FOLDER, bytes);
});
