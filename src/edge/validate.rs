//! The bounds of what clients send, beyond what its types say. Pure: no request, no session, no clock.

use repltool_protocol::query::QueryKind;
use repltool_protocol::rest::capabilities::ModeSupport;
use repltool_protocol::rest::{
    ExecutionRequest, Language, MAX_CODE_CHARS, ResourceLimits, SandboxMode, SessionConfig, TIMEOUT_MS,
};

use super::environment;
use super::problem::Fault;
use crate::session::{Input, Query};

/// The longest `working_directory`.
const MAX_DIRECTORY_BYTES: usize = 1024;
/// The longest name in it.
const MAX_NAME_BYTES: usize = 255;
/// Where a session's own directory is, as its program sees it.
const WORKSPACE: &str = "/workspace";

/// Checks a session to be created, and lowers what it asks for to what its level gives. `offered`: the levels of this
/// server.
///
/// # Errors
/// The first wrong field.
pub(super) fn session(config: &mut SessionConfig, offered: &[ModeSupport]) -> Result<(), Fault> {
    let mode = level(config.sandbox_mode, offered)?;
    limits(config.language, &config.resource_limits)?;
    environment::check(config)?;
    match &config.working_directory {
        Some(_) if mode.name == SandboxMode::Strict => {
            return Err(Fault::field("working_directory", "a strict session has no directory"));
        }
        Some(path) => directory(path)?,
        None => {}
    }
    let most = mode.max_memory_mb.max(min_memory_mb(config.language));
    config.resource_limits.max_memory_mb = config.resource_limits.max_memory_mb.min(most);
    Ok(())
}

fn level(wanted: SandboxMode, offered: &[ModeSupport]) -> Result<&ModeSupport, Fault> {
    let name = |mode| match mode {
        SandboxMode::Strict => "strict",
        SandboxMode::Standard => "standard",
        SandboxMode::Relaxed => "relaxed",
    };
    offered.iter().find(|mode| mode.name == wanted).ok_or_else(|| {
        let names: Vec<_> = offered.iter().map(|mode| name(mode.name)).collect();
        let (wanted, offers) = (name(wanted), names.join(", "));
        let message = format!("{wanted} is not offered here: this server has {offers}; its operator decides");
        Fault::field("sandbox_mode", message)
    })
}

/// Checks an execution; `session_id` is the one in the path.
///
/// # Errors
/// The first wrong field.
pub(super) fn execution(language: Language, request: &ExecutionRequest, session_id: &str) -> Result<(), Fault> {
    if request.session_id.as_deref().is_some_and(|it| it != session_id) {
        return Err(Fault::field("session_id", "not the session in the path"));
    }
    run(language, &request.code, request.timeout_ms)
}

/// Checks what both an execute body and an `execute` message hold.
///
/// # Errors
/// The first wrong field.
pub(super) fn run(language: Language, code: &str, timeout_ms: Option<u64>) -> Result<(), Fault> {
    if code.is_empty() {
        return Err(Fault::field("code", "at least 1 character is needed"));
    }
    readable(language, code)?;
    match timeout_ms {
        Some(timeout_ms) => within("timeout_ms", timeout_ms, &TIMEOUT_MS),
        None => Ok(()),
    }
}

/// Checks a question, and makes it one: without a cursor it is about the end of the code.
///
/// # Errors
/// The first wrong field.
pub(super) fn question(language: Language, kind: QueryKind, code: String, cursor: Option<u64>) -> Result<Query, Fault> {
    readable(language, &code)?;
    let end = code.chars().count() as u64;
    match cursor {
        Some(cursor) if cursor > end => Err(Fault::field("cursor", format!("beyond the end of the code, {end}"))),
        cursor => Ok(Query { kind, code, cursor: cursor.unwrap_or(end) }),
    }
}

/// Checks what a program is to be given to read, and makes it that.
///
/// # Errors
/// If it is nothing.
pub(super) fn input(data: Option<String>, eof: bool) -> Result<Input, Fault> {
    if data.is_none() && !eof {
        return Err(Fault::field("data", "a text is needed, or eof: true"));
    }
    Ok(Input { text: data.unwrap_or_default(), end: eof })
}

