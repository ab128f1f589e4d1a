//! Signatures under the log. Who signs knows nothing of it but how far it has come: a count, which only grows, and the
//! hash of the last line.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::chain::{Hash, Head, hex, unhex};
use super::record::written;

/// The key that signs; 0600.
const KEY_FILE: &str = "audit.key";
/// Its public half.
const PUBLIC_FILE: &str = "audit.pub";
/// The last checkpoint that was signed.
const HEAD_FILE: &str = "audit.head";

/// A checkpoint: the log had come so far at this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The number of the last record.
    pub count: u64,
    /// The hash of its line.
    pub head: Hash,
    /// RFC 3339, UTC, microseconds.
    pub time: String,
    /// Ed25519, as hex digits.
    pub signature: String,
}

impl Seal {
    /// How far the log had come.
    pub fn head(&self) -> Head {
        Head { count: self.count, hash: self.head }
    }
}

fn message(head: Head, time: &str) -> Vec<u8> {
    format!("repltool audit checkpoint 1\n{}\n{}\n{time}\n", head.count, head.hash).into_bytes()
}

/// Why nothing can be signed or checked.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// A file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read or write the key.
    #[error("the key file {path} is open to others; run `chmod 600 {path}`", path = .0.display())]
    Open(PathBuf),
    /// A file does not hold what it is to hold.
    #[error(
        "{path} holds no {what}; bring back what was there, or move it away, and the next start makes a new one",
        path = path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// The last checkpoint has another key.
    #[error("{path} was not signed with {KEY_FILE}; bring the right key back, or move {path} away to begin anew", path = .0.display())]
    Foreign(PathBuf),
    /// The library refused.
    #[error("nothing can be signed")]
    Library,
}

/// The public half of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads it from a file that holds 64 hex digits.
    ///
    /// # Errors
    /// [`SealError::File`] and [`SealError::Content`].
    pub fn read(path: &Path) -> Result<Self, SealError> {
        let text = std::fs::read_to_string(path).map_err(at(path))?;
        let content = || SealError::Content { path: path.to_owned(), what: "public key" };
        unhex(text.trim_ascii()).map(Self).ok_or_else(content)
    }

    /// That of a data directory.
    ///
    /// # Errors
    /// As [`PublicKey::read`].
    pub fn of(data_dir: &Path) -> Result<Self, SealError> {
        Self::read(&data_dir.join(PUBLIC_FILE))
    }

    /// Whether a checkpoint was signed with this key.
    pub fn signed(&self, seal: &Seal) -> bool {
        let Some(signature) = unhex::<64>(&seal.signature) else { return false };
        UnparsedPublicKey::new(&ED25519, self.0).verify(&message(seal.head(), &seal.time), &signature).is_ok()
    }
}

/// The last checkpoint of a data directory; none if there was none yet.
///
/// # Errors
/// [`SealError::File`] and [`SealError::Content`].
pub fn last_seal(data_dir: &Path) -> Result<Option<Seal>, SealError> {
    read_seal(&data_dir.join(HEAD_FILE))
}

/// A checkpoint from a file; none if there is no file.
pub(super) fn read_seal(path: &Path) -> Result<Option<Seal>, SealError> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(at(path))?,
    };
    let content = |_| SealError::Content { path: path.to_owned(), what: "checkpoint" };
    serde_json::from_slice(&text).map(Some).map_err(content)
}

/// Signs. Its key does not leave it.
pub struct Sealer {
    data_dir: PathBuf,
    key: Ed25519KeyPair,
    last: Option<Seal>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Takes the key of a data directory, or makes one, and goes on after its last checkpoint.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn open(data_dir: &Path) -> Result<Self, SealError> {
        let key = load_or_create(&data_dir.join(KEY_FILE))?;
        let public = hex(key.public_key().as_ref());
        let path = data_dir.join(PUBLIC_FILE);
        if !std::fs::read_to_string(&path).is_ok_and(|found| found.trim_ascii() == public) {
            write(&path, format!("{public}\n").as_bytes(), 0o644).map_err(at(&path))?;
        }
        let sealer = Self { data_dir: data_dir.to_owned(), key, last: last_seal(data_dir)? };
        match &sealer.last {
            Some(last) if !sealer.public().signed(last) => Err(SealError::Foreign(data_dir.join(HEAD_FILE))),
            _ => Ok(sealer),
        }
    }

    fn public(&self) -> PublicKey {
        let mut public = [0; 32];
        public.copy_from_slice(self.key.public_key().as_ref());
        PublicKey(public)
    }

    /// The last checkpoint.
    pub fn last(&self) -> Option<&Seal> {
        self.last.as_ref()
    }

    /// Signs how far the log has come, and keeps that before it is told. None if it is not further than before; what was
    /// signed last is told again to who asks for it again.
    ///
    /// # Errors
    /// If it cannot be kept. Nothing is signed then.
    pub fn seal(&mut self, head: Head) -> Result<Option<Seal>, SealError> {
        let last = self.last.as_ref().map(Seal::head).unwrap_or_default();
        if head.count <= last.count {
            return Ok(self.last.clone().filter(|_| head == last));
        }
        let time = written(Timestamp::now());
        let signature = hex(self.key.sign(&message(head, &time)).as_ref());
        let seal = Seal { count: head.count, head: head.hash, time, signature };
        let path = self.data_dir.join(HEAD_FILE);
        let text = serde_json::to_string(&seal).map_err(|_| SealError::Library)? + "\n";
        write(&path, text.as_bytes(), 0o600).map_err(at(&path))?;
        self.last = Some(seal.clone());
        Ok(Some(seal))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SealError {
    move |source| SealError::File { path: path.to_owned(), source }
}

/// Writes a file in one step: nobody reads a part of it, and after a crash of the machine it is the old one or the new.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".audit-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

fn load_or_create(path: &Path) -> Result<Ed25519KeyPair, SealError> {
    if !path.exists() {
        let mut seed = Zeroizing::new([0_u8; 32]);
        rand::fill(&mut seed[..]);
        let text = Zeroizing::new(hex(&seed[..]) + "\n");
        write(path, text.as_bytes(), 0o600).map_err(at(path))?;
    }
    let metadata = path.metadata().map_err(at(path))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(SealError::Open(path.to_owned()));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(at(path))?);
    let content = || SealError::Content { path: path.to_owned(), what: "key of 64 hex digits" };
    let seed = Zeroizing::new(unhex::<32>(text.trim_ascii()).ok_or_else(content)?);
    Ed25519KeyPair::from_seed_unchecked(&seed[..]).map_err(|_| SealError::Library)
}
