//! cgroup v1: a tree for each controller. The v2 tree beside them (hybrid hosts) has no controllers, but still the
//! kill switch and a CPU account.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    CgroupError, CpuMeter, Group, Layout, Limits, Meter, discover::OwnFolders, is_gone, make_folder, remove_server,
    server_folder, server_side, set, set_if_present, sweep,
};

/// The server's own folder in each hierarchy that is writable.
#[derive(Debug)]
pub struct V1 {
    server: u32,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    /// Never the same folder as `cpu`.
    cpuacct: Option<PathBuf>,
    unified: Option<PathBuf>,
    /// Of the groups in `cpu`, CPU time is counted too.
    cpu_is_counted: bool,
    /// Where the server sits for its own share of the processors, beside the folder of its sandboxes: inside of it, the
    /// heavier the server, the less would be left of the folder's weight for sandboxes on other processors.
    side: Option<PathBuf>,
}

/// What a group or a process weighs that nothing is said of.
const ORDINARY_SHARES: usize = 1024;
/// The least that Linux gives.
const LEAST_SHARES: usize = 2;
/// So many times as much as all of its sandboxes does the server weigh.
const OUTWEIGHS: usize = 8;
/// The most that a group can weigh.
const MOST_SHARES: usize = 262_144;

impl V1 {
    /// Makes the folder of `server` in each of `own`; `None` if that works in none.
    pub(super) fn open(own: &OwnFolders, server: u32) -> Option<V1> {
        let make = |base: &Option<PathBuf>| {
            let folder = base.as_ref()?.join(server_folder(server));
            make_folder(&folder).ok().map(|()| folder)
        };
        let (unified, cpu) = (make(&own.unified), make(&own.cpu));
        // Where both are mounted as one, which is common, it is one folder.
        let cpu_is_counted = cpu.is_some() && own.cpu == own.cpuacct;
        // Every hierarchy costs 0.2 ms for each sandbox, and the new one counts CPU time as well.
        let cpuacct = if unified.is_some() || cpu_is_counted { None } else { make(&own.cpuacct) };
        let (memory, pids) = (make(&own.memory), make(&own.pids));
        let mut v1 = V1 { server, memory, pids, cpu, cpuacct, unified, cpu_is_counted, side: None };
        v1.folders().next()?;
        v1.weigh(super::processors());
        Some(v1)
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.memory, &self.pids, &self.cpu, &self.cpuacct, &self.unified];
        all.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Each sandbox keeps the weight that Linux gives to a new group, so they are equal. The server gets a group of its own
    /// that outweighs theirs: as one process among all, it has less than it needs when all are busy. Best effort.
    fn weigh(&mut self, processors: usize) {
        let Some(cpu) = &self.cpu else { return };
        let all = ORDINARY_SHARES * processors;
        let _ = set(cpu.join("cpu.shares"), all.min(MOST_SHARES));
        let side = cpu.with_file_name(server_side(self.server));
        let enter = || -> io::Result<()> {
            make_folder(&side)?;
            fs::write(side.join("cpu.shares"), (all * OUTWEIGHS).min(MOST_SHARES).to_string())?;
            fs::write(side.join("cgroup.procs"), self.server.to_string())
        };
        match enter() {
            Ok(()) => self.side = Some(side),
            Err(_) => drop(is_gone(&side)),
        }
    }
}

impl Layout for V1 {
    fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn has_processes(&self) -> bool {
        self.pids.is_some()
    }

    fn has_shares(&self) -> bool {
        self.cpu.is_some()
    }

    fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError> {
        let mut group = Group::new(limits);
        for folder in self.folders() {
            group.add(folder.join(name))?;
        }
        let place = |folder: &Option<PathBuf>| folder.as_ref().map(|folder| folder.join(name));
        if let Some(memory) = place(&self.memory) {
            // Memory with swap may never be the lower of the two, so it comes second on the way down.
            set(memory.join("memory.limit_in_bytes"), limits.memory_bytes)?;
            let with_swap = memory.join("memory.memsw.limit_in_bytes");
            set_if_present(with_swap.clone(), limits.memory_bytes)?;
            group.memory =
                [memory.join("memory.limit_in_bytes"), with_swap].into_iter().filter(|it| it.exists()).collect();
            group.meters.memory_current = Some(Meter::new(memory.join("memory.usage_in_bytes")));
            group.meters.memory_peak = Some(Meter::new(memory.join("memory.max_usage_in_bytes")));
            group.meters.oom = Some(Meter::new(memory.join("memory.oom_control")));
        }
        if let Some(pids) = place(&self.pids) {
            set(pids.join("pids.max"), limits.max_processes)?;
            group.meters.refused_forks = Some(Meter::new(pids.join("pids.events")));
        }
        group.share = place(&self.cpu).map(|cpu| (cpu.join("cpu.shares"), LEAST_SHARES, ORDINARY_SHARES));
        group.favoured = self.side.as_ref().map(|side| side.join("tasks"));
        if let Some(unified) = place(&self.unified) {
            group.meters.cpu = Some(CpuMeter::Stat(Meter::new(unified.join("cpu.stat"))));
            group.unified = Some(unified);
        }
        let counting = if self.cpu_is_counted && self.unified.is_none() { &self.cpu } else { &self.cpuacct };
        if let Some(cpuacct) = place(counting) {
            group.meters.cpu = Some(CpuMeter::Account(Meter::new(cpuacct.join("cpuacct.usage"))));
        }
        Ok(group)
    }

