//! A language as the supervisor starts it: what is executed, how it is interrupted, and what it needs around it.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;

use repltool_protocol::rest::{Language, SandboxMode};

use crate::sandbox;

/// Makes an argument from a memory ceiling in bytes.
pub type MemoryArgument = fn(u64) -> CString;

/// A language as the supervisor starts it.
#[derive(Debug)]
pub struct Program {
    /// Which one.
    pub language: Language,
    /// What its interpreter says its version is.
    pub version: String,
    /// The interpreter with its arguments.
    pub argv: Vec<CString>,
    /// The same as a zygote, which forks into sandboxes; none where it cannot be one.
    pub zygote_argv: Option<Vec<CString>>,
    /// How it is interrupted.
    pub interrupt: sandbox::Interrupt,
    /// From the ceiling in bytes, an argument that goes before the others: the interpreter's own idea of that ceiling.
    pub memory_argument: Option<MemoryArgument>,
    /// What holds its memory where there is no memory cgroup.
    pub memory_rlimit: sandbox::MemoryRlimit,
    /// Files put into the sandbox, read-only, at each level.
    pub files: HashMap<SandboxMode, sandbox::OwnFiles>,
    /// Host trees that the interpreter needs beside the system's own.
    pub binds: Vec<PathBuf>,
    /// All that the interpreter needs beside its libraries, where it is shown nothing else.
    pub own: Vec<PathBuf>,
}
