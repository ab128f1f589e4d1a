//! Files: a new one when one is full, and old ones are dropped.

use std::time::SystemTime;

use super::*;

const SMALL: u64 = 8 * 1024;

async fn of_many_files() -> Rig {
    let rig = Rig::new(Settings { file_bytes: SMALL, ..settings() });
    for _ in 0..8 {
        rig.records(20).await;
    }
    rig
}

#[tokio::test]
async fn a_full_file_is_followed_by_another_one_and_the_chain_goes_on() {
    let rig = of_many_files().await;
    rig.audit.close().await;
    let files = rig.files();
    assert!(files.len() > 3, "{files:?}");
    assert!(files.iter().all(|path| path.metadata().is_ok_and(|it| it.len() < 3 * SMALL)));
    let verdict = checked(rig.data_dir());
    assert_eq!((verdict.files, verdict.fault), (files.len(), None));
    assert_eq!(found(rig.data_dir(), "execution").len(), 8 * 21);
    // One that is taken out of the middle is missed.
    let second = std::fs::read_to_string(&files[1]).expect("readable");
    let first: serde_json::Value = serde_json::from_str(second.lines().next().expect("a line")).expect("a record");
    std::fs::remove_file(&files[1]).expect("removed");
    assert_eq!(checked(rig.data_dir()).fault.map(|fault| fault.record), first["n"].as_u64());
}

#[tokio::test]
async fn whole_files_are_dropped_when_their_time_is_over_and_the_rest_can_be_checked() {
    let rig = of_many_files().await;
    rig.audit.close().await;
    let files = rig.files();
    let old = SystemTime::now() - settings().keep - Duration::from_secs(3600);
    for path in &files[..2] {
        std::fs::File::options().write(true).open(path).and_then(|it| it.set_modified(old)).expect("made old");
    }
    // Nothing behind one that stays goes.
    std::fs::File::options().write(true).open(&files[3]).and_then(|it| it.set_modified(old)).expect("made old");
    let rig = Rig::again(rig.dir.clone(), settings());
    rig.records(0).await;
    rig.audit.close().await;
    assert_eq!(rig.files(), files[2..].to_vec());
    let verdict = checked(rig.data_dir());
    assert_eq!((verdict.fault, verdict.first > 1), (None, true));
    let told = found(rig.data_dir(), "retention");
    assert_eq!((told.len(), &told[0]["file"], told[0]["dropped"].as_u64()), (1, &2.into(), Some(verdict.first - 1)));
    // One more than the log says.
    std::fs::remove_file(&rig.files()[0]).expect("removed");
    assert_eq!(checked(rig.data_dir()).fault.map(|fault| fault.record), Some(verdict.first));
}
