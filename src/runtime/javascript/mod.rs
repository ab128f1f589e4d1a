//! JavaScript: which Node, and how it is started. How code runs is the driver's business (`driver.js`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Interpreter;

/// Searched in this order; that of the distribution first.
const CANDIDATES: [&str; 3] = ["/usr/bin/node", "/usr/bin/nodejs", "/usr/local/bin/node"];
/// The oldest major version that the driver runs on.
const OLDEST: u32 = 18;

/// The files of the driver, as they stand in the sandbox.
pub const FILES: &[(&str, &[u8])] = &[
    ("/run/repltool/driver.js", include_bytes!("driver.js")),
    ("/run/repltool/vendor/acorn.js", include_bytes!("vendor/acorn.js")),
    ("/run/repltool/beginning.js", include_bytes!("beginning.js")),
    ("/run/repltool/belated.js", include_bytes!("belated.js")),
    ("/run/repltool/control.js", include_bytes!("control.js")),
    ("/run/repltool/display.js", include_bytes!("display.js")),
    ("/run/repltool/ends.js", include_bytes!("ends.js")),
    ("/run/repltool/errors.js", include_bytes!("errors.js")),
    ("/run/repltool/evaluator.js", include_bytes!("evaluator.js")),
    ("/run/repltool/execution.js", include_bytes!("execution.js")),
    ("/run/repltool/fault.js", include_bytes!("fault.js")),
    ("/run/repltool/imports.js", include_bytes!("imports.js")),
    ("/run/repltool/interrupts.js", include_bytes!("interrupts.js")),
    ("/run/repltool/modules.js", include_bytes!("modules.js")),
    ("/run/repltool/policy.js", include_bytes!("policy.js")),
    ("/run/repltool/primordials.js", include_bytes!("primordials.js")),
    ("/run/repltool/query.js", include_bytes!("query.js")),
    ("/run/repltool/redeclare.js", include_bytes!("redeclare.js")),
    ("/run/repltool/report.js", include_bytes!("report.js")),
    ("/run/repltool/stdin.js", include_bytes!("stdin.js")),
    ("/run/repltool/streams.js", include_bytes!("streams.js")),
    ("/run/repltool/text.js", include_bytes!("text.js")),
    ("/run/repltool/watcher.js", include_bytes!("watcher.js")),
    ("/run/repltool/words.js", include_bytes!("words.js")),
];

/// Why JavaScript cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum JavascriptError {
    /// None was found.
    #[error("no node in {CANDIDATES:?}; install Node.js or set runtimes.javascript")]
    Missing,
    /// The configured one cannot be run.
    #[error("{path} cannot be run; set runtimes.javascript to a Node.js of at least {OLDEST}")]
    Unusable {
        /// What was tried.
        path: PathBuf,
        /// Why, where Linux told.
        #[source]
        source: Option<std::io::Error>,
    },
    /// It is too old.
    #[error("{path} is Node.js {version}; at least {OLDEST} is needed")]
    Old {
        /// What was tried.
        path: PathBuf,
        /// What it says it is.
        version: String,
    },
}

/// Finds the interpreter and asks it what it is. Runs nothing of a user's.
///
/// # Errors
/// See [`JavascriptError`]; each says what to do.
pub fn find(configured: Option<&Path>) -> Result<Interpreter, JavascriptError> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => CANDIDATES.iter().map(PathBuf::from).find(|path| path.exists()).ok_or(JavascriptError::Missing)?,
    };
    const ASK: &str = "console.log(process.versions.node + '\\n' + process.execPath)";
    let unusable = |source| JavascriptError::Unusable { path: path.clone(), source };
    let answer = Command::new(&path).args(["-e", ASK]).env_clear().output().map_err(|error| unusable(Some(error)))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let [version, executable] = text.lines().collect::<Vec<_>>()[..] else {
        return Err(unusable(None));
    };
    let Some(major) = version.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
        return Err(unusable(None));
    };
    if major < OLDEST {
        return Err(JavascriptError::Old { path, version: version.to_owned() });
    }
    let program = std::fs::canonicalize(executable).map_err(|error| unusable(Some(error)))?;
    let binds = binds(&program);
    // Debian's own Node has parts of itself there.
    let parts = Some(PathBuf::from("/usr/share/nodejs")).filter(|path| binds.is_empty() && path.exists());
    let own = binds.iter().cloned().chain(parts).collect();
    Ok(Interpreter { argv: argv(&program), version: version.to_owned(), binds, own, path: program })
}

/// The tree that an interpreter elsewhere was installed as; what lies below /usr is in every sandbox.
fn binds(program: &Path) -> Vec<PathBuf> {
    if program.starts_with("/usr") {
        return Vec::new();
    }
    let folder = program.parent().unwrap_or(program);
    let tree = match folder.parent() {
        Some(tree) if folder.ends_with("bin") && tree != Path::new("/") => tree,
        _ => folder,
    };
    vec![tree.to_owned()]
}

/// Node checks that asynchronous calls end in the order in which they began, and aborts if not; a terminated one never
/// ends. The numbers are those of the control socket and of the pipe of interrupts.
fn argv(program: &Path) -> Vec<CString> {
    let mut argv = vec![CString::new(program.as_os_str().as_bytes()).unwrap_or_default()];
    argv.extend([c"--no-force-async-hooks-checks", c"/run/repltool/driver.js", c"3", c"4"].map(CString::from));
    argv
}

/// The argument by which Node collects garbage before it meets a ceiling of so many bytes. The rest is for young objects
/// (three times 16 MiB), buffers and Node itself.
pub fn heap_argument(ceiling_bytes: u64) -> CString {
    let megabytes = (ceiling_bytes >> 20) * 5 / 8;
    CString::new(format!("--max-old-space-size={}", megabytes.max(16))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_node_is_found_and_is_new_enough() {
        let node = find(None).expect("node is installed");
        assert!(node.version.split('.').count() == 3, "{}", node.version);
        assert!(node.path.is_absolute());
        assert_eq!(node.argv.len(), 5);
    }

    #[test]
    fn what_is_no_node_is_refused_by_name() {
        let error = find(Some(Path::new("/bin/true"))).expect_err("true is no interpreter");
        assert!(error.to_string().starts_with("/bin/true cannot be run"), "{error}");
    }

    #[test]
    fn every_file_of_the_driver_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/runtime/javascript");
        let listed = |name: &str| FILES.iter().any(|(path, _)| Path::new(path).ends_with(name));
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let name = entry.expect("the folder can be read").file_name().to_string_lossy().into_owned();
            assert!(!name.ends_with(".js") || listed(&name), "{name} is not in FILES");
        }
    }

    #[test]
    fn heap_is_smaller_than_the_ceiling() {
        assert_eq!(heap_argument(256 << 20).as_c_str(), c"--max-old-space-size=160");
        assert_eq!(heap_argument(1 << 20).as_c_str(), c"--max-old-space-size=16");
    }

    #[test]
    fn tree_of_an_interpreter_elsewhere_is_bound() {
        assert_eq!(binds(Path::new("/usr/bin/node")), Vec::<PathBuf>::new());
        assert_eq!(binds(Path::new("/opt/node/bin/node")), [PathBuf::from("/opt/node")]);
        assert_eq!(binds(Path::new("/opt/node")), [PathBuf::from("/opt")]);
    }
}
