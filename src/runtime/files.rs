//! Asks about the files of a sandbox's working directory, and what comes of them.

use std::os::fd::OwnedFd;

pub use crate::supervisor::link::init::FileAsk;

/// What init answered.
#[derive(Debug)]
pub struct FileAnswer {
    /// What Linux said; 0 if it was done.
    pub errno: i32,
    /// For `create`, whether the path existed before.
    pub existed: bool,
    /// The descriptor, where the ask says that one comes.
    pub descriptor: Option<OwnedFd>,
}
