//! The control protocol: what a driver says is read, `hello` among it, which is the fence; what it is told is written.

use std::hint::black_box;

use repltool::runtime::control::{self, Decoder, FromDriver, StdinMode, ToDriver};

use crate::{Run, Step, repeated};

const NONCE: &str = "0123456789abcdef0123456789abcdef";
const HELLO: &str = r#"{"t":"hello","nonce":"0123456789abcdef0123456789abcdef","last":7}"#;
const DONE: &str = r#"{"t":"done","m":9,"n":8,"success":true,"result":2,"result_text":"2","end_ns":123456789012345}"#;
const FAILED: &str = r#"{"t":"done","m":9,"n":8,"success":false,"result":null,"result_text":null,"exception":{
    "name":"ZeroDivisionError","message":"division by zero","traceback":["Traceback (most recent call last):",
    "  File \"<cell 8>\", line 1, in <module>","ZeroDivisionError: division by zero"]},"exit_code":null,
    "truncated":false,"violations":[],"end_ns":123456789012345}"#;

/// All of them.
pub static STEPS: [Step; 7] = [
    Step { name: "read hello", make: || hello(frame(HELLO)) },
    Step { name: "find hello behind 4 KB", make: || hello(behind_noise()) },
    Step { name: "read done", make: || message(frame(DONE)) },
    Step { name: "read done of an exception", make: || message(frame(FAILED)) },
    Step { name: "read done in two pieces", make: in_two_pieces },
    Step { name: "read display of 4 KB", make: || message(display()) },
    Step { name: "write exec", make: exec },
];

fn frame(payload: &str) -> Vec<u8> {
    format!("{:08}{payload}", payload.len()).into_bytes()
}

/// The rest of a frame that another gateway had half read, then the answer to this one.
fn behind_noise() -> Vec<u8> {
    let mut bytes = repeated("the rest of a display, {\"t\":\"hello\" and other words, ", 4096).into_bytes();
    bytes.extend(frame(HELLO));
    bytes
}

fn display() -> Vec<u8> {
    let text = repeated("iVBORw0KGgoAAAANSUhEUgAA", 4096);
    frame(&format!(r#"{{"t":"display","m":9,"n":8,"data":{{"image/png":"{text}"}},"metadata":{{}}}}"#))
}

fn hello(bytes: Vec<u8>) -> Run {
    let mut decoder = Decoder::default();
    Box::new(move || {
        decoder.synchronise(NONCE.to_owned());
        decoder.fill(black_box(&bytes));
        let message = decoder.take().unwrap();
        assert!(matches!(message, Some(FromDriver::Hello { last: 7, .. })));
    })
}

fn message(bytes: Vec<u8>) -> Run {
    let mut decoder = Decoder::default();
    Box::new(move || {
        decoder.fill(black_box(&bytes));
        black_box(decoder.take().unwrap().unwrap());
    })
}

fn in_two_pieces() -> Run {
    let bytes = frame(DONE);
    let mut decoder = Decoder::default();
    Box::new(move || {
        let (head, tail) = bytes.split_at(40);
        decoder.fill(black_box(head));
        assert!(decoder.take().unwrap().is_none());
        decoder.fill(black_box(tail));
        black_box(decoder.take().unwrap().unwrap());
    })
}

fn exec() -> Run {
    let code = "print('hi')\n1+1";
    let message =
        ToDriver::Exec { n: 8, count: 8, code: Some(code), parts: None, ack: Some(8), stdin: StdinMode::None };
    Box::new(move || {
        black_box(control::encode(black_box(&message)).unwrap());
    })
}
