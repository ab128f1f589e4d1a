//! Words and counts that come in any order, and what becomes of the session.

mod world;

use std::io::Write;

use proptest::prelude::*;
use repltool_protocol::event::{ExecutionState, SessionStatus, StreamName};

use self::world::{PER_MINUTE, World};
use super::*;
use crate::session::Refusal;

#[tokio::test]
async fn a_result_is_told_after_the_violations_of_its_execution() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    // The count and the end are here, the words are on their way.
    world.count(3);
    world.done(1, "").await;
    world.assert_silent().await;
    world.refuse("execve /usr/bin/id", 1);
    assert_eq!(world.violation().await, (Some("e1".into()), "execve /usr/bin/id".into(), ViolationLayer::Kernel, 1));
    world.assert_silent().await;
    world.refuse("execve /usr/bin/ps", 2);
    assert_eq!(world.violation().await.1, "execve /usr/bin/ps");
    let outcome = world.result().await;
    assert!(outcome.success, "a program may go on after a refusal: {outcome:?}");
    assert_eq!(outcome.violation.expect("the first one").detail, "execve /usr/bin/id");
    // What comes later belongs to nothing that runs, and the next result names none of it.
    world.refuse("socket", 1);
    world.count(1);
    assert_eq!(world.violation().await.0, None);
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.done(2, "").await;
    assert_eq!(world.result().await.violation, None);
    assert_eq!(world.store.history(&world.identity.id, 10, 0).await.expect("history").0, 2);
}

#[tokio::test]
async fn words_that_do_not_come_hold_a_result_up_for_a_second_and_not_again() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.count(2);
    let begun = Instant::now();
    world.done(1, "").await;
    assert_eq!(world.result().await.violation, None);
    let waited = begun.elapsed();
    assert!((HEAR_LIMIT..20 * HEAR_LIMIT).contains(&waited), "{waited:?}");
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    let begun = Instant::now();
    world.done(2, "").await;
    world.result().await;
    assert!(begun.elapsed() < HEAR_LIMIT, "they were given up");
}

