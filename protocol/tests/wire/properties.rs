use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use repltool_protocol::codec::{
    decode_client, decode_event, decode_server, encode_event, encode_notice, encode_stream,
};
use repltool_protocol::event::{
    Event, Exception, ExecutionState, Limit, LoggedEvent, Outcome, RawJson, Recovered, SessionStatus, StatusReason,
    StreamName, Usage, Violation, ViolationLayer,
};
use repltool_protocol::frame::{ClientFrame, Notice, ServerFrame};
use repltool_protocol::ids::{ExecutionId, RequestId, Seq, SessionId};
use repltool_protocol::query::{Completeness, CompletenessStatus, Completion, Inspection, Reply};
use repltool_protocol::token::BearerToken;

fn execution_id() -> impl Strategy<Value = ExecutionId> {
    "[A-Za-z0-9_.-]{1,64}".prop_map(|text| text.parse().unwrap())
}

fn request_id() -> impl Strategy<Value = RequestId> {
    "[A-Za-z0-9_.-]{1,64}".prop_map(|text| text.parse().unwrap())
}

/// Any text at all, control characters and characters outside the basic plane among it.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter)
}

fn client_frame() -> impl Strategy<Value = ClientFrame> {
    prop_oneof![
        (execution_id(), text(), option::of(any::<u64>()), option::of(text()))
            .prop_map(|(id, code, timeout_ms, stdin)| ClientFrame::Execute { id, code, timeout_ms, stdin }),
        (option::of(text()), any::<bool>()).prop_map(|(data, eof)| ClientFrame::Stdin { data, eof }),
        question().prop_map(|(id, code, cursor)| ClientFrame::Complete { id, code, cursor }),
        question().prop_map(|(id, code, cursor)| ClientFrame::Inspect { id, code, cursor }),
        question().prop_map(|(id, code, cursor)| ClientFrame::IsComplete { id, code, cursor }),
        option::of(execution_id()).prop_map(|id| ClientFrame::Interrupt { id }),
        option::of(request_id()).prop_map(|id| ClientFrame::Restart { id }),
        option::of(request_id()).prop_map(|id| ClientFrame::Terminate { id }),
        (text(), option::of(request_id())).prop_map(|(token, id)| ClientFrame::Auth { token: BearerToken(token), id }),
        request_id().prop_map(|id| ClientFrame::Ping { id }),
    ]
}

fn question() -> impl Strategy<Value = (RequestId, String, Option<u64>)> {
    (request_id(), text(), option::of(any::<u64>()))
}

