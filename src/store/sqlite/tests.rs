//! The contract, and what the file itself promises.

use super::*;
use crate::store::{Store, contract};

fn temporary() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store.sqlite")).unwrap();
    (dir, store)
}

fn limit_pages(db: &Connection, pages: u32) {
    db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, u32>(0)).unwrap();
}

#[tokio::test]
async fn keeps_the_contract() {
    let (_dir, store) = temporary();
    contract::holds(&store).await;
}

#[tokio::test]
async fn what_was_answered_is_there_for_the_next_process() {
    let (dir, store) = temporary();
    let path = dir.path().join("store.sqlite");
    let row = contract::row("reopened1");
    store.create_session(row.clone()).await.unwrap();
    contract::fill(&store, &row.id, 300);
    store.close().await;
    // The old one still holds it, as a killed process would have left it.
    let next = Store::open(&path).unwrap();
    assert_eq!(next.sessions().await.unwrap(), std::slice::from_ref(&row));
    assert_eq!(next.history(&row.id, 1000, 0).await.unwrap().1.len(), 300);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn deleted_code_is_in_no_file() {
    let (dir, store) = temporary();
    let row = contract::row("secretive");
    store.create_session(row.clone()).await.unwrap();
    store.create_session(contract::row("remaining")).await.unwrap();
    contract::fill(&store, &row.id, 500);
    store.close().await;
    let is_anywhere = || {
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        files.map(|bytes| bytes.windows(9).filter(|it| *it == b"secretive").count()).sum::<usize>()
    };
    assert!(is_anywhere() > 500);
    store.delete_session(&row.id).await.unwrap();
    assert_eq!(is_anywhere(), 0);
    let size = std::fs::metadata(dir.path().join("store.sqlite")).unwrap().len();
    assert!(size < 100_000, "{size} bytes are left");
}

#[test]
fn later_format_is_refused_and_an_earlier_one_is_brought_up() {
    let mut db = Connection::open_in_memory().unwrap();
    migrate(&mut db, &["CREATE TABLE a (x)"]).unwrap();
    migrate(&mut db, &["CREATE TABLE a (x)", "ALTER TABLE a ADD y"]).unwrap();
    db.execute("INSERT INTO a (x, y) VALUES (1, 2)", []).unwrap();
    let refused = migrate(&mut db, &["CREATE TABLE a (x)"]);
    assert!(matches!(refused, Err(StoreError::Format { found: 2, known: 1 })));
    // A step that fails leaves the format as it was.
    assert!(migrate(&mut db, &["", "", "nonsense"]).is_err());
    migrate(&mut db, &["", "", "CREATE TABLE b (x)"]).unwrap();
}

#[test]
fn full_disk_is_told_and_unanswered_changes_are_kept() {
    let (dir, store) = temporary();
    drop(store);
    let mut connection = Connection::open(dir.path().join("store.sqlite")).unwrap();
    connection.execute_batch(SETTINGS).unwrap();
    migrate(&mut connection, &MIGRATIONS).unwrap();
    rows::create_session(&connection, &contract::row("session01")).unwrap();
    let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    limit_pages(&connection, pages);
    let mut worker = Worker { connection, owed: Vec::new() };
    let (answer, mut answered) = oneshot::channel();
    let id: SessionId = "session01".parse().unwrap();
    let entry = HistoryEntry { code: "x".repeat(100_000), ..contract::entry(1, "session01") };
    let tell = {
        let id = id.clone();
        move |db: &Connection| rows::finish(db, &id, &entry)
    };
    let ask = move |db: &Connection| {
        rows::create_session(db, &SessionRow { owner: "x".repeat(100_000), ..contract::row("session02") })
    };
    worker.commit(vec![
        Box::new(Tell { what: "an execution", work: tell }),
        Box::new(Ask { purpose: Purpose::Any, work: ask, value: None, answer }),
    ]);
    assert!(matches!(answered.try_recv(), Ok(Err(StoreError::Full))));
    assert_eq!(worker.owed.len(), 1);
    limit_pages(&worker.connection, 100_000);
    let owed = std::mem::take(&mut worker.owed);
    worker.commit(owed);
    assert!(worker.owed.is_empty());
    assert_eq!(rows::history(&worker.connection, &id, 10, 0).unwrap().0, 1);
}
