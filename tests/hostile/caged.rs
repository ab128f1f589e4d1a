//! What a turned gateway can reach of the machine.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use tempfile::TempDir;

use crate::attacks::{ATTACKS, Attack, shared_memory};
use crate::server::{Server, Setting, block_on};
use crate::turned::{Outcome, Scene};

/// What the host has that a gateway must not reach. Dropping it takes it away.
struct Host {
    victim: Child,
    _name: UnixListener,
    _tcp: std::net::TcpListener,
    _udp: std::net::UdpSocket,
    shared_file: tempfile::NamedTempFile,
    shared_memory: i32,
    scene: Scene,
}

impl Host {
    fn new(user: Option<u32>) -> Self {
        let mut command = Command::new("sleep");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let victim = command.arg("600").stdin(Stdio::null()).spawn().unwrap();
        let abstract_name = format!("repltool-hostile-{}", std::process::id());
        let name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let shared_file = tempfile::Builder::new().prefix("repltool-test-").tempfile_in("/dev/shm").unwrap();
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(shared_file.path(), everybody).unwrap();
        let shared_memory = shared_memory::make();
        let scene = Scene {
            part: "attacks".to_owned(),
            victim: victim.id().cast_signed(),
            abstract_name,
            shared_file: shared_file.path().to_owned(),
            shared_memory,
            tcp_port: tcp.local_addr().unwrap().port(),
            udp_port: udp.local_addr().unwrap().port(),
            ..Scene::default()
        };
        Self { victim, _name: name, _tcp: tcp, _udp: udp, shared_file, shared_memory, scene }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        shared_memory::remove(self.shared_memory);
    }
}

pub fn a_turned_gateway_reaches_nothing_but_its_store(setting: Setting) {
    block_on(async {
        let server = Server::start(setting).await;
        let mut host = Host::new(setting.user());
        let secrets =
            ["signing.key", "audit.key", "token", "url", "lock", "homes"].map(|name| server.data().join(name));
        host.scene.secrets = secrets.to_vec();
        // A client's session could bring it to make these in its store.
        std::os::unix::fs::symlink("/etc/passwd", server.store().join("planted")).unwrap();
        std::os::unix::fs::symlink("../../../../../..", server.store().join("up")).unwrap();
        let before = server.descriptors();
        let report = server.play(host.scene.clone()).await;
        let through: Vec<_> = report.iter().filter(|(_, outcome)| **outcome == Outcome::Done).collect();
        println!("{} attacks", report.len());
        assert!(through.is_empty(), "{through:?}");
        assert_eq!(report.len(), ATTACKS.iter().map(|list| list.len()).sum::<usize>());
        assert!(host.victim.try_wait().unwrap().is_none(), "the bystander lives");
        assert!(host.shared_file.as_file().metadata().unwrap().len() == 0);
        server.assert_well().await;
        assert!(server.descriptors() <= before + 2, "{} descriptors, {before} before", server.descriptors());
    });
}

/// So that a refusal is the cage's doing and not a fault of the attack. Each in a process of its own.
pub fn outside_the_cage_the_attacks_work(setting: Setting) {
    assert_eq!(setting.user(), None, "as root");
    let host = Host::new(None);
    let (mut tried, mut failed) = (0, Vec::new());
    for attack in ATTACKS.iter().copied().flatten().filter(|attack| attack.works_outside) {
        let dir = TempDir::new().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("planted")).unwrap();
        std::os::unix::fs::symlink("../../../../../..", dir.path().join("up")).unwrap();
        let scene = Scene {
            data: dir.path().to_owned(),
            supervisor: host.scene.victim,
            secrets: vec![secret],
            ..host.scene.clone()
        };
        std::fs::write(dir.path().join("scene"), serde_json::to_vec(&scene).unwrap()).unwrap();
        let mut command = Command::new("/proc/self/exe");
        let output = command.args(["attack", attack.name]).current_dir(dir.path()).output().unwrap();
        tried += 1;
        if !output.status.success() {
            failed.push(format!("{}: {}", attack.name, String::from_utf8_lossy(&output.stderr)));
        }
    }
    println!("{tried} attacks");
    assert!(tried > 50 && failed.is_empty(), "{tried} tried; {}", failed.join("\n"));
}

/// One attack outside the cage.
pub fn attack(name: &str) -> ExitCode {
    let scene: Scene = serde_json::from_slice(&std::fs::read("scene").unwrap()).unwrap();
    let find = |attack: &&Attack| attack.name == name;
    let attack = ATTACKS.iter().copied().flatten().find(find).unwrap();
    let target = crate::attacks::Target {
        passed: crate::attacks::open_directories(),
        listener: std::net::TcpListener::bind("127.0.0.1:0").unwrap().into(),
        scene,
    };
    match (attack.run)(&target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
