//! Standard input: who reads waits, or gets what was given, or the end of file, and never what was meant for another.

use repltool::sandbox::init_link::{Ask, FileAsk, MAX_STDIN_BYTES, Outcome, Tell};
use repltool_protocol::rest::SandboxMode;
use tokio::time::Instant;

use crate::driven::Driven;
use crate::world::{Run, World, line};

pub fn text_is_read_in_order_and_ends(world: &World) {
    for mode in [SandboxMode::Standard, SandboxMode::Relaxed] {
        text_is_read(&Driven::with(world, &Run { mode, ..Run::default() }));
    }
}

fn text_is_read(driven: &Driven) {
    driven.run("say(os.read(0, 100))");
    assert!(driven.is_silent(), "nothing was given");
    driven.feed("one\n", false);
    assert_eq!(line(&driven.stdout), r"b'one\n'");
    for text in ["zwei ä", "", "drei"] {
        driven.feed(text, false);
    }
    assert_eq!(driven.get("say(os.read(0, 100))"), r"b'zwei \xc3\xa4drei'");
    driven.feed("last", true);
    assert_eq!(driven.get("say(os.read(0, 2), *[os.read(0, 100) for _ in range(4)])"), "b'la' b'st' b'' b'' b''");
    for (id, text, end) in [(5, "late", false), (6, "", true)] {
        driven.give(id, text, end);
        assert_eq!(driven.outcome(id), Outcome::Void);
    }
    assert_eq!(driven.get("say(os.read(0, 100))"), "b''");
}

pub fn each_execution_has_its_own(world: &World) {
    let driven = Driven::start(world);
    for text in ["first", "second"] {
        driven.feed(text, true);
        // Half of it stays unread.
        assert_eq!(driven.get("say(os.read(0, 3).decode())"), text[..3]);
        driven.begin_stdin_anew();
        driven.run("say(os.read(0, 100))");
        assert!(driven.is_silent(), "after {text}");
        driven.feed("", true);
        assert_eq!(line(&driven.stdout), "b''");
        driven.begin_stdin_anew();
    }
    // What is left open is as good as what was ended.
    driven.feed("unread", false);
    driven.begin_stdin_anew();
    driven.feed("new", true);
    assert_eq!(driven.get("say(os.read(0, 100), os.read(0, 100))"), "b'new' b''");
    let mut times: Vec<_> = (0..200)
        .map(|_| {
            let started = Instant::now();
            driven.begin_stdin_anew();
            started.elapsed()
        })
        .collect();
    times.sort();
    println!("fresh_stdin: median {:?}, p95 {:?}", times[100], times[190]);
}

pub fn nobody_but_init_writes_it(world: &World) {
    let driven = Driven::start(world);
    let write = "say(*[attempt(lambda: os.open(path, mode | os.O_NONBLOCK)) for path in paths for mode in modes])";
    driven.run("modes = [os.O_WRONLY, os.O_RDWR]");
    driven.run(
        "paths = ['/run/repltool/stdin', '/dev/stdin', '/proc/self/fd/0'][:3 if os.path.exists('/proc/self') else 1]",
    );
    let refused = driven.get(write);
    assert!(refused.split(' ').all(|errno| errno == "EACCES"), "{refused}");
    let change = "say(*[attempt(f) for f in (lambda: os.chmod(paths[0], 0o666), lambda: os.unlink(paths[0]), lambda: os.write(0, b'x'))])";
    let refused = driven.get(change);
    assert!(refused == "EROFS EROFS EBADF" || refused == "EPERM EROFS EBADF", "{refused}");
    // Reading it by name is another matter.
    driven.feed("by name\n", false);
    assert_eq!(driven.get("say(open(paths[-1]).readline().strip())"), "by name");
    if driven.has_proc {
        driven.feed("by device\n", false);
        assert_eq!(driven.get("say(open('/dev/stdin').readline().strip())"), "by device");
    }
    driven.feed("", true);
    assert_eq!(driven.get("say(os.read(0, 1))"), "b''");
}

