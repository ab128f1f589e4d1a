//! The environment variables that a client may give a session. Refused is what loads code into an interpreter, or steers
//! it or its C library in a way that its driver does not reckon with. Not a wall: a program can set what it likes.

use repltool_protocol::rest::SessionConfig;

use super::problem::Fault;

/// Variables of one session.
const MAX_VARIABLES: usize = 100;
/// Names and values of one session's variables together.
const MAX_BYTES: usize = 32 * 1024;

/// Beginnings of names that are refused: the loaders, the interpreters and their libraries, allocators, and ours.
#[rustfmt::skip]
const REFUSED_PREFIXES: [&str; 14] = [
    "BASH_", "DYLD_", "GLIBC_", "LD_", "MALLOC_", "MIMALLOC_", "NODE_", "NPM_", "OPENSSL_", "PYTHON", "REPLTOOL_",
    "TERMINFO", "UV_", "npm_",
];

/// What Bash reads from its environment: what it runs, what it prints or expands between commands, how it parses, and
/// (`histchars`) what it takes for history expansion.
#[rustfmt::skip]
const REFUSED_FOR_BASH: [&str; 37] = [
    "BASH", "BASHOPTS", "BASHPID", "CDPATH", "ENV", "EXECIGNORE", "FIGNORE", "FUNCNEST", "GLOBIGNORE", "GLOBSORT",
    "HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTIGNORE", "HISTSIZE", "HISTTIMEFORMAT", "HOSTFILE", "IFS",
    "IGNOREEOF", "INPUTRC", "MAIL", "MAILCHECK", "MAILPATH", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "PROMPT_COMMAND",
    "PROMPT_DIRTRIM", "PS0", "PS1", "PS2", "PS4", "SHELLOPTS", "TEXTDOMAIN", "TEXTDOMAINDIR", "TMOUT", "auto_resume",
    "histchars",
];

/// What the C library, and libraries that the interpreters are linked with, read.
#[rustfmt::skip]
const REFUSED_FOR_LIBRARIES: [&str; 20] = [
    "CARES_HOSTS", "GCONV_PATH", "GETCONF_DIR", "HOSTALIASES", "ICU_DATA", "ICU_TIMEZONE_FILES_DIR",
    "LIBC_FATAL_STDERR_", "LOCALDOMAIN", "LOCPATH", "NIS_PATH", "NLSPATH", "OUTPUT_CHARSET", "PATH",
    "RESOLV_HOST_CONF", "RES_OPTIONS", "SSLKEYLOGFILE", "SSL_CERT_DIR", "SSL_CERT_FILE", "TERMCAP", "TZDIR",
];

/// Checks the variables of a session to be created.
///
/// # Errors
/// The first wrong variable.
pub(super) fn check(config: &SessionConfig) -> Result<(), Fault> {
    if config.environment.len() > MAX_VARIABLES {
        return Err(Fault::field("environment", format!("at most {MAX_VARIABLES} variables are allowed")));
    }
    let mut bytes = 0;
    for (name, value) in &config.environment {
        bytes += name.len() + value.len();
        let problem = match () {
            () if !is_name(name) => "a name is a letter or _, then letters, digits and _",
            () if is_refused(name) => "this variable loads code or steers the runtime and cannot be set",
            () if value.contains('\0') => "a value cannot hold NUL",
            () => continue,
        };
        return Err(Fault::field(format!("environment.{}", name.escape_debug()), problem));
    }
    if bytes > MAX_BYTES {
        return Err(Fault::field("environment", format!("at most {MAX_BYTES} bytes of names and values are allowed")));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_refused(name: &str) -> bool {
    REFUSED_FOR_BASH.contains(&name)
        || REFUSED_FOR_LIBRARIES.contains(&name)
        || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use repltool_protocol::rest::ProblemCode;
    use serde_json::{Value, json};

    use super::*;

    fn checked(environment: Value) -> Result<(), String> {
        let config: SessionConfig =
            serde_json::from_value(json!({"language": "bash", "environment": environment})).unwrap();
        check(&config).map_err(|fault| {
            assert_eq!(fault.code(), ProblemCode::InvalidRequest);
            fault.document("x").errors.remove(0).field
        })
    }

    #[test]
    fn ordinary_variables_are_accepted() {
        let chosen = json!({
            "A": "", "_b9": "a\nb", "LDX": "1", "HOME": "/tmp", "TZ": "Europe/Berlin", "LANG": "de_DE.UTF-8",
            "LC_ALL": "C", "TMPDIR": "/tmp", "TERM": "dumb", "COLUMNS": "80", "HISTORY": "long", "BASHFUL": "1",
            "env": "small", "NODE": "a", "PS3": "? ", "USER": "ada",
        });
        assert_eq!(checked(chosen), Ok(()));
    }

    #[test]
    fn variables_that_load_code_are_refused() {
        #[rustfmt::skip]
        let chosen = [
            "LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "GCONV_PATH", "MALLOC_ARENA_MAX", "PATH", "PYTHONPATH",
            "PYTHONSTARTUP", "PYTHONWARNINGS", "NODE_OPTIONS", "NODE_PATH", "npm_config_prefix", "UV_THREADPOOL_SIZE",
            "OPENSSL_CONF", "BASH_ENV", "BASHOPTS", "ENV", "SHELLOPTS", "PS4", "PS0", "PROMPT_COMMAND", "IFS", "TMOUT",
            "HISTFILE", "INPUTRC", "MAILPATH", "POSIXLY_CORRECT", "FUNCNEST", "TEXTDOMAINDIR", "histchars",
            "REPLTOOL_TOKEN",
        ];
        for name in chosen {
            assert_eq!(checked(json!({name: "x"})), Err(format!("environment.{name}")));
        }
    }

    #[test]
    fn what_is_no_variable_is_refused_by_name() {
        let many: serde_json::Map<_, _> = (0..101).map(|i| (format!("V{i}"), json!(""))).collect();
        for (environment, field) in [
            (json!(many), "environment"),
            (json!({"A": "x".repeat(32 * 1024)}), "environment"),
            (json!({"A": "\0"}), "environment.A"),
            (json!({"": "x"}), "environment."),
            (json!({"1A": "x"}), "environment.1A"),
            (json!({"A=B": "x"}), "environment.A=B"),
            (json!({"é": "x"}), "environment.é"),
            (json!({"A\nB": "x"}), "environment.A\\nB"),
            (json!({"BASH_FUNC_ls%%": "() { :; }"}), "environment.BASH_FUNC_ls%%"),
        ] {
            assert_eq!(checked(environment), Err(field.into()));
        }
    }
}
