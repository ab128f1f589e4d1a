//! The files of a TLS listener on their way to the gateway: too large for a packet, so each travels as a descriptor of memory
//! that nobody can change any more. The next gateway is given the same ones, whatever this one has done.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use zeroize::Zeroizing;

use super::LinkError;

/// The largest file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A certificate chain, its key and, where clients need a certificate, their authorities: PEM, in this order.
#[derive(Debug)]
pub struct CertificateFds(Vec<OwnedFd>);

impl CertificateFds {
    /// Copies the files into memory that is sealed.
    ///
    /// # Errors
    /// Those of memfd_create(2) and write(2).
    pub fn new(chain: &[u8], key: &[u8], client_ca: Option<&[u8]>) -> io::Result<Self> {
        let files = [Some(chain), Some(key), client_ca];
        files.into_iter().flatten().map(sealed).collect::<io::Result<_>>().map(Self)
    }

    /// Takes what came with a message.
    ///
    /// # Errors
    /// [`LinkError::Descriptors`] if it is neither two nor three.
    pub fn received(fds: Vec<OwnedFd>) -> Result<Self, LinkError> {
        if matches!(fds.len(), 2 | 3) { Ok(Self(fds)) } else { Err(LinkError::Descriptors) }
    }

    /// The descriptors once more, to be sent.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        self.0.iter().map(OwnedFd::try_clone).collect()
    }

    /// The chain, the key and the authorities.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn read(self) -> io::Result<(Vec<u8>, Zeroizing<Vec<u8>>, Option<Vec<u8>>)> {
        let mut files = self.0.into_iter().map(content);
        let mut next = || files.next().transpose();
        let missing = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let chain = next()?.ok_or_else(missing)?;
        let key = Zeroizing::new(next()?.ok_or_else(missing)?);
        Ok((chain, key, next()?))
    }
}

fn sealed(content: &[u8]) -> io::Result<OwnedFd> {
    let memory = memfd_create("certificate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(content)?;
    fcntl_add_seals(file.as_fd(), SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Reads from the start, wherever another process that shares the descriptor has read to.
fn content(memory: OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(memory);
    let length = file.metadata()?.len();
    if length > MAX_BYTES {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let mut content = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_can_be_read_again_and_not_be_changed() {
        let sent = CertificateFds::new(b"chain", &[7; 70_000], Some(b"authorities")).expect("memory");
        for _ in 0..2 {
            let received = CertificateFds::received(sent.copies().expect("copies")).expect("three");
            let (chain, key, client_ca) = received.read().expect("it is read");
            assert_eq!(
                (chain.as_slice(), key.len(), client_ca.as_deref()),
                (&b"chain"[..], 70_000, Some(&b"authorities"[..]))
            );
        }
        for copy in sent.copies().expect("copies") {
            let file = File::from(copy);
            assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
        }
    }

    #[test]
    fn no_authorities_are_none() {
        let sent = CertificateFds::new(b"chain", b"key", None).expect("memory");
        assert_eq!(sent.read().expect("it is read").2, None);
        let one = CertificateFds::new(b"", b"", None).and_then(|it| it.copies()).map(|mut fds| fds.split_off(1));
        assert!(CertificateFds::received(one.expect("one")).is_err());
    }
}
