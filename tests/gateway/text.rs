//! Bytes become text: no character is cut, nothing is hidden, nothing is changed but what is no text.

use repltool_protocol::event::{Event, StreamName};
use serde_json::json;

use super::harness::{Server, named, printed, python, run, send, until_result};

/// Characters of one to four bytes, and some that consist of several.
const TEXT: &str = "aé€😀ñ中e\u{301}👩\u{200d}🚀\u{10ffff}z";

#[tokio::test]
async fn characters_cut_at_any_byte_arrive_whole() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    // Writes both halves apart, so that the first is read before the second is there.
    let text = format!(
        "import os, time\ntext = '{TEXT}'.encode()\nfor cut in range(len(text) + 1):\n    for fd in (1, 2):\n        \
         for half in (text[:cut], text[cut:]):\n            os.write(fd, half)\n            time.sleep(0.01)\n        \
         os.write(fd, b'\\n')"
    );
    let mut socket = client.attach(&id, None).await.expect("a socket");
    let execution = send(&mut socket, "e1", &text).await;
    let events = until_result(&mut socket, &execution).await;
    let expected = format!("{TEXT}\n").repeat(TEXT.len() + 1);
    for stream in [StreamName::Stdout, StreamName::Stderr] {
        assert_eq!(printed(&events, stream), expected, "{stream:?}");
    }
    let pieces = events.iter().filter(|it| matches!(it.event, Event::Stream { .. })).count();
    assert!(pieces > 2 * TEXT.len(), "only {pieces} pieces: the halves were read together");
    let result = client.execute(&id, &named("e1", &text)).await.expect("the same execution");
    assert_eq!((result.output, result.error), (expected.clone(), expected));
}

#[tokio::test]
async fn characters_written_byte_by_byte_by_both_streams_arrive_whole() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let text = format!(
        "import os, time\nfor byte in '{TEXT}'.encode():\n    for fd in (1, 2):\n        os.write(fd, bytes([byte]))\n    \
         time.sleep(0.005)"
    );
    let result = run(&client, &id, &text).await;
    assert_eq!((result.output.as_str(), result.error.as_str()), (TEXT, TEXT));
}

#[tokio::test]
async fn bytes_that_are_no_text_become_replacement_characters() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let cases: [&[u8]; 8] = [
        b"a\xffb",
        b"\xc3(",
        b"\xe2\x82",
        b"x\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\x80\x80\xe2\x82\xac",
        b"\xf4\x90\x80\x80.",
    ];
    for bytes in cases {
        let result = run(&client, &id, &format!("import os; _ = os.write(1, bytes({bytes:?}))")).await;
        assert_eq!(result.output, String::from_utf8_lossy(bytes), "{bytes:?}");
        // One by one it is the same, although each is read alone.
        let slowly = format!("import time\nfor b in {bytes:?}: _ = os.write(1, bytes([b])); time.sleep(0.005)");
        assert_eq!(run(&client, &id, &slowly).await.output, String::from_utf8_lossy(bytes), "{bytes:?}");
    }
}

#[tokio::test]
async fn control_characters_arrive_as_they_are() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let wild = "\u{1b}[31mred\u{1b}[0m\r\n\0\u{7}\t\u{8}\u{7f}\u{85}\u{2028}\"\\\u{feff}\u{1b}]0;title\u{7}";
    let bytes = wild.as_bytes();
    let result = run(&client, &id, &format!("import os; _ = [os.write(fd, bytes({bytes:?})) for fd in (1, 2)]")).await;
    assert_eq!((result.output.as_str(), result.error.as_str()), (wild, wild));
}

#[tokio::test]
async fn the_two_streams_stay_apart() {
    let server = Server::start().await;
    let client = server.client();
    let id = python(&client, json!({})).await;
    let text = "import sys, ctypes, os\nfor n in range(500):\n    print('out', n)\n    print('err', n, file=sys.stderr)\n\
                libc = ctypes.CDLL(None)\n_ = libc.puts(b'from C')\nif os.fork() == 0: os.write(2, b'a child'); os._exit(0)\n_ = os.wait()";
    let result = run(&client, &id, text).await;
    let lines = |name: &str| (0..500).map(|n| format!("{name} {n}\n")).collect::<String>();
    assert_eq!(result.output, lines("out") + "from C\n");
    assert_eq!(result.error, lines("err") + "a child");
}
