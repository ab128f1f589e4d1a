//! Attempts to get out of a sandbox, to use more than it gives, or to meet another session, through a running server.
//!
//! They are data: one file for each layer that is under test. An attempt is one thing that is tried, in the languages
//! that have code for it and at the levels that it names, each time in a session of its own:
//!
//! ```text
//!   name       what is attacked
//!   tries      how
//!   levels     strict, standard, relaxed: all, unless it says otherwise
//!   python, javascript, bash    its code, which follows `prelude.py`, `prelude.js` or `prelude.bash`, unless its file
//!              says `bare`
//!   plant      code for a second session of the same level and language, which runs first
//!   refused    how it is refused: the names in the lines `refused: NAME …` that it prints, all of them and no others;
//!              what it printed instead is not looked at if this is left out
//!   violation  the rule that the result names, and `detail`, what it says of it
//!   exception  the name of the exception that the execution ends with; it need not print anything then
//!   dies       it may also end the interpreter, or be ended by the limit `limit`
//!   otherwise  the same keys for some of the levels and languages; the first that matches counts
//! ```
//! No attempt may print a line that begins with `ESCAPED`.

mod attempts;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use futures::StreamExt;
use repltool::client::Client;
use repltool_protocol::rest::ExecutionResult;
use serde_json::json;

use crate::harness::{As, Server, run, session};
use crate::metrics::exposition::scrape;
use attempts::{ADVICE, fault};
pub use attempts::{Case, Refusal, WALLS};

/// Settings within what the files assume. The walls are under test here and not the advice; what a session may be
/// refused is not to end it before it has tried all of it.
pub const SETTINGS: &str = "[sandbox]\ndisk_mb = 32\nviolations_per_minute = 100000\n\
    [sandbox.strict]\npolicy = \"record\"\n[sandbox.standard]\npolicy = \"record\"\n";
/// Attempts that are made at once.
const AT_ONCE: usize = 4;

/// Makes the attempts of these files that are wanted. Says how many there were.
pub async fn assert_refused(
    client: &Client,
    files: &[&str],
    refusal: Refusal,
    wanted: impl Fn(&Case<'_>) -> bool,
) -> usize {
    let files: Vec<_> = files.iter().map(|file| attempts::read(file)).collect();
    let cases: Vec<_> = files.iter().flatten().flat_map(attempts::Attempt::cases).filter(wanted).collect();
    let count = cases.len();
    let made = futures::stream::iter(cases).map(|case| make(client, case, refusal));
    let faults: Vec<String> = made.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n\n"));
    count
}

/// Makes one attempt; says what is wrong with how it ended, if anything is.
async fn make(client: &Client, case: Case<'_>, refusal: Refusal) -> Option<String> {
    let settings = json!({"sandbox_mode": case.level, "resource_limits": {"max_memory_mb": 128}});
    let planted = match case.plant {
        Some(plant) => {
            let planted = session(client, case.language, settings.clone()).await;
            let result = run(client, &planted, &case.whole(plant)).await;
            if !result.success && refusal == Refusal::Somehow {
                // What is not there cannot be met.
                return None;
            }
            assert!(result.success, "{} cannot be planted: {result:?}", case.name());
            Some(planted)
        }
        None => None,
    };
    let id = session(client, case.language, settings).await;
    let result: ExecutionResult = run(client, &id, &case.whole(case.code)).await;
    for id in planted.into_iter().chain([id]) {
        // A session that was ended for what it tried may be gone already.
        let _ = client.delete(&id).await;
    }
    fault(&case, &result, refusal).map(|fault| format!("{}: {fault}: {}{}", case.name(), result.output, result.error))
}

/// What some attempts look for is there, so that they could find it.
struct Bait(#[expect(dead_code, reason = "they are held")] (Option<UnixListener>, Option<UnixDatagram>));

impl Bait {
    fn lay() -> Self {
        let address = SocketAddr::from_abstract_name("repltool-escape").expect("an address");
        // Another test may have laid it already.
        Self((UnixListener::bind_addr(&address).ok(), UnixDatagram::bind_addr(&address).ok()))
    }
}

#[tokio::test]
async fn every_attempt_to_escape_is_refused() {
    let _bait = Bait::lay();
    let server = Server::start_with(As::Me, SETTINGS).await;
    let count = assert_refused(&server.client(), WALLS, Refusal::AsTold, |_| true).await;
    assert!(count >= 400, "{count} attempts");
    assert!(server.client().list(10, 0).await.expect("a list").sessions.is_empty());
}

/// Those that waited, forks of the zygote among them, and those for which none did.
#[tokio::test]
async fn attempts_to_escape_are_refused_in_interpreters_that_waited() {
    let _bait = Bait::lay();
    for zygote in [true, false] {
        let settings = format!("{SETTINGS}\n[pool]\nmin = 2\nmax = 2\nzygote = {zygote}\n");
        let server = Server::start_with(As::Me, &settings).await;
        let count = assert_refused(&server.client(), WALLS, Refusal::AsTold, |_| true).await;
        assert!(count >= 400, "{count} attempts");
        let hits = scrape(&server).await.value("repl_pool_hits_total{language=\"python\"}");
        assert!(hits >= 10.0, "{hits} attempts were made in one that waited");
    }
}

#[tokio::test]
async fn what_goes_around_the_policy_meets_the_walls() {
    let server = Server::start_as_shipped("[sandbox]\nviolations_per_minute = 100000\n").await;
    assert_refused(&server.client(), ADVICE, Refusal::AsTold, |_| true).await;
}
