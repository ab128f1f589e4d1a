//! Python: which interpreter, and how it is started. How code runs is the driver's business (`driver.py`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Interpreter;

/// Searched in this order; Debian's own first, for its packages are where the sandbox expects them.
const CANDIDATES: [&str; 3] = ["/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3"];
/// The oldest version that the driver runs on.
const OLDEST: (u32, u32) = (3, 11);

/// The files of the driver, as they stand in the sandbox.
pub const FILES: &[(&str, &[u8])] = &[
    ("/run/repltool/driver.py", include_bytes!("driver.py")),
    ("/run/repltool/awaiting.py", include_bytes!("awaiting.py")),
    ("/run/repltool/beginning.py", include_bytes!("beginning.py")),
    ("/run/repltool/bundles.py", include_bytes!("bundles.py")),
    ("/run/repltool/completion.py", include_bytes!("completion.py")),
    ("/run/repltool/control.py", include_bytes!("control.py")),
    ("/run/repltool/descriptors.py", include_bytes!("descriptors.py")),
    ("/run/repltool/display.py", include_bytes!("display.py")),
    ("/run/repltool/execution.py", include_bytes!("execution.py")),
    ("/run/repltool/expressions.py", include_bytes!("expressions.py")),
    ("/run/repltool/figures.py", include_bytes!("figures.py")),
    ("/run/repltool/importlib_bootstrap.py", include_bytes!("importlib_bootstrap.py")),
    ("/run/repltool/imports.py", include_bytes!("imports.py")),
    ("/run/repltool/jsontext.py", include_bytes!("jsontext.py")),
    ("/run/repltool/queries.py", include_bytes!("queries.py")),
    ("/run/repltool/report.py", include_bytes!("report.py")),
    ("/run/repltool/shield.py", include_bytes!("shield.py")),
    ("/run/repltool/stdin.py", include_bytes!("stdin.py")),
    ("/run/repltool/streams.py", include_bytes!("streams.py")),
    ("/run/repltool/zygote.py", include_bytes!("zygote.py")),
];

/// Why Python cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// None was found.
    #[error("no python3 in {CANDIDATES:?}; install it or set runtimes.python")]
    Missing,
    /// The configured one cannot be run.
    #[error("{path} cannot be run; set runtimes.python to a CPython of at least 3.11")]
    Unusable {
        /// What was tried.
        path: PathBuf,
        /// Why, where Linux told.
        #[source]
        source: Option<std::io::Error>,
    },
    /// It is too old.
    #[error("{path} is Python {version}; at least 3.11 is needed")]
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
/// See [`PythonError`]; each says what to do.
pub fn find(configured: Option<&Path>) -> Result<Interpreter, PythonError> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => CANDIDATES.iter().map(PathBuf::from).find(|path| path.exists()).ok_or(PythonError::Missing)?,
    };
    const ASK: &str = "import os, sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); print(sys.base_prefix); print(sys.base_exec_prefix); print(os.path.dirname(os.__file__))";
    let unusable = |source| PythonError::Unusable { path: path.clone(), source };
    let answer = Command::new(&path)
        .args(["-I", "-S", "-c", ASK])
        .env_clear()
        .output()
        .map_err(|error| unusable(Some(error)))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let [version, executable, prefix, exec_prefix, library] = text.lines().collect::<Vec<_>>()[..] else {
        return Err(unusable(None));
    };
    if !new_enough(version) {
        return Err(PythonError::Old { path, version: version.to_owned() });
    }
    let program = std::fs::canonicalize(executable).map_err(|error| unusable(Some(error)))?;
    let mut binds: Vec<PathBuf> = Vec::new();
    for tree in [Path::new(prefix), Path::new(exec_prefix)] {
        // What lies below /usr is in every sandbox.
        if !tree.starts_with("/usr") && !binds.iter().any(|it| it == tree) {
            binds.push(tree.to_owned());
        }
    }
    Ok(Interpreter {
        argv: argv(&program),
        version: version.to_owned(),
        path: program,
        binds,
        own: vec![library.into()],
    })
}

fn new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => false,
    }
}

/// `-I`: no environment, no user site, no directory of the script on the path. `-S`: site costs 6 ms; the driver sets
/// the path by itself.
fn argv(program: &Path) -> Vec<CString> {
    let mut argv = vec![CString::new(program.as_os_str().as_bytes()).unwrap_or_default()];
    argv.extend([c"-I", c"-S", c"/run/repltool/driver.py", c"3"].map(CString::from));
    argv
}

/// As the interpreter is started, but as a zygote that imports these packages: `zygote.py`.
pub fn zygote_argv(interpreter: &Interpreter, packages: &[String]) -> Vec<CString> {
    let mut argv = interpreter.argv.clone();
    argv.pop();
    argv.push(c"zygote".into());
    argv.extend(packages.iter().filter_map(|name| CString::new(name.as_str()).ok()));
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_python_is_found_and_is_new_enough() {
        let python = find(None).expect("Debian's python3 is installed");
        assert!(new_enough(&python.version), "{}", python.version);
        assert!(python.path.is_absolute());
    }

    #[test]
    fn what_is_no_python_is_refused_by_name() {
        let error = find(Some(Path::new("/bin/true"))).expect_err("true is no interpreter");
        assert!(error.to_string().starts_with("/bin/true cannot be run"), "{error}");
    }
}
