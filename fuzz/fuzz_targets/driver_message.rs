//! The control socket of a driver: what it sent means the same however it is cut; what is sent to it is whole and small.
//! The first byte says how many bytes come at once, and whether the answer to a `hello` is awaited.
#![no_main]

use libfuzzer_sys::fuzz_target;
use repltool::runtime::control::{
    Decoder, FromDriver, HEADER, MAX_TO_DRIVER, PART, StdinMode, ToDriver, encode, parts,
};

const NONCE: &str = "0123456789abcdef";

/// The messages up to the end or the first fault, and whether there was one.
fn read(bytes: &[u8], at_once: usize, awaits: bool) -> (Vec<FromDriver>, bool) {
    let mut decoder = Decoder::default();
    if awaits {
        decoder.synchronise(NONCE.to_owned());
    }
    let mut messages = Vec::new();
    for piece in bytes.chunks(at_once.max(1)) {
        decoder.fill(piece);
        loop {
            match decoder.take() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}

fn payload(message: &ToDriver<'_>) -> serde_json::Value {
    let frame = encode(message).expect("a part is small");
    let (header, payload) = frame.split_at(HEADER);
    let length: usize = std::str::from_utf8(header).expect("digits").parse().expect("digits");
    assert!(length == payload.len() && length <= MAX_TO_DRIVER);
    serde_json::from_slice(payload).expect("a payload is JSON")
}

fn send(code: &str) {
    let mut sent = String::new();
    for (i, s) in parts(code).enumerate() {
        assert!((1..=PART).contains(&s.len()));
        sent.push_str(payload(&ToDriver::Part { n: 1, i, s })["s"].as_str().expect("a text"));
        let (code, ack) = (Some(s), Some(7));
        let exec = payload(&ToDriver::Exec { n: 1, count: 1, code, parts: None, ack, stdin: StdinMode::Ask });
        assert_eq!(exec["code"].as_str(), Some(s));
    }
    assert_eq!(sent, code);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let awaits = *first & 1 == 1;
    let whole = read(bytes, bytes.len(), awaits);
    assert_eq!(read(bytes, usize::from(first >> 1), awaits), whole);
    if awaits && let Some(first) = whole.0.first() {
        assert!(matches!(first, FromDriver::Hello { nonce, .. } if nonce == NONCE), "{first:?}");
    }
    if let Ok(code) = std::str::from_utf8(bytes) {
        send(code);
    }
});
