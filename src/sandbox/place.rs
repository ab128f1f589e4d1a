//! Where a program finds itself: in a tree of its own, or between the host's files, as far as Landlock lets it.

use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use super::Request;
use super::error::SpawnError;
use super::plan::Plan;
use super::policy::{self, Access, Network};
use super::reduced::Ground;
use super::root::Parts;

/// The files of a sandbox, as the supervisor prepares them.
pub(super) enum Root<'a> {
    /// A tree of its own.
    Own(Parts<'a>),
    /// Those of the host.
    Hosts(Ground),
}

impl<'a> Root<'a> {
    /// What a level shows on this host.
    pub(super) fn prepare(plan: &Plan, level: &policy::Level, request: &Request<'a>) -> Result<Self, SpawnError> {
        match &plan.reduced {
            None => Ok(Self::Own(Parts::prepare(plan, level, request)?)),
            Some(drivers) => Ok(Self::Hosts(Ground::prepare(plan, drivers, level, request)?)),
        }
    }

    pub(super) fn place(&'a self, level: &policy::Level, request: &Request<'a>) -> Place<'a> {
        match self {
            Self::Own(parts) => Place::in_tree(parts.workdir(), level, request),
            Self::Hosts(ground) => Place {
                workdir: ground.workdir.as_fd(),
                argv: &ground.argv,
                workspace: &ground.workspace,
                stdin: &ground.stdin,
                paths: Some(&ground.paths),
                network: Network::None,
            },
        }
    }
}

/// What depends on it.
pub(super) struct Place<'a> {
    /// The root of the working directory; a path only.
    pub(super) workdir: BorrowedFd<'a>,
    /// The program and its arguments.
    pub(super) argv: &'a [CString],
    /// The working directory.
    pub(super) workspace: &'a Path,
    /// The FIFO that the program has as standard input.
    pub(super) stdin: &'a Path,
    /// What Landlock shows, where it is not what the policy says of a tree of its own.
    pub(super) paths: Option<&'a [(PathBuf, Access)]>,
    /// The network that the program gets: none but one of its own.
    pub(super) network: Network,
}

impl<'a> Place<'a> {
    /// In a tree of its own, whoever made it.
    pub(super) fn in_tree(workdir: BorrowedFd<'a>, level: &policy::Level, request: &Request<'a>) -> Self {
        Self {
            workdir,
            argv: request.argv,
            workspace: Path::new(policy::WORKSPACE),
            stdin: Path::new(policy::STDIN),
            paths: None,
            network: level.network,
        }
    }
}
