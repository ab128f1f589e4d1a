//! The environment variables that a client may give a session. Refused is what loads code into an interpreter, or steers
//! it or its C library in a way that its driver does not reckon with. Not a wall: a program can set what it likes.

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

/// What is wrong with the variables of a session. The message is fit for a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// Too many variables.
    #[error("at most {MAX_VARIABLES} variables are allowed")]
    TooMany,
    /// Too many bytes.
    #[error("at most {MAX_BYTES} bytes of names and values are allowed")]
    TooLong,
    /// A name that cannot be one.
    #[error("a name is a letter or _, then letters, digits and _")]
    Name(String),
    /// A variable that nobody may set.
    #[error("this variable loads code or steers the runtime and cannot be set")]
    Refused(String),
    /// A NUL byte.
    #[error("a value cannot hold NUL")]
    Nul(String),
}

impl EnvironmentError {
    /// The name of the wrong variable, if it is one.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::TooMany | Self::TooLong => None,
            Self::Name(name) | Self::Refused(name) | Self::Nul(name) => Some(name),
        }
    }
}

/// Checks the variables of a session, names and values.
///
/// # Errors
/// The first wrong variable.
pub fn check<'a>(variables: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Result<(), EnvironmentError> {
    if variables.len() > MAX_VARIABLES {
        return Err(EnvironmentError::TooMany);
    }
    let mut bytes = 0;
    for (name, value) in variables {
        bytes += name.len() + value.len();
        let problem = match () {
            () if !is_name(name) => EnvironmentError::Name,
            () if is_refused(name) => EnvironmentError::Refused,
            () if value.contains('\0') => EnvironmentError::Nul,
            () => continue,
        };
        return Err(problem(name.to_owned()));
    }
    if bytes > MAX_BYTES { Err(EnvironmentError::TooLong) } else { Ok(()) }
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
