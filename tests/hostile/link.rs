//! What a turned gateway can make the supervisor do.

use std::os::fd::OwnedFd;
use std::time::Duration;

use repltool::supervisor::link::{
    Create, Held, LinkError, MAX_FDS, MAX_PACKET_BYTES, SandboxId, ToGateway, ToSupervisor, VERSION, Watch,
};
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::{Language, SandboxMode};

use crate::server::{MAX_SESSIONS, Server, Setting, block_on, eventually};
use crate::turned::{Outcome, Report, Scene, Turned};

/// What is asked for in vain, by what is wrong with it.
type Change = (&'static str, fn(&mut Create));

const REFUSED: &[Change] = &[
    ("a level that is not configured", |it| it.mode = SandboxMode::Relaxed),
    ("a language without a program", |it| it.language = Language::Shell),
    ("no memory", |it| it.memory_bytes = 0),
    ("memory without end", |it| it.memory_bytes = u64::MAX),
    ("more memory than a session has", |it| it.memory_bytes = (4096 << 20) + 1),
    ("no CPU time", |it| it.cpu_seconds = 0),
    ("CPU time without end", |it| it.cpu_seconds = u64::MAX),
    ("LD_PRELOAD", |it| it.environment = vec![("LD_PRELOAD".into(), "/workspace/a.so".into())]),
    ("PATH", |it| it.environment = vec![("PATH".into(), "/workspace".into())]),
    ("a NUL byte in a value", |it| it.environment = vec![("A".into(), "b\0LD_PRELOAD=/x".into())]),
    ("a NUL byte in a name", |it| it.environment = vec![("A\0B".into(), "c".into())]),
    ("an equals sign in a name", |it| it.environment = vec![("LD_PRELOAD=/x".into(), String::new())]),
    ("much environment", |it| it.environment = vec![("A".into(), "x".repeat(60 << 10))]),
    ("many variables", |it| it.environment = (0..1000).map(|i| (format!("V{i}"), String::new())).collect()),
    ("a directory above", |it| it.working_directory = Some("../..".into())),
    ("a directory that goes down and up", |it| it.working_directory = Some("a/../../..".into())),
    ("an absolute directory", |it| it.working_directory = Some("/etc".into())),
    ("a directory with a NUL byte", |it| it.working_directory = Some("a\0b".into())),
    ("a directory in strict", |it| {
        (it.mode, it.working_directory) = (SandboxMode::Strict, Some("a".into()));
    }),
    ("a directory with a long name", |it| it.working_directory = Some("a".repeat(4096))),
];

/// What the turned gateway does; its report, unless it gave that before it went on.
pub fn play(turned: &mut Turned) -> Option<Report> {
    turned.say(&ToSupervisor::Hello { version: VERSION });
    let part = turned.scene.part.clone();
    match part.as_str() {
        "weaker" => Some(ask_for_weaker(turned)),
        "nothing" => Some(name_nothing(turned)),
        "let go" => Some(let_go(turned)),
        "many" => Some(ask_for_many(turned)),
        "deaf" => not_read(turned),
        breach => break_link(turned, breach),
    }
}

fn part(part: &str) -> Scene {
    Scene { part: part.to_owned(), ..Scene::default() }
}

fn create(session: SessionId) -> Create {
    Create {
        request: 0,
        session,
        language: Language::Bash,
        mode: SandboxMode::Standard,
        environment: Vec::new(),
        working_directory: None,
        memory_bytes: 64 << 20,
        cpu_seconds: 3600,
    }
}

/// A session of which the supervisor does not know.
fn stranger(number: usize) -> SessionId {
    format!("stranger{number:08}").parse().unwrap()
}

/// Asks, and waits for the answer.
fn ask(turned: &mut Turned, mut create: Create, request: u64) -> Result<(Held, Vec<OwnedFd>), String> {
    create.request = request;
    turned.say(&ToSupervisor::Create(Box::new(create)));
    loop {
        match turned.hear() {
            (ToGateway::Created { request: answered, held }, fds) if answered == request => return Ok((held, fds)),
            (ToGateway::NotCreated { request: answered, reason }, _) if answered == request => return Err(reason),
            _ => {}
        }
    }
}

pub fn no_sandbox_is_weaker_than_the_configuration(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        let mut report = server.play(part("weaker")).await;
        println!("{report:#?}");
        assert_eq!(report.remove("what a session may have"), Some(Outcome::Done));
        assert_eq!(report.len(), REFUSED.len());
        for (what, outcome) in &report {
            assert!(matches!(outcome, Outcome::Refused(_)), "{what}");
        }
        server.assert_well().await;
    });
}