fn readable(language: Language, code: &str) -> Result<(), Fault> {
    // A character has at least one byte, so short texts need no counting.
    if code.len() > MAX_CODE_CHARS && code.chars().count() > MAX_CODE_CHARS {
        return Err(Fault::field("code", format!("at most {MAX_CODE_CHARS} characters are allowed")));
    }
    match language {
        Language::Bash | Language::Shell if code.contains('\0') => {
            Err(Fault::field("code", "the code of a shell cannot hold NUL"))
        }
        Language::Bash | Language::Shell | Language::Python | Language::Javascript => Ok(()),
    }
}

fn limits(language: Language, limits: &ResourceLimits) -> Result<(), Fault> {
    within("resource_limits.max_cpu_time", limits.max_cpu_time, &ResourceLimits::CPU_TIME)?;
    within("resource_limits.max_memory_mb", limits.max_memory_mb, &ResourceLimits::MEMORY_MB)?;
    within("resource_limits.max_output_size", limits.max_output_size, &ResourceLimits::OUTPUT_SIZE)?;
    within("resource_limits.max_expressions", limits.max_expressions, &ResourceLimits::EXPRESSIONS)?;
    let least = min_memory_mb(language);
    let name = match language {
        Language::Python => "python",
        Language::Javascript => "javascript",
        Language::Bash => "bash",
        Language::Shell => "shell",
    };
    if limits.max_memory_mb < least {
        return Err(Fault::field("resource_limits.max_memory_mb", format!("{name} needs at least {least} to start")));
    }
    Ok(())
}

/// Below this, in MiB, the interpreter of a language does not start.
pub(super) fn min_memory_mb(language: Language) -> u64 {
    match language {
        Language::Python => 32,
        Language::Javascript => 64,
        Language::Bash | Language::Shell => 16,
    }
}

