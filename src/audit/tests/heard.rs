//! What a listener is told, and what it adds.

use super::failure::{blocked, until};
use super::*;

#[derive(Debug, Default)]
struct Ear {
    placed: Mutex<Vec<(u64, Vec<u8>)>>,
    lacking: Mutex<Vec<u64>>,
}

impl Ear {
    fn alert(name: &'static str) -> Option<Record> {
        Some(Record::new(Kind::Alert, What { alert: Some(name), ..What::default() }))
    }
}

impl Listener for Ear {
    fn noted(&self, record: &Record) -> Option<Record> {
        assert_ne!(record.kind(), Kind::Alert, "what it adds is not told to it");
        (record.kind() == Kind::Execution).then(|| Self::alert("noted")).flatten()
    }

    fn placed(&self, n: u64, _: &Record, line: &[u8]) {
        self.placed.lock().expect("whole").push((n, line.to_owned()));
    }

    fn failed(&self) -> Option<Record> {
        Self::alert("failed")
    }

    fn damaged(&self, lacking: u64) -> Option<Record> {
        self.lacking.lock().expect("whole").push(lacking);
        Self::alert("damaged")
    }
}

fn alerts(rig: &Rig) -> Vec<String> {
    let found = found(rig.data_dir(), "alert");
    found.iter().map(|record| record["alert"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn who_listens_gets_each_record_as_it_stands_in_the_log() {
    let ear = Arc::new(Ear::default());
    let rig = Rig::heard(directory(), settings(), Some(ear.clone()));
    rig.records(2).await;
    rig.audit.close().await;
    assert_eq!(alerts(&rig), ["noted"; 3]);
    let placed = ear.placed.lock().expect("whole").clone();
    assert_eq!(placed.len(), 6);
    let text = std::fs::read_to_string(&rig.files()[0]).expect("readable");
    for (n, line) in placed {
        let line = String::from_utf8(line).expect("text");
        assert!(text.lines().any(|it| it == line) && line.starts_with(&format!("{{\"n\":{n},")), "{line}");
    }
    assert!(ear.lacking.lock().expect("whole").is_empty());
}

#[tokio::test]
async fn a_start_tells_that_signed_records_are_missing() {
    let rig = Rig::new(settings());
    rig.records(3).await;
    rig.audit.close().await;
    let signed = checked(rig.data_dir()).checkpoint.expect("signed").count;
    let path = rig.files().pop().expect("a file");
    let text = std::fs::read_to_string(&path).expect("readable");
    let short: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, short).expect("cut short");
    let ear = Arc::new(Ear::default());
    let rig = Rig::heard(rig.dir.clone(), settings(), Some(ear.clone()));
    rig.records(0).await;
    rig.audit.close().await;
    assert_eq!(*ear.lacking.lock().expect("whole"), [signed - 2]);
    assert!(alerts(&rig).contains(&"damaged".to_owned()), "{:?}", alerts(&rig));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told_once_and_recorded_when_it_can() {
    let (rig, stone) = blocked(OnFailure::Refuse, Some(Arc::new(Ear::default())));
    until("it is found out", || rig.audit.refuses()).await;
    std::fs::remove_file(stone).expect("removed");
    until("it is tried again", || !rig.audit.refuses()).await;
    rig.audit.close().await;
    assert_eq!(alerts(&rig), ["failed"]);
}