pub fn a_text_that_nobody_reads_delays_nothing(world: &World) {
    let driven = Driven::start(world);
    let text = "x".repeat(MAX_STDIN_BYTES);
    let (first, mut id) = (10, 10);
    driven.give(id, &text, false);
    while !driven.is_unanswered() {
        assert_eq!(driven.outcome(id), Outcome::Delivered);
        id += 1;
        assert!(id < 1000, "the pipe has no end");
        driven.give(id, &text, false);
    }
    let waiting = id..id + 4;
    (id + 1..id + 5).for_each(|id| driven.give(id, "y", id + 1 == waiting.end));
    assert_eq!(driven.outcome(id + 4), Outcome::Void, "four wait at most");
    driven.run("signal.signal(signal.SIGINT, lambda *_: say('interrupted'))");
    assert_eq!(driven.get("say('up')"), "up");
    driven.interrupt();
    assert_eq!(line(&driven.stdout), "interrupted");
    let total = text.len() * usize::try_from(id - first + 1).unwrap() + 3;
    let everything = driven.get("data = os.fdopen(os.dup(0), 'rb').read(); say(len(data), data[-4:])");
    assert_eq!(everything, format!("{total} b'xyyy'"));
    for id in waiting {
        assert_eq!(driven.outcome(id), Outcome::Delivered);
    }
}

pub fn what_was_not_read_is_thrown_away(world: &World) {
    let driven = Driven::start(world);
    let text = "x".repeat(MAX_STDIN_BYTES);
    for id in 0..12 {
        driven.give(id, &text, false);
    }
    for id in 0..8 {
        assert_eq!(driven.outcome(id), Outcome::Delivered);
    }
    assert!(driven.is_unanswered());
    driven.ask(&Ask::FreshStdin { id: 99 });
    for id in 8..12 {
        assert_eq!(driven.outcome(id), Outcome::Void);
    }
    assert_eq!(driven.outcome(99), Outcome::Delivered);
    driven.run("say(os.read(0, 100))");
    assert!(driven.is_silent());
    driven.feed("new", false);
    assert_eq!(line(&driven.stdout), "b'new'");
}

/// A process and a thread that read for an execution that is over, with the processors busy otherwise.
pub fn a_reader_from_before_gets_the_end_of_file(world: &World) {
    let driven = Driven::start(world);
    driven.run("busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(3)]");
    driven.run("def read(): say(os.read(0, 100))");
    driven.run("def fork(): global pid; pid = os.fork(); pid or (read(), os._exit(0))");
    for round in 0..40 {
        driven.run("t = threading.Thread(target=read); t.start(); fork()");
        driven.wait_for_readers(2);
        // A copy of init that was just made must not hold the end of file up.
        driven.ask(&Ask::File { id: 7, what: FileAsk::Read { path: "no".to_owned() } });
        driven.ask(&Ask::FreshStdin { id: 8 });
        let answers = [driven.hear().0, driven.hear().0];
        assert!(answers.contains(&Tell::Done { id: 8, outcome: Outcome::Delivered }), "{answers:?}");
        assert_eq!(line(&driven.stdout), "b''", "round {round}");
        assert_eq!(line(&driven.stdout), "b''", "round {round}");
        assert_eq!(driven.get("t.join(); os.waitpid(pid, 0); say('joined')"), "joined");
    }
    driven.feed("mine", false);
    assert_eq!(driven.get("say(os.read(0, 100))"), "b'mine'");
}

pub fn a_program_may_close_it(world: &World) {
    let driven = Driven::start(world);
    driven.run("os.close(0)");
    assert_eq!(driven.get("say(attempt(lambda: os.read(0, 1)))"), "EBADF");
    driven.feed("nobody reads this", false);
    driven.feed("", true);
    driven.begin_stdin_anew();
    driven.feed("but this", true);
    let again = "say(os.open('/run/repltool/stdin', os.O_RDONLY | os.O_NONBLOCK), os.read(0, 100))";
    assert_eq!(driven.get(again), "0 b'but this'");
    driven.run("signal.signal(signal.SIGINT, lambda *_: say('interrupted'))");
    assert_eq!(driven.get("say('up')"), "up");
    driven.interrupt();
    assert_eq!(line(&driven.stdout), "interrupted");
}
