//! What changes in a group that processes are in already.

use super::{CgroupError, Group, set};

impl Group {
    /// Gives back the usual share of the processors.
    ///
    /// # Errors
    /// [`CgroupError::Limit`]
    pub fn share_processors(&self) -> Result<(), CgroupError> {
        self.share.as_ref().map_or(Ok(()), |(file, _, usual)| set(file.clone(), usual))
    }

    /// Sets another memory limit, where there is one.
    ///
    /// # Errors
    /// [`CgroupError::Limit`], for example `EBUSY` where more is in use already.
    pub fn set_memory(&self, memory_bytes: u64) -> Result<(), CgroupError> {
        let before = self.memory_bytes.replace(memory_bytes);
        // Memory with swap may never be the lower of the two.
        let files: Vec<_> = match memory_bytes < before {
            true => self.memory.iter().collect(),
            false => self.memory.iter().rev().collect(),
        };
        files.into_iter().filter(|_| memory_bytes != before).try_for_each(|file| set(file.clone(), memory_bytes))
    }

    /// Leaves the processors to others as long as those want them.
    ///
    /// # Errors
    /// [`CgroupError::Limit`]
    pub fn yield_processors(&self) -> Result<(), CgroupError> {
        self.share.as_ref().map_or(Ok(()), |(file, least, _)| set(file.clone(), least))
    }
}
