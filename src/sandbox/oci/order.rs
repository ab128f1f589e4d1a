//! What init is told by the supervisor when it cannot be a copy of it: the program and all that is to hold it.

use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use repltool_protocol::rest::SandboxMode;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use serde::{Deserialize, Serialize};

use crate::sandbox::plan::Plan;
use crate::sandbox::{Identity, Interrupt, Kind, Limits, Request};

/// The parts of a [`Request`] that matter inside, and of the level's policy what was compiled.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) mode: SandboxMode,
    pub(super) kind: Kind,
    pub(super) identity: Identity,
    pub(super) interrupt: Interrupt,
    pub(super) argv: Vec<CString>,
    pub(super) environment: Vec<CString>,
    pub(super) cwd: String,
    pub(super) binds: Vec<PathBuf>,
    pub(super) limits: Limits,
    pub(super) memory_is_counted: bool,
    pub(super) processes_are_counted: bool,
    filter: Vec<(u16, u8, u8, u32)>,
}

impl Order {
    pub(super) fn new(plan: &Plan, request: &Request<'_>, limits: Limits, filter: &[libc::sock_filter]) -> Self {
        Self {
            mode: request.mode,
            kind: request.kind,
            identity: request.identity,
            interrupt: request.interrupt,
            argv: request.argv.to_vec(),
            environment: request.environment.to_vec(),
            cwd: request.cwd.to_owned(),
            binds: request.binds.to_vec(),
            limits,
            memory_is_counted: plan.host.has_memory(),
            processes_are_counted: plan.host.has_processes(),
            filter: filter.iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect(),
        }
    }

    /// Writes it into a file in memory that nobody can change any more.
    pub(super) fn seal(&self) -> io::Result<OwnedFd> {
        let memory = memfd_create("order", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = std::fs::File::from(memory);
        file.write_all(&serde_json::to_vec(self)?)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(file.into())
    }

    /// Reads it.
    pub(super) fn read(file: &OwnedFd) -> io::Result<Self> {
        Ok(serde_json::from_slice(&super::read_whole(file)?)?)
    }

    pub(super) fn filter(&self) -> Vec<libc::sock_filter> {
        self.filter.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect()
    }
}
