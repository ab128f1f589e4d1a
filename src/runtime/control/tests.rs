//! Frames survive any split, and any bytes decode or fail.

use super::*;
use proptest::prelude::*;

fn frame(payload: &str) -> Vec<u8> {
    format!("{:08}{payload}", payload.len()).into_bytes()
}

fn all(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<FromDriver>, ControlError> {
    decoder.fill(bytes);
    let mut out = Vec::new();
    while let Some(message) = decoder.take()? {
        out.push(message);
    }
    Ok(out)
}

#[test]
fn a_new_gateway_finds_the_answer_behind_half_a_frame() {
    let mut decoder = Decoder::default();
    decoder.synchronise("ab".repeat(16));
    let answer = format!("{{\"t\":\"hello\",\"nonce\":\"{}\",\"last\":3}}", "ab".repeat(16));
    let mut bytes = b"tail of a frame\":null}00000030{\"t\":\"part\",\"n\":1".to_vec();
    bytes.extend(frame(&answer));
    bytes.extend(frame("{\"t\":\"part\",\"n\":4,\"i\":0}"));
    let got = all(&mut decoder, &bytes).expect("decodes");
    assert_eq!(got.len(), 2);
    assert!(matches!(&got[0], FromDriver::Hello { last: 3, .. }));
}

#[test]
fn words_of_an_answer_without_a_length_are_not_taken_for_it() {
    let mut decoder = Decoder::default();
    decoder.synchronise("ab".repeat(16));
    let answer = format!("{{\"t\":\"hello\",\"nonce\":\"{}\",\"last\":3}}", "ab".repeat(16));
    let bytes = [answer.as_bytes(), &[b' '; 200], &frame(&answer), &[b' '; 200]].concat();
    decoder.fill(&bytes);
    assert!(matches!(decoder.take(), Ok(Some(FromDriver::Hello { last: 3, .. }))));
}

#[test]
fn messages_to_a_driver_look_as_documented() {
    let exec = |stdin| ToDriver::Exec { n: 7, count: 3, code: Some("a\n\"é"), parts: None, ack: Some(5), stdin };
    let code = "a\\n\\\"é";
    for (message, text) in [
        (exec(StdinMode::Ask), format!(r#"{{"t":"exec","n":7,"count":3,"code":"{code}","ack":5,"stdin":"ask"}}"#)),
        (exec(StdinMode::None), format!(r#"{{"t":"exec","n":7,"count":3,"code":"{code}","ack":5,"stdin":"none"}}"#)),
        (ToDriver::Hello { nonce: "ab", reap: false }, r#"{"t":"hello","nonce":"ab"}"#.to_owned()),
        (ToDriver::Hello { nonce: "ab", reap: true }, r#"{"t":"hello","nonce":"ab","reap":true}"#.to_owned()),
        (ToDriver::Ack { m: 5 }, r#"{"t":"ack","m":5}"#.to_owned()),
        (
            ToDriver::Query { n: FIRST_QUERY, kind: QueryKind::IsComplete, code: None, parts: Some(2), cursor: 0 },
            r#"{"t":"query","n":4294967296,"kind":"is_complete","parts":2,"cursor":0}"#.to_owned(),
        ),
    ] {
        assert_eq!(encode(&message).expect("encoded"), frame(&text));
    }
}

#[test]
fn what_is_larger_than_allowed_is_no_message() {
    let reply = |body: String| frame(&format!(r#"{{"t":"reply","n":4294967296,"body":{body}}}"#));
    let matches = |count| format!(r#"{{"matches":{:?},"cursor_start":0,"cursor_end":0}}"#, vec!["a"; count]);
    let text = |size| format!(r#"{{"found":true,"data":{{"text/plain":"{}"}}}}"#, "x".repeat(size));
    let finding =
        |rule: usize, detail: usize| format!(r#"{{"rule":"{}","detail":"{}"}}"#, "r".repeat(rule), "d".repeat(detail));
    let done = |count, finding: String| {
        let findings = vec![finding; count].join(",");
        frame(&format!(r#"{{"t":"done","m":1,"n":1,"success":true,"end_ns":1,"violations":[{findings}]}}"#))
    };
    let shows = |count| frame(&format!(r#"{{"t":"display","m":1,"n":1,"data":{{"a":[{}0]}}}}"#, "0,".repeat(count)));
    let asks = |size| frame(&format!(r#"{{"t":"input_request","m":1,"n":1,"prompt":"{}"}}"#, "x".repeat(size)));
    for (fits, bytes) in [
        (true, reply(matches(500))),
        (false, reply(matches(501))),
        (true, reply(text(64 * 1024))),
        (false, reply(text(300 * 1024))),
        (true, asks(4096)),
        (false, asks(4097)),
        (false, reply("5".to_owned())),
        (true, done(16, finding(64, 300))),
        (false, done(17, finding(1, 1))),
        (false, done(1, finding(65, 1))),
        (false, done(1, finding(1, 301))),
        (true, shows(MAX_COMMAS - 3)),
        (false, shows(MAX_COMMAS - 2)),
    ] {
        assert_eq!(all(&mut Decoder::default(), &bytes).is_ok(), fits, "{} bytes", bytes.len());
    }
}

#[test]
fn numbers_of_a_result_keep_every_digit() {
    for number in ["31.245270191439438", "2.493307144426866e-8", "9163.453718085519", "-0.0", "5e-324", "0.1"] {
        let done = format!(r#"{{"t":"done","m":1,"n":1,"success":true,"result":[{number}],"end_ns":1}}"#);
        let got = all(&mut Decoder::default(), &frame(&done)).expect("decodes");
        let [FromDriver::Done(done)] = &got[..] else { panic!("{got:?}") };
        assert_eq!(done.result.0.get(), format!("[{number}]"));
    }
}

#[test]
fn parts_join_to_the_code() {
    let code = "é".repeat(PART);
    assert!(parts(&code).all(|part| part.len() <= PART));
    assert_eq!(parts(&code).collect::<String>(), code);
}

proptest! {
    #[test]
    fn frames_survive_any_split(cuts in prop::collection::vec(1usize..40, 0..20)) {
        let one = frame("{\"t\":\"part\",\"n\":7,\"i\":2}");
        let bytes = [one.clone(), one.clone(), one].concat();
        let mut decoder = Decoder::default();
        let mut got = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().chain(std::iter::once(usize::MAX)) {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            got.extend(all(&mut decoder, head).expect("decodes"));
            rest = tail;
        }
        prop_assert_eq!(got.len(), 3);
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = all(&mut Decoder::default(), &bytes);
    }
}
