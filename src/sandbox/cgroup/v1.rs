//! cgroup v1: a tree for each controller. The v2 tree beside them (hybrid hosts) has no controllers, but still the
//! kill switch and a CPU account.

use std::path::{Path, PathBuf};

use super::{
    CgroupError, CpuMeter, Group, Layout, Limits, Meter, discover::OwnFolders, make_folder, remove_server,
    server_folder, set, set_if_present, sweep,
};

/// The server's own folder in each hierarchy that is writable.
#[derive(Debug)]
pub struct V1 {
    server: u32,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl V1 {
    /// Makes the folder of `server` in each of `own`; `None` if that works in none.
    pub(super) fn open(own: &OwnFolders, server: u32) -> Option<V1> {
        let make = |base: &Option<PathBuf>| {
            let folder = base.as_ref()?.join(server_folder(server));
            make_folder(&folder).ok().map(|()| folder)
        };
        let unified = make(&own.unified);
        // Every hierarchy costs 0.2 ms for each sandbox, and the new one counts CPU time as well.
        let cpuacct = if unified.is_some() { None } else { make(&own.cpuacct) };
        let v1 = V1 { server, memory: make(&own.memory), pids: make(&own.pids), cpuacct, unified };
        v1.folders().next()?;
        Some(v1)
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.memory, &self.pids, &self.cpuacct, &self.unified].into_iter().flatten().map(PathBuf::as_path)
    }
}

impl Layout for V1 {
    fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn has_processes(&self) -> bool {
        self.pids.is_some()
    }

    fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError> {
        let mut group = Group::new();
        for folder in self.folders() {
            group.add(folder.join(name))?;
        }
        let place = |folder: &Option<PathBuf>| folder.as_ref().map(|folder| folder.join(name));
        if let Some(memory) = place(&self.memory) {
            // Memory with swap may never be the lower of the two, so it comes second on the way down.
            set(memory.join("memory.limit_in_bytes"), limits.memory_bytes)?;
            set_if_present(memory.join("memory.memsw.limit_in_bytes"), limits.memory_bytes)?;
            group.meters.memory_current = Some(Meter::new(memory.join("memory.usage_in_bytes")));
            group.meters.memory_peak = Some(Meter::new(memory.join("memory.max_usage_in_bytes")));
            group.meters.oom = Some(Meter::new(memory.join("memory.oom_control")));
        }
        if let Some(pids) = place(&self.pids) {
            set(pids.join("pids.max"), limits.max_processes)?;
            group.meters.refused_forks = Some(Meter::new(pids.join("pids.events")));
        }
        if let Some(unified) = place(&self.unified) {
            group.kill = Some(unified.join("cgroup.kill"));
            group.meters.cpu = Some(CpuMeter::Stat(Meter::new(unified.join("cpu.stat"))));
        }
        if let Some(cpuacct) = place(&self.cpuacct) {
            group.meters.cpu = Some(CpuMeter::Account(Meter::new(cpuacct.join("cpuacct.usage"))));
        }
        Ok(group)
    }

    fn sweep(&self) {
        let bases: Vec<&Path> = self.folders().filter_map(Path::parent).collect();
        sweep::sweep(&bases, self.server);
    }

    fn shutdown(&self) {
        for folder in self.folders() {
            remove_server(folder);
        }
    }

    fn is_gone(&self) -> bool {
        !self.folders().any(Path::exists)
    }
}

