//! What the server sends, as the client reads it: read, written and read again it is the same, in one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use repltool_protocol::codec::{decode_event, decode_server, encode_event, encode_notice};
use repltool_protocol::frame::ServerFrame;

fn write(frame: &ServerFrame) -> String {
    match frame {
        ServerFrame::Event(logged) => encode_event(logged.seq, &logged.event),
        ServerFrame::Notice(notice) => encode_notice(notice),
    }
}

fuzz_target!(|text: &str| {
    let _ = decode_event(text);
    let Ok(Some(frame)) = decode_server(text) else { return };
    let written = write(&frame);
    assert!(!written.is_empty() && !written.contains('\n'));
    let again = decode_server(&written).expect("it was a frame").expect("its type is known");
    assert_eq!(again, frame, "{written}");
    assert_eq!(write(&again), written);
    if let ServerFrame::Event(logged) = frame {
        assert_eq!(decode_event(&written).expect("it was an event"), logged);
    }
});
