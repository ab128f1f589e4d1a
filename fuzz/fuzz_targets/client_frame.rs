//! What clients send over the WebSocket: it is read as serde would read it, and a refusal is short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use repltool_protocol::codec::{DecodeError, decode_client};
use repltool_protocol::frame::ClientFrame;
use repltool_protocol::ids::RequestId;

fuzz_target!(|text: &str| {
    let by_serde = serde_json::from_str::<ClientFrame>(text).ok();
    match decode_client(text) {
        Ok(frame) => {
            assert_eq!(Some(&frame), by_serde.as_ref());
            let written = serde_json::to_string(&frame).expect("a frame is JSON");
            assert_eq!(decode_client(&written).expect("it was a frame"), frame);
        }
        Err(DecodeError::Malformed { detail, id }) => {
            // serde's tagged enums also take a list; the contract does not.
            assert!(by_serde.is_none() || text.trim_ascii_start().starts_with('['), "{by_serde:?}");
            assert!((1..=301).contains(&detail.chars().count()), "{detail}");
            assert!(id.is_none_or(|id| id.parse::<RequestId>().is_ok()));
        }
        Err(DecodeError::TooBig(_)) => unreachable!("inputs are small"),
    }
});
