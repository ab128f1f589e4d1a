//! The log as a whole: written by the real writer, signed by a real key, read back and checked.

mod chain;
mod failure;
mod heard;
mod keeping;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::*;

/// A data directory with a log that is written.
struct Rig {
    dir: Arc<tempfile::TempDir>,
    audit: Audit,
}

fn settings() -> Settings {
    Settings { file_bytes: 1 << 20, keep: Duration::from_secs(90 * 86_400), on_failure: OnFailure::Refuse }
}

fn directory() -> Arc<tempfile::TempDir> {
    Arc::new(tempfile::tempdir().expect("a directory"))
}

impl Rig {
    fn new(settings: Settings) -> Self {
        Self::again(directory(), settings)
    }

    /// On what an earlier one left.
    fn again(dir: Arc<tempfile::TempDir>, settings: Settings) -> Self {
        Self::heard(dir, settings, None)
    }

    /// As [`Rig::again`], with somebody who hears of it.
    fn heard(dir: Arc<tempfile::TempDir>, settings: Settings, listener: Option<Arc<dyn Listener>>) -> Self {
        let sealer = Sealer::open(dir.path()).expect("a key");
        let last = sealer.last().cloned();
        let (sealer, answers) = (Mutex::new(sealer), Arc::new(OnceLock::<Audit>::new()));
        let asked = answers.clone();
        let ask = Box::new(move |head| {
            // On a full disk there is none.
            let seal = sealer.lock().expect("whole").seal(head).ok().flatten();
            seal.into_iter().zip(asked.get()).for_each(|(seal, audit)| audit.sealed(seal));
        });
        let audit = Audit::start(folder(dir.path()), settings, last, ask, listener).expect("a thread");
        answers.set(audit.clone()).expect("only once");
        Self { dir, audit }
    }

    fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    fn files(&self) -> Vec<PathBuf> {
        files_of(self.data_dir())
    }

    async fn records(&self, count: usize) {
        for i in 0..count {
            self.audit.note(execution(i));
        }
        self.audit.store(execution(count)).await;
    }
}

fn files_of(data_dir: &Path) -> Vec<PathBuf> {
    files::list(&folder(data_dir)).expect("the folder").into_iter().map(|file| file.path).collect()
}

fn execution(number: usize) -> Record {
    let code_sha256 = Some(Hash::of(number.to_string().as_bytes()));
    Record::new(Kind::Execution, What { subject: Some("ada".into()), code_sha256, ..What::default() })
}

fn checked(data_dir: &Path) -> Verdict {
    verify(data_dir, None, None).expect("it can be checked")
}

fn found(data_dir: &Path, kind: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    let query = Query { kind: Some(kind.to_owned()), ..Query::default() };
    search(data_dir, &query, |_, record| {
        found.push(record.clone());
        Ok(())
    })
    .expect("it can be searched");
    found
}

#[tokio::test]
async fn what_was_recorded_is_found_signed_and_as_it_was_written() {
    let rig = Rig::new(settings());
    rig.records(50).await;
    assert_eq!(checked(rig.data_dir()).fault, None, "while it is written");
    rig.audit.close().await;
    let verdict = checked(rig.data_dir());
    assert_eq!((verdict.first, verdict.unsigned, &verdict.fault), (1, 0, &None), "{verdict:?}");
    assert_eq!(verdict.checkpoint.map(|seal| seal.count + 1), Some(verdict.last));
    let executions = found(rig.data_dir(), "execution");
    assert_eq!(executions.len(), 51);
    assert_eq!(executions[7]["code_sha256"], Hash::of(b"7").to_string());
    assert_eq!(executions[0]["subject"], "ada");
}

#[tokio::test]
async fn numbers_go_on_over_restarts_and_even_where_the_files_are_gone() {
    let rig = Rig::new(settings());
    rig.records(3).await;
    rig.audit.close().await;
    let last = checked(rig.data_dir()).last;
    let rig = Rig::again(rig.dir.clone(), settings());
    rig.records(0).await;
    rig.audit.close().await;
    let verdict = checked(rig.data_dir());
    assert_eq!((verdict.last > last, verdict.fault), (true, None));
    let signed = verdict.checkpoint.expect("signed").count;
    std::fs::remove_dir_all(folder(rig.data_dir())).expect("removed");
    let rig = Rig::again(rig.dir.clone(), settings());
    rig.records(0).await;
    rig.audit.close().await;
    let fault = checked(rig.data_dir()).fault.expect("all of it is missing");
    assert_eq!((fault.record, found(rig.data_dir(), "file")[0]["n"].as_u64()), (1, Some(signed + 1)));
}

#[tokio::test]
async fn a_half_written_last_record_is_cut_off_and_that_is_recorded() {
    let rig = Rig::new(settings());
    rig.records(3).await;
    rig.audit.close().await;
    let whole = checked(rig.data_dir());
    let path = rig.files().pop().expect("a file");
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes.extend_from_slice(b"{\"n\":99,\"ti");
    std::fs::write(&path, bytes).expect("written");
    let torn = checked(rig.data_dir());
    assert_eq!((torn.half_written, torn.last, torn.fault), (11, whole.last, None), "no attack");
    let rig = Rig::again(rig.dir.clone(), settings());
    rig.records(0).await;
    rig.audit.close().await;
    assert_eq!(checked(rig.data_dir()).fault, None);
    let repaired = found(rig.data_dir(), "repaired");
    assert_eq!(repaired.len(), 1);
    assert!(repaired[0]["detail"].as_str().is_some_and(|it| it.contains("11 bytes")), "{repaired:?}");
}

#[tokio::test]
async fn records_are_found_by_what_is_in_them_the_newest_ones_in_their_order() {
    let rig = Rig::new(settings());
    rig.records(9).await;
    rig.audit.close().await;
    let of = |query: Query| {
        let mut hashes = Vec::new();
        search(rig.data_dir(), &query, |_, record| {
            hashes.push(record["code_sha256"].as_str().unwrap_or("none").to_owned());
            Ok(())
        })
        .expect("searched");
        hashes
    };
    let hash = |number: usize| Hash::of(number.to_string().as_bytes()).to_string();
    let subject = Some("ada".to_owned());
    let limited = of(Query { subject: subject.clone(), limit: Some(2), ..Query::default() });
    assert_eq!(limited, [hash(8), hash(9)]);
    assert_eq!(of(Query { code_sha256: Some(hash(4)), ..Query::default() }), [hash(4)]);
    assert_eq!(of(Query { subject: Some("bob".to_owned()), ..Query::default() }), [""; 0]);
    let hour = jiff::SignedDuration::from_hours(1);
    let now = jiff::Timestamp::now();
    assert_eq!(of(Query { since: Some(now + hour), ..Query::default() }).len(), 0);
    assert_eq!(of(Query { since: Some(now - hour), subject, ..Query::default() }).len(), 10);
    assert_eq!(of(Query { until: Some(now - hour), ..Query::default() }).len(), 0);
}

#[test]
fn texts_from_outside_are_bounded_and_stay_on_their_line() {
    let subject = Some(Text::new(&format!("a\n\u{1b}[31m\u{202e}\u{85}{}", "x".repeat(1000))));
    let line = Head::default().line(&Record::new(Kind::Login, What { subject, ..What::default() }));
    let text = String::from_utf8(line).expect("text");
    assert!(text.len() < 600 && !text.contains(char::is_control), "{text}");
    assert!(text.contains(r"a\n\u001b[31m") && !text.contains('\u{202e}'), "{text}");
}
