//! What this program does in the gateway's place: the first steps of the real one, and then what the scene says.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use repltool::sandbox::confine;
use repltool::supervisor::link::{self, LinkError, MAX_PACKET_BYTES, ToGateway, ToSupervisor, Welcome};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

/// The file that turns the next gateway.
pub const SCENE: &str = "scene";

/// What a turned gateway does, and what it knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Scene {
    /// What it does.
    pub part: String,
    /// The session that was there before.
    pub session: String,
    /// A process of the server's user that is none of its business.
    pub victim: i32,
    /// The supervisor.
    pub supervisor: i32,
    /// Files that hold what it wants.
    pub secrets: Vec<PathBuf>,
    /// A directory in which it may write.
    pub data: PathBuf,
    /// The name of an abstract socket of the host on which somebody listens.
    pub abstract_name: String,
    /// A file in the host's `/dev/shm`, open to everybody.
    pub shared_file: PathBuf,
    /// Shared memory of the host by its System V id, open to everybody.
    pub shared_memory: i32,
    /// A port of the host's loopback on which somebody listens.
    pub tcp_port: u16,
    /// A port of the host's loopback on which somebody receives.
    pub udp_port: u16,
}

/// What came of each thing that was tried: what Linux or the supervisor said.
pub type Report = BTreeMap<String, Outcome>;

/// What came of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Refused, with these words.
    Refused(String),
}

impl From<std::io::Result<()>> for Outcome {
    fn from(result: std::io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// A gateway that has confined itself.
pub struct Turned {
    pub scene: Scene,
    pub link: OwnedFd,
    pub listener: OwnedFd,
    /// Directories of the host that were opened before: as if a sandbox had passed them.
    pub passed: Vec<OwnedFd>,
    buffer: Vec<u8>,
}

/// The turned gateway if there is a scene, which is then played and gone; else the real one.
pub fn gateway() -> ExitCode {
    let Ok(text) = std::fs::read(SCENE) else { return repltool::gateway::run() };
    std::fs::remove_file(SCENE).unwrap();
    let scene: Scene = serde_json::from_slice(&text).unwrap();
    let mut turned = Turned::new(scene);
    let report = match turned.scene.part.as_str() {
        "attacks" => crate::attacks::all(&turned),
        _ => crate::link::play(&mut turned),
    };
    if let Some(report) = report {
        turned.report(&report);
    }
    ExitCode::SUCCESS
}

impl Turned {
    fn new(mut scene: Scene) -> Self {
        let link = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).unwrap();
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        let (welcome, listener) = welcome(&link, &mut buffer);
        let passed = crate::attacks::open_directories();
        scene.supervisor = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        scene.secrets.push(welcome.config.data_dir.join("signing.key"));
        scene.secrets.push(welcome.config.data_dir.join("audit.key"));
        scene.data = confine::gateway(&welcome.store.path, welcome.store.user).unwrap();
        Self { scene, link, listener, passed, buffer }
    }

    /// Writes a report where the test finds it whole.
    pub fn report(&self, report: &Report) {
        let data: &Path = &self.scene.data;
        let text = serde_json::to_vec(&(std::process::id(), report)).unwrap();
        std::fs::write(data.join("report.new"), text).unwrap();
        std::fs::rename(data.join("report.new"), data.join("report")).unwrap();
    }

    pub fn say(&self, message: &ToSupervisor) {
        self.send(&link::encode(message).unwrap(), &[]).unwrap();
    }

    /// Sends a packet, and waits for room.
    pub fn send(&self, packet: &[u8], fds: &[&OwnedFd]) -> Result<(), LinkError> {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        loop {
            match link::send(self.link.as_fd(), packet, &fds) {
                Err(error) if link::would_block(&error) => {
                    poll(&mut [PollFd::new(&self.link, PollFlags::OUT)], None).unwrap();
                }
                outcome => return outcome,
            }
        }
    }

    pub fn hear(&mut self) -> (ToGateway, Vec<OwnedFd>) {
        loop {
            match link::receive(self.link.as_fd(), &mut self.buffer) {
                Err(error) if link::would_block(&error) => {
                    poll(&mut [PollFd::new(&self.link, PollFlags::IN)], None).unwrap();
                }
                outcome => return outcome.unwrap(),
            }
        }
    }
}

fn welcome(link: &OwnedFd, buffer: &mut [u8]) -> (Box<Welcome>, OwnedFd) {
    poll(&mut [PollFd::new(link, PollFlags::IN)], None).unwrap();
    match link::receive(link.as_fd(), buffer).unwrap() {
        (ToGateway::Welcome(welcome), fds) => (welcome, fds.into_iter().next().unwrap()),
        (other, _) => panic!("no welcome: {other:?}"),
    }
}
