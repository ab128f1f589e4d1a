//! What events say.

use repltool_protocol::event::{Event, LoggedEvent, Outcome, StreamName};

/// A program that prints so many numbered lines, and what it prints.
pub fn numbered(lines: usize, bytes_a_line: usize) -> (String, String) {
    let width = bytes_a_line - 1;
    let printed = (0..lines).map(|n| format!("{n:0width$}\n")).collect();
    (format!("for n in range({lines}): print(f'{{n:0{width}}}')"), printed)
}

/// The outcome that is the last of these events.
pub fn outcome(events: &[LoggedEvent]) -> &Outcome {
    match &events.last().expect("events").event {
        Event::Result(outcome) => outcome,
        other => panic!("no result: {other:?}"),
    }
}

/// The name of the exception in an outcome, or nothing.
pub fn exception(outcome: &Outcome) -> &str {
    outcome.exception.as_ref().map_or("", |exception| exception.name.as_str())
}

/// What the events say was printed.
pub fn printed(events: &[LoggedEvent], wanted: StreamName) -> String {
    let data = events.iter().filter_map(|logged| match &logged.event {
        Event::Stream { stream, data, .. } if *stream == wanted => Some(data.as_str()),
        _ => None,
    });
    data.collect()
}

/// The events without their numbers. Neighbours of one stream and execution are joined, since a reader that is behind is
/// told in larger pieces.
pub fn told(events: &[LoggedEvent]) -> Vec<Event> {
    let mut told: Vec<Event> = Vec::new();
    for event in events.iter().map(|logged| &logged.event) {
        match (told.last_mut(), event) {
            (
                Some(Event::Stream { id, stream, data }),
                Event::Stream { id: next_id, stream: next_stream, data: more },
            ) if (&*id, &*stream) == (next_id, next_stream) => data.push_str(more),
            _ => told.push(event.clone()),
        }
    }
    told
}

/// Checks what holds for every log: seq grows, and nothing of an execution comes after its result.
pub fn assert_log(events: &[LoggedEvent]) {
    let mut ended = std::collections::HashSet::new();
    for pair in events.windows(2) {
        assert!(pair[0].seq < pair[1].seq, "seq does not grow: {pair:?}");
    }
    for logged in events {
        let id = match &logged.event {
            Event::Queued { id } | Event::Started { id, .. } | Event::InputRequest { id, .. } => Some(id),
            Event::Stream { id, .. } | Event::Display { id, .. } => id.as_ref(),
            Event::Result(outcome) => Some(&outcome.id),
            Event::Violation { id, .. } => id.as_ref(),
            Event::Status { .. } => None,
        };
        if let Some(id) = id {
            assert!(!ended.contains(id), "after its result: {logged:?}");
        }
        if let Event::Result(outcome) = &logged.event {
            ended.insert(outcome.id.clone());
        }
    }
}
