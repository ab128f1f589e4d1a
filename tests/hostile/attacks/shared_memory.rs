//! Shared memory of the System V kind, which has no owner but the host's table.

use std::io;

use super::call;

const BYTES: usize = 4096;

/// Makes some that everybody may write; gives its id.
pub fn make() -> i32 {
    let flags = libc::IPC_CREAT | 0o666;
    let id = call(libc::SYS_shmget, &[libc::IPC_PRIVATE as usize, BYTES, flags as usize]).unwrap();
    i32::try_from(id).unwrap()
}

/// Maps it into this process.
pub fn attach(id: i32) -> io::Result<()> {
    call(libc::SYS_shmat, &[id as usize, 0, 0]).map(drop)
}

/// Takes it away.
pub fn remove(id: i32) {
    let _ = call(libc::SYS_shmctl, &[id as usize, libc::IPC_RMID as usize, 0]);
}
