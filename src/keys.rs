//! The secret that signs tokens: where it lies, how it is made, and when it is not fit to be used.
//!
//! It knows files and nothing of tokens. The data directory is made here too, since it must be closed to others before
//! the first key is written into it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use zeroize::{Zeroize, Zeroizing};

/// The shortest secret, in bytes: as long as the hash it keys (RFC 7518, 3.2).
pub const MIN_SECRET_BYTES: usize = 32;
/// The largest key file, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// The name of the server's own key in its data directory.
const OWN_KEY: &str = "signing.key";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no key in the data directory yet.
    #[error("there is no key in {}; start `repltool serve` with this data directory first", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("the key file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others can read or write it.
    #[error("the key file {path} is open to others; give it to the server's user and run `chmod 600 {path}`", path = .0.display())]
    Open(PathBuf),
    /// A folder, FIFO or device, or too large.
    #[error("the key file {} must be a regular file of at most 64 KiB", .0.display())]
    Kind(PathBuf),
    /// Fewer than [`MIN_SECRET_BYTES`].
    #[error("the key in {} is shorter than 32 bytes; make one with `openssl rand -hex 32`", .0.display())]
    Short(PathBuf),
    /// A key of another kind. Taken as a secret, a public key would let anybody sign.
    #[error("{} holds a PEM or JSON key; this version takes a secret, as text, hex digits or bytes", .0.display())]
    Form(PathBuf),
    /// The key cannot be written.
    #[error("the key file {} cannot be made", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The data directory cannot be made, or is not ours.
    #[error("the data directory {} cannot be used", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Makes the data directory, or takes the one that is there, and closes it to others (0700).
///
/// # Errors
/// [`KeyError::DataDir`], also if it belongs to somebody else.
pub fn prepare_data_dir(data_dir: &Path) -> Result<(), KeyError> {
    let prepare = || {
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        let metadata = std::fs::metadata(data_dir)?;
        if !belongs_to_us(metadata.uid()) {
            return Err(std::io::Error::other("it belongs to another user"));
        }
        // Where there are no namespaces, other users pass through it. What is in it is closed by itself.
        if metadata.mode() & 0o066 != 0 {
            std::fs::set_permissions(data_dir, Permissions::from_mode(0o700))?;
        }
        Ok(())
    };
    prepare().map_err(|source| KeyError::DataDir { path: data_dir.to_owned(), source })
}

/// Reads the configured key, or else the server's own, which is made if it is not there.
///
/// # Errors
/// See [`KeyError`].
pub fn load_or_create(data_dir: &Path, key_file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    if let Some(path) = key_file {
        return read(path);
    }
    prepare_data_dir(data_dir)?;
    let path = data_dir.join(OWN_KEY);
    if !path.exists() {
        create(data_dir, &path).map_err(|source| KeyError::Create { path: path.clone(), source })?;
    }
    read(&path)
}

/// Reads the configured key, or else the server's own, and makes none: a token of a key that no server has is of no use.
///
/// # Errors
/// See [`KeyError`].
pub fn load(data_dir: &Path, key_file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    if let Some(path) = key_file {
        return read(path);
    }
    match read(&data_dir.join(OWN_KEY)) {
        Err(KeyError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(KeyError::Missing(data_dir.to_owned()))
        }
        other => other,
    }
}

/// As root any owner will do: the administrator may have given the file to the user of a service.
fn belongs_to_us(uid: u32) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || uid == own.as_raw() || uid == 0
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let secret = parse(&read_closed(path)?).ok_or_else(|| KeyError::Form(path.to_owned()))?;
    if secret.len() < MIN_SECRET_BYTES {
        return Err(KeyError::Short(path.to_owned()));
    }
    Ok(secret)
}

