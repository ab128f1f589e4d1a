use repltool_protocol::close::CloseCode;
use repltool_protocol::codec::{DecodeError, decode_client, decode_event, decode_server, encode_event, encode_notice};
use repltool_protocol::frame::{ClientFrame, ServerFrame};
use repltool_protocol::rest::MAX_MESSAGE_BYTES;
use serde_json::Value;

use super::read_json;

/// Name and text of each entry, and the entry.
fn entries(document: &Value, list: &str) -> Vec<(String, String, Value)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let list = document[list].as_array().unwrap();
    list.iter().map(|entry| (text(entry, "name"), text(entry, "text"), entry.clone())).collect()
}

#[test]
fn messages_of_clients_are_read_as_written_down() {
    for (name, text, entry) in entries(&read_json("vectors/client.json"), "frames") {
        let frame = decode_client(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_value(&frame).unwrap(), entry["frame"], "{name}");
        assert_eq!(serde_json::from_value::<ClientFrame>(entry["frame"].clone()).unwrap(), frame, "{name}");
        assert_eq!(decode_client(&entry["frame"].to_string()).unwrap(), frame, "{name}");
    }
}

#[test]
fn wrong_messages_are_refused_with_their_id_and_the_fault() {
    for (name, text, entry) in entries(&read_json("vectors/client.json"), "errors") {
        let Err(DecodeError::Malformed { detail, id }) = decode_client(&text) else { panic!("{name}: was read") };
        assert_eq!(id.as_deref(), entry["id"].as_str(), "{name}");
        assert!(detail.contains(entry["detail"].as_str().unwrap()), "{name}: {detail}");
    }
}

#[test]
fn messages_of_the_server_are_written_byte_for_byte() {
    for (name, text, _) in entries(&read_json("vectors/server.json"), "frames") {
        let frame = decode_server(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = match frame.unwrap_or_else(|| panic!("{name}: unknown")) {
            ServerFrame::Event(logged) => {
                assert_eq!(decode_event(&text).unwrap(), logged, "{name}");
                encode_event(logged.seq, &logged.event)
            }
            ServerFrame::Notice(notice) => encode_notice(&notice),
        };
        assert_eq!(written, text, "{name}");
    }
}

#[test]
fn types_of_later_versions_are_skipped() {
    for (name, text, _) in entries(&read_json("vectors/server.json"), "unknown") {
        assert!(decode_server(&text).unwrap().is_none(), "{name}");
    }
    let more = r#"{"type":"pong","id":"p1","since":"a later version"}"#;
    assert!(decode_server(more).unwrap().is_some());
}

#[test]
fn close_codes_are_those_written_down() {
    let document = read_json("vectors/close.json");
    let listed = document["codes"].as_array().unwrap();
    assert_eq!(listed.len(), CloseCode::ALL.len());
    for (entry, code) in listed.iter().zip(CloseCode::ALL) {
        assert_eq!(entry["code"], code.code());
        assert_eq!(entry["name"], format!("{code:?}"));
        assert_eq!(entry["may_retry"], code.may_retry());
    }
}

#[test]
fn a_message_above_the_limit_is_not_even_read() {
    let text = format!(r#"{{"type":"execute","id":"e1","code":"{}"}}"#, "x".repeat(MAX_MESSAGE_BYTES));
    assert!(matches!(decode_client(&text), Err(DecodeError::TooBig(bytes)) if bytes == text.len()));
}

#[test]
fn what_a_client_sent_is_quoted_in_part_only() {
    let long = "x".repeat(100_000);
    for text in [
        format!(r#"{{"type":"{long}","id":"p1"}}"#),
        format!(r#"{{"type":"ping","id":"p1","{long}":1}}"#),
        format!(r#"{{"type":"ping","id":"p1","timeout_ms":"{long}"}}"#),
    ] {
        let Err(DecodeError::Malformed { detail, id }) = decode_client(&text) else { panic!("was read") };
        assert!(detail.chars().count() <= 301, "{}", detail.len());
        assert_eq!(id.as_deref(), Some("p1"));
    }
}
