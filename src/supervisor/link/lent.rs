//! Bytes that are too many for a packet, or too secret for one: they travel as a descriptor of memory that nobody can
//! change any more, neither a gateway that was taken over nor a supervisor that has moved on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use zeroize::Zeroizing;

/// Puts bytes where whoever gets the descriptor can read them.
///
/// # Errors
/// Those of memfd_create(2), write(2) and of sealing.
pub fn lend(bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = File::from(memfd_create("lent", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    memory.write_all_at(bytes, 0)?;
    fcntl_add_seals(&memory, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(memory.into())
}

/// Reads what lies behind a descriptor of [`lend`], at most `max_bytes`. The copy is wiped when it is dropped.
///
/// # Errors
/// Those of reading; `InvalidData` if there is more.
pub fn borrowed(memory: OwnedFd, max_bytes: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let length = usize::try_from(fstat(memory.as_fd())?.st_size).unwrap_or(usize::MAX);
    if length > max_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more was lent than is taken"));
    }
    let mut bytes = Zeroizing::new(vec![0; length]);
    File::from(memory).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_whole_and_cannot_be_changed() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let memory = lend(&bytes).unwrap();
        let copy = File::from(memory.try_clone().unwrap());
        assert!(copy.write_all_at(b"x", 0).is_err() && copy.set_len(1).is_err());
        assert!(copy.write_all_at(b"x", 100_000).is_err() && copy.set_len(100_001).is_err());
        assert_eq!(*borrowed(memory.try_clone().unwrap(), 100_000).unwrap(), bytes);
        assert_eq!(borrowed(memory, 99_999).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