/// Reads a file that holds a key of any kind, if nobody else can read or write it.
///
/// # Errors
/// [`KeyError::Read`], [`KeyError::Kind`] or [`KeyError::Open`].
pub fn read_closed(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let failed = |source| KeyError::Read { path: path.to_owned(), source };
    // NONBLOCK, because opening a FIFO would wait for a writer. Links are followed: secrets are mounted that way.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    let regular = FileType::from_raw_mode(stat.st_mode).is_file();
    if !regular || !(0..=MAX_FILE_BYTES as i64).contains(&stat.st_size) {
        return Err(KeyError::Kind(path.to_owned()));
    }
    if stat.st_mode & 0o077 != 0 || !belongs_to_us(stat.st_uid) {
        return Err(KeyError::Open(path.to_owned()));
    }
    // Room for the whole file, so that growing leaves no copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES as usize));
    File::from(file).take(MAX_FILE_BYTES).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

/// Hex digits, two for each of at least 32 bytes, are decoded; text loses the line break at its end; other bytes are
/// taken as they are. None for keys of another kind.
fn parse(content: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let start = content.trim_ascii_start();
    if start.starts_with(b"-----BEGIN") || start.starts_with(b"{") {
        return None;
    }
    let text = content.trim_ascii();
    if text.len() >= 2 * MIN_SECRET_BYTES && text.len().is_multiple_of(2) && text.iter().all(u8::is_ascii_hexdigit) {
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        return Some(Zeroizing::new(text.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()));
    }
    let secret = if content.is_ascii() { content.trim_ascii_end() } else { content };
    Some(Zeroizing::new(secret.to_vec()))
}

/// Writes a new key beside its place and moves it there in one step: nobody ever reads half a key, and of two servers
/// that start at once one wins and the other takes what it finds.
fn create(data_dir: &Path, path: &Path) -> std::io::Result<()> {
    let mut secret = Zeroizing::new([0_u8; MIN_SECRET_BYTES]);
    rand::fill(&mut secret[..]);
    let mut text = Zeroizing::new(String::with_capacity(2 * MIN_SECRET_BYTES + 1));
    for byte in secret.iter() {
        for nibble in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    text.push('\n');
    let beside = data_dir.join(format!("{OWN_KEY}.{:016x}", rand::random::<u64>()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&beside, flags, Mode::RUSR | Mode::WUSR)?);
    let moved = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| {
        match rustix::fs::renameat_with(CWD, &beside, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => File::open(data_dir)?.sync_all(),
            Err(Errno::EXIST) => std::fs::remove_file(&beside),
            Err(errno) => Err(errno.into()),
        }
    });
    secret.zeroize();
    if moved.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn key_file(folder: &tempfile::TempDir, content: &[u8]) -> PathBuf {
        let path = folder.path().join("key");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn loaded(content: &[u8]) -> Result<Vec<u8>, KeyError> {
        let folder = folder();
        load(folder.path(), Some(&key_file(&folder, content))).map(|key| key.to_vec())
    }

    #[test]
    fn the_first_start_makes_a_key_that_stays() {
        let folder = folder();
        let data_dir = folder.path().join("state/repltool");
        let key = load_or_create(&data_dir, None).unwrap();
        assert_eq!(key.len(), 32);
        assert_eq!((mode(&data_dir), mode(&data_dir.join(OWN_KEY))), (0o700, 0o600));
        assert_eq!(*load_or_create(&data_dir, None).unwrap(), *key);
        assert_eq!(*load(&data_dir, None).unwrap(), *key);
        assert_eq!(std::fs::read_dir(&data_dir).unwrap().count(), 1);
    }

    #[test]
    fn starts_at_the_same_time_agree_on_one_key() {
        let folder = folder();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let start = || scope.spawn(|| load_or_create(folder.path(), None).unwrap().to_vec());
            let starts: Vec<_> = (0..8).map(|_| start()).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_open_data_directory_is_closed() {
        let folder = folder();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        prepare_data_dir(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o700);
    }

    #[test]
    fn no_key_is_made_for_a_client() {
        let folder = folder();
        assert!(matches!(load(folder.path(), None), Err(KeyError::Missing(_))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn keys_are_read_as_hex_text_or_bytes() {
        assert_eq!(loaded("ab".repeat(32).as_bytes()).unwrap(), [0xab; 32]);
        assert_eq!(loaded(format!("{}\r\n", "0F".repeat(40)).as_bytes()).unwrap(), [0x0f; 40]);
        assert_eq!(loaded(b"a text of more than 32 characters, and one line\n").unwrap().len(), 47);
        let bytes = [&[0xff; 40][..], b"\n"].concat();
        assert_eq!(loaded(&bytes).unwrap(), bytes);
    }

    #[test]
    fn keys_that_are_not_fit_are_refused() {
        assert!(matches!(loaded(b""), Err(KeyError::Short(_))));
        assert!(matches!(loaded("ab".repeat(15).as_bytes()), Err(KeyError::Short(_))));
        assert!(matches!(loaded(&[b' '; 40]), Err(KeyError::Short(_))));
        assert!(matches!(loaded(b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0C\n"), Err(KeyError::Form(_))));
        assert!(matches!(loaded(b"\n{\"kty\":\"oct\",\"k\":\"aaaaaaaaaaaaaaaaaaaaaa\"}"), Err(KeyError::Form(_))));
        assert!(matches!(loaded(&vec![7; MAX_FILE_BYTES as usize + 1]), Err(KeyError::Kind(_))));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = folder();
        let path = key_file(&folder, &[7; 40]);
        for open in [0o640, 0o604, 0o620, 0o602] {
            std::fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            assert!(matches!(load(folder.path(), Some(&path)), Err(KeyError::Open(_))), "{open:o}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let folder = folder();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(matches!(load(folder.path(), Some(&fifo)), Err(KeyError::Kind(_))));
        assert!(matches!(load(folder.path(), Some(folder.path())), Err(KeyError::Kind(_))));
        assert!(matches!(load(folder.path(), Some(Path::new("/dev/zero"))), Err(KeyError::Kind(_))));
        assert!(matches!(load(folder.path(), Some(Path::new("/nowhere"))), Err(KeyError::Read { .. })));
    }
}
