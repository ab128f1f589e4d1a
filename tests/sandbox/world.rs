//! Where a test runs, and how it makes a sandbox and hears from it.

use std::cell::RefCell;
use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use repltool::sandbox::cgroup::Host;
use repltool::sandbox::notify::Next;
use repltool::sandbox::workdir::{Workdir, Workdirs};
use repltool::sandbox::{self, Exit, Identity, Interrupt, Kind, Limits, Plan, Request, Sandbox, SpawnError};
use repltool_protocol::rest::SandboxMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use tempfile::TempDir;
use tokio::time::Instant;

/// Who makes the sandboxes, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// With a memory cgroup.
    Root,
    RootWithoutCgroups,
    /// With a memory cgroup, and working directories as before Linux 6.15.
    RootAttached,
    /// Without a memory cgroup.
    User,
    UserAttached,
    /// Without namespaces.
    Reduced,
}

impl Setting {
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::RootWithoutCgroups => "root_without_cgroups",
            Self::RootAttached => "root_attached",
            Self::User => "user",
            Self::UserAttached => "user_attached",
            Self::Reduced => "reduced",
        }
    }

    pub fn is_root(self) -> bool {
        !matches!(self, Self::User | Self::UserAttached)
    }

    fn is_attached(self) -> bool {
        matches!(self, Self::RootAttached | Self::UserAttached)
    }
}

pub const LIMITS: Limits = Limits {
    memory_bytes: 256 << 20,
    memory_rlimit: sandbox::MemoryRlimit::AddressSpace,
    max_processes: 64,
    cpu_seconds: 60,
    file_bytes: 1 << 30,
    tmp_bytes: 16 << 20,
    tmp_inodes: 4000,
    open_files: 512,
};

/// Size of the working directory.
pub const WORKDIR_BYTES: u64 = 48 << 20;
/// Files in it.
pub const WORKDIR_INODES: u64 = 5000;

/// What makes sandboxes. The fields go in this order.
pub struct World {
    pub plan: Plan,
    pub identity: Identity,
    pub workdir: Workdir,
    pub workdirs: RefCell<Workdirs>,
    /// What the working directories are attached below, if they are.
    pub place: PathBuf,
    pub setting: Setting,
    count: std::cell::Cell<u32>,
    /// For whatever a test leaves; it goes in the end.
    pub dir: TempDir,
}

/// One program in a sandbox.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub mode: SandboxMode,
    pub kind: Kind,
    pub own: &'a [PathBuf],
    pub cwd: &'a str,
    pub binds: &'a [PathBuf],
    pub limits: Limits,
    pub program: &'a [&'a str],
    pub interrupt: Interrupt,
    /// `None`: that of the world.
    pub workdir: Option<&'a Workdir>,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run {
            // Programs that execute others are most of what is tested.
            mode: SandboxMode::Relaxed,
            kind: Kind::Interpreter,
            own: &[],
            cwd: "",
            binds: &[],
            limits: LIMITS,
            program: &[],
            interrupt: Interrupt::Program,
            workdir: None,
        }
    }
}

impl World {
    pub fn new(setting: Setting) -> World {
        // Of this process alone, so that tests that run at the same time are strangers to each other.
        let own = 300_000 + 2 * (std::process::id() % 100_000);
        let identity = match setting {
            // Everything of this user is killed, so it is nobody else's.
            Setting::Reduced => Identity::Plain { payload: 500_000 + own, init: 500_001 + own },
            _ if setting.is_root() => Identity::Mapped { payload: own, init: own + 1 },
            _ => Identity::Single,
        };
        let dir = tempfile::Builder::new().prefix("repltool-test-").tempdir().unwrap();
        if !setting.is_root() {
            sandbox::enter_outer_namespace().expect("this test needs user namespaces");
        }
        let place = dir.path().join("homes");
        let attached = setting.is_attached();
        let workdirs = match setting {
            Setting::Reduced => Workdirs::plain(dir.path()),
            _ if attached => Workdirs::attached(&place),
            _ => Workdirs::new(&place),
        };
        let mut workdirs = workdirs.expect("this test needs the right to mount");
        assert!(workdirs.is_attached() || !attached);
        let workdir = workdirs.create(WORKDIR_BYTES, WORKDIR_INODES, identity).unwrap();
        let host = match setting {
            Setting::RootWithoutCgroups => Host::None,
            _ => Host::discover(),
        };
        host.sweep();
        let plan = match setting {
            Setting::Reduced => Plan::compile_reduced(&dir.path().join("drivers")).unwrap(),
            _ => Plan::compile_for(host).unwrap(),
        };
        let has_memory = plan.has_memory_cgroup();
        assert!(
            has_memory || !matches!(setting, Setting::Root | Setting::RootAttached),
            "this test needs a memory cgroup that root may write, v1 or v2"
        );
        World { plan, identity, workdir, workdirs: workdirs.into(), place, setting, count: 0.into(), dir }
    }

    /// Starts a program. Nobody answers for calls that are reported, so Linux refuses them with ENOSYS.
    pub fn spawn(&self, run: &Run<'_>) -> Result<Sandbox, SpawnError> {
        let mut sandbox = self.spawn_asking(run)?;
        sandbox.listener = None;
        Ok(sandbox)
    }

