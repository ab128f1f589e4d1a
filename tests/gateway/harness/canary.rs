//! What no log of a server may hold: tokens and keys, what was sent as code, as a body or to be read by a program, and
//! whatever a test marks with [`MARK`]. Each server of the harness tells all it has to tell, and is searched when it ends.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use aho_corasick::AhoCorasick;

/// Stands in values of tests that no log may hold, whatever else they are.
pub const MARK: &str = "SECRET-CANARY";
/// Shorter texts stand in logs by chance: names, numbers, words.
const LEAST_BYTES: usize = 20;
/// The part of a longer line that is looked for.
const MOST_BYTES: usize = 200;
/// Lines of one text that are looked for, and lines in all.
const MOST_LINES: usize = 20;
const MOST_PLANTED: usize = 5000;

/// In the lines that tell of violations, whose detail quotes what was tried.
const VIOLATION: &str = "repltool::violation";

/// Of all servers of this process: who sends something does not always know to which one.
static PLANTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static TOKENS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// No line of a log but one of a violation may hold a line of this text, as far as it is too long to stand there by chance.
pub fn plant(text: &str) {
    plant_in(&PLANTED, text);
}

fn plant_in(planted: &Mutex<BTreeSet<String>>, text: &str) {
    let mut planted = planted.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MOST_PLANTED.saturating_sub(planted.len()).min(MOST_LINES);
    planted.extend(needles(text).take(room));
}

/// No line of a log may hold the signature of this token, which is what makes it one.
pub fn plant_token(token: &str) {
    if let Some((_, signature)) = token.rsplit_once('.') {
        plant_in(&TOKENS, signature);
    }
}

/// What is looked for of a text: its lines, as they are and as JSON has them.
fn needles(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(str::trim).filter(|line| line.len() >= LEAST_BYTES);
    lines.flat_map(|line| {
        let line = &line[..line.floor_char_boundary(MOST_BYTES)];
        let escaped = line.escape_debug().to_string();
        [Some(line.to_owned()), Some(escaped).filter(|escaped| escaped != line)].into_iter().flatten()
    })
}

/// The lines of a log that hold what they may not: [`MARK`], what was planted, or one of these.
fn told<'a>(log: &'a str, more: &[String]) -> Vec<&'a str> {
    let [planted, tokens] = [&PLANTED, &TOKENS].map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
    let secrets = search(tokens.iter().chain(more).map(String::as_str).chain([MARK]));
    let texts = search(planted.iter());
    let is_told = |line: &&str| secrets.is_match(*line) || (texts.is_match(*line) && !line.contains(VIOLATION));
    match secrets.is_match(log) || texts.is_match(log) {
        true => log.lines().filter(is_told).collect(),
        false => Vec::new(),
    }
}

fn search(what: impl Iterator<Item = impl AsRef<[u8]>>) -> AhoCorasick {
    AhoCorasick::new(what).expect("few enough to be looked for")
}

/// Fails the test if a log holds what it may not. The secrets of the server's own directory are looked for as well.
pub fn assert_untold(log: &str, data: &Path) {
    let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap_or_default();
    let signature = read("token").trim().rsplit('.').next().unwrap_or_default().to_owned();
    let own: Vec<_> = [signature, read("signing.key").trim().to_owned()]
        .into_iter()
        .flat_map(|it| needles(&it).collect::<Vec<_>>())
        .collect();
    let told = told(log, &own);
    assert!(told.is_empty(), "the log of the server tells secrets: {told:#?}");
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::panic::AssertUnwindSafe;

    use super::*;
    use crate::harness::Server;

    const KEY: &str = "6Yp1tq0Q8vS2xJm4Wc7Z";

    #[test]
    fn whoever_tells_a_secret_is_found() {
        plant_token("e30.e30.c2lnbmF0dXJlLW9mLWEtdGVzdA");
        plant("short\n  print(\"a line that nobody may tell\")\n");
        let logs = [
            "INFO said=SECRET-CANARY-output",
            "INFO token=e30.e30.c2lnbmF0dXJlLW9mLWEtdGVzdA",
            r#"INFO code=print("a line that nobody may tell")"#,
            r#"{"code":"if 1:\n print(\"a line that nobody may tell\")"}"#,
            "INFO key=6Yp1tq0Q8vS2xJm4Wc7Z",
        ];
        for log in logs {
            let log = format!("INFO before\n{log}\nINFO after\n");
            assert_eq!(told(&log, &[KEY.to_owned()]).len(), 1, "{log}");
        }
        let violation = r#"WARN repltool::violation: detail="print(\"a line that nobody may tell\")""#;
        assert!(told(violation, &[]).is_empty());
        assert_eq!(told(&format!("{violation} {KEY}"), &[KEY.to_owned()]).len(), 1);
        assert!(told("INFO short e30.e30 print(", &[KEY.to_owned()]).is_empty());
    }

    #[test]
    fn a_server_that_told_its_key_fails_its_test() {
        let data = tempfile::tempdir().expect("a directory");
        std::fs::write(data.path().join("signing.key"), format!("{KEY}\n")).expect("written");
        assert_untold("INFO nothing\n", data.path());
        let found = std::panic::catch_unwind(|| assert_untold(&format!("INFO key={KEY}\n"), data.path()));
        assert!(found.is_err());
    }

    #[tokio::test]
    async fn the_end_of_a_server_that_told_a_secret_fails_its_test() {
        let server = Server::start().await;
        assert!(server.log().contains("DEBUG"), "it tells more than others do");
        let log = std::fs::File::options().append(true).open(server.dir.path().join("log"));
        let key = std::fs::read_to_string(server.data().join("signing.key")).expect("a key");
        writeln!(log.expect("a log"), "INFO key={key}").expect("written");
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| drop(server))).is_err());
    }
}