fn reply() -> impl Strategy<Value = Reply> {
    let status = prop_oneof![Just(CompletenessStatus::Incomplete), Just(CompletenessStatus::Unknown)];
    prop_oneof![
        (proptest::collection::vec(text(), 0..3), any::<u64>(), any::<u64>()).prop_map(
            |(matches, cursor_start, cursor_end)| Reply::Complete(Completion { matches, cursor_start, cursor_end })
        ),
        (any::<bool>(), btree_map(text(), text(), 0..3))
            .prop_map(|(found, data)| Reply::Inspect(Inspection { found, data })),
        (status, text()).prop_map(|(status, indent)| Reply::IsComplete(Completeness { status, indent })),
    ]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            btree_map(text(), inner, 0..4).prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn stream_name() -> impl Strategy<Value = StreamName> {
    prop_oneof![Just(StreamName::Stdout), Just(StreamName::Stderr)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let exception = (text(), text(), proptest::collection::vec(text(), 0..3))
        .prop_map(|(name, message, traceback)| Exception { name, message, traceback });
    let violation =
        (text(), text()).prop_map(|(rule, detail)| Violation { rule, detail, layer: ViolationLayer::Kernel });
    let limit = prop_oneof![Just(Limit::WallTime), Just(Limit::Memory), Just(Limit::Processes)];
    let usage = any::<(u64, u64, u64)>().prop_map(|(cpu_time_ms, peak_memory_bytes, output_bytes)| Usage {
        cpu_time_ms,
        peak_memory_bytes,
        output_bytes,
    });
    let causes = (option::of(exception), option::of(limit), option::of(violation), option::of(0..=255));
    (execution_id(), json(), option::of(text()), causes, usage, any::<(u64, bool, bool, u64)>(), text()).prop_map(
        |(id, result, result_text, (exception, limit, violation, exit_code), usage, rest, timestamp)| Outcome {
            id,
            execution_count: rest.0,
            success: rest.1,
            result: RawJson(serde_json::value::to_raw_value(&result).unwrap()),
            result_text,
            exception,
            exit_code,
            limit,
            violation,
            truncated: rest.2,
            state_lost: !rest.2,
            usage,
            execution_time_ms: rest.3,
            timestamp,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let mime = || btree_map(text(), json(), 0..3);
    let reason = prop_oneof![Just(StatusReason::Violations), Just(StatusReason::Recovered)];
    let recovered = prop_oneof![Just(Recovered::Replayed), Just(Recovered::Empty)];
    prop_oneof![
        execution_id().prop_map(|id| Event::Queued { id }),
        (execution_id(), any::<u64>(), text()).prop_map(|(id, execution_count, timestamp)| Event::Started {
            id,
            execution_count,
            timestamp
        }),
        (option::of(execution_id()), stream_name(), text()).prop_map(|(id, stream, data)| Event::Stream {
            id,
            stream,
            data
        }),
        (option::of(execution_id()), mime(), mime()).prop_map(|(id, data, metadata)| Event::Display {
            id,
            data,
            metadata
        }),
        (execution_id(), text(), any::<bool>()).prop_map(|(id, prompt, password)| Event::InputRequest {
            id,
            prompt,
            password
        }),
        (option::of(execution_id()), text(), text(), any::<u32>()).prop_map(|(id, rule, detail, times)| {
            Event::Violation { id, rule, detail, layer: ViolationLayer::Policy, times }
        }),
        outcome().prop_map(|outcome| Event::Result(Box::new(outcome))),
        (option::of(reason), option::of(recovered)).prop_map(|(reason, recovered)| Event::Status {
            status: SessionStatus::Active,
            execution_state: ExecutionState::Busy,
            reason,
            recovered,
        }),
    ]
}

proptest! {
    #[test]
    fn client_frames_round_trip(frame in client_frame()) {
        let text = serde_json::to_string(&frame).unwrap();
        prop_assert_eq!(decode_client(&text).unwrap(), frame.clone());
        prop_assert_eq!(serde_json::from_str::<ClientFrame>(&text).unwrap(), frame);
    }

    #[test]
    fn events_round_trip_in_one_line(seq in any::<u64>(), event in event()) {
        let text = encode_event(Seq(seq), &event);
        prop_assert!(!text.is_empty() && !text.contains('\n'));
        let logged = LoggedEvent { seq: Seq(seq), event };
        prop_assert_eq!(decode_event(&text).unwrap(), logged.clone());
        prop_assert_eq!(decode_server(&text).unwrap(), Some(ServerFrame::Event(logged.clone())));
        let by_serde = serde_json::to_value(&logged).unwrap();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), by_serde);
    }

    #[test]
    fn replies_round_trip_in_one_line(id in request_id(), reply in reply()) {
        let notice = Notice::Reply { id, reply };
        let text = encode_notice(&notice);
        prop_assert!(!text.is_empty() && !text.contains('\n'));
        prop_assert_eq!(decode_server(&text).unwrap(), Some(ServerFrame::Notice(notice)));
    }

    #[test]
    fn streams_are_encoded_as_serde_would(seq in any::<u64>(), id in option::of(execution_id()), stream in stream_name(), data in text()) {
        let fast = encode_stream(Seq(seq), id.as_ref().map(ExecutionId::as_str), stream, &data);
        let logged = LoggedEvent { seq: Seq(seq), event: Event::Stream { id, stream, data } };
        let by_serde = serde_json::to_value(&logged).unwrap();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&fast).unwrap(), by_serde);
    }

    #[test]
    fn any_text_is_read_or_refused(text in text()) {
        let _ = (decode_client(&text), decode_server(&text), decode_event(&text));
    }

    /// What the hand-written reader takes, serde's form takes as the same frame, and the other way round.
    #[test]
    fn damaged_frames_are_judged_as_serde_would(frame in client_frame(), at in any::<prop::sample::Index>(), byte in any::<char>()) {
        let mut text = serde_json::to_string(&frame).unwrap();
        let places: Vec<_> = text.char_indices().collect();
        let (start, old) = places[at.index(places.len())];
        text.replace_range(start..start + old.len_utf8(), byte.encode_utf8(&mut [0; 4]));
        prop_assert_eq!(decode_client(&text).ok(), serde_json::from_str::<ClientFrame>(&text).ok());
    }

    /// Objects of known names with values of any kind: the mistakes that programs make.
    #[test]
    fn fields_of_any_kind_are_judged_as_serde_would(
        kind in prop::sample::select(ClientFrame::TYPES.to_vec()),
        fields in btree_map(prop::sample::select(vec!["id", "code", "timeout_ms", "stdin", "cursor", "data", "eof", "token", "mode"]), field_value(), 0..5),
    ) {
        let fields: BTreeMap<_, _> = fields.into_iter().chain([("type", kind.into())]).collect();
        let text = serde_json::to_string(&fields).unwrap();
        prop_assert_eq!(decode_client(&text).ok(), serde_json::from_str::<ClientFrame>(&text).ok(), "{}", text);
    }

    #[test]
    fn ids_are_what_their_patterns_say(text in "[A-Za-z0-9_.\\- /äß\n]{0,70}") {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric());
        let session: Result<SessionId, _> = text.parse();
        prop_assert_eq!(session.is_ok(), plain && (8..=32).contains(&text.len()));
        let small = text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let execution: Result<ExecutionId, _> = text.parse();
        prop_assert_eq!(execution.is_ok(), small && (1..=64).contains(&text.len()));
        if let Ok(id) = execution {
            prop_assert_eq!(id.to_string(), text.clone());
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<ExecutionId>(&json).unwrap(), id);
        }
    }
}

fn field_value() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (0_u64..1_000_000).prop_map(Into::into),
        "[a-z0-9 ]{0,8}".prop_map(Into::into),
        Just(serde_json::json!([1])),
        Just(serde_json::json!({"id": "x"})),
    ]
}
