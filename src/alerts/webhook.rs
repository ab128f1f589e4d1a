//! An alert as it is sent out.

use jiff::Timestamp;
use serde_json::json;

use super::Alert;
use crate::audit::written;

/// The body of the webhook, JSON. What is not known of an alert is null.
pub(super) fn body(alert: &Alert, time: Timestamp) -> Vec<u8> {
    let Alert { kind, whose, session, count, first, last, held_back } = alert;
    let body = json!({
        "type": "repltool.alert",
        "kind": kind.name(),
        "timestamp": written(time),
        "count": count,
        "first": written(*first),
        "last": written(*last),
        "held_back": held_back,
        "subject": whose.subject(),
        "address": whose.address(),
        "session_id": session,
        "server": { "version": env!("CARGO_PKG_VERSION") },
    });
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{Kind, Whose};

    #[test]
    fn the_body_is_the_documented_one() {
        let time = |s: i64| Timestamp::from_second(1_700_000_000 + s).unwrap();
        let session = Some("ABCDEFGHIJKLMNOPQRSTUV".parse().unwrap());
        let whose = Whose::Subject("ada".to_owned());
        let alert =
            Alert { kind: Kind::Violations, whose, session, count: 10, first: time(0), last: time(5), held_back: 2 };
        let expected = concat!(
            r#"{"type":"repltool.alert","kind":"violations","timestamp":"2023-11-14T22:13:26.000000Z","count":10,"#,
            r#""first":"2023-11-14T22:13:20.000000Z","last":"2023-11-14T22:13:25.000000Z","held_back":2,"#,
            r#""subject":"ada","address":null,"session_id":"ABCDEFGHIJKLMNOPQRSTUV","server":{"version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}}"#
        );
        assert_eq!(String::from_utf8(body(&alert, time(6))).unwrap(), expected);
        let document = include_str!("../../docs/operations.md");
        for name in ["type", "kind", "timestamp", "count", "first", "last", "held_back", "subject", "address", "server"]
        {
            assert!(document.contains(&format!("\"{name}\":")), "{name} is in the document");
        }
    }
}
