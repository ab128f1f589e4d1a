//! The wire's codec: frames of clients are read, events and notices are written.

use std::hint::black_box;

use repltool_protocol::codec;
use repltool_protocol::event::StreamName;
use repltool_protocol::frame::Notice;
use repltool_protocol::ids::Seq;

use crate::{Run, Step, repeated};

const EXECUTE: &str =
    r#"{"type":"execute","id":"5f0c2f6e-6d0b-4d1c-9d0e-2f6a3a1b7c11","code":"print('hi')\n1+1","timeout_ms":5000}"#;
const STDIN: &str = r#"{"type":"stdin","data":"Ada\n"}"#;
const UNKNOWN: &str = r#"{"type":"excute","id":"e1","code":"1+1"}"#;
const STARTED: &str =
    r#"{"type":"started","id":"e1","execution_count":3,"timestamp":"2026-04-08T10:30:05.123Z","seq":43}"#;
pub(crate) const RESULT: &str = r#"{"type":"result","id":"e1","execution_count":3,"success":true,"result":2,
    "result_text":"2","exception":null,"exit_code":null,"limit":null,"violation":null,"truncated":false,"state_lost":false,
    "usage":{"cpu_time_ms":4,"peak_memory_bytes":11534336,"output_bytes":17},"execution_time_ms":12,
    "timestamp":"2026-04-08T10:30:05.123Z","seq":48}"#;
const FAILED: &str = r#"{"type":"result","id":"e2","execution_count":4,"success":false,"result":null,"result_text":null,
    "exception":{"name":"KeyboardInterrupt","message":"","traceback":["Traceback (most recent call last):",
    "  File \"<cell 4>\", line 1, in <module>","KeyboardInterrupt"]},"exit_code":null,"limit":"wall_time","violation":null,
    "truncated":true,"state_lost":false,"usage":{"cpu_time_ms":1000,"peak_memory_bytes":0,"output_bytes":0},
    "execution_time_ms":1003,"timestamp":"2026-04-08T10:30:06.000Z","seq":49}"#;

/// All of them.
pub static STEPS: [Step; 11] = [
    Step { name: "decode execute", make: || decode(EXECUTE.to_owned()) },
    Step { name: "decode execute of 10 KB", make: || decode(long_execute()) },
    Step { name: "decode stdin", make: || decode(STDIN.to_owned()) },
    Step { name: "decode an unknown type", make: unknown },
    Step { name: "encode started", make: || encode(STARTED) },
    Step { name: "encode result", make: || encode(RESULT) },
    Step { name: "encode result of an exception", make: || encode(FAILED) },
    Step { name: "encode stream of a line", make: || stream(17) },
    Step { name: "encode stream of 4 KB", make: || stream(4096) },
    Step { name: "encode gap", make: gap },
    Step { name: "read an event back", make: read_back },
];

fn decode(text: String) -> Run {
    Box::new(move || {
        black_box(codec::decode_client(black_box(&text)).unwrap());
    })
}

/// Code with a line break to unescape in each 80 bytes.
fn long_execute() -> String {
    let code = repeated(r"total = sum(float(row['price']) * 1.19 for row in rows if row['name'] != 'x')\n", 9966);
    format!(r#"{{"type":"execute","id":"e1","code":"{code}"}}"#)
}

fn unknown() -> Run {
    Box::new(|| {
        black_box(codec::decode_client(black_box(UNKNOWN)).unwrap_err());
    })
}

fn encode(text: &str) -> Run {
    let event = codec::decode_event(text).unwrap().event;
    Box::new(move || {
        black_box(codec::encode_event(Seq(48), black_box(&event)));
    })
}

fn stream(length: usize) -> Run {
    let data = repeated("one line of output, with a \"word\" to escape\n", length);
    Box::new(move || {
        black_box(codec::encode_stream(Seq(44), Some("e1"), StreamName::Stdout, black_box(&data)));
    })
}

fn gap() -> Run {
    let notice = Notice::Gap { from: Seq(1), to: Seq(40) };
    Box::new(move || {
        black_box(codec::encode_notice(black_box(&notice)));
    })
}

fn read_back() -> Run {
    Box::new(|| {
        black_box(codec::decode_event(black_box(RESULT)).unwrap());
    })
}
