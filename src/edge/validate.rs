//! The bounds of what clients send, beyond what its types say. Pure: no request, no session, no clock.

use repltool_protocol::rest::{
    ExecutionRequest, Language, MAX_CODE_CHARS, ResourceLimits, SandboxMode, SessionConfig, TIMEOUT_MS,
};

use super::problem::Fault;

/// What this version says of things that the contract has and it has not.
const NOT_OFFERED: &str = "not offered by this version";
/// Below this a Python interpreter does not start.
const PYTHON_MIN_MEMORY_MB: u64 = 32;
/// Variables of one session.
const MAX_ENVIRONMENT: usize = 100;
/// Names and values of one session's variables together.
const MAX_ENVIRONMENT_BYTES: usize = 32 * 1024;
/// The longest `working_directory`.
const MAX_DIRECTORY_BYTES: usize = 1024;
/// Where a session's own directory is, as its program sees it.
const WORKSPACE: &str = "/workspace";

/// Variables that load code into a process or steer its runtime.
const REFUSED_PREFIXES: [&str; 10] =
    ["LD_", "DYLD_", "PYTHON", "NODE_", "NPM_", "BASH_", "GLIBC_", "MALLOC_", "OPENSSL_", "REPLTOOL_"];
const REFUSED_NAMES: [&str; 18] = [
    "BASHOPTS",
    "CDPATH",
    "ENV",
    "EXECIGNORE",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLOBIGNORE",
    "HOSTALIASES",
    "IFS",
    "LOCALDOMAIN",
    "LOCPATH",
    "NLSPATH",
    "PATH",
    "PROMPT_COMMAND",
    "PS4",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "SHELLOPTS",
];

/// Checks a session to be created.
///
/// # Errors
/// The first wrong field.
pub(super) fn session(config: &SessionConfig) -> Result<(), Fault> {
    language(config.language)?;
    if config.sandbox_mode == SandboxMode::Strict {
        return Err(Fault::field("sandbox_mode", "strict is not offered by this version; use standard or relaxed"));
    }
    limits(&config.resource_limits)?;
    environment(config)?;
    match &config.working_directory {
        Some(path) => directory(path),
        None => Ok(()),
    }
}

/// Checks an execution; `session_id` is the one in the path.
///
/// # Errors
/// The first wrong field.
pub(super) fn execution(request: &ExecutionRequest, session_id: &str) -> Result<(), Fault> {
    if request.session_id.as_deref().is_some_and(|it| it != session_id) {
        return Err(Fault::field("session_id", "not the session in the path"));
    }
    run(&request.code, request.timeout_ms, request.stdin.as_deref())
}

/// Checks what both an execute body and an `execute` message hold.
///
/// # Errors
/// The first wrong field.
pub(super) fn run(code: &str, timeout_ms: Option<u64>, stdin: Option<&str>) -> Result<(), Fault> {
    if code.is_empty() {
        return Err(Fault::field("code", "at least 1 character is needed"));
    }
    // A character has at least one byte, so short texts need no counting.
    if code.len() > MAX_CODE_CHARS && code.chars().count() > MAX_CODE_CHARS {
        return Err(Fault::field("code", format!("at most {MAX_CODE_CHARS} characters are allowed")));
    }
    if let Some(timeout_ms) = timeout_ms {
        within("timeout_ms", timeout_ms, &TIMEOUT_MS)?;
    }
    match stdin {
        Some(_) => Err(Fault::field("stdin", NOT_OFFERED)),
        None => Ok(()),
    }
}

fn language(language: Language) -> Result<(), Fault> {
    match language {
        Language::Python => Ok(()),
        Language::Javascript | Language::Bash | Language::Shell => Err(Fault::field("language", NOT_OFFERED)),
    }
}

fn limits(limits: &ResourceLimits) -> Result<(), Fault> {
    within("resource_limits.max_cpu_time", limits.max_cpu_time, &(1..=300))?;
    within("resource_limits.max_memory_mb", limits.max_memory_mb, &(16..=4096))?;
    within("resource_limits.max_output_size", limits.max_output_size, &(1024..=10_485_760))?;
    within("resource_limits.max_expressions", limits.max_expressions, &(1..=10_000))?;
    if limits.max_memory_mb < PYTHON_MIN_MEMORY_MB {
        let message = format!("python needs at least {PYTHON_MIN_MEMORY_MB} to start");
        return Err(Fault::field("resource_limits.max_memory_mb", message));
    }
    Ok(())
}

fn within(field: &str, value: u64, bounds: &std::ops::RangeInclusive<u64>) -> Result<(), Fault> {
    if bounds.contains(&value) {
        return Ok(());
    }
    Err(Fault::field(field, format!("{value} is not within {} to {}", bounds.start(), bounds.end())))
}

