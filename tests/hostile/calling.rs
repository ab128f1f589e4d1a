//! What the process that calls outside can reach once it is confined, were it to do something else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use repltool::sandbox::confine;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, getrlimit};

use crate::server::Setting;

/// The user that it becomes where it is started as root.
const USER: u32 = 0x7000_0001;

type Attempt = (&'static str, fn(u16) -> io::Result<()>);

/// Each is to fail in the cage, and works outside.
const ATTEMPTS: &[Attempt] = &[
    ("read a file", |_| File::open("/etc/passwd").map(drop)),
    ("read of itself", |_| File::open("/proc/self/status").map(drop)),
    ("list a directory", |_| std::fs::read_dir("/").map(drop)),
    ("write a file", |_| tempfile::tempfile().map(drop)),
    ("start a program", |_| Command::new("/bin/true").status().map(drop)),
    ("wait for connections", |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("connect to another port", |other| TcpStream::connect(("127.0.0.1", other)).map(drop)),
    ("make a socket of this machine", |_| Ok(socket(AddressFamily::UNIX, SocketType::STREAM, None).map(drop)?)),
    ("ask for routes", |_| Ok(socket(AddressFamily::NETLINK, SocketType::RAW, None).map(drop)?)),
    ("signal its own", |_| Ok(rustix::process::test_kill_process(rustix::process::getpid())?)),
];

/// By name: whether it was done in the cage.
type Report = BTreeMap<String, bool>;

pub fn what_calls_outside_reaches_named_ports_alone(setting: Setting) {
    let [named, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [named, other] = [&named, &other].map(|it| it.local_addr().unwrap().port());
    for (what, attempt) in ATTEMPTS {
        attempt(other).unwrap_or_else(|error| panic!("{what} does not work outside: {error}"));
    }
    let mut command = Command::new("/proc/self/exe");
    let user = match setting.user() {
        Some(user) => {
            command.uid(user).gid(user);
            "-".to_owned()
        }
        None => USER.to_string(),
    };
    let output = command.args(["call", &user, &named.to_string(), &other.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    let done: Vec<_> = report.iter().filter(|(_, done)| **done).map(|(what, _)| &**what).collect();
    assert_eq!(done, ["connect to the named port", "send a datagram"], "{report:?}");
    assert_eq!(report.len(), ATTEMPTS.len() + 2);
}

/// Confines itself, tries, and says on standard output what it could do.
pub fn attempts(user: &str, port: &str, other: &str) -> ExitCode {
    let (port, other): (u16, u16) = (port.parse().unwrap(), other.parse().unwrap());
    confine::caller(user.parse().ok(), &[port]).unwrap();
    assert_eq!(getrlimit(Resource::Nofile).maximum, Some(64));
    let mut report: Report = ATTEMPTS.iter().map(|(what, run)| ((*what).to_owned(), run(other).is_ok())).collect();
    report.insert("connect to the named port".to_owned(), TcpStream::connect(("127.0.0.1", port)).is_ok());
    let sent = UdpSocket::bind("127.0.0.1:0").and_then(|it| it.send_to(b"?", ("127.0.0.1", port)));
    report.insert("send a datagram".to_owned(), sent.is_ok());
    println!("{}", serde_json::to_string(&report).unwrap());
    ExitCode::SUCCESS
}
