//! What `fuzz/` checks of the audit log.

use std::path::Path;

use super::chain::{head_of, number};
use super::{Kind, Record, Sealer, What, files, folder, verify};

/// Takes bytes for the end of a log: whatever they are, the next record has the next number.
///
/// # Panics
/// If a law is broken.
pub fn end(bytes: &[u8]) {
    let head = head_of(bytes).unwrap_or_default();
    let line = head.line(&Record::new(Kind::Gap, What { lost: Some(1), ..What::default() }));
    assert_eq!(number(&line), Some(head.count.saturating_add(1)));
    if head.count < u64::MAX {
        assert_eq!(head_of(&[bytes, b"\n", &line, b"\n"].concat()).map(|it| it.count), Some(head.count + 1));
    }
}

/// Takes bytes for a log in a data directory: whatever they are, none of them was signed.
///
/// # Panics
/// If a law is broken.
pub fn check(data_dir: &Path, bytes: &[u8]) {
    let folder = folder(data_dir);
    std::fs::create_dir_all(&folder).expect("a folder");
    if !data_dir.join("audit.pub").exists() {
        Sealer::open(data_dir).expect("a key");
    }
    std::fs::write(folder.join(files::name(1)), bytes).expect("written");
    let verdict = verify(data_dir, None, None).expect("it can be read");
    assert!(verdict.checkpoint.is_none());
    assert!(verdict.fault.is_some() || verdict.unsigned == verdict.records);
}