    fn sweep(&self) {
        let bases: Vec<&Path> = self.folders().filter_map(Path::parent).collect();
        sweep::sweep(&bases, self.server);
    }

    fn shutdown(&self) {
        if let Some(side) = &self.side {
            // The writer itself: the server, or what cleans up behind it.
            let _ = fs::write(side.with_file_name("cgroup.procs"), "0");
            is_gone(side);
        }
        for folder in self.folders() {
            remove_server(folder);
        }
    }

    fn is_gone(&self) -> bool {
        !self.folders().chain(self.side.as_deref()).any(Path::exists)
    }
}

/// These run against the kernel, and fail where it does not offer v1 to us: `make check` leaves them out there.
#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt,
        process::{Child, Command},
        time::Duration,
    };

    use super::super::{Host, Usage, discover::own_folders};
    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: 32 << 20, max_processes: 8 };
    /// Above what Linux hands out, so it never lives.
    const DEAD: u32 = 4_194_400;
    /// Long enough for shares to even out.
    const SPAN: Duration = Duration::from_millis(600);

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
            let one = own.cpu == own.cpuacct;
            let [memory, pids, cpu] = [own.memory, own.pids, own.cpu].map(make);
            let [cpuacct, unified] = [own.cpuacct.filter(|_| !one), own.unified].map(make);
            let cpuacct = if one { cpu.clone() } else { cpuacct };
            let ground = Ground(OwnFolders { memory, pids, cpu, cpuacct, unified });
            let complete = ground.folders().count() == 5;
            assert!(
                complete,
                "this test needs root, and cgroup v1 (memory, pids, cpu, cpuacct) and v2 writable: {ground:?}"
            );
            ground
        }

        fn server(&self, pid: u32) -> V1 {
            V1::open(&self.0, pid).expect("writable")
        }

        fn folders(&self) -> impl Iterator<Item = &Path> {
            let own = &self.0;
            let all = [&own.memory, &own.pids, &own.cpu, &own.cpuacct, &own.unified];
            all.into_iter().flatten().map(PathBuf::as_path)
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
        let mut child = command_in(&group, "ulimit -t 20; while :; do :; done");
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
    fn a_group_of_many_gets_no_more_time_than_a_group_of_one() {
        let ground = Ground::new("shares");
        let v1 = ground.server(DEAD);
        assert!(v1.has_shares());
        let shares = fs::read_to_string(ground.0.cpu.as_ref().expect("there").join("repltool-4194400/cpu.shares"));
        assert_eq!(shares.expect("readable").trim(), (ORDINARY_SHARES * super::super::processors()).to_string());
        let mut groups = ["many", "one"].map(|name| v1.create(name, &LIMITS).expect("made"));
        let spin = "ulimit -t 20; while :; do :; done";
        let many = format!("for i in 1 2 3 4 5; do (setsid sh -c '{spin}') & done; wait");
        // On one processor, so that who gets it is all that counts.
        let pinned = |program: &str| format!("exec taskset -c 0 sh -c \"{}\"", program.replace('"', "\\\""));
        let mut children = [command_in(&groups[0], &pinned(&many)), command_in(&groups[1], &pinned(spin))];
        let used = |groups: &[Group; 2]| [0, 1].map(|n| groups[n].cpu_time().expect("counted"));
        wait_until(|| used(&groups).iter().all(|cpu| *cpu > Duration::from_millis(30)));
        let before = used(&groups);
        wait_until(|| used(&groups).iter().zip(before).map(|(now, then)| *now - then).sum::<Duration>() > SPAN);
        let [many, one] = [0, 1].map(|n| (used(&groups)[n] - before[n]).as_secs_f64());
        // Without shares it would be five to one.
        assert!(many < 2.0 * one && one < 2.0 * many, "{many} s for five, {one} s for one");
        for (group, child) in groups.iter_mut().zip(&mut children) {
            assert!(group.kill());
            child.wait().expect("reaped");
            wait_until(|| group.remove());
        }
        v1.shutdown();
        ground.assert_empty();
    }

    #[test]
    fn where_cpu_and_cpuacct_are_one_there_is_one_folder() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let both = Some(base.path().to_owned());
        let own = OwnFolders { cpu: both.clone(), cpuacct: both, ..OwnFolders::default() };
        let v1 = V1::open(&own, 77).expect("writable");
        assert_eq!(v1.folders().collect::<Vec<_>>(), [base.path().join("repltool-77")]);
        let side = |file| fs::read_to_string(base.path().join("repltool-77-server").join(file)).expect("written");
        let shares = (ORDINARY_SHARES * super::super::processors() * OUTWEIGHS).min(MOST_SHARES);
        assert_eq!([side("cgroup.procs"), side("cpu.shares")], ["77".to_owned(), shares.to_string()]);
        let group = v1.create("s1", &LIMITS).expect("made");
        fs::write(base.path().join("repltool-77/s1/cpuacct.usage"), "1500\n").expect("written");
        assert_eq!(group.cpu_time(), Some(Duration::from_nanos(1500)));
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