fn ask_for_weaker(turned: &mut Turned) -> Report {
    let session: SessionId = turned.scene.session.parse().unwrap();
    let mut report = Report::new();
    for (number, (what, change)) in (1..).zip(REFUSED) {
        let mut wanted = create(session.clone());
        change(&mut wanted);
        let outcome = match ask(turned, wanted, number) {
            Ok(_) => Outcome::Done,
            Err(reason) => Outcome::Refused(reason),
        };
        report.insert((*what).to_owned(), outcome);
    }
    let (held, _fds) = ask(turned, create(session), 1000).unwrap();
    turned.say(&ToSupervisor::LetGo(held.sandbox));
    report.insert("what a session may have".to_owned(), Outcome::Done);
    report
}

/// It has let a sandbox go when it ends, which then still dies: the next one is not given it in the place of the session's.
pub fn what_was_let_go_is_nobodys(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        for _ in 0..5 {
            assert_eq!(server.play(part("let go")).await.len(), 1);
            server.assert_well().await;
        }
    });
}

fn let_go(turned: &mut Turned) -> Report {
    let session = turned.scene.session.parse().unwrap();
    let (held, _fds) = ask(turned, create(session), 1).unwrap();
    turned.say(&ToSupervisor::LetGo(held.sandbox));
    Report::from([("what a session may have".to_owned(), Outcome::Done)])
}

pub fn names_of_nothing_do_nothing(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        let report = server.play(part("nothing")).await;
        assert_eq!(report.get("a sandbox after that"), Some(&Outcome::Done));
        server.assert_well().await;
        server.assert_well().await;
        assert!(!server.log().contains("panicked"), "{}", server.log());
    });
}

fn name_nothing(turned: &mut Turned) -> Report {
    for id in [0, 999_999, u64::MAX] {
        let sandbox = SandboxId(id);
        turned.say(&ToSupervisor::Adopted(sandbox));
        turned.say(&ToSupervisor::Kill(sandbox));
        turned.say(&ToSupervisor::LetGo(sandbox));
        turned.say(&ToSupervisor::Measure(sandbox));
        let watch = Watch { begins: true, deadline_ns: Some(u64::MAX), cpu_ns: u64::MAX };
        turned.say(&ToSupervisor::Watch { sandbox, watch });
        turned.say(&ToSupervisor::Watch { sandbox, watch: Watch { deadline_ns: Some(0), cpu_ns: 0, ..watch } });
    }
    turned.say(&ToSupervisor::Release(stranger(1)));
    turned.say(&ToSupervisor::Serving);
    // More sessions than there is room for, each of which leaves its directory behind.
    for number in 0..80 {
        let (held, _fds) = ask(turned, create(stranger(number)), number as u64).unwrap();
        turned.say(&ToSupervisor::LetGo(held.sandbox));
        turned.say(&ToSupervisor::LetGo(held.sandbox));
    }
    [("a sandbox after that".to_owned(), Outcome::Done)].into()
}

/// Far more than there is room for.
const MANY: usize = 300;

pub fn sandboxes_are_bounded_whoever_asks(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        server.assert_well().await;
        let (descriptors, memory) = (server.descriptors(), server.memory_kib());
        let report = server.play(part("many")).await;
        let made = report.values().filter(|outcome| **outcome == Outcome::Done).count();
        println!("{made} made");
        assert!((MAX_SESSIONS..=2 * MAX_SESSIONS + 64).contains(&made), "{made} made");
        assert_eq!(report.len(), MANY);
        // The next gateway lets go what belongs to no session.
        eventually("the supervisor holds no more than before", async || {
            (server.descriptors() <= descriptors + 2).then_some(())
        })
        .await;
        server.assert_well().await;
        let now = server.memory_kib();
        assert!(now < memory + (64 << 10), "{memory} KiB before, {now} KiB now");
    });
}

fn ask_for_many(turned: &mut Turned) -> Report {
    let mut report = Report::new();
    for number in 0..MANY {
        let outcome = match ask(turned, create(stranger(number)), 1 + number as u64) {
            Ok(_) => Outcome::Done,
            Err(reason) => Outcome::Refused(reason),
        };
        report.insert(number.to_string(), outcome);
    }
    report
}