fn environment(config: &SessionConfig) -> Result<(), Fault> {
    if config.environment.len() > MAX_ENVIRONMENT {
        return Err(Fault::field("environment", format!("at most {MAX_ENVIRONMENT} variables are allowed")));
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
    if bytes > MAX_ENVIRONMENT_BYTES {
        let message = format!("at most {MAX_ENVIRONMENT_BYTES} bytes of names and values are allowed");
        return Err(Fault::field("environment", message));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_refused(name: &str) -> bool {
    REFUSED_NAMES.contains(&name) || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn directory(path: &str) -> Result<(), Fault> {
    let inside = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        Some(_) | None if path.starts_with('/') => return Err(outside()),
        Some(_) | None => path,
    };
    if path.is_empty() || path.len() > MAX_DIRECTORY_BYTES || path.contains('\0') {
        let message = format!("1 to {MAX_DIRECTORY_BYTES} bytes without NUL are allowed");
        return Err(Fault::field("working_directory", message));
    }
    let mut depth = 0_usize;
    for part in inside.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or_else(outside)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

fn outside() -> Fault {
    Fault::field("working_directory", "a path inside the session's own directory, /workspace, is needed")
}

#[cfg(test)]
mod tests {
    use repltool_protocol::rest::ProblemCode;
    use serde_json::{Value, json};

    use super::*;

    fn config(more: Value) -> SessionConfig {
        let mut body = json!({"language": "python"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    }

    fn refused(result: Result<(), Fault>) -> String {
        let fault = result.unwrap_err();
        assert_eq!(fault.code(), ProblemCode::InvalidRequest);
        fault.document("x").errors.remove(0).field
    }

    #[test]
    fn sessions_within_the_bounds_are_accepted() {
        for more in [
            json!({}),
            json!({"sandbox_mode": "relaxed"}),
            json!({"environment": {"A": "", "_b9": "a\nb", "LDX": "1", "PS1": "> "}}),
            json!({"resource_limits": {"max_memory_mb": 32, "max_cpu_time": 300}}),
        ] {
            assert_eq!(session(&config(more.clone())), Ok(()), "{more}");
        }
    }

    #[test]
    fn the_wrong_field_is_named() {
        let many: serde_json::Map<_, _> = (0..101).map(|i| (format!("V{i}"), json!(""))).collect();
        for (more, field) in [
            (json!({"language": "bash"}), "language"),
            (json!({"sandbox_mode": "strict"}), "sandbox_mode"),
            (json!({"resource_limits": {"max_cpu_time": 0}}), "resource_limits.max_cpu_time"),
            (json!({"resource_limits": {"max_memory_mb": 15}}), "resource_limits.max_memory_mb"),
            (json!({"resource_limits": {"max_memory_mb": 31}}), "resource_limits.max_memory_mb"),
            (json!({"resource_limits": {"max_output_size": 1023}}), "resource_limits.max_output_size"),
            (json!({"resource_limits": {"max_expressions": 10_001}}), "resource_limits.max_expressions"),
            (json!({"environment": many}), "environment"),
            (json!({"environment": {"A": "x".repeat(32 * 1024)}}), "environment"),
            (json!({"environment": {"A": "\0"}}), "environment.A"),
            (json!({"environment": {"": "x"}}), "environment."),
            (json!({"environment": {"1A": "x"}}), "environment.1A"),
            (json!({"environment": {"A=B": "x"}}), "environment.A=B"),
            (json!({"environment": {"é": "x"}}), "environment.é"),
            (json!({"environment": {"A\nB": "x"}}), "environment.A\\nB"),
        ] {
            assert_eq!(refused(session(&config(more.clone()))), field, "{more}");
        }
    }

    #[test]
    fn variables_that_load_code_are_refused() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "BASH_ENV",
            "ENV",
            "PATH",
            "IFS",
        ] {
            let body = json!({"environment": {name: "x"}});
            assert_eq!(refused(session(&config(body))), format!("environment.{name}"));
        }
    }

    #[test]
    fn working_directories_stay_inside() {
        for path in ["a", "a/b", "./a", "a/../b", ".", "/workspace", "/workspace/a", "/workspace/a/..", "a//b", "é"] {
            assert_eq!(directory(path), Ok(()), "{path}");
        }
        let long = "a".repeat(1025);
        for path in [
            "",
            "..",
            "../../..",
            "a/../..",
            "ok/../../..",
            "/",
            "/etc",
            "/proc/1/root",
            "/tmp/link",
            "/workspaces",
            "/workspace/..",
            "/workspace/../etc",
            "//workspace",
            "a\0b",
            &long,
        ] {
            assert_eq!(refused(directory(path)), "working_directory", "{path:?}");
        }
    }

    #[test]
    fn code_is_counted_in_characters() {
        for (code, fits) in [
            ("é".repeat(MAX_CODE_CHARS), true),
            ("#".repeat(MAX_CODE_CHARS), true),
            ("#".repeat(MAX_CODE_CHARS + 1), false),
            ("é".repeat(MAX_CODE_CHARS + 1), false),
            (String::new(), false),
        ] {
            assert_eq!(run(&code, None, None).is_ok(), fits, "{} bytes", code.len());
        }
    }

    #[test]
    fn executions_name_the_wrong_field() {
        assert_eq!(run("1", Some(100), None), Ok(()));
        assert_eq!(run("1", Some(300_000), None), Ok(()));
        assert_eq!(refused(run("1", Some(99), None)), "timeout_ms");
        assert_eq!(refused(run("1", Some(300_001), None)), "timeout_ms");
        assert_eq!(refused(run("1", None, Some(""))), "stdin");
        let request: ExecutionRequest = serde_json::from_value(json!({"code": "1", "session_id": "other123"})).unwrap();
        assert_eq!(refused(execution(&request, "abcdefgh")), "session_id");
        assert_eq!(execution(&request, "other123"), Ok(()));
    }
}
