//! What every backend has to keep. A backend's own tests call [`holds`].

use jiff::Timestamp;
use repltool_protocol::event::{Limit, SessionStatus, Usage, Violation, ViolationLayer};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{HistoryEntry, SessionConfig};

use super::{QuotaUsage, SessionRow, SessionState, Store};

pub(super) async fn holds(store: &Store) {
    sessions_come_back_as_they_were(store).await;
    state_changes_in_the_order_of_the_calls(store).await;
    history_is_paged_in_the_order_of_its_ends(store).await;
    execution_is_stored_once(store).await;
    deletion_takes_everything_and_nothing_else(store).await;
    numbers_beyond_63_bits_are_refused_not_changed(store).await;
    what_nobody_waits_for_is_done_all_the_same(store).await;
    usage_of_quotas_is_replaced_and_forgotten_by_period(store).await;
}

pub(super) fn row(id: &str) -> SessionRow {
    let config = r#"{"language":"python","environment":{"A":"é\n"},"working_directory":"a/b"}"#;
    SessionRow {
        id: id.parse().unwrap(),
        owner: format!("owner of {id}"),
        config: serde_json::from_str::<SessionConfig>(config).unwrap(),
        created_at: Timestamp::from_microsecond(1_700_000_000_123_456).unwrap(),
        ended_at: None,
    }
}

pub(super) fn entry(n: u64, session: &str) -> HistoryEntry {
    HistoryEntry {
        execution_id: format!("e{n}").parse().unwrap(),
        execution_count: n,
        code: format!("print('{session} {n} é\\0')"),
        success: n.is_multiple_of(2),
        execution_time_ms: 7 * n,
        timestamp: "2026-04-08T10:30:05.123Z".into(),
        limit: (n % 3 == 1).then_some(Limit::WallTime),
        violation: (n % 3 == 2).then(|| Violation {
            rule: "import".into(),
            detail: "subprocess".into(),
            layer: ViolationLayer::Policy,
        }),
        usage: Usage { cpu_time_ms: n, peak_memory_bytes: u64::MAX, output_bytes: 0 },
    }
}

/// Stores executions 1 to `count`.
pub(super) fn fill(store: &Store, id: &SessionId, count: u64) {
    for n in 1..=count {
        store.0.finish(id.clone(), entry(n, id.as_str()));
    }
}

async fn sessions_come_back_as_they_were(store: &Store) {
    let later = Timestamp::from_microsecond(1_700_000_001_000_001).unwrap();
    let (first, second) = (row("sessions2"), SessionRow { created_at: later, ..row("sessions1") });
    store.create_session(second.clone()).await.unwrap();
    store.create_session(first.clone()).await.unwrap();
    assert_eq!(store.sessions().await.unwrap(), [first.clone(), second.clone()]);
    assert!(store.create_session(first.clone()).await.is_err(), "an id is given out once");
    store.end(&first.id, later).await.unwrap();
    assert_eq!(
        store.sessions().await.unwrap(),
        [SessionRow { ended_at: Some(later), ..first.clone() }, second.clone()]
    );
    assert_eq!(store.state(&first.id).await.unwrap().unwrap().status, SessionStatus::Terminated);
    store.delete_session(&first.id).await.unwrap();
    store.delete_session(&second.id).await.unwrap();
    assert_eq!(store.sessions().await.unwrap(), []);
}

async fn state_changes_in_the_order_of_the_calls(store: &Store) {
    let row = row("stateful1");
    assert_eq!(store.state(&row.id).await.unwrap(), None);
    store.create_session(row.clone()).await.unwrap();
    let mut state = SessionState {
        last_activity: row.created_at,
        status: SessionStatus::Active,
        expression_count: 0,
        state_lost: false,
    };
    assert_eq!(store.state(&row.id).await.unwrap(), Some(state));
    state = SessionState { status: SessionStatus::Idle, expression_count: 9, state_lost: true, ..state };
    store.update(&row.id, state);
    state.last_activity = Timestamp::from_microsecond(1_800_000_000_000_007).unwrap();
    store.touch(&row.id, state.last_activity);
    assert_eq!(store.state(&row.id).await.unwrap(), Some(state));
}