/// What ends a gateway, and what the supervisor then says, if it does.
const BREACHES: &[(&str, &str)] = &[
    ("another version", "speaks version"),
    ("garbage", "cannot be read"),
    ("an unknown message", "cannot be read"),
    ("an unknown language", "cannot be read"),
    ("a name that is no session's", "cannot be read"),
    ("deep nesting", "cannot be read"),
    ("a packet of 64 KiB", "cannot be read"),
    ("a packet that is too large", "cannot be read"),
    ("a descriptor", "wrong descriptors"),
    ("as many descriptors as there can be", "wrong descriptors"),
    ("an empty packet", "gateway is gone"),
    ("a closed link", "gateway is gone"),
    ("one side of the link", "gateway is gone"),
];

pub fn what_breaks_the_link_ends_the_gateway_alone(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        server.assert_well().await;
        let descriptors = server.descriptors();
        for (breach, said) in BREACHES {
            let before = server.log().len();
            server.play(part(breach)).await;
            let log = server.log().split_off(before);
            assert!(log.contains(said) && !log.contains("panicked"), "{breach}: {log}");
            // The one before was killed by the test.
            assert_eq!(log.matches("gateway is gone").count(), 2, "{breach}: {log}");
            server.assert_well().await;
        }
        assert!(server.descriptors() <= descriptors + 2, "{} descriptors, {descriptors} before", server.descriptors());
    });
}

/// Does it and stays: to end this process is the supervisor's part.
fn break_link(turned: &mut Turned, breach: &str) -> Option<Report> {
    turned.report(&Report::new());
    let one = turned.listener.try_clone().unwrap();
    let create = |language: &str, session: &str| {
        format!(
            r#"{{"Create":{{"request":1,"session":"{session}","language":"{language}","mode":"standard","environment":[],"working_directory":null,"memory_bytes":67108864,"cpu_seconds":3600}}}}"#
        )
    };
    let packet = match breach {
        "another version" => r#"{"Hello":{"version":4000}}"#.to_owned(),
        "garbage" => "\u{0}\u{1}\u{2}garbage".to_owned(),
        "an unknown message" => r#"{"Execute":"/bin/sh"}"#.to_owned(),
        "an unknown language" => create("perl", "stranger"),
        "a name that is no session's" => create("bash", "../../../../etc"),
        "deep nesting" => "[".repeat(60_000),
        "a packet of 64 KiB" => "x".repeat(MAX_PACKET_BYTES),
        "a packet that is too large" => "{".repeat(2 * MAX_PACKET_BYTES),
        _ => r#""Serving""#.to_owned(),
    };
    match breach {
        "a descriptor" => drop(turned.send(packet.as_bytes(), &[&one])),
        "as many descriptors as there can be" => drop(turned.send(packet.as_bytes(), &[&one; MAX_FDS])),
        "an empty packet" => drop(turned.send(b"", &[])),
        "one side of the link" => drop(rustix::net::shutdown(&turned.link, rustix::net::Shutdown::Write)),
        "a closed link" => {
            // Standard input is the same socket.
            crate::attacks::close_standard_input();
            turned.link = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap().0;
        }
        // Again and again: until the supervisor acts, it is flooded.
        _ => while turned.send(packet.as_bytes(), &[]).is_ok() {},
    }
    wait_for_the_end()
}

fn wait_for_the_end() -> ! {
    loop {
        #[expect(clippy::disallowed_methods, reason = "this process does nothing more")]
        std::thread::sleep(Duration::from_secs(600));
    }
}

pub fn a_gateway_that_does_not_read_is_replaced(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        server.assert_well().await;
        let (descriptors, memory) = (server.descriptors(), server.memory_kib());
        server.play(part("deaf")).await;
        assert!(server.log().contains("does not read what it is told"), "{}", server.log());
        server.assert_well().await;
        assert!(server.descriptors() <= descriptors + 2, "{} descriptors, {descriptors} before", server.descriptors());
        let now = server.memory_kib();
        assert!(now < memory + (64 << 10), "{memory} KiB before, {now} KiB now");
    });
}

/// The end of a sandbox is told again to whoever says that it has taken it over: the cheapest answer that there is.
fn not_read(turned: &mut Turned) -> Option<Report> {
    let (held, _fds) = ask(turned, create(stranger(1)), 1).unwrap();
    turned.say(&ToSupervisor::Kill(held.sandbox));
    while !matches!(turned.hear(), (ToGateway::Exited(exited), _) if exited.sandbox == held.sandbox) {}
    turned.report(&Report::new());
    let packet = repltool::supervisor::link::encode(&ToSupervisor::Adopted(held.sandbox)).unwrap();
    let error = loop {
        if let Err(error) = turned.send(&packet, &[]) {
            break error;
        }
    };
    assert!(matches!(error, LinkError::Closed), "{error}");
    wait_for_the_end()
}
