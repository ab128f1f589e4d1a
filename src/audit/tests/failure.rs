//! A log that cannot be written, for a while.

use std::task::Poll;

use super::*;

/// A log whose folder cannot be made, since something else has its name.
pub(super) fn blocked(on_failure: OnFailure, listener: Option<Arc<dyn Listener>>) -> (Rig, PathBuf) {
    let dir = directory();
    let stone = folder(dir.path());
    std::fs::create_dir_all(stone.parent().expect("a parent")).expect("a folder");
    std::fs::write(&stone, "no folder").expect("written");
    (Rig::heard(dir, Settings { on_failure, ..settings() }, listener), stone)
}

pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn work_is_refused_until_the_log_can_be_written_and_no_record_is_lost() {
    let (rig, stone) = blocked(OnFailure::Refuse, None);
    rig.audit.note(execution(0));
    until("it is found out", || rig.audit.refuses()).await;
    // Nobody waits for a disk that may not come back.
    rig.audit.store(execution(1)).await;
    std::fs::remove_file(stone).expect("removed");
    until("it is tried again", || !rig.audit.refuses()).await;
    rig.audit.store(execution(2)).await;
    rig.audit.close().await;
    assert_eq!(found(rig.data_dir(), "execution").len(), 3);
    assert_eq!((checked(rig.data_dir()).fault, found(rig.data_dir(), "gap").len()), (None, 0));
}

#[tokio::test]
async fn a_full_queue_makes_callers_wait_and_loses_nothing() {
    let (rig, stone) = blocked(OnFailure::Refuse, None);
    until("it is found out", || rig.audit.refuses()).await;
    (0..queue::CAPACITY).for_each(|i| rig.audit.note(execution(i)));
    let mut waits = Box::pin(rig.audit.store(execution(1)));
    let polled = std::future::poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await;
    assert!(polled, "there is no room");
    std::fs::remove_file(stone).expect("removed");
    waits.await;
    rig.audit.close().await;
    assert_eq!(found(rig.data_dir(), "execution").len(), queue::CAPACITY + 1);
}

#[tokio::test]
async fn a_server_that_goes_on_counts_what_it_could_not_record() {
    let (rig, stone) = blocked(OnFailure::Continue, None);
    rig.audit.note(execution(0));
    until("it is found out", || rig.audit.shared.is_broken()).await;
    assert!(!rig.audit.refuses());
    (0..queue::CAPACITY + 6).for_each(|i| rig.audit.note(execution(i)));
    rig.audit.store(execution(1)).await;
    std::fs::remove_file(stone).expect("removed");
    until("it is tried again", || !rig.audit.shared.is_broken()).await;
    rig.audit.close().await;
    let gaps = found(rig.data_dir(), "gap");
    assert_eq!((gaps.len(), gaps[0]["lost"].as_u64()), (1, Some(8)), "{gaps:?}");
    assert_eq!(found(rig.data_dir(), "execution").len(), queue::CAPACITY);
    assert_eq!(checked(rig.data_dir()).fault, None);
}

#[test]
fn a_full_disk_is_a_fault_that_passes_and_leaves_the_log_whole() {
    const PLACE: &str = "AUDIT_TEST_FULL_DISK";
    if let Some(dir) = std::env::var_os(PLACE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(on_small_disk(Path::new(&dir)));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let name = std::thread::current().name().map(str::to_owned).expect("the name of this test");
    let script = r#"mount -t tmpfs -o size=256k none "$AUDIT_TEST_FULL_DISK" || exit 77; exec "$0" --exact "$1" --test-threads 1"#;
    let status = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .arg(name)
        .env(PLACE, dir.path())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(1 | 77)) | Err(_) => eprintln!("skipped: no file system can be mounted here"),
        other => panic!("{other:?}"),
    }
}

async fn on_small_disk(disk: &Path) {
    let dir = Arc::new(tempfile::tempdir_in(disk).expect("a directory"));
    let rig = Rig::again(dir, settings());
    rig.records(10).await;
    let filler = disk.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
    drop(file);
    let mut noted = 11;
    while !rig.audit.refuses() {
        rig.records(20).await;
        noted += 21;
    }
    rig.records(20).await;
    noted += 21;
    std::fs::remove_file(filler).expect("removed");
    until("there is room again", || !rig.audit.refuses()).await;
    rig.audit.close().await;
    assert_eq!((checked(rig.data_dir()).fault, found(rig.data_dir(), "execution").len()), (None, noted));
}