#[tokio::test]
async fn findings_of_the_driver_are_acted_on_by_the_policy_of_the_level() {
    for policy in [PolicyAction::Refuse, PolicyAction::Warn, PolicyAction::Record] {
        let mut world = World::new(policy).await;
        world.execute("e1").await.expect("accepted");
        world.heard().await;
        world.until_started().await;
        world.done(1, r#"{"rule":"import","detail":"os\n\u001b[31m"},{"rule":"import","detail":"socket"}"#).await;
        let told = if policy == PolicyAction::Record { 0 } else { 2 };
        for detail in ["os\u{fffd}\u{fffd}[31m", "socket"].into_iter().take(told) {
            let expected = (Some("e1".into()), detail.to_owned(), ViolationLayer::Policy, 1);
            assert_eq!(world.violation().await, expected, "{policy:?}");
        }
        let named = world.result().await.violation.map(|it| (it.rule, it.detail));
        assert_eq!(named, (told > 0).then(|| ("import".into(), "os\u{fffd}\u{fffd}[31m".into())), "{policy:?}");
    }
}

/// What is told of the end: the result, the reason, the end of the log; and what the store and the snapshot say.
async fn assert_ended(world: &mut World, last: Option<&str>) {
    if let Some(detail) = last {
        let outcome = world.result().await;
        assert!(!outcome.success && outcome.state_lost, "{outcome:?}");
        assert_eq!(outcome.violation.expect("a violation").detail, detail);
        let exception = outcome.exception.expect("an exception");
        assert_eq!((exception.name.as_str(), exception.message.as_str()), ("StateLost", TOO_MANY));
    }
    let status = world.event().await;
    let Some(Event::Status { status: SessionStatus::Terminated, reason: Some(StatusReason::Violations), .. }) = status
    else {
        panic!("{status:?}")
    };
    assert_eq!(world.event().await, None, "the log has ended");
    let now = world.snapshot.borrow().clone();
    assert_eq!((now.status, now.ended), (SessionStatus::Terminated, Some(End::Violations)));
    assert_eq!(world.execute("late").await, Err(Refusal::Gone));
    assert!(world.store.sessions().await.expect("rows")[0].ended_at.is_some());
    assert!(!world.actor.is_finished(), "it can still be read");
}

#[tokio::test]
async fn one_violation_too_many_ends_the_session_with_what_runs() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    assert!(matches!(world.event().await, Some(Event::Queued { .. })));
    world.stdout.write_all(b"before\n").expect("written");
    assert!(matches!(world.event().await, Some(Event::Stream { stream: StreamName::Stdout, .. })));
    world.refuse("first", PER_MINUTE);
    world.violation().await;
    world.assert_silent().await;
    world.refuse("one more", 1);
    assert_eq!(world.violation().await.1, "one more");
    let outcome = world.result().await;
    assert_eq!((outcome.id.as_str(), outcome.success), ("e1", false));
    assert_eq!(outcome.violation.expect("the first").detail, "first");
    let waiting = world.result().await;
    assert_eq!((waiting.id.as_str(), waiting.execution_count, waiting.success), ("e2", 0, false));
    assert!(world.asked().contains(r#"{"Kill":7}"#), "killed before anything else");
    world.exited(false);
    assert_ended(&mut world, None).await;
}

#[tokio::test]
async fn what_the_supervisor_kills_for_violations_stays_ended() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.refuse("execve /usr/bin/id", 1);
    world.exited(true);
    assert_eq!(world.violation().await.1, "execve /usr/bin/id");
    assert_ended(&mut world, Some("execve /usr/bin/id")).await;
}

#[tokio::test]
async fn recorded_findings_cost_nothing() {
    let mut world = World::new(PolicyAction::Record).await;
    let many = vec![r#"{"rule":"import","detail":"os"}"#; 16].join(",");
    for n in 1..=2 {
        world.execute(&format!("e{n}")).await.expect("accepted");
        world.heard().await;
        world.until_started().await;
        world.done(n, &many).await;
        assert!(world.result().await.success);
    }
}

#[tokio::test]
async fn the_log_tells_the_next_process_what_was_broken_and_why_it_ended() {
    let mut world = World::new(PolicyAction::Warn).await;
    world.execute("e1").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.refuse("execve /usr/bin/id", 1);
    world.violation().await;
    world.crash().await;
    let (mut log, _, found) = world.found();
    let begun = found.pending[0].begun.clone().expect("it runs");
    assert_eq!(begun.violation.expect("the first").detail, "execve /usr/bin/id");
    assert_eq!(found.ended_because, None);
    let (status, execution_state) = (SessionStatus::Terminated, ExecutionState::Idle);
    let reason = Some(StatusReason::Violations);
    log.append(&Event::Status { status, execution_state, reason, recovered: None }).expect("appended");
    drop(log);
    assert_eq!(world.found().2.ended_because, reason);
}

#[tokio::test]
async fn a_gateway_that_dies_while_it_ends_a_session_leaves_the_rest_to_the_next_one() {
    let mut world = World::new(PolicyAction::Refuse).await;
    world.execute("e1").await.expect("accepted");
    world.execute("e2").await.expect("accepted");
    world.heard().await;
    world.until_started().await;
    world.event().await;
    world.refuse("execve /usr/bin/id", 1);
    world.violation().await;
    world.crash().await;
    world.store.end(&world.identity.id, jiff::Timestamp::now()).await.expect("stored");
    let (log, _, found) = world.found();
    drop(log);
    world.take_up_ended(found.last_seq);
    let outcome = world.result().await;
    assert_eq!((outcome.id.as_str(), outcome.success, outcome.state_lost), ("e1", false, true));
    assert_eq!(outcome.violation.expect("the first").detail, "execve /usr/bin/id");
    assert_eq!(world.result().await.id.as_str(), "e2");
    assert_ended(&mut world, None).await;
    assert_eq!(world.store.history(&world.identity.id, 10, 0).await.expect("history").0, 2);
}

proptest! {
    #[test]
    fn what_a_program_chose_is_short_and_breaks_no_line(text in any::<String>(), max in 0_usize..40) {
        let out = legible(&text, max);
        prop_assert!(out.len() <= max);
        prop_assert!(out.chars().all(is_plain) && out.lines().count() <= 1);
        if text.len() <= max && text.chars().all(is_plain) {
            prop_assert_eq!(out, text);
        }
    }
}
