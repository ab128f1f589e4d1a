//! Whatever is done to a log that was signed is found.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// The lines of a file.
type Lines = Vec<Vec<u8>>;

/// A log of two files with checkpoints, and its last checkpoint; made without the writer, so that it is quick.
struct Log {
    dir: tempfile::TempDir,
    files: Vec<Lines>,
}

/// Records of the log, the two that open files and three checkpoints among them. The last one is a checkpoint.
const RECORDS: usize = 18;

/// The files that a log is checked by.
const BESIDE: [&str; 2] = ["audit.pub", "audit.head"];

/// What all cases of a property begin with: the lines of a log, and the files beside it.
static FIRST: LazyLock<(Vec<Lines>, [Vec<u8>; 2])> = LazyLock::new(|| {
    let log = Log::new();
    (log.files.clone(), BESIDE.map(|name| std::fs::read(log.dir.path().join(name)).expect("readable")))
});

impl Log {
    /// The first one once more.
    fn again() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (files, beside) = &*FIRST;
        for (name, bytes) in BESIDE.iter().zip(beside) {
            std::fs::write(dir.path().join(name), bytes).expect("written");
        }
        Self { dir, files: files.clone() }
    }

    /// One with a key of its own.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut sealer = Sealer::open(dir.path()).expect("a key");
        let (mut head, mut base) = (Head::default(), None);
        let mut files = Vec::new();
        for number in [1, 2] {
            let mut lines = Vec::new();
            let mut add = |record: Record| {
                let mut line = Vec::new();
                head = head.append(&record, &mut line);
                line.pop();
                lines.push(line);
                head
            };
            let what = What { file: Some(number), base: base.clone(), ..What::default() };
            let mut now = add(Record::new(Kind::File, what));
            for i in 0..7 {
                now = add(execution(i));
                if i == 3 && number == 1 {
                    now = add(sealed(&sealer.seal(now).expect("kept").expect("signed")));
                }
            }
            let seal = sealer.seal(now).expect("kept").expect("signed");
            if number == 2 {
                add(sealed(&seal));
            }
            base = Some(seal);
            files.push(lines);
        }
        Self { dir, files }
    }

    fn write(&self) {
        let folder = folder(self.dir.path());
        std::fs::create_dir_all(&folder).expect("a folder");
        for (number, lines) in (1..).zip(&self.files) {
            let mut bytes = lines.join(&b'\n');
            bytes.push(b'\n');
            std::fs::write(folder.join(files::name(number)), bytes).expect("written");
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.write();
        checked(self.dir.path()).fault
    }

    /// The file of record `n`, and its place there.
    fn place(&self, n: usize) -> (usize, usize) {
        let first = self.files[0].len();
        if n <= first { (0, n - 1) } else { (1, n - 1 - first) }
    }

    fn line(&mut self, n: usize) -> &mut Vec<u8> {
        let (file, at) = self.place(n);
        &mut self.files[file][at]
    }
}

fn sealed(seal: &Seal) -> Record {
    let time = seal.time.parse().expect("a time");
    Record::at(time, Kind::Checkpoint, What { seal: Some(seal.clone()), ..What::default() })
}