    /// Starts a program; reported calls wait for an answer.
    pub fn spawn_asking(&self, run: &Run<'_>) -> Result<Sandbox, SpawnError> {
        self.spawn_as(self.identity, run)
    }

    /// [`World::spawn_asking`] as somebody else.
    pub fn spawn_as(&self, identity: Identity, run: &Run<'_>) -> Result<Sandbox, SpawnError> {
        self.count.set(self.count.get() + 1);
        let argv: Vec<_> = run.program.iter().map(|a| CString::new(*a).unwrap()).collect();
        let workdir = run.workdir.unwrap_or(&self.workdir);
        let home = CString::new(format!("HOME={}", workdir.locate("/workspace"))).unwrap();
        let open = CString::new(format!("OPEN={}", self.dir.path().join("open").display())).unwrap();
        let env = [c"PATH=/usr/bin".to_owned(), home, open];
        let request = Request {
            name: &format!("test-{}-{}", std::process::id(), self.count.get()),
            mode: run.mode,
            kind: run.kind,
            own: run.own,
            identity,
            workdir,
            argv: &argv,
            environment: &env,
            cwd: run.cwd,
            files: &[("/run/repltool/driver.py", b"print('driver')")],
            binds: run.binds,
            interrupt: run.interrupt,
            limits: run.limits,
        };
        sandbox::spawn(&self.plan, &request)
    }

    /// Runs a program to its end and refuses all that is reported. Gives what it printed, and what was refused.
    pub fn refused(&self, run: &Run<'_>) -> (String, Vec<String>) {
        let mut sandbox = self.spawn_asking(run).unwrap();
        let listener = sandbox.listener.take().unwrap();
        let mut told = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "does not end after {told:?}");
            match listener.next().unwrap() {
                Next::Call(call) => {
                    listener.refuse(&call).unwrap();
                    if call.is_told {
                        told.push(format!("{}: {}", call.rule, call.detail));
                    }
                }
                Next::Nothing => {
                    poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&Timespec { tv_sec: 1, tv_nsec: 0 }))
                        .unwrap();
                }
                Next::Gone => break,
            }
        }
        let mut text = String::new();
        for fd in [&sandbox.stdout, &sandbox.stderr] {
            read_all(fd, &mut text, deadline);
        }
        end(&mut sandbox);
        release(sandbox);
        (text, told)
    }

    /// Starts Python on its own, which runs until it is killed or done.
    pub fn start(&self, code: &str) -> Sandbox {
        self.spawn(&Run { program: &python(code), ..Run::default() }).unwrap()
    }

    /// Runs Python to its end.
    pub fn python(&self, mode: SandboxMode, code: &str) -> (String, Exit) {
        self.output(&Run { mode, program: &python(code), ..Run::default() })
    }

    /// Runs a program to its end. Gives what it printed, standard output first.
    pub fn output(&self, run: &Run<'_>) -> (String, Exit) {
        let mut sandbox = self.spawn(run).unwrap();
        let mut text = String::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        for fd in [&sandbox.stdout, &sandbox.stderr] {
            read_all(fd, &mut text, deadline);
        }
        let exit = end(&mut sandbox);
        release(sandbox);
        (text, exit)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.plan.shutdown();
    }
}

pub fn python(code: &str) -> [&str; 5] {
    ["/usr/bin/python3", "-I", "-S", "-c", code]
}

fn read_all(fd: &OwnedFd, text: &mut String, deadline: Instant) {
    let mut file = std::fs::File::from(fd.try_clone().unwrap());
    let mut bytes = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "hangs after {text}");
        wait(fd, 1000);
        let mut chunk = [0; 65536];
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => panic!("{e}"),
        }
    }
    text.push_str(&String::from_utf8_lossy(&bytes));
}

/// Waits until there is something to read, or for so many milliseconds.
pub fn wait(fd: &OwnedFd, ms: i64) -> bool {
    let time = Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&time)).unwrap() > 0
}

/// Does nothing for so many milliseconds.
pub fn pause(ms: i64) {
    poll(&mut [], Some(&Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 })).unwrap();
}

pub fn end(sandbox: &mut Sandbox) -> Exit {
    assert!(wait(&sandbox.pidfd, 20_000), "does not end");
    sandbox.reap().unwrap()
}

pub fn release(sandbox: Sandbox) {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut left = Some(sandbox);
    while let Some(sandbox) = left {
        assert!(Instant::now() < deadline, "the cgroup stays");
        left = sandbox.release();
    }
}

pub fn kill(mut sandbox: Sandbox) {
    sandbox.kill();
    end(&mut sandbox);
    release(sandbox);
}

pub fn packet(fd: &OwnedFd) -> String {
    assert!(wait(fd, 10_000), "no packet");
    let mut buffer = [0; 4096];
    let (n, _) = recv(fd, &mut buffer, RecvFlags::empty()).unwrap();
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

pub fn line(fd: &OwnedFd) -> String {
    let mut file = std::fs::File::from(fd.try_clone().unwrap());
    let (mut text, mut byte) = (String::new(), [0]);
    loop {
        assert!(wait(fd, 10_000), "no line after {text:?}");
        match file.read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => return text,
            Ok(1) => text.push(byte[0] as char),
            other => panic!("{other:?} after {text:?}"),
        }
    }
}