/// These run against the kernel, and fail where it does not offer v1 to us: `make check` leaves them out there.
#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::process::ExitStatusExt,
        process::{Child, Command},
        time::Duration,
    };

    use super::super::{Host, Usage, discover::own_folders};
    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: 32 << 20, max_processes: 8 };
    /// Above what Linux hands out, so it never lives.
    const DEAD: u32 = 4_194_400;

    /// A stretch of the real hierarchies for one test alone, so that no test sweeps what another one made.
    #[derive(Debug)]
    struct Ground(OwnFolders);

    impl Ground {
        fn new(test: &str) -> Ground {
            let read = |file| fs::read_to_string(file).unwrap_or_default();
            let own = own_folders(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
            let make = |base: Option<PathBuf>| {
                let folder = base?.join(format!("test-{}-{test}", std::process::id()));
                fs::create_dir(&folder).ok().map(|()| folder)
            };
            let [memory, pids] = [own.memory, own.pids].map(make);
            let [cpuacct, unified] = [own.cpuacct, own.unified].map(make);
            let ground = Ground(OwnFolders { memory, pids, cpuacct, unified });
            let complete = ground.folders().count() == 4;
            assert!(
                complete,
                "this test needs root, and cgroup v1 (memory, pids, cpuacct) and v2 writable: {ground:?}"
            );
            ground
        }

        fn server(&self, pid: u32) -> V1 {
            V1::open(&self.0, pid).expect("writable")
        }

        fn folders(&self) -> impl Iterator<Item = &Path> {
            let own = &self.0;
            [&own.memory, &own.pids, &own.cpuacct, &own.unified].into_iter().flatten().map(PathBuf::as_path)
        }

        fn assert_empty(&self) {
            assert!(
                self.folders().all(|folder| fs::read_dir(folder)
                    .expect("a folder")
                    .flatten()
                    .all(|entry| entry.path().is_file()))
            );
        }
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            for folder in self.folders() {
                let _ = fs::remove_dir(folder);
            }
        }
    }

    fn command_in(group: &Group, program: &str) -> Child {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read go; exec \"$0\" \"$@\"", "/bin/sh", "-c", program])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell starts");
        group.attach(child.id().try_into().expect("a pid is positive")).expect("attached");
        use std::io::Write;
        child.stdin.take().expect("piped").write_all(b"go\n").expect("the shell reads");
        child
    }

    fn wait_until(mut done: impl FnMut() -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        while !done() {
            assert!(tokio::time::Instant::now() < deadline, "it never came to that");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_group_counts_kills_and_goes_away() {
        let ground = Ground::new("life");
        let v1 = ground.server(DEAD);
        let mut group = v1.create("life", &LIMITS).expect("made");
        assert!(matches!(v1.create("life", &LIMITS), Err(CgroupError::Create { .. })), "a name is used once");
        let mut child = command_in(&group, "while :; do :; done");
        wait_until(|| group.usage().cpu > Duration::from_millis(20));
        assert!(!group.remove(), "not while something is in it");
        assert!(group.kill());
        assert_eq!(child.wait().expect("reaped").signal(), Some(9));
        assert_eq!(group.usage().oom_kills, Some(0), "a kill is not mistaken for a limit");
        wait_until(|| group.remove());
        v1.shutdown();
        ground.assert_empty();
    }

    #[test]
    fn memory_and_processes_end_at_their_limits() {
        let ground = Ground::new("limits");
        let v1 = ground.server(DEAD);
        let mut group = v1.create("limits", &LIMITS).expect("made");
        let mut hog = command_in(&group, "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}");
        hog.wait().expect("reaped");
        let Usage { cpu, memory_current, memory_peak, oom_kills, refused_forks } = group.usage();
        assert!(oom_kills >= Some(1), "{oom_kills:?}");
        assert!(memory_peak > Some(16 << 20) && memory_peak <= Some(LIMITS.memory_bytes), "{memory_peak:?}");
        assert!(memory_current.is_some() && cpu > Duration::ZERO);
        assert_eq!(refused_forks, Some(0));
        let mut forker = command_in(&group, "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done 2>/dev/null; exit 0");
        assert_eq!(forker.wait().expect("reaped").code(), Some(2), "the shell could not fork");
        assert_eq!(group.usage().refused_forks, Some(1));
        assert!(group.kill());
        wait_until(|| group.remove());
        v1.shutdown();
        ground.assert_empty();
    }

    #[test]
    fn sweep_kills_and_removes_what_dead_servers_left() {
        let ground = Ground::new("sweep");
        let group = ground.server(DEAD).create("left", &LIMITS).expect("made");
        let mut child = command_in(&group, "sleep 60");
        let living = Host::V1(ground.server(std::process::id()));
        living.sweep();
        assert_eq!(child.wait().expect("reaped").signal(), Some(9));
        living.shutdown();
        ground.assert_empty();
    }

    #[test]
    fn without_the_kill_switch_sweep_kills_one_by_one() {
        let ground = Ground::new("one-by-one");
        let own = OwnFolders { unified: None, ..ground.0.clone() };
        let server = |pid| V1::open(&own, pid).expect("writable");
        let group = server(DEAD).create("left", &LIMITS).expect("made");
        let mut children = [command_in(&group, "sleep 60"), command_in(&group, "sleep 60")];
        assert!(!group.kill(), "there is no switch");
        wait_until(|| group.usage().cpu > Duration::ZERO);
        let living = server(std::process::id());
        living.sweep();
        for child in &mut children {
            assert_eq!(child.wait().expect("reaped").signal(), Some(9));
        }
        living.shutdown();
        ground.assert_empty();
    }

    #[test]
    fn a_failed_creation_leaves_nothing() {
        let ground = Ground::new("failed");
        let v1 = ground.server(DEAD);
        let beyond = Limits { max_processes: u32::MAX, ..LIMITS };
        assert!(matches!(v1.create("never", &beyond), Err(CgroupError::Limit { .. })));
        v1.shutdown();
        ground.assert_empty();
    }
}