#[test]
fn an_untouched_log_is_as_it_was_written() {
    let log = Log::new();
    assert_eq!(log.fault(), None);
    let verdict = checked(log.dir.path());
    assert_eq!((verdict.records, verdict.files, verdict.unsigned), (RECORDS as u64, 2, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_edited_byte_is_found_in_its_record(n in 1..=RECORDS, at: prop::sample::Index, byte: u8) {
        let mut log = Log::again();
        let line = log.line(n);
        let at = at.index(line.len());
        prop_assume!(byte != b'\n' && line[at] != byte);
        line[at] = byte;
        prop_assert_eq!(log.fault().map(|fault| fault.record), Some(n as u64));
    }

    #[test]
    fn any_removed_record_is_found(n in 1..RECORDS) {
        let mut log = Log::again();
        let (file, at) = log.place(n);
        log.files[file].remove(at);
        prop_assert_eq!(log.fault().map(|fault| fault.record), Some(n as u64));
    }

    #[test]
    fn any_two_records_that_change_places_are_found(a in 1..=RECORDS, b in 1..=RECORDS) {
        prop_assume!(a != b);
        let mut log = Log::again();
        let (one, other) = (log.line(a).clone(), log.line(b).clone());
        (*log.line(a), *log.line(b)) = (other, one);
        prop_assert_eq!(log.fault().map(|fault| fault.record), Some(a.min(b) as u64));
    }

    #[test]
    fn any_repeated_record_is_found(n in 1..=RECORDS, behind in 0..=RECORDS) {
        let mut log = Log::again();
        let line = log.line(n).clone();
        let (file, at) = log.place(behind.max(1));
        log.files[file].insert(at + usize::from(behind > 0), line);
        prop_assert!(log.fault().is_some());
    }

    #[test]
    fn any_end_that_is_cut_off_is_found(kept in 1..RECORDS - 1) {
        let mut log = Log::again();
        let (file, at) = log.place(kept);
        log.files[file].truncate(at + 1);
        log.files.truncate(file + 1);
        // The second file goes, too.
        if file == 0 {
            log.write();
            let _ = std::fs::remove_file(folder(log.dir.path()).join(files::name(2)));
        }
        prop_assert_eq!(log.fault().map(|fault| fault.record), Some(kept as u64 + 1));
    }

    #[test]
    fn any_bytes_are_checked_without_a_panic(bytes: Vec<u8>) {
        let mut log = Log::again();
        log.files[1] = vec![bytes];
        prop_assert!(log.fault().is_some());
    }
}

#[test]
fn records_that_are_written_anew_with_a_whole_chain_are_found_by_the_signature() {
    let mut log = Log::new();
    let mut head = Head::default();
    // Everything that is no checkpoint, with another subject and right hashes.
    for n in 1..=RECORDS {
        let mut value: serde_json::Value = serde_json::from_slice(log.line(n)).expect("a record");
        value["prev"] = head.hash.to_string().into();
        if n == 3 {
            value["subject"] = "eve".into();
        }
        *log.line(n) = value.to_string().into_bytes();
        head = Head { count: n as u64, hash: Hash::of(log.line(n)) };
    }
    let fault = log.fault().expect("it is not what was signed");
    assert!(fault.record <= 6 && fault.problem.contains("signed"), "{fault:?}");
}

#[test]
fn files_that_change_places_or_are_missing_are_found() {
    let mut log = Log::new();
    log.files.swap(0, 1);
    let fault = log.fault().expect("swapped");
    assert_eq!((fault.record, fault.file.as_str()), (1, "00000001.jsonl"));
    let log = Log::new();
    log.write();
    std::fs::remove_file(folder(log.dir.path()).join(files::name(1))).expect("removed");
    let fault = checked(log.dir.path()).fault.expect("nobody said that it was dropped");
    assert_eq!(fault.record, 1, "{fault:?}");
}

#[test]
fn a_foreign_key_and_a_missing_or_old_head_are_found() {
    let (log, other) = (Log::new(), Log::new());
    log.write();
    let put = |name: &str, from: &Path| std::fs::copy(from.join(name), log.dir.path().join(name)).expect("copied");
    let own = tempfile::tempdir().expect("a directory");
    for name in BESIDE {
        std::fs::copy(log.dir.path().join(name), own.path().join(name)).expect("copied");
    }
    put("audit.pub", other.dir.path());
    assert!(checked(log.dir.path()).fault.expect("another key").problem.contains("another key"));
    put("audit.pub", own.path());
    assert_eq!(checked(log.dir.path()).fault, None);
    put("audit.head", other.dir.path());
    assert!(checked(log.dir.path()).fault.expect("another key").problem.contains("another key"));
    std::fs::remove_file(log.dir.path().join("audit.head")).expect("removed");
    assert!(checked(log.dir.path()).fault.expect("no head").problem.contains("audit.head"));
}

#[test]
fn a_log_that_was_signed_anew_is_found_by_what_was_kept_elsewhere() {
    let (log, other) = (Log::new(), Log::new());
    log.write();
    other.write();
    let (key, anchor) = (log.dir.path().join("audit.pub"), log.dir.path().join("audit.head"));
    assert_eq!(verify(log.dir.path(), Some(&key), Some(&anchor)).expect("checked").fault, None);
    // Somebody with all rights made another history, key and signatures included.
    assert_eq!(checked(other.dir.path()).fault, None);
    assert!(verify(other.dir.path(), Some(&key), None).expect("checked").fault.is_some());
    assert!(verify(other.dir.path(), None, Some(&anchor)).expect("checked").fault.is_some());
}

#[test]
fn only_growing_counts_are_signed_and_the_key_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let at = |count, text: &[u8]| Head { count, hash: Hash::of(text) };
    let mut sealer = Sealer::open(dir.path()).expect("a key");
    let first = sealer.seal(at(5, b"a")).expect("kept").expect("signed");
    assert!(PublicKey::of(dir.path()).expect("a key").signed(&first));
    let mut sealer = Sealer::open(dir.path()).expect("the same key");
    assert_eq!(sealer.seal(at(5, b"b")).expect("nothing to keep"), None, "the same count for another log");
    assert_eq!(sealer.seal(at(4, b"a")).expect("nothing to keep"), None);
    assert_eq!(sealer.seal(at(5, b"a")).expect("nothing to keep"), Some(first), "told again");
    assert!(sealer.seal(at(6, b"c")).expect("kept").is_some());
    let key = dir.path().join("audit.key");
    assert_eq!(key.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).expect("opened");
    assert!(matches!(Sealer::open(dir.path()), Err(SealError::Open(_))));
    std::fs::remove_file(&key).expect("removed");
    assert!(matches!(Sealer::open(dir.path()), Err(SealError::Foreign(_))), "a new key cannot go on");
}
