//! The environment variables that a client may give a session, as faults of its request.

use repltool_protocol::environment;
use repltool_protocol::rest::SessionConfig;

use super::problem::Fault;

/// Checks the variables of a session to be created.
///
/// # Errors
/// The first wrong variable.
pub(super) fn check(config: &SessionConfig) -> Result<(), Fault> {
    let variables = config.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    environment::check(variables).map_err(|error| {
        let field = match error.variable() {
            Some(name) => format!("environment.{}", name.escape_debug()),
            None => "environment".to_owned(),
        };
        Fault::field(field, error.to_string())
    })
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