async fn history_is_paged_in_the_order_of_its_ends(store: &Store) {
    let row = row("historic1");
    assert_eq!(store.history(&row.id, 10, 0).await.unwrap(), (0, vec![]));
    store.create_session(row.clone()).await.unwrap();
    fill(store, &row.id, 25);
    let expected: Vec<_> = (1..=25).map(|n| entry(n, "historic1")).collect();
    for (limit, offset, range) in [(1000, 0, 0..25), (10, 0, 0..10), (10, 20, 20..25), (1, 25, 25..25), (5, 99, 25..25)]
    {
        let page = store.history(&row.id, limit, offset).await.unwrap();
        assert_eq!(page, (25, expected[range].to_vec()));
    }
}

async fn execution_is_stored_once(store: &Store) {
    let row = row("repeated1");
    store.create_session(row.clone()).await.unwrap();
    fill(store, &row.id, 2);
    store.0.finish(row.id.clone(), HistoryEntry { code: "other".into(), ..entry(1, "repeated1") });
    let expected = vec![entry(1, "repeated1"), entry(2, "repeated1")];
    assert_eq!(store.history(&row.id, 10, 0).await.unwrap(), (2, expected));
}

async fn deletion_takes_everything_and_nothing_else(store: &Store) {
    let (gone, kept) = (row("deleted11"), row("deleted22"));
    for row in [&gone, &kept] {
        store.create_session(row.clone()).await.unwrap();
        fill(store, &row.id, 3);
    }
    store.delete_session(&gone.id).await.unwrap();
    // What comes too late does not bring it back.
    fill(store, &gone.id, 3);
    store.touch(&gone.id, gone.created_at);
    assert_eq!(store.history(&gone.id, 10, 0).await.unwrap(), (0, vec![]));
    assert_eq!(store.state(&gone.id).await.unwrap(), None);
    assert_eq!(store.history(&kept.id, 10, 0).await.unwrap().0, 3);
    store.delete_session(&gone.id).await.unwrap();
}

async fn numbers_beyond_63_bits_are_refused_not_changed(store: &Store) {
    let row = row("numbers11");
    store.create_session(row.clone()).await.unwrap();
    assert!(store.history(&row.id, u64::MAX, 0).await.is_err());
    store.0.finish(row.id.clone(), HistoryEntry { execution_count: u64::MAX, ..entry(1, "numbers11") });
    let largest = HistoryEntry { execution_count: i64::MAX as u64, ..entry(2, "numbers11") };
    store.0.finish(row.id.clone(), largest.clone());
    assert_eq!(store.history(&row.id, 10, 0).await.unwrap(), (1, vec![largest]));
}

async fn what_nobody_waits_for_is_done_all_the_same(store: &Store) {
    let row = row("impatient");
    drop(store.create_session(row.clone()));
    drop(store.0.create_session(row.clone()));
    fill(store, &row.id, 1);
    assert_eq!(store.history(&row.id, 10, 0).await.unwrap().0, 1);
}

async fn usage_of_quotas_is_replaced_and_forgotten_by_period(store: &Store) {
    let usage = |subject: &str, period: i64, executions| QuotaUsage {
        subject: subject.into(),
        period_start: Timestamp::from_second(period).unwrap(),
        executions,
        session_creations: 2,
        cpu_time_ms: 3,
    };
    assert_eq!(store.quota_usage().await.unwrap(), []);
    let (ada, eve) = ("ada \"'é\\\u{1}", "eve");
    store.keep_quota_usage(vec![usage(ada, 3600, 1), usage(eve, 3600, u64::MAX), usage(ada, 7200, 5)]);
    store.keep_quota_usage(vec![usage(ada, 3600, 7)]);
    let mut found = store.quota_usage().await.unwrap();
    found.sort_by_key(|it| (it.subject.clone(), it.period_start));
    assert_eq!(found, [usage(ada, 3600, 7), usage(ada, 7200, 5), usage(eve, 3600, i64::MAX as u64)]);
    store.forget_quota_usage(Timestamp::from_second(7200).unwrap());
    assert_eq!(store.quota_usage().await.unwrap(), [usage(ada, 7200, 5)]);
}
