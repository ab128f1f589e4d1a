//! What sandboxes get, and how their levels differ.

use repltool_protocol::rest::SandboxMode;
use serde::{Deserialize, Serialize};

/// What every sandbox gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Whether the server starts where Linux gives no namespaces, with what else there is.
    pub allow_reduced_isolation: bool,
    /// The levels that clients may ask for. The supervisor makes sandboxes of no other.
    pub levels: Vec<SandboxMode>,
    /// What makes the sandboxes of levels that say nothing else.
    pub backend: Backend,
    /// The container runtime of [`Backend::Oci`]: a name that is looked for in PATH, or an absolute path.
    pub oci_runtime: String,
    /// MiB of a session's working directory, and of its `/tmp`.
    pub disk_mb: u64,
    /// Processes and threads of one session, by level.
    pub max_processes: MaxProcesses,
    /// Violations of one session in a minute beyond which it is ended.
    pub violations_per_minute: u32,
    /// The level `strict`.
    pub strict: Level,
    /// The level `standard`.
    pub standard: StandardLevel,
    /// The level `relaxed`.
    pub relaxed: RelaxedLevel,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            allow_reduced_isolation: false,
            levels: vec![SandboxMode::Strict, SandboxMode::Standard, SandboxMode::Relaxed],
            backend: Backend::Native,
            oci_runtime: "runc".to_owned(),
            disk_mb: 64,
            max_processes: MaxProcesses::default(),
            violations_per_minute: 100,
            strict: Level::default(),
            standard: StandardLevel::default(),
            relaxed: RelaxedLevel::default(),
        }
    }
}

impl Sandbox {
    /// What makes the sandboxes of a level.
    pub fn backend(&self, mode: SandboxMode) -> Backend {
        let own = match mode {
            SandboxMode::Strict => self.strict.backend,
            SandboxMode::Standard => self.standard.backend,
            SandboxMode::Relaxed => self.relaxed.backend,
        };
        own.unwrap_or(self.backend)
    }

    /// What is done at a level about code that breaks its policy.
    pub fn policy(&self, mode: SandboxMode) -> PolicyAction {
        match mode {
            SandboxMode::Strict => self.strict.policy,
            SandboxMode::Standard => self.standard.policy,
            SandboxMode::Relaxed => self.relaxed.policy,
        }
    }

    /// What programs may import at a level: the lists for Python and for JavaScript. An entry is the name of a module,
    /// `default` for the built-in list of the level, `*` for everything, or `!name` for what is not allowed whatever
    /// else the list says.
    pub fn modules(&self, mode: SandboxMode) -> (&[String], &[String]) {
        match mode {
            SandboxMode::Strict => (&self.strict.python_modules, &self.strict.javascript_modules),
            SandboxMode::Standard => (&self.standard.python_modules, &self.standard.javascript_modules),
            SandboxMode::Relaxed => (&self.relaxed.python_modules, &self.relaxed.javascript_modules),
        }
    }

    /// Processes and threads of one session at a level.
    pub fn max_processes(&self, mode: SandboxMode) -> u32 {
        match mode {
            SandboxMode::Strict => self.max_processes.strict,
            SandboxMode::Standard => self.max_processes.standard,
            SandboxMode::Relaxed => self.max_processes.relaxed,
        }
    }
}

/// What makes a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The server itself.
    Native,
    /// A container runtime.
    Oci,
}

/// Processes and threads of one session, for each level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaxProcesses {
    /// In `strict`. Node has 7 threads before it does anything.
    pub strict: u32,
    /// In `standard`.
    pub standard: u32,
    /// In `relaxed`.
    pub relaxed: u32,
}

impl Default for MaxProcesses {
    fn default() -> Self {
        Self { strict: 32, standard: 64, relaxed: 64 }
    }
}

/// Settings of one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Level {
    /// What makes its sandboxes, if not what makes those of all levels.
    pub backend: Option<Backend>,
    /// What is done about code that breaks the policy.
    pub policy: PolicyAction,
    /// What Python programs may import, see [`Sandbox::modules`].
    pub python_modules: Vec<String>,
    /// What JavaScript programs may import, see [`Sandbox::modules`].
    pub javascript_modules: Vec<String>,
}

impl Default for Level {
    fn default() -> Self {
        Self { backend: None, policy: PolicyAction::Refuse, python_modules: built_in(), javascript_modules: built_in() }
    }
}

/// Settings of the level `standard`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StandardLevel {
    /// What makes its sandboxes, if not what makes those of all levels.
    pub backend: Option<Backend>,
    /// What is done about code that breaks the policy.
    pub policy: PolicyAction,
    /// What Python programs may import, see [`Sandbox::modules`].
    pub python_modules: Vec<String>,
    /// What JavaScript programs may import, see [`Sandbox::modules`].
    pub javascript_modules: Vec<String>,
    /// The programs that Bash has.
    pub commands: Commands,
}

impl Default for StandardLevel {
    fn default() -> Self {
        let Level { backend, policy, python_modules, javascript_modules } = Level::default();
        Self { backend, policy, python_modules, javascript_modules, commands: Commands::Utilities }
    }
}

/// Settings of the level `relaxed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelaxedLevel {
    /// What makes its sandboxes, if not what makes those of all levels.
    pub backend: Option<Backend>,
    /// What is done about code that breaks the policy.
    pub policy: PolicyAction,
    /// What Python programs may import, see [`Sandbox::modules`].
    pub python_modules: Vec<String>,
    /// What JavaScript programs may import, see [`Sandbox::modules`].
    pub javascript_modules: Vec<String>,
}

impl Default for RelaxedLevel {
    fn default() -> Self {
        let Level { backend, python_modules, javascript_modules, .. } = Level::default();
        Self { backend, policy: PolicyAction::Record, python_modules, javascript_modules }
    }
}

fn built_in() -> Vec<String> {
    vec!["default".to_owned()]
}

/// What is done about code that breaks the policy on imports, or that the screening finds dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyAction {
    /// It does not run, or the import fails.
    Refuse,
    /// It runs, and its result names the violation.
    Warn,
    /// It runs, and the violation is only recorded.
    Record,
}

impl PolicyAction {
    /// As it is written in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Warn => "warn",
            Self::Record => "record",
        }
    }
}

/// The programs that Bash has in `standard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commands {
    /// The basic utilities: coreutils, findutils, grep, sed, awk, diffutils, gzip, tar.
    Utilities,
    /// None but Bash itself.
    Builtins,
}