fn within(field: &str, value: u64, bounds: &std::ops::RangeInclusive<u64>) -> Result<(), Fault> {
    if bounds.contains(&value) {
        return Ok(());
    }
    Err(Fault::field(field, format!("{value} is not within {} to {}", bounds.start(), bounds.end())))
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
            name if name.len() > MAX_NAME_BYTES => {
                let message = format!("a name has at most {MAX_NAME_BYTES} bytes");
                return Err(Fault::field("working_directory", message));
            }
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

    const PYTHON: Language = Language::Python;
    const ALL: [SandboxMode; 3] = [SandboxMode::Strict, SandboxMode::Standard, SandboxMode::Relaxed];

    fn levels(names: &[SandboxMode]) -> Vec<ModeSupport> {
        let sandbox = crate::config::Sandbox { levels: names.to_vec(), ..Default::default() };
        crate::edge::capabilities::modes(&sandbox)
    }

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
            json!({"environment": {"A": "", "_b9": "a\nb", "LDX": "1"}}),
            json!({"resource_limits": {"max_memory_mb": 32, "max_cpu_time": 300}}),
            json!({"language": "javascript", "resource_limits": {"max_memory_mb": 64}}),
            json!({"language": "bash", "resource_limits": {"max_memory_mb": 16}}),
            json!({"language": "shell", "resource_limits": {"max_memory_mb": 16}}),
        ] {
            assert_eq!(session(&mut config(more.clone()), &levels(&ALL)), Ok(()), "{more}");
        }
    }

    #[test]
    fn the_wrong_field_is_named() {
        for (more, field) in [
            (json!({"sandbox_mode": "strict", "working_directory": "a"}), "working_directory"),
            (json!({"resource_limits": {"max_cpu_time": 0}}), "resource_limits.max_cpu_time"),
            (json!({"resource_limits": {"max_memory_mb": 31}}), "resource_limits.max_memory_mb"),
            (
                json!({"language": "javascript", "resource_limits": {"max_memory_mb": 63}}),
                "resource_limits.max_memory_mb",
            ),
            (json!({"language": "shell", "resource_limits": {"max_memory_mb": 15}}), "resource_limits.max_memory_mb"),
            (json!({"resource_limits": {"max_output_size": 1023}}), "resource_limits.max_output_size"),
            (json!({"resource_limits": {"max_expressions": 10_001}}), "resource_limits.max_expressions"),
            (json!({"environment": {"LD_PRELOAD": "x"}}), "environment.LD_PRELOAD"),
            (json!({"working_directory": ".."}), "working_directory"),
        ] {
            assert_eq!(refused(session(&mut config(more.clone()), &levels(&ALL))), field, "{more}");
        }
    }

    #[test]
    fn a_level_that_is_not_offered_is_refused_with_those_that_are() {
        let offered = levels(&[SandboxMode::Strict, SandboxMode::Relaxed]);
        for more in [json!({}), json!({"sandbox_mode": "standard", "working_directory": "a"})] {
            let fault = session(&mut config(more), &offered).unwrap_err();
            let error = fault.document("x").errors.remove(0);
            assert_eq!(error.field, "sandbox_mode");
            assert!(error.message.contains("strict, relaxed; its operator decides"), "{}", error.message);
        }
    }

    #[test]
    fn a_strict_session_gets_less_memory_and_never_too_little_to_start() {
        let given = |language: &str, mode: &str, asked: Option<u64>| {
            let mut body = json!({"language": language, "sandbox_mode": mode});
            if let Some(asked) = asked {
                body["resource_limits"] = json!({"max_memory_mb": asked});
            }
            let mut config = config(body);
            session(&mut config, &levels(&ALL)).unwrap();
            config.resource_limits.max_memory_mb
        };
        for (language, asked, expected) in
            [("python", None, 128), ("javascript", Some(4096), 128), ("bash", Some(129), 128), ("shell", Some(16), 16)]
        {
            assert_eq!(given(language, "strict", asked), expected, "{language}");
            assert_eq!(given(language, "standard", asked), asked.unwrap_or(256), "{language}");
        }
        let mut tiny = levels(&ALL);
        tiny.iter_mut().for_each(|mode| mode.max_memory_mb = 1);
        let mut javascript = config(json!({"language": "javascript"}));
        session(&mut javascript, &tiny).unwrap();
        assert_eq!(javascript.resource_limits.max_memory_mb, 64);
    }

    #[test]
    fn working_directories_stay_inside() {
        for path in ["a", "a/b", "./a", "a/../b", ".", "/workspace", "/workspace/a", "/workspace/a/..", "a//b", "é"] {
            assert_eq!(directory(path), Ok(()), "{path}");
        }
        let (long, name) = ("a/".repeat(513), "a".repeat(256));
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
            &name,
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
            assert_eq!(run(PYTHON, &code, None).is_ok(), fits, "{} bytes", code.len());
        }
    }

    #[test]
    fn executions_name_the_wrong_field() {
        assert_eq!(run(PYTHON, "1", Some(100)), Ok(()));
        assert_eq!(run(PYTHON, "1", Some(300_000)), Ok(()));
        assert_eq!(refused(run(PYTHON, "1", Some(99))), "timeout_ms");
        assert_eq!(refused(run(PYTHON, "1", Some(300_001))), "timeout_ms");
        let request: ExecutionRequest = serde_json::from_value(json!({"code": "1", "session_id": "other123"})).unwrap();
        assert_eq!(refused(execution(PYTHON, &request, "abcdefgh")), "session_id");
        assert_eq!(execution(PYTHON, &request, "other123"), Ok(()));
    }

    #[test]
    fn code_of_a_shell_holds_no_nul() {
        for (language, fits) in
            [(PYTHON, true), (Language::Javascript, true), (Language::Bash, false), (Language::Shell, false)]
        {
            assert_eq!(run(language, "# \0", None).is_ok(), fits, "{language:?}");
            assert_eq!(question(language, QueryKind::IsComplete, "# \0".into(), None).is_ok(), fits, "{language:?}");
        }
    }

    #[test]
    fn cursors_count_code_points_and_lie_within_the_code() {
        let at = |code: &str, cursor| question(PYTHON, QueryKind::Complete, code.into(), cursor).map(|it| it.cursor);
        assert_eq!(at("é😀", None), Ok(2));
        assert_eq!(at("é😀", Some(2)), Ok(2));
        assert_eq!(at("", None), Ok(0));
        assert_eq!(at("abc", Some(0)), Ok(0));
        assert_eq!(refused(at("é😀", Some(3)).map(drop)), "cursor");
        assert_eq!(refused(at("", Some(u64::MAX)).map(drop)), "cursor");
        assert_eq!(refused(at(&"é".repeat(MAX_CODE_CHARS + 1), None).map(drop)), "code");
    }

    #[test]
    fn input_is_a_text_or_an_end() {
        assert_eq!(input(Some("a\n".into()), false), Ok(Input { text: "a\n".into(), end: false }));
        assert_eq!(input(None, true), Ok(Input { text: String::new(), end: true }));
        assert_eq!(input(Some(String::new()), true), Ok(Input { text: String::new(), end: true }));
        assert_eq!(refused(input(None, false).map(drop)), "data");
    }
}
