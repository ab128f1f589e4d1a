//! Bash: which interpreter, and how it is started. How code runs is the driver's business (`driver.bash`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Interpreter;

/// Searched in this order; Debian's own first.
const CANDIDATES: [&str; 3] = ["/usr/bin/bash", "/bin/bash", "/usr/local/bin/bash"];
/// The oldest version that the driver runs on.
const OLDEST: (u32, u32) = (5, 1);

/// The files of the driver, as they stand in the sandbox.
pub const FILES: &[(&str, &[u8])] = &[
    ("/run/repltool/driver.bash", include_bytes!("driver.bash")),
    ("/run/repltool/control.bash", include_bytes!("control.bash")),
    ("/run/repltool/cycle.bash", include_bytes!("cycle.bash")),
    ("/run/repltool/jsontext.bash", include_bytes!("jsontext.bash")),
    ("/run/repltool/loop.bash", include_bytes!("loop.bash")),
    ("/run/repltool/queries.bash", include_bytes!("queries.bash")),
    ("/run/repltool/shelter.bash", include_bytes!("shelter.bash")),
    ("/run/repltool/syntax.bash", include_bytes!("syntax.bash")),
];

/// Why Bash cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum BashError {
    /// None was found.
    #[error("no bash in {CANDIDATES:?}; install it or set runtimes.bash")]
    Missing,
    /// The configured one cannot be run.
    #[error("{path} cannot be run; set runtimes.bash to a Bash of at least 5.1")]
    Unusable {
        /// What was tried.
        path: PathBuf,
        /// Why, where Linux told.
        #[source]
        source: Option<std::io::Error>,
    },
    /// It is too old.
    #[error("{path} is Bash {version}; at least 5.1 is needed")]
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
/// See [`BashError`]; each says what to do.
pub fn find(configured: Option<&Path>) -> Result<Interpreter, BashError> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => CANDIDATES.iter().map(PathBuf::from).find(|path| path.exists()).ok_or(BashError::Missing)?,
    };
    const ASK: &str = r#"printf '%s\n' "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}""#;
    let unusable = |source| BashError::Unusable { path: path.clone(), source };
    let answer = Command::new(&path)
        .args(["--norc", "--noprofile", "-c", ASK])
        .env_clear()
        .output()
        .map_err(|error| unusable(Some(error)))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let version = text.trim_end();
    let Some(numbers) = numbers(version) else { return Err(unusable(None)) };
    if numbers < OLDEST {
        return Err(BashError::Old { path, version: version.to_owned() });
    }
    let program = std::fs::canonicalize(&path).map_err(|error| unusable(Some(error)))?;
    // What lies below /usr is in every sandbox.
    let binds = if program.starts_with("/usr") { Vec::new() } else { vec![program.clone()] };
    Ok(Interpreter { argv: argv(&program), version: version.to_owned(), path: program, binds, own: Vec::new() })
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// `-i`: only an interactive shell ends what runs at SIGINT and keeps its state. `--noediting`: it reads its standard
/// input as a file and leaves terminals alone. The driver takes the control socket from descriptor 3.
fn argv(program: &Path) -> Vec<CString> {
    let mut argv = vec![CString::new(program.as_os_str().as_bytes()).unwrap_or_default()];
    let rest = [c"--noprofile", c"--noediting", c"--rcfile", c"/run/repltool/driver.bash", c"-i"];
    argv.extend(rest.map(CString::from));
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_bash_is_found_and_is_new_enough() {
        let bash = find(None).expect("Debian's bash is installed");
        assert!(numbers(&bash.version).is_some_and(|it| it >= OLDEST), "{}", bash.version);
        assert!(bash.path.is_absolute());
    }

    #[test]
    fn what_is_no_bash_is_refused_by_name() {
        let error = find(Some(Path::new("/bin/true"))).expect_err("true is no interpreter");
        assert!(error.to_string().starts_with("/bin/true cannot be run"), "{error}");
    }

    #[test]
    fn files_stand_where_the_driver_looks_for_them() {
        assert!(FILES.iter().all(|(path, text)| path.starts_with("/run/repltool/") && !text.is_empty()));
    }
}
